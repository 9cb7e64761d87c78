"""Stores as an object store would behave: requests are counted, and take their time."""

import random
import time
from collections.abc import Iterator, Sequence

from phalanx.objects import Blob, Put, Store
from phalanx.testing import CountingStore
from phalanx.testing.wrapping import Listing, WrappedStore

_PARALLEL = 16
"""Reads that an object store's client does at once."""


class ParallelCountingStore(CountingStore):
    """Counts as `CountingStore` does, and leaves several reads to the store inside, which may do them at once."""

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """See `Store`."""
        self.calls += [("get", name) for name in names]
        return self.inner.get_many(names, limit=limit)


class LatencyStore(WrappedStore):
    """Every request takes so many seconds, half on the way there, half on the way back; give or take the spread."""

    def __init__(self, inner: Store, seconds: float, spread: float = 0.0) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self._spread = spread

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """See `Store`: so many at once, one wave after the other."""
        for first in range(0, len(names), _PARALLEL):
            self._travel()
            found = list(self.inner.get_many(names[first : first + _PARALLEL], limit=limit))
            self._travel()
            yield from found

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        self._travel()
        answer = super()._create(blob, name, data)
        self._travel()
        return answer

    def _get(self, name: str, limit: int) -> bytes | None:
        self._travel()
        found = super()._get(name, limit)
        self._travel()
        return found

    def _list(self, prefix: str, after: str, before: str) -> Listing:
        self._travel()
        found = super()._list(prefix, after, before)
        self._travel()
        return found

    def _delete(self, name: str) -> None:
        self._travel()
        super()._delete(name)
        self._travel()

    def _travel(self) -> None:
        if self.seconds:
            time.sleep(self.seconds / 2 * (1 + self._spread * random.uniform(-1, 1)))
