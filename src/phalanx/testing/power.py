"""What a power loss can leave on a local disk: record what was asked of the kernel, then enumerate.

`Recorder` stands between `objects/local.py` and the kernel and writes down each write, sync, link, unlink, mkdir and
rmdir, and what was acknowledged when. After every prefix of that record, `crashes` gives every disk that POSIX allows:

- the bytes of a file are certain only once it was synced; before, the file may be empty, cut short or whole;
- a change of a folder is certain only once that folder was synced; before, any subset of the changes may be there;
- a file or folder is there only if all the folders above it are.

Where the subsets are too many, some are drawn by the seed, always with none, all and each one alone.
"""

import itertools
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from phalanx.objects import local

_SUBSETS = 64


class Event(msgspec.Struct, frozen=True):
    """One thing asked of the kernel: "write", "fsync", "link", "unlink", "mkdir", "rmdir", "dirsync", or "ack"."""

    kind: str
    path: str = ""
    file: int = 0
    data: bytes = b""


class Crash(msgspec.Struct, frozen=True):
    """A disk after a power loss: the files that are left, and what had been acknowledged before."""

    prefix: int
    files: dict[str, bytes]
    acked: tuple[str, ...]


class Recorder:
    """Records what `LocalStore` does below `root` while the block runs.

    `ignore` leaves kinds of events out of the record, as if the code had not asked for them: that is how a missing sync
    is planted. `before` is called before each event takes effect, and may do anything, commits by others included.
    """

    def __init__(self, root: Path, ignore: Iterable[str] = (), before: Callable[[Event], None] | None = None) -> None:
        self._root = f"{root}/"
        self._ignore = set(ignore)
        self._before = before
        self._lock = threading.RLock()
        self._files: dict[int | str, int] = {}
        self._folders: dict[int, str] = {}
        self._serial = itertools.count(1)
        self._nested = False
        self._initial = {
            str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
        }
        self.events: list[Event] = []

    def ack(self, what: str) -> None:
        """Note that this was acknowledged now."""
        with self._lock:
            self.events.append(Event("ack", what))

    @contextmanager
    def performing(self, event: Event) -> Iterator[None]:
        """Tell whoever listens, let it happen, and write it down if it did; one thing at a time."""
        with self._lock:
            if self._before is not None and not self._nested:
                self._nested = True
                try:
                    self._before(event)
                finally:
                    self._nested = False
            yield
            if event.kind not in self._ignore:
                self.events.append(event)

    def __enter__(self) -> Self:
        setattr(local, "os", _Kernel(self))  # noqa: B010 - stands in for the module
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        setattr(local, "os", os)  # noqa: B010

    def crashes(self, seed: int) -> Iterator[Crash]:
        """Every disk that a power loss may leave, after every prefix of the record."""
        chance = random.Random(seed)
        for prefix in range(len(self.events) + 1):
            yield from self._crashes_after(prefix, chance)

    def _crashes_after(self, prefix: int, chance: random.Random) -> Iterator[Crash]:
        held: Disk = dict(self._initial)
        content: dict[int, bytes] = {}
        synced: set[int] = set()
        pending: list[Event] = []
        acked: list[str] = []
        for event in self.events[:prefix]:
            if event.kind == "write":
                content[event.file] = content.get(event.file, b"") + event.data
            elif event.kind == "fsync":
                synced.add(event.file)
            elif event.kind == "ack":
                acked.append(event.path)
            elif event.kind == "dirsync":
                _apply(held, [one for one in pending if _parent(one.path) == event.path])
                pending = [one for one in pending if _parent(one.path) != event.path]
            else:
                pending.append(event)
        for chosen in _subsets(pending, chance):
            disk = dict(held)
            _apply(disk, chosen)
            loose = any(isinstance(file, int) and file not in synced for file in disk.values())
            for torn in (1, 2, 0) if loose else (1,):
                yield Crash(prefix, _visible(disk, content, synced, torn), tuple(acked))


Disk = dict[str, bytes | int | None]
"""Paths, and what they are: bytes that were there before, the number of a file that was recorded, None for a folder."""


