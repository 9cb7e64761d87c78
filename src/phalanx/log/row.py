"""The acknowledgement of one row among thousands: as `Ack`, for less.

Only the writer's own thread settles rows, so nothing has to be claimed, and what a waiter waits for is made when there is
one. The waiter registers before it looks, the writer settles before it looks: one of them sees the other.

An event loop is woken once for all of its tasks that wait, and each of them goes on there and then. A future for each row
would put every task back into the loop's queue, by Python code that takes as long as all the rest of handing in a row.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.log.ack import Ack

AT_ONCE = 250
"""Tasks that go on before the loop's other work has its turn."""


class Row(Ack):
    """A row on its way: the version of the lake it landed on, or its error, is to come."""

    __slots__ = ("_told", "deletes", "size", "value")

    def __init__(self, value: Any, *, deletes: bool, size: int = 0) -> None:  # noqa: ANN401 - a row, or a key
        self.value = value
        self.deletes = deletes
        self.size = size
        self._position = None
        self._error = None
        self._told: list[threading.Lock | Waiter] = []

    def wait(self, timeout: float) -> bool:
        """See `Ack`."""
        if self.done():
            return True
        gate = threading.Lock()
        gate.acquire()
        self._told.append(gate)
        return self.done() or gate.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)) or self.done()

    def __await__(self) -> Generator[Any, None, int]:
        if not self.done():
            waiter = Waiter(asyncio.get_running_loop())
            self._told.append(waiter)
            if not self.done():
                yield waiter
        return self._outcome()


class Waiter:
    """A task that awaits a row: what asyncio asks of a future that a task waits for, and no more."""

    __slots__ = ("_asyncio_future_blocking", "_call", "_cancelled", "_context", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = True
        self._call: Callable[[Waiter], object] | None = None
        self._cancelled: asyncio.CancelledError | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that its task runs in."""
        return self._loop

    def add_done_callback(self, call: Callable[["Waiter"], object], *, context: contextvars.Context) -> None:
        """How the task goes on. There is one: it is asked when the task has begun to wait."""
        self._call, self._context = call, context

    def cancel(self, msg: object = None) -> bool:
        """The task is to be cancelled; the row goes on (rule B5)."""
        if self._call is None:
            return False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(self.go_on)
        return True

    def result(self) -> None:
        """Asked by the task as it goes on: what came of the row, it asks the row."""
        if self._cancelled is not None:
            raise self._cancelled

    def go_on(self) -> None:
        """Let the task run; called by the loop, outside any task."""
        call, self._call = self._call, None
        if call is not None:
            self._context.run(call, self)


def tell(rows: Sequence[Row], outcome: int | PhalanxError) -> None:
    """Settle rows that were not before; each event loop is woken once, however many of its tasks wait."""
    loops: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    failed = isinstance(outcome, PhalanxError)
    for row in rows:
        if row._position is not None or row._error is not None:  # noqa: SLF001 - the other half of a row, here and below
            continue
        if failed:
            row._error = _same(outcome)  # type: ignore[arg-type]  # noqa: SLF001
        else:
            row._position = outcome  # type: ignore[assignment]  # noqa: SLF001
        if row.size:
            row.value = None  # whoever keeps an acknowledgement does not keep the row
        for waiter in row._told:  # noqa: SLF001
            if isinstance(waiter, Waiter):
                loops.setdefault(waiter._loop, []).append(waiter)  # noqa: SLF001
            else:
                waiter.release()
    for loop, waiters in loops.items():
        try:
            loop.call_soon_threadsafe(_wake, loop, waiters, 0)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there any more


def _wake(loop: asyncio.AbstractEventLoop, waiters: list[Waiter], at: int) -> None:
    """Let tasks go on, some at a time; one that ends the loop (Ctrl-C) takes none of the others with it."""
    until = min(at + AT_ONCE, len(waiters))
    try:
        while at < until:
            at += 1
            waiters[at - 1].go_on()
    finally:
        if at < len(waiters):
            loop.call_soon(_wake, loop, waiters, at)


def _same(error: PhalanxError) -> PhalanxError:
    """One instance for each caller: an exception that is raised in several threads mixes up their tracebacks."""
    twin = type(error)(*error.args)
    twin.__cause__ = error.__cause__
    return twin
