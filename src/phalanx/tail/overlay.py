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

from phalanx.contents import Contents, Head
from phalanx.errors import CorruptionError
from phalanx.log import item as it
from phalanx.runs import NO_IDS, Ids
from phalanx.schema import decode_schema
from phalanx.tail import memory
from phalanx.tail.columns import Conversion, Steps, conversion
from phalanx.tail.memory import Memory
from phalanx.tail.payload import decode_rows


class Shape(msgspec.Struct, frozen=True):
    """What is the same from one alteration of a table to the next: its incarnation, its schema and its key."""

    table: str
    schema: pa.Schema
    key: tuple[str, ...] = ()
    layout: int = 0


def shape_of(table: str, layout: it.Layout) -> Shape:
    """A table with one of the layouts that it has had."""
    return Shape(table, decode_schema(layout.schema), layout.key, layout.id)


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
    conversion: Conversion | None = None
    """What its rows have become since they were written, if their columns have changed (rule C7)."""

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

    def altered(self, schema: pa.Schema, steps: Steps) -> Segment:
        """With other columns than those of the schema."""
        if not steps:
            return self
        held = self.conversion
        made = conversion(schema, steps) if held is None else conversion(held.before, held.steps + steps)
        return msgspec.structs.replace(self, conversion=made)

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
    layouts: tuple[it.Layout, ...] = ()
    """The layouts that the table has had up to here; the last one is its shape."""

    def steps_since(self, layout: int) -> Steps:
        """How rows of an earlier layout became what they are here."""
        ids = [one.id for one in self.layouts]
        if layout not in ids:
            raise CorruptionError(f"an item of table {self.shape.table} has columns that the table never had")
        return tuple(step for one in self.layouts[ids.index(layout) + 1 :] for step in one.steps)

    def decode(self, item: it.Waiting, payload: bytes) -> pa.Table:
        """The rows or keys that an item brought, with the columns that the table has here."""
        rows = decode_rows(payload)
        layout = getattr(item, "layout", self.shape.layout)
        if layout == self.shape.layout:
            return rows
        steps = self.steps_since(layout)
        if isinstance(item, it.DeleteKeys):  # parts of a key are renamed, and nothing else
            return rows.rename_columns(list(self.shape.key))
        return conversion(rows.schema, steps).rows(rows)

    @property
    def converts(self) -> bool:
        """Whether rows on disk have other columns than the table by now."""
        return any(segment.conversion is not None for segment in self.segments)

    def hidden(self) -> int:
        """How many rows on disk do not count."""
        return sum(len(segment.hidden) for segment in self.segments)


def bare(table: str, contents: Contents) -> Overlay:
    """A table's head with no item applied yet, and the columns that it has there."""
    head, first = contents.head, contents.first
    at = next(at for at, layout in enumerate(contents.layouts) if layout.id == head.layout)
    shape = shape_of(table, contents.layouts[at])
    nothing = memory.empty(shape.schema, shape.key)
    layouts = contents.layouts[: at + 1]
    return Overlay(shape, contents.generation, head, first, (Segment(head.manifest),), nothing, first, layouts)
