"""Group commit: while one batch is being put, the next one gathers. No artificial delay, no settings.

At any moment at most one thread leads: it takes what has gathered and works on it. A caller that finds nobody leading
does its own batch in its own thread (a hand-over costs a fifth of a commit on a local disk); what gathers meanwhile, and
everything that is submitted without waiting, is led by a worker thread. Where one call can take long (an object store),
the worker always leads, so that a caller's deadline is kept whatever the network does.

What a batch is worth, and telling its members, is left to `work`.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from phalanx.errors import StateError


class Job(Protocol):
    """What can be grouped."""

    def done(self) -> bool:
        """Whether its outcome is known."""
        ...


J = TypeVar("J", bound=Job)

_POLL = 0.1

_process: object = object()
"""Another one in every process: to ask the system which one this is would cost as much as queueing a job."""


def _forked() -> None:
    global _process  # noqa: PLW0603 - that is what it is
    _process = object()


os.register_at_fork(after_in_child=_forked)


class Group(Generic[J]):
    """A queue that is worked on in batches, by one thread at a time."""

    def __init__(self, work: Callable[[list[J]], None], most: int, *, inline: bool) -> None:
        self._work = work
        self._most = most
        self._inline = inline
        self._queue: deque[J] = deque()
        self._lock = threading.Lock()
        self._working: list[J] = []
        self._led = False
        self._leader: int | None = None
        """The thread that leads, unless it is still to be woken."""
        self._at_rest = threading.Condition(self._lock)
        self._wake = threading.Semaphore(0)
        self._worker: threading.Thread | None = None
        self._process = _process
        self._closed = False

    def run(self, job: J) -> None:
        """Queue a job whose caller is about to wait for it; it may be done when this returns."""
        self.require_open()
        try:
            if self._enqueue(job, inline=self._inline):
                self._lead(until=job)
        except BaseException:
            self._step_down()  # Ctrl-C may come anywhere
            raise

    def submit(self, job: J) -> None:
        """Queue a job and return at once."""
        self.require_open()  # before the lock: a fork may have copied it while it was held
        leads = self._led and self._leader == threading.get_ident()  # it hands in more while it works
        try:
            self._enqueue(job, inline=False)
        except BaseException:
            if not leads:
                self._step_down()
            raise

    def submit_all(self, jobs: Sequence[J]) -> None:
        """Queue several at once."""
        self.require_open()
        try:
            with self._lock:
                if self._closed:
                    self.require_open()
                self._queue.extend(jobs)
                if not self._led:
                    self._leader = threading.get_ident()
                    self._led = True
                    self._wake_worker()
        except BaseException:
            self._step_down()
            raise

    def withdraw(self, job: J) -> bool:
        """Take back a job that nobody has begun on; False if it is too late."""
        with self._lock:
            try:
                self._queue.remove(job)
            except ValueError:
                return False
            return True

    def pending(self) -> list[J]:
        """What is queued or being worked on, and not done."""
        with self._lock:
            return [job for job in (*self._working, *self._queue) if not job.done()]

    def waiting(self) -> int:
        """How many are queued, not counting what is being worked on."""
        return len(self._queue)

    def close(self) -> None:
        """Finish what is queued, and take no more."""
        if self._process is not _process:
            return  # what is queued is the parent's
        with self._lock:
            self._closed = True
            while self._led:
                self._at_rest.wait()
            worker = self._worker
        while worker is not None and worker.is_alive():
            self._wake.release()
            worker.join(_POLL)

    def require_open(self) -> None:
        """Refuse a handle that was closed, or that came here by a fork."""
        if self._process is not _process:
            msg = "this lake was opened before the process forked: open it again in the child process"
            raise StateError(msg)
        if self._closed:
            msg = "the lake is closed: open it again"
            raise StateError(msg)

    def _enqueue(self, job: J, *, inline: bool) -> bool:
        """Whether the caller leads.

        Without the lock while somebody leads: that one looks once more after it stopped leading, so either it sees the
        job, or this sees that nobody leads.
        """
        self._queue.append(job)
        led = self._led
        if led:
            return False
        with self._lock:
            if self._closed and job in self._queue:
                self._queue.remove(job)
                self.require_open()
            if self._led or not self._queue:
                return False
            self._leader = threading.get_ident()
            self._led = True
            if inline:
                return True
            self._wake_worker()
            return False

    def _lead(self, until: J | None) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._rest()
                    return
                if until is not None and until.done():
                    self._wake_worker()
                    return
                self._working = batch = list(self._queue)[: self._most]  # in one go: others append without the lock
                for _ in batch:
                    self._queue.popleft()
            self._work(batch)

    def _step_down(self) -> None:
        """Stop leading after an interruption, if this thread does, without leaving the queue to nobody.

        `work` tells all members of its batch, however it ends. Those who were not told are those it never began with.
        """
        with self._lock:
            if self._led and self._leader != threading.get_ident():
                return
            queued = set(map(id, list(self._queue)))
            self._queue.extendleft(job for job in reversed(self._working) if not job.done() and id(job) not in queued)
            if self._queue:
                self._leader = threading.get_ident()
                self._led = True
                self._wake_worker()
            else:
                self._rest()

    def _rest(self) -> None:
        """Nobody leads, for there is nothing to do; called with the lock held."""
        self._working = []
        self._led = False
        if self._queue:  # queued by somebody who saw it led a moment ago
            self._leader = threading.get_ident()
            self._led = True
            self._wake_worker()
        else:
            self._at_rest.notify_all()

    def _wake_worker(self) -> None:
        """Hand over to the worker; called with the lock held."""
        if self._worker is None or not self._worker.is_alive():
            worker = threading.Thread(target=self._serve, name="phalanx-commit", daemon=True)
            worker.start()
            self._worker = worker
        self._wake.release()
        self._leader = None  # last: who is interrupted before hands over again, and is not the leader of nobody

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            with self._lock:
                if self._closed and not self._led:
                    return
                if not self._led or self._leader is not None:
                    continue  # woken once more than there was to do
                self._leader = threading.get_ident()
            try:
                self._lead(until=None)
            except BaseException:  # noqa: BLE001 - told to the batch by `work`; the others still need a worker
                self._step_down()
