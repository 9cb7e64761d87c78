"""Processes that measure together: started once, told what to do, begun at the same moment.

An order is a module's function, called in each process as a context manager: entering it prepares (opens a lake, say)
and gives the step that is then repeated, and timed, until the time is over.
"""

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

Step = Callable[[], object]
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
        # the signal is blocked never gets it, and the first one gets it afterwards.
        resource_tracker.ensure_running()  # started later, it would unblock the signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for _ in range(size):
                self._start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        except BaseException:
            self._end(at_once=True)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    def run(self, order: Order, arguments: Sequence[object], count: int, seconds: float) -> list[list[float]]:
        """The seconds that each step took, for each of `count` processes; a step under way at the end is not counted."""
        pipes = self._pipes[:count]
        for number, pipe in enumerate(pipes):
            pipe.send((order, (*arguments, number), seconds))
        for pipe in pipes:
            _answer(pipe)
        begin = time.monotonic() + _TOGETHER  # one clock for all processes of a machine
        for pipe in pipes:
            pipe.send(begin)
        answers = [_answer(pipe) for pipe in pipes]
        return [answer for answer in answers if isinstance(answer, list)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end(at_once=kind is not None)

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
    except EOFError:
        msg = "a measuring process ended before it answered"
        raise RuntimeError(msg) from None
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def _serve(pipe: Connection) -> None:
    with contextlib.suppress(EOFError, ConnectionError):  # nobody asks any more
        while True:
            pipe.send(_obey(pipe, *pipe.recv()))


def _obey(pipe: Connection, order: Order, arguments: Sequence[object], seconds: float) -> list[float] | RuntimeError:
    try:
        with order(*arguments) as step:
            pipe.send(None)
            return _measure(step, pipe.recv(), seconds)
    except (EOFError, ConnectionError):
        raise
    except Exception:  # noqa: BLE001 - told to the process that gave the order
        return RuntimeError(f"a measuring process failed:\n{traceback.format_exc()}")


def _measure(step: Step, begin: float, seconds: float) -> list[float]:
    end = begin + seconds
    taken = []
    time.sleep(max(0.0, begin - time.monotonic()))
    before = time.monotonic()
    while before < end:
        step()
        after = time.monotonic()
        if after <= end:
            taken.append(after - before)
        before = after
    return taken
