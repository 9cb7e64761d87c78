"""Applying items to an overlay: the one routine behind reads, flush and transactions (rules C1, C2).

Items are taken in runs, in the order of the log. A run of logged items costs one pass over the rows on disk: each row
is looked at in the form it has there, which is right because up to the first item that matches it nothing has changed
it. If that item deletes or replaces the row, it is hidden; if it updates it, the row moves to memory at that item. Then
the items are applied to the rows in memory, one after the other, each by itself: never as one stacked query, which
DataFusion gets wrong. A bulk change ends a run and becomes a segment of its own.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.expr import Assignments, Predicate, plan_assignments, plan_predicate
from phalanx.log import item as it
from phalanx.runs import NO_IDS, Ids, decode_ids
from phalanx.schema import decode_schema
from phalanx.tables.dataset import ROW_ID, Datasets
from phalanx.tail import memory
from phalanx.tail.columns import Steps, conversion
from phalanx.tail.disk import scan
from phalanx.tail.keys import NEVER, KeySet, key_values, superseded
from phalanx.tail.lookup import rows_of_keys
from phalanx.tail.overlay import Overlay, Segment, Shape, shape_of
from phalanx.tail.payload import decode_rows
from phalanx.tail.steps import Step, steps
from phalanx.waiting import Pending

_PASS_ROWS = 1 << 16
"""Rows looked at together in a pass over a segment."""


def advance(overlay: Overlay, items: Iterable[Pending], datasets: Datasets) -> Overlay:
    """The overlay with these items applied, which must be the next ones."""
    work = _Work(overlay, datasets)
    for run in _runs(items):
        work.apply(run)
    return work.result()


def _runs(items: Iterable[Pending]) -> Iterator[list[Pending]]:
    """Runs of logged items; a bulk change or an overwrite is a run of its own."""
    run: list[Pending] = []
    for pending in items:
        rows = getattr(pending.item, "rows", None)
        if isinstance(rows, it.Staged) or isinstance(pending.item, it.Overwrite | it.Alter):
            if run:
                yield run
            yield [pending]
            run = []
        else:
            run.append(pending)
    if run:
        yield run


class _Update(msgspec.Struct, frozen=True):
    """What an update does, and to which rows."""

    where: Predicate | None
    changes: Assignments


class _Touches:
    """What the items of a run look for among rows on disk, each by its number."""

    def __init__(self, key: Sequence[str]) -> None:
        self.keys = KeySet(key)
        self.predicates: dict[int, Predicate | None] = {}
        self.removed: dict[int, Ids] = {}
        self.updates: dict[int, _Update] = {}

    def __bool__(self) -> bool:
        return bool(self.keys or self.predicates)

    def columns(self, shape: Shape) -> list[str]:
        """The columns that have to be read."""
        wanted = set(shape.key) if self.keys else set()
        for predicate in self.predicates.values():
            wanted.update(() if predicate is None else predicate.columns)
        return [name for name in shape.schema.names if name in wanted]

    def first(self, segment: Segment, batch: pa.RecordBatch, row_ids: Ids) -> Ids:
        """For each row the number of the first item that touches it, or `NEVER`."""
        first = self.keys.first(batch) if self.keys else np.full(batch.num_rows, NEVER, dtype=np.int64)
        for seq, predicate in self.predicates.items():
            np.minimum(first, seq, out=first, where=True if predicate is None else _mask(predicate, batch))
        for seq, identities in self.removed.items():
            np.minimum(first, seq, out=first, where=np.isin(row_ids, segment.row_ids(identities)))
        return first


class _Moved(msgspec.Struct, frozen=True):
    """Rows on disk that an update takes to memory: the segment's place, and their row ids."""

    segment: int
    row_ids: Ids


