"""Processes that measure together: started once, told what to do, begun at the same moment.

An order is a module's function, called in each process as a context manager: entering it prepares (opens a lake, say)
and gives the step that is then repeated, and timed, until the time is over.
"""

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

Step = Callable[[], object]
Order = Callable[..., AbstractContextManager[Step]]

_TOGETHER = 0.1
"""Seconds from the last process being ready until all of them begin."""


class Crew:
    """Up to `size` processes, each with a Python of its own (spawned, not forked)."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: list[multiprocessing.process.BaseProcess] = []
        self._pipes: list[Connection] = []
        # Ctrl-C goes to the whole group of processes: the first one decides, and what it starts inherits to ignore it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for _ in range(size):
                ours, theirs = context.Pipe()
                worker = context.Process(target=_serve, args=(theirs,), daemon=True)
                worker.start()
                theirs.close()
                self._workers.append(worker)
                self._pipes.append(ours)
        finally:
            signal.signal(signal.SIGINT, before)

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
        for pipe in self._pipes:
            pipe.close()
        for worker in self._workers:
            if kind is not None:
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
    while True:
        try:
            order, arguments, seconds = pipe.recv()
        except EOFError:
            return
        try:
            with order(*arguments) as step:
                pipe.send(None)
                taken = _measure(step, pipe.recv(), seconds)
            pipe.send(taken)
        except EOFError:
            return
        except Exception:  # noqa: BLE001 - told to the process that gave the order
            pipe.send(RuntimeError(f"a measuring process failed:\n{traceback.format_exc()}"))


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
