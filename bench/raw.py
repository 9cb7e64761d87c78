"""The physical limit: a file created durably, by system calls alone.

Write a temporary file, sync it, link it under its name, sync the folder: what every put-if-absent on a local disk costs
at the least, whoever asks for it. Nothing here uses Phalanx.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

Way = Literal["nameless", "named"]

_PER_FOLDER = 1000
"""A folder is left when it has so many files, as the log does it: a longer one would be another measurement."""


class RawFiles:
    """Creates one file after the other. `nameless` files are O_TMPFILE; `named` ones lie in another folder first."""

    def __init__(self, root: Path, way: Way = "nameless", *, prefix: str = "", sync: bool = True) -> None:
        self._root = str(root)
        self._way = way
        self._prefix = prefix
        self._sync = sync
        self._made = 0
        self._temporary = f"{self._root}/tmp"
        os.makedirs(self._temporary, exist_ok=True)
        self._folder = ""
        self._folder_fd = -1

    def put(self, data: bytes) -> None:
        """Create the next file: durable when this returns."""
        if self._made % _PER_FOLDER == 0:
            self._next_folder()
        target = f"{self._folder}/{self._prefix}{self._made:020d}"
        self._made += 1
        if self._way == "nameless":
            self._put_nameless(data, target)
        else:
            self._put_named(data, target)

    def _put_nameless(self, data: bytes, target: str) -> None:
        fd = os.open(self._temporary, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, data)
            if self._sync:
                os.fsync(fd)
            os.link(f"/proc/self/fd/{fd}", target, src_dir_fd=fd, follow_symlinks=True)
            if self._sync:
                os.fsync(self._folder_fd)
        finally:
            os.close(fd)

    def _put_named(self, data: bytes, target: str) -> None:
        source = f"{self._temporary}/{self._prefix}{self._made}"
        fd = os.open(source, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, data)
            if self._sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.link(source, target)
        if self._sync:
            os.fsync(self._folder_fd)
        os.unlink(source)

    def _next_folder(self) -> None:
        self.close()
        self._folder = f"{self._root}/{self._made // _PER_FOLDER:05d}"
        os.makedirs(self._folder, exist_ok=True)
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(root)
        finally:
            os.close(root)
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the folder; the files stay."""
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def nameless_works(folder: Path) -> bool:
    """Whether the file system knows O_TMPFILE."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError:
        return False
    return True
