"""Stores as an object store would behave: requests are counted, and take their time."""

import time
from collections.abc import Sequence

from phalanx.objects import Blob, Put, Store
from phalanx.testing import CountingStore
from phalanx.testing.wrapping import Listing, WrappedStore

_PARALLEL = 16
"""Reads that an object store's client does at once."""


class ParallelCountingStore(CountingStore):
    """Counts as `CountingStore` does, and leaves several reads to the store inside, which may do them at once."""

    def get_many(self, names: Sequence[str], *, limit: int) -> list[bytes | None]:
        """See `Store`."""
        self.calls += [("get", name) for name in names]
        return self.inner.get_many(names, limit=limit)


class LatencyStore(WrappedStore):
    """Every request takes so many seconds: half of them on the way there, half on the way back."""

    def __init__(self, inner: Store, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    def get_many(self, names: Sequence[str], *, limit: int) -> list[bytes | None]:
        """See `Store`."""
        waves = -(-len(names) // _PARALLEL)
        time.sleep(self.seconds * waves / 2)
        found = self.inner.get_many(names, limit=limit)
        time.sleep(self.seconds * waves / 2)
        return found

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        time.sleep(self.seconds / 2)
        answer = super()._create(blob, name, data)
        time.sleep(self.seconds / 2)
        return answer

    def _get(self, name: str, limit: int) -> bytes | None:
        time.sleep(self.seconds / 2)
        found = super()._get(name, limit)
        time.sleep(self.seconds / 2)
        return found

    def _list(self, prefix: str, after: str, before: str) -> Listing:
        time.sleep(self.seconds / 2)
        found = super()._list(prefix, after, before)
        time.sleep(self.seconds / 2)
        return found

    def _delete(self, name: str) -> None:
        time.sleep(self.seconds)
        super()._delete(name)
