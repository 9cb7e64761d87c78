"""A store around another store, for whatever wants to see or change the calls that go through."""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from phalanx.objects import Blob, Files, Listed, Put, Store, Sum

Listing = list[Listed]


class WrappedStore:
    """Passes everything on; subclasses override `_create`, `_get`, `_list` and `_delete`."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.probes = inner.probes

    def prepare(self, parts: Sequence[bytes], *, lasting: bool = True) -> "WrappedBlob":
        """See `Store`."""
        return WrappedBlob(self, self.inner.prepare(parts, lasting=lasting), b"".join(parts))

    def get(self, name: str, *, limit: int) -> bytes | None:
        """See `Store`."""
        return self._get(name, limit)

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """See `Store`."""
        return (self._get(name, limit) for name in names)

    def digest(self, name: str) -> Sum | None:
        """See `Store`."""
        return self.inner.digest(name)

    def list(self, prefix: str, after: str = "", before: str = "") -> Listing:
        """See `Store`."""
        return self._list(prefix, after, before)

    def last(self, folder: str) -> str | None:
        """See `Store`."""
        listed = self._list(folder, "", "")
        return max(one.name for one in listed) if listed else None

    def delete(self, names: Iterable[str]) -> None:
        """See `Store`."""
        for name in names:
            self._delete(name)

    def remove_folder(self, folder: str) -> None:
        """See `Store`."""
        self.inner.remove_folder(folder)

    def sync(self, names: Iterable[str]) -> None:
        """See `Store`."""
        self.inner.sync(names)

    def persist(self, names: Iterable[str]) -> None:
        """See `Store`."""
        self.inner.persist(names)

    def files(self) -> Files:
        """See `Store`; what goes through the port there goes through this wrapper, where both are one place."""
        files = self.inner.files()
        return Files(files.uri, files.options, self if files.store is self.inner else files.store)

    def place(self) -> str | None:
        """None: what goes through here is to be seen, so nobody else carries it."""
        return None

    def relax(self) -> None:
        """See `Store`."""
        self.inner.relax()

    def now(self) -> float:
        """See `Store`."""
        return self.inner.now()

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        return blob.put(name)

    def _get(self, name: str, limit: int) -> bytes | None:
        return self.inner.get(name, limit=limit)

    def _list(self, prefix: str, after: str, before: str) -> Listing:
        return self.inner.list(prefix, after, before)

    def _delete(self, name: str) -> None:
        self.inner.delete([name])


class WrappedBlob:
    """Bytes on their way through a wrapped store."""

    def __init__(self, store: WrappedStore, inner: Blob, data: bytes) -> None:
        self._store = store
        self._inner = inner
        self._data = data

    def put(self, name: str) -> Put:
        """See `Blob`."""
        return self._store._create(self._inner, name, self._data)  # noqa: SLF001 - its own store

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._inner.__exit__(kind, error, at)