class _Work:
    """An overlay that is being changed."""

    def __init__(self, overlay: Overlay, datasets: Datasets) -> None:
        self._before = overlay
        self._shape = overlay.shape
        self._key = overlay.shape.key
        self._datasets = datasets
        self._segments = list(overlay.segments)
        self._memory = overlay.memory
        self._until = overlay.until
        self._layouts = overlay.layouts

    def result(self) -> Overlay:
        return msgspec.structs.replace(
            self._before,
            shape=self._shape,
            until=self._until,
            segments=tuple(self._segments),
            memory=self._memory,
            layouts=self._layouts,
        )

    def apply(self, run: Sequence[Pending]) -> None:
        first = run[0].item
        if isinstance(first, it.Overwrite):
            self._segments = []
            self._memory = memory.empty(self._shape.schema, self._key)
            self._add(run[0], first.rows)
        elif isinstance(first, it.Put | it.Upsert) and isinstance(first.rows, it.Staged):
            self._bulk(run[0], first, first.rows)
        elif isinstance(first, it.Alter):
            self._alter(first.layout)
        else:
            self._logged(run)
        self._until = run[-1].seq + 1

    def _alter(self, layout: it.Layout) -> None:
        """Rows in memory are converted now, rows on disk when they are read."""
        before = self._shape.schema
        self._shape, self._key = shape_of(self._shape.table, layout), layout.key
        self._layouts = (*self._layouts, layout)
        self._segments = [segment.altered(before, layout.steps) for segment in self._segments]
        self._memory = self._memory.converted(conversion(before, layout.steps), layout.key)

    def _steps_since(self, layout: int) -> Steps:
        """What has become of the columns that an item was made for."""
        return () if layout == self._shape.layout else self.result().steps_since(layout)

    def _decode(self, item: it.Rowwise, payload: bytes) -> pa.Table:
        if getattr(item, "layout", self._shape.layout) == self._shape.layout:
            return decode_rows(payload)  # by far the most frequent case
        return self.result().decode(item, payload)

    def _bulk(self, pending: Pending, item: it.Put | it.Upsert, rows: it.Staged) -> None:
        if isinstance(item, it.Upsert):
            self._replace(pending, item, rows)
        self._add(pending, rows)

    def _replace(self, pending: Pending, item: it.Upsert, rows: it.Staged) -> None:
        """Rows below the limit were matched when the change was staged; all others are matched by their key now."""
        touches = _Touches(self._key)
        keys = self._read(self._segment(pending, rows), self._key).read_all()
        touches.keys.add(keys, np.zeros(keys.num_rows, dtype=np.int64))
        limit = rows.limit if item.hidden is not None else 0
        known = NO_IDS if item.hidden is None or not limit else decode_ids(pending.payloads[item.hidden])
        for at, segment in enumerate(self._segments):
            if segment.is_head and limit:
                self._segments[at] = segment.hide(self._still_there(segment, known))
                if self._before.head.next_row_id <= limit:
                    continue
            row_ids = self._first_touches(self._segments[at], touches)[1]
            self._segments[at] = self._segments[at].hide(row_ids[row_ids >= limit] if segment.is_head else row_ids)
        if self._memory.count():
            self._memory = self._memory.kill(touches.keys.first(self._memory.rows) < NEVER, self._key)

    def _still_there(self, segment: Segment, row_ids: Ids) -> Ids:
        """Those of these rows that a flush has not deleted since: what is hidden is counted."""
        if not len(row_ids):
            return NO_IDS
        version = self._datasets.open(self._shape.table, segment.manifest)
        found = version.scan([], only=row_ids, row_ids=True).read_all()
        return found.column(ROW_ID).to_numpy().astype(np.int64)

    def _add(self, pending: Pending, rows: it.Rows) -> None:
        if isinstance(rows, it.Staged):
            self._segments.append(self._segment(pending, rows))
        else:
            table = self._decode(pending.item, pending.payloads[rows.payload])  # type: ignore[arg-type]
            serials = pending.serial + np.arange(table.num_rows, dtype=np.int64)
            self._memory = self._memory.add(table, -(serials + 1), self._key)

    def _segment(self, pending: Pending, rows: it.Staged) -> Segment:
        dead = NO_IDS if rows.dead is None else decode_ids(pending.payloads[rows.dead])
        fragments = tuple(range(rows.first, rows.first + rows.fragments))
        made = Segment(rows.manifest, dead + rows.limit, fragments, rows.limit, rows.count, pending.serial)
        layout = getattr(pending.item, "layout", self._shape.layout)
        steps = self._steps_since(layout)
        return made.altered(self._schema_of(layout), steps) if steps else made

    def _schema_of(self, layout: int) -> pa.Schema:
        return decode_schema(next(one.schema for one in self._layouts if one.id == layout))

    def _logged(self, run: Sequence[Pending]) -> None:
        ready = list(steps(run, self._decode))
        touches = _Touches(self._key)
        for step in ready:
            item = step.item
            if step.rows is not None and not isinstance(item, it.Put):
                touches.keys.add(step.rows, step.numbers)
            elif isinstance(item, it.DeleteRows):
                touches.removed[step.seq] = decode_ids(step.items[0].payloads[item.identities])
            elif isinstance(item, it.DeleteWhere):
                touches.predicates[step.seq] = plan_predicate(item.where, self._shape.schema)
            elif isinstance(item, it.UpdateWhere):
                update = self._planned(item)
                touches.updates[step.seq] = update
                touches.predicates[step.seq] = update.where
        moved = self._look_at_disk(touches)
        for step in ready:
            self._one(step, touches, moved.get(step.seq, []))

    def _planned(self, item: it.UpdateWhere) -> _Update:
        schema = self._shape.schema
        where = None if item.where is None else plan_predicate(item.where, schema)
        return _Update(where, plan_assignments(dict(item.changes), schema))

    def _look_at_disk(self, touches: _Touches) -> dict[int, list[_Moved]]:
        """Hide the rows that a delete or a key touches first; the rows that an update touches first, by its number."""
        moved: dict[int, list[_Moved]] = {}
        for at, segment in enumerate(self._segments if touches else ()):
            firsts, row_ids = self._first_touches(segment, touches)
            for seq in np.unique(firsts).tolist():
                if seq in touches.updates:
                    moved.setdefault(seq, []).append(_Moved(at, row_ids[firsts == seq]))
            self._segments[at] = segment.hide(row_ids)
        return moved

    def _first_touches(self, segment: Segment, touches: _Touches) -> tuple[Ids, Ids]:
        """The number of the first item that touches a row, and the row's id, for every row that one touches."""
        if not touches.predicates and not touches.removed:
            return self._by_keys(segment, touches)
        firsts: list[Ids] = [NO_IDS]
        row_ids: list[Ids] = [NO_IDS]
        for batch in self._read(segment, touches.columns(self._shape), row_ids=True):
            found = batch.column(ROW_ID).to_numpy().astype(np.int64)
            first = touches.first(segment, batch, found)
            touched = first < NEVER
            if touched.any():
                firsts.append(first[touched])
                row_ids.append(found[touched])
        return np.concatenate(firsts), np.concatenate(row_ids)

    def _by_keys(self, segment: Segment, touches: _Touches) -> tuple[Ids, Ids]:
        """As above, where only keys are looked for: which item it is does not matter, all of them hide the row."""
        version = self._datasets.open(self._shape.table, segment.manifest)
        found = rows_of_keys(version, segment, touches.keys.rows(), self._key)
        return np.zeros(len(found), dtype=np.int64), found

    def _one(self, step: Step, touches: _Touches, moved: Sequence[_Moved]) -> None:
        """One step, on the rows in memory."""
        item = step.item
        if step.rows is not None:
            self._rows(step, step.rows)
        elif isinstance(item, it.DeleteRows):
            self._delete(touches.removed[step.seq])
        elif isinstance(item, it.DeleteWhere):
            predicate = touches.predicates[step.seq]
            if predicate is not None and self._memory.rows.num_rows:
                self._memory = self._memory.kill(_mask(predicate, self._memory.rows), self._key)
        elif isinstance(item, it.UpdateWhere):
            self._update(touches.updates[step.seq], moved)

    def _rows(self, step: Step, rows: pa.Table) -> None:
        serials = step.serials
        if not isinstance(step.item, it.Put):
            self._memory = self._memory.kill_keys(key_values(rows, self._key), self._key)
            if isinstance(step.item, it.DeleteKeys):
                return
            earlier = superseded(rows, self._key) if len(step.items) > 1 else NO_IDS
            if len(earlier):
                last = np.setdiff1d(np.arange(rows.num_rows), earlier, assume_unique=True)
                rows, serials = rows.take(last), serials[last]
        self._memory = self._memory.add(rows, -(serials + 1), self._key)

    def _delete(self, identities: Ids) -> None:
        inside = np.isin(self._memory.identities, identities) & self._memory.alive
        elsewhere = np.setdiff1d(identities, self._memory.identities[inside])
        self._memory = self._memory.kill(inside, self._key)
        self._segments = [segment.hide(segment.row_ids(elsewhere)) for segment in self._segments]

    def _update(self, update: _Update, moved: Sequence[_Moved]) -> None:
        """Rows keep their identity, and are added again with their new values."""
        held = self._memory
        mask = held.alive.copy()
        if update.where is not None and held.rows.num_rows:
            mask &= _mask(update.where, held.rows)
        parts = [held.rows.filter(pa.array(mask))] if mask.any() else []
        identities = [held.identities[mask]]
        for one in moved:
            segment = self._segments[one.segment]
            version = self._datasets.open(self._shape.table, segment.manifest)
            found = scan(version, segment, self._shape.schema.names, only=one.row_ids, row_ids=True).read_all()
            identities.append(segment.identities(found.column(ROW_ID).to_numpy().astype(np.int64)))
            parts.append(found.drop_columns([ROW_ID]).cast(self._shape.schema))
        if parts:
            changed = update.changes.apply(pa.concat_tables(parts).combine_chunks())
            self._memory = held.kill(mask, self._key).add(changed, np.concatenate(identities), self._key)

    def _read(self, segment: Segment, columns: Sequence[str], *, row_ids: bool = False) -> pa.RecordBatchReader:
        version = self._datasets.open(self._shape.table, segment.manifest)
        return scan(version, segment, columns, without=segment.hidden, row_ids=row_ids, batch_size=_PASS_ROWS)


def _mask(predicate: Predicate, rows: pa.Table | pa.RecordBatch) -> memory.Mask:
    return np.asarray(predicate.mask(rows).to_numpy(zero_copy_only=False), dtype=np.bool_)
