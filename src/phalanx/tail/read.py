"""Reading an overlay: segments minus hidden rows, then the rows in memory, as one stream.

What Lance can do itself (projection, filter, limit) is left to it; rows in memory are filtered by the same dialect. A
predicate that Lance's scanner refuses, though DataFusion takes it, is evaluated on the rows that it gives.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from phalanx.errors import CorruptionError, InvalidInputError, SnapshotExpiredError
from phalanx.expr import Predicate, plan_predicate
from phalanx.pins import Hold, Pin
from phalanx.runs import NO_IDS, Ids
from phalanx.schema import require_keys
from phalanx.tables.dataset import ROW_ID, Datasets, Version
from phalanx.tail.disk import scan
from phalanx.tail.keys import as_key_table, key_values, last_of_each
from phalanx.tail.lookup import rows_with_keys
from phalanx.tail.overlay import Overlay, Segment

Row = dict[str, Any]
_MOST = 1 << 63


class Reading:
    """One overlay, ready to be read. Immutable; may be used by many threads."""

    def __init__(
        self, overlay: Overlay, datasets: Datasets, held: Hold | Pin | None = None, beside: object = None
    ) -> None:
        self.overlay = overlay
        self._datasets = datasets
        self.held = held
        """What keeps its files from being pruned while it is read."""
        self._beside = beside

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows, streamed, with bounded memory."""
        wanted, predicate = self._asked(columns, where, limit)
        require_number("batch_size", batch_size, 1)
        batches = self._batches(wanted, predicate, limit, batch_size)
        return pa.RecordBatchReader.from_batches(wanted, _limited(batches, limit))

    def table(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """The same rows, at once."""
        wanted, predicate = self._asked(columns, where, limit)
        segments = self.overlay.segments
        if len(segments) == 1 and segments[0].is_head and not self.overlay.converts and wanted.names:
            head = segments[0]
            pushed = None if predicate is None else self._pushed(head, predicate)
            if (predicate is None or pushed is not None) and not self._sifted(head, predicate):
                # Lance gathers them by itself, which takes a tenth less time than batch by batch through here.
                with self._telling():
                    found = self._version(head).rows_of(wanted.names, where=pushed, without=head.hidden, limit=limit)
                found = found if found.schema.equals(wanted) else found.cast(wanted)
                more = self._in_memory(wanted, predicate)
                if limit is not None:
                    more = more.slice(0, limit - found.num_rows)
                return pa.concat_tables([found, more]) if more.num_rows else found
        return self.scan(columns, where, limit).read_all()

    def _asked(
        self, columns: Sequence[str] | None, where: str | None, limit: int | None
    ) -> tuple[pa.Schema, Predicate | None]:
        """What is asked for, checked."""
        schema = self.overlay.shape.schema
        names = chosen_columns(columns, schema)
        if len(set(names)) < len(names):
            raise InvalidInputError("a column is asked for twice: name each once")
        require_number("limit", limit, 0)
        predicate = None if where is None else plan_predicate(where, schema)
        return pa.schema([schema.field(name) for name in names]), predicate

    def count(self, where: str | None = None) -> int:
        """The number of rows, or of those that match."""
        held = self.overlay.memory
        predicate = None if where is None else plan_predicate(where, self.overlay.shape.schema)
        total = held.count() if predicate is None else predicate.mask(held.living()).true_count
        with self._telling():
            return total + sum(self._counted(segment, predicate) for segment in self.overlay.segments)

    def _counted(self, segment: Segment, predicate: Predicate | None) -> int:
        """The number of rows of a segment, or of those that match."""
        if predicate is None:
            whole = self._version(segment).rows if segment.is_head else segment.count
            return whole - len(segment.hidden)
        if not self._sifted(segment, predicate) and (pushed := self._pushed(segment, predicate)) is not None:
            return self._version(segment).count(pushed, segment.hidden, segment.fragments)
        batches = self._filtered(segment, pa.schema([]), predicate, None, None)
        return sum(batch.num_rows for batch in batches)

    def rows_of(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these keys, in no particular order; keys that are absent have none."""
        shape, held = self.overlay.shape, self.overlay.memory
        names = list(shape.schema.names if columns is None else columns)
        wanted = pa.schema([shape.schema.field(name) for name in names])
        parts = []
        at = [] if held.places is None else held.places.found(key_values(keys, shape.key))
        if at:
            parts.append(held.rows.select(names).take(pa.array(at, pa.int64())))
        if len(at) < keys.num_rows:  # a key that is in memory is nowhere else (I13)
            with self._telling():
                for segment in self.overlay.segments:
                    found = rows_with_keys(self._version(segment), segment, keys, shape.key, names)
                    parts.append(found if found.schema.equals(wanted) else found.cast(wanted))
        return pa.concat_tables(parts) if parts else wanted.empty_table()

    def get(self, key: Any) -> Row | None:  # noqa: ANN401 - a key's value
        """The row of a key."""
        found = self.rows_of(self.keys([key]))
        return found.to_pylist()[0] if found.num_rows else None

    def get_many(self, keys: Iterable[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these keys."""
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise InvalidInputError(f"keys are a list of values, and a {type(keys).__name__} was given")
        wanted, _ = self._asked(columns, None, None)
        distinct = last_of_each(self.keys(list(keys)), self.overlay.shape.key)
        return self.rows_of(distinct, wanted.names)

    def keys(self, values: list[Any]) -> pa.Table:
        """Values as keys of this table."""
        shape = self.overlay.shape
        if not shape.key:
            raise InvalidInputError("this table has no key: read it with where=")
        try:
            keys = as_key_table(values, shape.key, shape.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            shown = repr(values[0]) if len(values) == 1 else "one of them"
            raise InvalidInputError(f"{shown} is not a key of this table ({', '.join(shape.key)}): {error}") from error
        require_keys(keys, shape.key)
        return keys

    def rows_at(self, identities: Ids, columns: Sequence[str]) -> tuple[Ids, pa.Table]:
        """The rows of these identities (docs/protocol.md, D2), wherever they are, with their identities."""
        schema, held = self.overlay.shape.schema, self.overlay.memory
        inside = np.isin(held.identities, identities) & held.alive
        parts = [held.rows.select(list(columns)).filter(pa.array(inside))]
        found = [held.identities[inside]]
        elsewhere = np.setdiff1d(identities, found[0])
        for segment in self.overlay.segments:
            row_ids = np.setdiff1d(segment.row_ids(elsewhere), segment.hidden)
            if len(row_ids):
                table = scan(self._version(segment), segment, columns, only=row_ids, row_ids=True).read_all()
                found.append(segment.identities(table.column(ROW_ID).to_numpy().astype(np.int64)))
                parts.append(table.drop_columns([ROW_ID]).cast(pa.schema([schema.field(name) for name in columns])))
        return np.concatenate(found), pa.concat_tables(parts)

    def matching(self, segment: Segment, predicate: Predicate | None) -> Ids:
        """The row ids of a segment's rows that match, all without a predicate."""
        columns = [] if predicate is None else predicate.columns
        found = [NO_IDS]
        for batch in scan(self._version(segment), segment, columns, without=segment.hidden, row_ids=True):
            row_ids = batch.column(ROW_ID).to_numpy().astype(np.int64)
            mask = None if predicate is None else predicate.mask(batch).to_numpy(zero_copy_only=False)
            found.append(row_ids if mask is None else row_ids[mask])
        return np.concatenate(found)

    def identities(self, predicate: Predicate | None) -> Ids:
        """The identities of the rows that match, all without a predicate."""
        living, found = self.overlay.memory.living(), self.overlay.memory.living_identities()
        if predicate is not None and len(found):
            found = found[predicate.mask(living).to_numpy(zero_copy_only=False)]
        elsewhere = [segment.identities(self.matching(segment, predicate)) for segment in self.overlay.segments]
        return np.concatenate([found, *elsewhere])

    def _batches(
        self, wanted: pa.Schema, predicate: Predicate | None, limit: int | None, batch_size: int | None
    ) -> Iterator[pa.RecordBatch]:
        with self._telling():
            for segment in self.overlay.segments:
                yield from self._filtered(segment, wanted, predicate, limit, batch_size)
        yield from self._in_memory(wanted, predicate).to_batches(max_chunksize=batch_size)

    def _in_memory(self, wanted: pa.Schema, predicate: Predicate | None) -> pa.Table:
        """The rows in memory that match."""
        rows = self.overlay.memory.living()
        if predicate is not None and rows.num_rows:
            rows = rows.filter(predicate.mask(rows))
        return rows.select(wanted.names)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say what it means that a file is missing, if others have taken this reader for gone (rule E2)."""
        try:
            yield
        except CorruptionError as error:
            pin, pins = self.held.pin if isinstance(self.held, Hold) else self.held, self._datasets.pins
            if pin is None or self.held is None:
                raise
            if pins.lapsed(pin):
                why = "because this process could not renew its pin in time"
            elif pins.gone(self.held.position, self.overlay.shape.table):
                why = "because its pin was taken for expired: did the clock of the storage jump?"
            else:
                raise
            raise SnapshotExpiredError(f"what was being read was pruned, {why}: read it again") from error

    def _filtered(
        self,
        segment: Segment,
        wanted: pa.Schema,
        predicate: Predicate | None,
        limit: int | None,
        batch_size: int | None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a segment that match."""
        pushed = None if predicate is None else self._pushed(segment, predicate)
        later = predicate if pushed is None else None
        sifted = pushed is not None and self._sifted(segment, predicate)
        names = wanted.names + [name for name in (later.columns if later else ()) if name not in wanted.names]
        reader = scan(
            self._version(segment),
            segment,
            names,
            where=pushed,
            without=None if sifted else segment.hidden,
            limit=None if later or sifted else limit,
            batch_size=batch_size,
            row_ids=sifted or not wanted.names,  # a batch without any column has no length
        )
        for batch in reader:
            kept = batch if later is None else batch.filter(later.mask(batch))
            if sifted:
                kept = kept.filter(pa.array(~segment.hides(kept.column(ROW_ID).to_numpy())))
            chosen = kept.select(wanted.names or [ROW_ID])
            yield chosen if not wanted.names or chosen.schema.equals(wanted) else chosen.cast(wanted)

    def _sifted(self, segment: Segment, predicate: Predicate | None) -> bool:
        """Whether hidden rows are better dropped from what an index finds: a blocklist would switch the index off."""
        if predicate is None or not segment.is_head or not len(segment.hidden) or segment.conversion is not None:
            return False
        return not self._version(segment).indexed_columns.isdisjoint(predicate.columns)

    def _pushed(self, segment: Segment, predicate: Predicate) -> str | None:
        """The predicate in Lance's words, if it takes it."""
        words = None if segment.conversion is not None else predicate.lance
        return words if words is not None and self._version(segment).plans(words) else None

    def version(self, manifest: int) -> Version:
        """One version of this table's dataset."""
        return self._datasets.open(self.overlay.shape.table, manifest)

    def _version(self, segment: Segment) -> Version:
        return self.version(segment.manifest)


def chosen_columns(columns: Sequence[str] | None, schema: pa.Schema) -> list[str]:
    """The names of the columns that are asked for, all if none are named."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidInputError(f"columns are a list of names: {columns!r} is not")
    names: list[Any] = list(columns)
    unknown = [name for name in names if not isinstance(name, str) or name not in schema.names]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(schema.names)}")
    if not names:
        raise InvalidInputError("no column is asked for: name one, or leave columns out for all; `count` counts rows")
    return names


def require_number(what: str, value: object, least: int) -> None:
    """Refuse what is no number of rows, or more than Arrow and Lance count."""
    if value is not None and not (isinstance(value, Integral) and least <= int(value) < _MOST):
        raise InvalidInputError(f"{what} is a number of rows, from {least} on: {value!r} is not")


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
        elif left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows
        if left is not None and left <= 0:
            return
