"""Memory as a machine has it that has been running for a while: full of files that can be dropped.

A virtual machine gets memory from its host when it is first touched, and may give back what has been free for some seconds.
Such memory is an order of magnitude slower to write to (a new file at 300 MB/s instead of 3 GB/s was seen), so whoever comes
first after a pause pays for it, and how fast a system is depends on what ran before. On a machine that has read some files
there is next to no free memory: what is needed is taken from the cache, and is at hand.
"""

import os
import tempfile
from pathlib import Path

_STEP = 256 << 20
_BLOCK = 8 << 20
_ENOUGH = 512 << 20
"""Free memory that is left."""
_INFO = Path("/proc/meminfo")


class Memory:
    """Free memory is taken by the cache of a file that has no name, and no blocks on disk, only a length."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open for as long as its cache is needed
        self._length = 0
        self._buffer = bytearray(_BLOCK)

    def fill(self) -> int:
        """Read nothing until there is hardly any free memory, or until reading takes none: bytes that were read."""
        began, free = self._length, _free()
        while free > _ENOUGH:
            self._read()
            left = _free()
            if free - left < _STEP // 2:  # a limit is reached: the cache gives what is asked for
                break
            free = left
        return self._length - began

    def close(self) -> None:
        """Let go of all of it."""
        self._file.close()

    def _read(self) -> None:
        end = self._length + _STEP
        os.ftruncate(self._file.fileno(), end)
        while self._length < end:
            self._length += os.preadv(self._file.fileno(), [self._buffer], self._length)


def _free() -> int:
    """Bytes that nobody uses; 0 where that is not told."""
    if not _INFO.exists():
        return 0
    line = next((one for one in _INFO.read_text().splitlines() if one.startswith("MemFree:")), "MemFree: 0 kB")
    return int(line.split()[1]) << 10
