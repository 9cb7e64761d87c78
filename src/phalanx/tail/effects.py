"""Which rows a change changed: as they were before it, and as they are after it.

Items say what they mean; their effect depends on the table they meet. Here each is evaluated on the overlay that it met,
in the order of the log, so that the answer is exact whatever was flushed or rewritten in between (rule J1). Neighbouring
small changes by key are looked up together.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from phalanx.expr import plan_assignments
from phalanx.log import item as it
from phalanx.runs import Ids, decode_ids
from phalanx.tables.dataset import Datasets
from phalanx.tail.apply import advance
from phalanx.tail.disk import scan
from phalanx.tail.keys import key_values
from phalanx.tail.overlay import Overlay
from phalanx.tail.read import Reading
from phalanx.tail.steps import payload_of
from phalanx.waiting import Pending

_ROWS = 1 << 15
"""Rows of a bulk change that are looked at together."""


class Kind(IntEnum):
    """What became of a row."""

    INSERT = 0
    BEFORE = 1
    AFTER = 2
    DELETE = 3


class Changed(msgspec.Struct, frozen=True):
    """Rows that were changed, in order; an update is two rows. Each has the position and the place of its commit."""

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    positions: Ids
    places: Ids
    layout: int = 0
    """The columns that the rows have."""

    @classmethod
    def all(cls, rows: pa.Table, kind: Kind, position: int, place: int) -> "Changed":
        """Rows that one commit changed in the same way."""
        count = rows.num_rows
        kinds = np.full(count, kind, dtype=np.int8)
        return cls(rows, kinds, np.full(count, position, np.int64), np.full(count, place, np.int64))


class Counted(msgspec.Struct, frozen=True):
    """How many rows a commit inserted, updated and deleted."""

    inserted: int
    updated: int
    deleted: int


def effects(overlay: Overlay, items: Iterable[Pending], datasets: Datasets) -> Iterator[Changed]:
    """What items change, one after the other, beginning with a table as the overlay has it."""
    for _, run in groupby(items, key=_kind):
        together = list(run)
        yield from _Effects(overlay, datasets).of(together)
        overlay = advance(overlay, together, datasets)


def _kind(pending: Pending) -> object:
    """Neighbours that are looked at together: small changes by key, and rows that are only added."""
    item = pending.item
    small = isinstance(getattr(item, "rows", None), it.Inline) or isinstance(item, it.DeleteKeys)
    if small and isinstance(item, it.Put | it.Upsert | it.DeleteKeys):
        return (isinstance(item, it.Put), item.layout)
    return pending.seq


class _Effects:
    """What a run of items changes in one state of a table."""

    def __init__(self, overlay: Overlay, datasets: Datasets) -> None:
        self._overlay = overlay
        self._datasets = datasets
        self._reading = Reading(overlay, datasets)
        self._schema = overlay.shape.schema
        self._key = overlay.shape.key

    def of(self, run: Sequence[Pending]) -> Iterator[Changed]:
        """What the run changes."""
        first = run[0]
        item, position, place = first.item, first.position, first.place
        rows = getattr(item, "rows", None)
        if isinstance(item, it.Overwrite):
            yield from self._all(self._reading.scan(), Kind.DELETE, first)
            yield from self._added(run, item)
        elif isinstance(rows, it.Staged):
            yield from self._added(run, item)
        elif isinstance(item, it.Put | it.Upsert | it.DeleteKeys):
            yield from self._small(run)
        elif isinstance(item, it.DeleteRows):
            gone = self._reading.rows_at(decode_ids(first.payloads[item.identities]), self._schema.names)[1]
            yield Changed.all(gone, Kind.DELETE, position, place)
        elif isinstance(item, it.DeleteWhere):
            yield from self._all(self._reading.scan(where=item.where), Kind.DELETE, first)
        elif isinstance(item, it.UpdateWhere):
            yield from self._updated(first, item)

    def _all(self, reader: pa.RecordBatchReader, kind: Kind, pending: Pending) -> Iterator[Changed]:
        for batch in reader:
            rows = pa.Table.from_batches([batch])
            if rows.num_rows:
                yield Changed.all(rows, kind, pending.position, pending.place)

    def _updated(self, pending: Pending, item: it.UpdateWhere) -> Iterator[Changed]:
        changes = plan_assignments(dict(item.changes), self._schema)
        for batch in self._reading.scan(where=item.where):
            before = pa.Table.from_batches([batch])
            if before.num_rows:
                after = changes.apply(before)
                yield pairs(before, after, pending.position, pending.place)

    def _added(self, run: Sequence[Pending], item: it.Waiting) -> Iterator[Changed]:
        """Rows of a bulk change, and those of the same key that they replace."""
        pending = run[0]
        after = advance(self._overlay, run, self._datasets)
        replaces = isinstance(item, it.Upsert)
        if not isinstance(getattr(item, "rows", None), it.Staged):
            yield Changed.all(after.memory.living(), Kind.INSERT, pending.position, pending.place)
            return
        segment = after.segments[-1]
        version = self._datasets.open(after.shape.table, segment.manifest)
        for batch in scan(version, segment, self._schema.names, without=segment.hidden, batch_size=_ROWS):
            rows = pa.Table.from_batches([batch]).cast(self._schema)
            if rows.num_rows:
                yield (
                    self._upserted([(pending, rows)])
                    if replaces
                    else Changed.all(rows, Kind.INSERT, pending.position, pending.place)
                )

    def _small(self, run: Sequence[Pending]) -> Iterator[Changed]:
        decode = self._overlay.decode
        parts = [(pending, decode(pending.item, pending.payloads[payload_of(pending.item)])) for pending in run]
        if isinstance(run[0].item, it.Put):
            for pending, rows in parts:
                yield Changed.all(rows.cast(self._schema), Kind.INSERT, pending.position, pending.place)
        else:
            yield self._upserted(parts)

    def _upserted(self, parts: Sequence[tuple[Pending, pa.Table]]) -> Changed:
        """Changes by key, in order: each meets what the one before it left."""
        keys = pa.concat_tables([rows.select(self._key) for _, rows in parts])
        held = self._reading.rows_of(_distinct(keys, self._key))
        now: dict[Hashable, int | None] = {value: at for at, value in enumerate(key_values(held, self._key))}
        tables = [held]
        taken: list[int] = []
        kinds: list[int] = []
        positions: list[int] = []
        places: list[int] = []
        above = held.num_rows
        for pending, rows in parts:
            removes = isinstance(pending.item, it.DeleteKeys)
            before_count = len(taken)
            for at, value in enumerate(key_values(rows.select(self._key), self._key)):
                before = now.get(value)
                if removes:
                    taken += [] if before is None else [before]
                    kinds += [] if before is None else [Kind.DELETE]
                    now[value] = None
                    continue
                taken += [above + at] if before is None else [before, above + at]
                kinds += [Kind.INSERT] if before is None else [Kind.BEFORE, Kind.AFTER]
                now[value] = above + at
            if not removes:
                tables.append(rows)
                above += rows.num_rows
            count = len(taken) - before_count
            positions += [pending.position] * count
            places += [pending.place] * count
        chosen = pa.concat_tables([one.cast(self._schema) for one in tables]).take(pa.array(taken, pa.int64()))
        return Changed(chosen, np.array(kinds, np.int8), np.array(positions, np.int64), np.array(places, np.int64))


def pairs(before: pa.Table, after: pa.Table, position: int, place: int) -> Changed:
    """Rows before and after, in pairs."""
    count = before.num_rows
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    rows = pa.concat_tables([before, after]).take(pa.array(order, pa.int64()))
    kinds = np.tile(np.array([Kind.BEFORE, Kind.AFTER], dtype=np.int8), count)
    return Changed(rows, kinds, np.full(2 * count, position), np.full(2 * count, place))


def _distinct(keys: pa.Table, key: Sequence[str]) -> pa.Table:
    seen: dict[Hashable, int] = {}
    for at, value in enumerate(key_values(keys, key)):
        seen.setdefault(value, at)
    return keys.take(pa.array(list(seen.values()), pa.int64())).combine_chunks()
