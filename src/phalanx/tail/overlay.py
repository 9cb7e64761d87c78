"""An overlay: a table at one moment, as segments on disk minus hidden rows, plus rows in memory.

Immutable: readers hold on to it while it is advanced (`apply.py`) into the next one. The first segment is the head;
each bulk change of the tail is one more, so that rows already written are never read into memory for it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from phalanx.contents import Head
from phalanx.runs import NO_IDS, Ids
from phalanx.tail import memory
from phalanx.tail.memory import Memory


class Shape(msgspec.Struct, frozen=True):
    """What is the same at every moment of a table: its incarnation, its schema and its key."""

    table: str
    schema: pa.Schema
    key: tuple[str, ...] = ()


class Segment(msgspec.Struct, frozen=True):
    """Rows on disk: of a whole version (the head), or of the fragments that a bulk change staged.

    `hidden` are the row ids in that version which do not count, ascending. A staged segment's rows have the row ids
    from `first` on in its own version, and the serial numbers from `serial` on in its table.
    """

    manifest: int
    hidden: Ids = NO_IDS
    fragments: tuple[int, ...] | None = None
    first: int = 0
    count: int = 0
    serial: int = 0

    @property
    def is_head(self) -> bool:
        """Whether its row ids are the table's own."""
        return self.fragments is None

    def hides(self, row_ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which of these row ids are hidden; they are few, and the hidden ones may be many."""
        if not len(self.hidden):
            return np.zeros(len(row_ids), dtype=np.bool_)
        wanted = row_ids.astype(np.int64)
        at = np.minimum(np.searchsorted(self.hidden, wanted), len(self.hidden) - 1)
        return np.asarray(self.hidden[at] == wanted)

    def hide(self, row_ids: Ids) -> Segment:
        """With more rows hidden."""
        if not len(row_ids):
            return self
        return msgspec.structs.replace(self, hidden=np.union1d(self.hidden, row_ids))

    def identities(self, row_ids: Ids) -> Ids:
        """The identities of some of its rows (docs/protocol.md, D2)."""
        return row_ids if self.is_head else -(row_ids - self.first + self.serial + 1)

    def row_ids(self, identities: Ids) -> Ids:
        """Those of its rows which have one of these identities."""
        if self.is_head:
            return identities[identities >= 0]
        serials = -identities - 1
        inside = (serials >= self.serial) & (serials < self.serial + self.count)
        return serials[inside] - self.serial + self.first


class Overlay(msgspec.Struct, frozen=True):
    """A table with the items below number `until` applied to `head`."""

    shape: Shape
    generation: int
    head: Head
    until: int
    segments: tuple[Segment, ...]
    memory: Memory
    first_pending: int = 0
    """The number of the first item that is not in the head."""

    def hidden(self) -> int:
        """How many rows on disk do not count."""
        return sum(len(segment.hidden) for segment in self.segments)


def bare(shape: Shape, generation: int, head: Head, first: int) -> Overlay:
    """A head with no item applied yet; `first` is the number of the first one that is not in it."""
    nothing = memory.empty(shape.schema, shape.key)
    return Overlay(shape, generation, head, first, (Segment(head.manifest),), nothing, first)
