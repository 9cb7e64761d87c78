"""A store that counts requests, so that cost can be a test."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.objects import Blob, Put, Store
from phalanx.testing.wrapping import Listing, WrappedStore


class CountingStore(WrappedStore):
    """Counts "put", "get", "list" and "delete", and remembers their names in order.

    With `remote`, callers treat it as an object store whatever it wraps, so that the requests of an object store can be
    counted over memory.
    """

    def __init__(self, inner: Store, *, remote: bool = False) -> None:
        super().__init__(inner)
        self.probes = inner.probes and not remote
        self.calls: list[tuple[str, str]] = []

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """The requests made inside the block, counted when it ends."""
        first = len(self.calls)
        counts: Counter[str] = Counter()
        yield counts
        counts.update(call for call, _ in self.calls[first:])

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        self.calls.append(("put", name))
        return super()._create(blob, name, data)

    def _get(self, name: str, limit: int) -> bytes | None:
        self.calls.append(("get", name))
        return super()._get(name, limit)

    def _list(self, prefix: str, after: str, before: str) -> Listing:
        self.calls.append(("list", prefix))
        return super()._list(prefix, after, before)

    def _delete(self, name: str) -> None:
        self.calls.append(("delete", name))
        super()._delete(name)
