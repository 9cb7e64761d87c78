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
from types import FrameType, TracebackType
from typing import Any, Self

import pyarrow as pa

_LOOK = 0.2
"""Seconds between two looks while a pipe is silent."""


class StoppedError(Exception):
    """Ctrl-C was noticed while rows were read."""


class Stopping:
    """Notes Ctrl-C while it is entered; `landing` says that all rows were read."""

    def __init__(self) -> None:
        self.asked = False
        self.landing = False
        self._before: Any = None

    def check(self) -> None:
        """Stop here, if that was asked for."""
        if self.asked:
            raise StoppedError

    def __enter__(self) -> Self:
        pa.enable_signal_handlers(False)  # Arrow would take Ctrl-C for itself while it reads CSV
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # a shell lets jobs in the background ignore it
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)
        pa.enable_signal_handlers(True)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            end = "look whether it landed: `phalanx history`" if self.landing else "nothing was loaded"
            cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # the bar had hidden it
            sys.stderr.write(f"{cursor}\nphalanx: left at once: {end}\n")
            sys.stderr.flush()
            os._exit(130)
        self.asked = True
        if self.landing:
            sys.stderr.write(
                "\nphalanx: all rows were read, and the commit is on its way; Ctrl-C again does not wait\n"
            )


class Pipe(io.RawIOBase):
    """Bytes of a pipe or terminal, which may keep silent for long: Ctrl-C is noticed all the same."""

    def __init__(self, descriptor: int, stopping: Stopping) -> None:
        self._descriptor = descriptor
        self._stopping = stopping

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        """See `io.RawIOBase`."""
        while not select.select([self._descriptor], [], [], _LOOK)[0]:
            self._stopping.check()
        self._stopping.check()
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)
