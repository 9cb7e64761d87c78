"""Ctrl-C during a load: it stops between two batches, so that nothing is left half-done and nothing is visible.

Python would raise wherever it stands, while Lance still pulls rows in threads of its own; leaving then ends in a crash.
So the first Ctrl-C is only noted, and whoever reads rows looks (`asked`). Once all rows were read the commit is on its way,
and is waited for. A second Ctrl-C leaves at once.
"""

import io
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

import pyarrow as pa

_LOOK = 0.2
"""Seconds between two looks while a pipe is silent."""


class StoppedError(Exception):
    """Ctrl-C was noticed while rows were read."""


class Stopping:
    """Notes Ctrl-C while it is entered; `landing` says that all rows were read, `left` what a second one leaves."""

    def __init__(self, left: str = "nothing was loaded", signals: Sequence[signal.Signals] = (signal.SIGINT,)) -> None:
        self.asked = False
        self.code = 130
        self.landing = False
        self._left = left
        self._before: dict[signal.Signals, Any] = dict.fromkeys(signals)

    def check(self) -> None:
        """Stop here, if that was asked for."""
        if self.asked:
            raise StoppedError

    def __enter__(self) -> Self:
        pa.enable_signal_handlers(False)  # Arrow would take Ctrl-C for itself while it reads CSV
        for number in self._before:
            self._before[number] = signal.getsignal(number)
            if self._before[number] is not signal.SIG_IGN:  # a shell lets jobs in the background ignore it
                signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        pa.enable_signal_handlers(True)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.code = 128 + number
        if self.asked:
            end = "look whether it landed: `phalanx history`" if self.landing else self._left
            cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # the bar had hidden it
            sys.stderr.write(f"{cursor}\nphalanx: left at once: {end}\n")
            sys.stderr.flush()
            os._exit(self.code)
        self.asked = True
        if self.landing:
            sys.stderr.write(
                "\nphalanx: all rows were read, and the commit is on its way; Ctrl-C again does not wait\n"
            )


class Pipe(io.RawIOBase):
    """Bytes of a pipe or terminal, which may keep silent for long: Ctrl-C is noticed all the same.

    `idle` is called now and then while it does.
    """

    def __init__(self, descriptor: int, stopping: Stopping, idle: Callable[[], object] = lambda: None) -> None:
        self._descriptor = descriptor
        self._stopping = stopping
        self._idle = idle

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        """See `io.RawIOBase`."""
        while not select.select([self._descriptor], [], [], _LOOK)[0]:
            self._stopping.check()
            self._idle()
        self._stopping.check()
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)
