"""An acknowledgement: what becomes of a commit, for threads (`.result()`) and for asyncio (`await`) alike.

Settled once, by whoever commits. Waiting for it, giving up on it or cancelling it never touches the commit (rule B5).
"""

import asyncio
import threading
from collections.abc import Generator, Iterable

from phalanx.errors import PhalanxError

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Ack:
    """A position to come, or an error."""

    __slots__ = ("_claim", "_error", "_gate", "_position", "_waiters")

    def __init__(self) -> None:
        self._claim = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()
        self._waiters: list[Waiter] = []
        self._position: int | None = None
        self._error: PhalanxError | None = None

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._position is not None or self._error is not None

    def wait(self, timeout: float) -> bool:
        """Wait for the outcome, this long at the most."""
        if not self._gate.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
            return self.done()
        self._gate.release()
        return True

    def result(self, timeout: float | None = None) -> int:
        """The position the transaction landed on, once it is durable; or its error, raised."""
        if not self.wait(-1 if timeout is None else timeout):
            msg = f"no acknowledgement within {timeout} s; the commit goes on, and its outcome is still to come"
            raise TimeoutError(msg)
        return self._outcome()

    def __await__(self) -> Generator[object, None, int]:
        if not self.done():
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
            # Settled between the look and the registration: nobody else will tell.
            if self.done() and not future.done():
                future.set_result(None)
            yield from future
        return self._outcome()

    def _outcome(self) -> int:
        if self._error is not None:
            raise self._error
        if self._position is None:  # pragma: no cover - wait() came back
            msg = "waited for an acknowledgement that was not settled"
            raise AssertionError(msg)
        return self._position

    def _settle(self, outcome: int | PhalanxError) -> list[Waiter]:
        if not self._claim.acquire(blocking=False):
            return []  # told before, or just now by another thread: the first outcome stands
        if isinstance(outcome, PhalanxError):
            self._error = outcome
        else:
            self._position = outcome
        self._gate.release()
        self._tell(outcome)
        waiters, self._waiters = self._waiters, []
        return waiters

    def _tell(self, outcome: int | PhalanxError) -> None:
        """For those who are told rather than wait; called once."""


def settle(outcomes: Iterable[tuple[Ack, int | PhalanxError]]) -> None:
    """Settle many at once: each event loop is woken once, however many of its tasks wait."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for ack, outcome in outcomes:
        for loop, future in ack._settle(outcome):  # noqa: SLF001 - the other half of the same module
            loops.setdefault(loop, []).append(future)
    for loop, futures in loops.items():
        try:
            loop.call_soon_threadsafe(_wake, futures)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there any more


def _wake(futures: list["asyncio.Future[None]"]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
