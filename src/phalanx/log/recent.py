"""The transaction ids that the log remembers: the last so many, with the positions they landed on (rule A5).

A writer that finds its position below the floor cannot read it any more; this is how it learns whether it committed.
Three answers: landed there; certainly did not land; too long ago to know.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from phalanx.ids import ID_BYTES, TransactionId

_NUMBER = "<i8"


class Recent:
    """A window over the newest transaction ids, oldest first."""

    def __init__(self, size: int, since: int = 1) -> None:
        self._size = size
        self._landed: dict[TransactionId, int] = {}
        self.since = since
        """Every id that landed at or above this position is remembered."""

    def find(self, transaction: TransactionId) -> int | None:
        """Where it landed, if that is remembered."""
        return self._landed.get(transaction)

    def add(self, position: int, ids: Iterable[TransactionId]) -> None:
        """Remember the ids of the entry at `position`, and forget the oldest beyond the window."""
        landed = self._landed
        for identity in ids:
            landed.setdefault(identity, position)
        excess = len(landed) - self._size
        if excess > 0:
            for identity in list(islice(landed, excess)):
                self.since = landed.pop(identity) + 1

    def resize(self, size: int) -> None:
        """The lake's own window size, known once entry 1 was read."""
        self._size = size

    def copy(self) -> "Recent":
        """The same memory, on its own."""
        twin = Recent(self._size, self.since)
        twin._landed = dict(self._landed)
        return twin

    def dump(self) -> tuple[int, int, bytes, bytes]:
        """Size, since, runs, and all ids in order; runs are positions, then how many ids each has, 8 bytes a number."""
        positions = np.fromiter(self._landed.values(), _NUMBER, len(self._landed))
        first = np.flatnonzero(np.diff(positions, prepend=0))
        counts = np.diff(first, append=len(positions)).astype(_NUMBER)
        return self._size, self.since, positions[first].tobytes() + counts.tobytes(), b"".join(self._landed)

    @classmethod
    def load(cls, size: int, since: int, runs: bytes, ids: bytes) -> "Recent":
        """The inverse of `dump`: all at once, because opening a lake does this for thousands."""
        found = cls(size, since)
        positions, counts = np.frombuffer(runs, _NUMBER).reshape(2, -1)
        split: list[TransactionId] = np.frombuffer(ids, f"V{ID_BYTES}").tolist()
        found._landed = dict(zip(split, np.repeat(positions, counts).tolist(), strict=False))
        return found

    def __iter__(self) -> Iterator[TransactionId]:
        return iter(self._landed)

    def __len__(self) -> int:
        return len(self._landed)