class _Kernel:
    """Looks like the module `os` to `local.py`."""

    def __init__(self, recorder: Recorder) -> None:
        self._to = recorder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        fd = os.open(path, flags, mode)
        self._to._folders.pop(fd, None)  # noqa: SLF001 - numbers are used again
        self._to._files.pop(fd, None)  # noqa: SLF001
        if not self._recorded(path):
            return fd
        if flags & os.O_DIRECTORY and flags & os.O_TMPFILE != os.O_TMPFILE:
            self._to._folders[fd] = path  # noqa: SLF001
        elif flags & os.O_WRONLY:
            number = next(self._to._serial)  # noqa: SLF001
            self._to._files[fd] = self._to._files[path] = number  # noqa: SLF001
        return fd

    def write(self, fd: int, data: bytes | memoryview) -> int:
        file = self._to._files.get(fd)  # noqa: SLF001
        if file is None:
            self._elsewhere(fd)
            return os.write(fd, data)
        with self._to.performing(Event("write", file=file, data=bytes(data))):
            size = os.write(fd, data)
            if size != len(data):
                raise AssertionError("a short write: the record would not be what is on the disk")
        return size

    def fsync(self, fd: int) -> None:
        folder, file = self._to._folders.get(fd), self._to._files.get(fd)  # noqa: SLF001
        if folder is None and file is None:
            self._elsewhere(fd)
            os.fsync(fd)
            return
        event = Event("fsync", file=file or 0) if folder is None else Event("dirsync", self._below(folder))
        with self._to.performing(event):
            os.fsync(fd)

    def link(self, source: str, target: str, **options: Any) -> None:  # noqa: ANN401 - passed on
        if not self._recorded(target):
            os.link(source, target, **options)
            return
        held = self._to._files  # noqa: SLF001
        file = held[int(source.rpartition("/")[2])] if source.startswith("/proc/self/fd/") else held[source]
        with self._to.performing(Event("link", self._below(target), file)):
            os.link(source, target, **options)

    def unlink(self, path: str) -> None:
        with self._maybe("unlink", path):
            os.unlink(path)  # noqa: PTH108

    def mkdir(self, path: str) -> None:
        with self._maybe("mkdir", path):
            os.mkdir(path)  # noqa: PTH102

    def rmdir(self, path: str) -> None:
        with self._maybe("rmdir", path):
            os.rmdir(path)  # noqa: PTH106

    def _maybe(self, kind: str, path: str) -> AbstractContextManager[None]:
        return self._to.performing(Event(kind, self._below(path))) if self._recorded(path) else nullcontext()

    def _recorded(self, path: str) -> bool:
        """Threads of other lakes in this process come by as well, and are none of the record's business."""
        return f"{path.rstrip('/')}/".startswith(self._to._root)  # noqa: SLF001

    def _elsewhere(self, fd: int) -> None:
        """What was opened before the recording began would be missing from the record: that is the test's mistake."""
        if self._recorded(path := os.readlink(f"/proc/self/fd/{fd}")):  # noqa: PTH115
            raise AssertionError(f"{path} was opened before the recording began: wait for who writes it first")

    def _below(self, path: str) -> str:
        return f"{path.rstrip('/')}/".removeprefix(self._to._root).rstrip("/")  # noqa: SLF001


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _apply(held: Disk, events: Iterable[Event]) -> None:
    for event in events:
        if event.kind in {"link", "mkdir"}:
            held[event.path] = event.file if event.kind == "link" else None
        else:
            held.pop(event.path, None)


def _subsets(events: list[Event], chance: random.Random) -> Iterator[list[Event]]:
    count = len(events)
    if 1 << count <= _SUBSETS:
        masks: Iterable[int] = range(1 << count)
    else:
        drawn = {chance.getrandbits(count) for _ in range(_SUBSETS)}
        masks = sorted(drawn | {0, (1 << count) - 1} | {1 << at for at in range(count)})
    for mask in masks:
        yield [event for at, event in enumerate(events) if mask >> at & 1]


def _visible(held: Disk, content: dict[int, bytes], synced: set[int], torn: int) -> dict[str, bytes]:
    """The files whose folders are all there, without temporary ones; of an unsynced one, all / half / none of it."""
    files = {}
    for path, file in held.items():
        if file is None or path.startswith(f"{local.TEMPORARY}/"):
            continue
        if any(str(above) not in held for above in Path(path).parents if str(above) != "."):
            continue
        data = content.get(file, b"") if isinstance(file, int) else file
        if isinstance(file, int) and file not in synced:
            data = data[: len(data) // torn] if torn else b""
        files[path] = data
    return files
