"""A store in this process's memory, for tests and for trying things out.

`memory://name` gives every caller in the process the same store. It follows the port's contract to the letter,
except that nothing survives the process.
"""

import hashlib
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from phalanx.clock import SYSTEM, Clock
from phalanx.errors import CorruptionError
from phalanx.objects.local import LocalStore
from phalanx.objects.store import Created, Exists, Files, Listed, Put, Sum


class MemoryStore:
    """Names and bytes in a dictionary."""

    probes = True

    def __init__(self, uri: str = "memory://", clock: Clock = SYSTEM) -> None:
        self.uri = uri
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._files: LocalStore | None = None

    def prepare(self, parts: Sequence[bytes], *, lasting: bool = True) -> "_MemoryBlob":
        """See `Store`."""
        return _MemoryBlob(self, b"".join(parts))

    def create(self, name: str, data: bytes) -> Put:
        """Put-if-absent."""
        with self._lock:
            if name in self._objects:
                return Exists()
            self._objects[name] = (data, self.now())
            return Created()

    def get(self, name: str, *, limit: int) -> bytes | None:
        """See `Store`."""
        held = self._objects.get(name)
        if held is None:
            return None
        if len(held[0]) > limit:
            msg = f"{self.uri}/{name} is larger than the {limit} bytes it may have: run `phalanx check`"
            raise CorruptionError(msg)
        return held[0]

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """See `Store`."""
        return (self.get(name, limit=limit) for name in names)

    def digest(self, name: str) -> Sum | None:
        """See `Store`."""
        held = self._objects.get(name)
        return None if held is None else Sum(len(held[0]), hashlib.sha256(held[0]).digest())

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Listed]:
        """See `Store`."""
        with self._lock:
            held = sorted(self._objects.items())
        return [
            Listed(name, len(data), modified)
            for name, (data, modified) in held
            if name.startswith(f"{prefix}/") and name > after and (not before or name < before)
        ]

    def last(self, folder: str) -> str | None:
        """See `Store`."""
        listed = self.list(folder)
        return listed[-1].name if listed else None

    def delete(self, names: Iterable[str]) -> None:
        """See `Store`."""
        with self._lock:
            for name in names:
                self._objects.pop(name, None)

    def remove_folder(self, folder: str) -> None:
        """Folders do not exist here."""

    def sync(self, names: Iterable[str]) -> None:
        """Nothing to sync."""

    def persist(self, names: Iterable[str]) -> None:
        """Nothing outlives the process."""

    def files(self) -> Files:
        """A temporary folder: Lance's own memory store is not shared between handles."""
        with self._lock:
            if self._files is None:
                folder = tempfile.mkdtemp(prefix="phalanx-")
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                self._files = LocalStore(Path(folder))
                self._files.relax()
            return Files(self._files.uri, {}, self._files)

    def place(self) -> str | None:
        """Nobody else sees it."""
        return None

    def relax(self) -> None:
        """Nothing to relax."""

    def now(self) -> float:
        """See `Store`."""
        return self._clock.now() / 1e6


class _MemoryBlob:
    def __init__(self, store: MemoryStore, data: bytes) -> None:
        self._store = store
        self._data = data

    def put(self, name: str) -> Put:
        return self._store.create(name, self._data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None


_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


def shared_memory_store(uri: str) -> MemoryStore:
    """The store of this process with that name."""
    with _shared_lock:
        return _shared.setdefault(uri, MemoryStore(uri))
