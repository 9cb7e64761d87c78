"""Processes that measure together: started once, told what to do, begun at the same moment.

An order is a module's function, called in each process as a context manager: entering it prepares (opens a lake, say)
and gives what is to be done. Either that is a step, repeated and timed until the time is over (`run`), or it is work that
is done once and answers what it likes (`together`).
"""

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar, cast

A = TypeVar("A")

Step = Callable[[], object]
Work = Callable[[float], A]
"""Is given the moment at which all began, by `time.monotonic`."""
Order = Callable[..., AbstractContextManager[Step]]

_SPAWN = multiprocessing.get_context("spawn")
_TOGETHER = 0.1
"""Seconds from the last process being ready until all of them begin."""


class Crew:
    """Up to `size` processes, each with a Python of its own (spawned, not forked)."""

    def __init__(self, size: int) -> None:
        self._workers: list[multiprocessing.process.BaseProcess] = []
        self._pipes: list[Connection] = []
        # Ctrl-C goes to the whole group of processes, and the first one decides what it means: what is started while
        # the signal is blocked never gets it, and the first one acts on it afterwards. Its native libraries have threads
        # in which nothing is blocked, so it has to be told as well.
        resource_tracker.ensure_running()  # started later, it would unblock the signal
        interrupted: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for _ in range(size):
                self._start()
        except BaseException:
            self._end(at_once=True)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            signal.signal(signal.SIGINT, before)
        if interrupted:
            self._end(at_once=True)
            raise KeyboardInterrupt

    def run(self, order: Order, arguments: Sequence[object], count: int, seconds: float) -> list[list[float]]:
        """The seconds that each step took, for each of `count` processes; a step under way at the end is not counted."""
        given = [(*arguments, number) for number in range(count)]
        _, answers = self._begin(order, given, partial(_repeated, seconds))
        return [answer for answer in answers if isinstance(answer, list)]

    def ready(self) -> Self:
        """Wait until all of them have started: forty that start leave nothing for whoever prepares what they will use."""
        self._begin(_nothing, [()] * len(self._pipes), _once)
        return self

    def together(
        self, order: Callable[..., AbstractContextManager[Work[A]]], arguments: Sequence[Sequence[object]]
    ) -> tuple[float, list[A]]:
        """When all began, and what the work of each process answers; one process for each tuple of arguments."""
        began, answers = self._begin(order, arguments, _once)
        return began, cast("list[A]", answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end(at_once=kind is not None)

    def _begin(
        self, order: Callable[..., object], arguments: Sequence[Sequence[object]], way: Callable[..., object]
    ) -> tuple[float, list[object]]:
        pipes = self._pipes[: len(arguments)]
        for pipe, given in zip(pipes, arguments, strict=True):
            pipe.send((order, given, way))
        for pipe in pipes:
            _answer(pipe)
        begin = time.monotonic() + _TOGETHER  # one clock for all processes of a machine
        for pipe in pipes:
            pipe.send(begin)
        return begin, [_answer(pipe) for pipe in pipes]

    def _start(self) -> None:
        ours, theirs = _SPAWN.Pipe()
        worker = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        worker.start()
        theirs.close()
        self._workers.append(worker)
        self._pipes.append(ours)

    def _end(self, *, at_once: bool) -> None:
        for pipe in self._pipes:
            pipe.close()
        for worker in self._workers:
            if at_once:
                worker.terminate()
            worker.join(10)
            if worker.is_alive():
                worker.kill()
                worker.join()


def _answer(pipe: Connection) -> object:
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionError):
        msg = "a measuring process ended before it answered"
        raise RuntimeError(msg) from None
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def _serve(pipe: Connection) -> None:
    with contextlib.suppress(EOFError, ConnectionError):  # nobody asks any more
        while True:
            pipe.send(_obey(pipe, *pipe.recv()))


def _obey(
    pipe: Connection,
    order: Callable[..., AbstractContextManager[Any]],
    arguments: Sequence[object],
    way: Callable[[Any, float], object],
) -> object:
    try:
        with order(*arguments) as what:
            pipe.send(None)
            begin = pipe.recv()
            time.sleep(max(0.0, begin - time.monotonic()))
            return way(what, begin)
    except (EOFError, ConnectionError):
        raise
    except Exception:  # noqa: BLE001 - told to the process that gave the order
        return RuntimeError(f"a measuring process failed:\n{traceback.format_exc()}")


@contextlib.contextmanager
def _nothing() -> Iterator[Work[None]]:
    yield lambda _: None


def _once(work: Work[A], begin: float) -> A:
    return work(begin)


def _repeated(seconds: float, step: Step, begin: float) -> list[float]:
    end = begin + seconds
    taken = []
    before = time.monotonic()
    while before < end:
        step()
        after = time.monotonic()
        if after <= end:
            taken.append(after - before)
        before = after
    return taken
