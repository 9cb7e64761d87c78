"""A table as an engine reads it: its segments on disk as Arrow datasets, its rows in memory as an Arrow table.

Columns and conditions that the engine asks for go on to Lance. Nothing passes through Python row by row or batch by
batch: what Lance refuses (it takes conditions as Substrait, which knows few types) Arrow's own scanner does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
from pyarrow import types

from phalanx.errors import PhalanxError
from phalanx.tables.dataset import ROW_ID, Version

if TYPE_CHECKING:
    from phalanx.tail.overlay import Segment
    from phalanx.tail.read import Reading

Failed = Callable[[PhalanxError], None]
_Scanner: Any = pds.Scanner
"""The stubs know less than it takes."""


class Opened:
    """What an engine takes for a scanner: it asks for the stream, once."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return self._reader


class Part(pds.Dataset):
    """One segment, without its hidden rows. As many scans at once as one likes.

    An error is handed to `failed` too: of what is raised inside a scan, engines keep the text only.
    """

    def __init__(self, version: Version, segment: Segment, schema: pa.Schema, failed: Failed) -> None:  # as Lance's own
        self._version = version
        self._segment = segment
        self._shown = schema
        self._failed = failed

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the engine can read them."""
        return self._shown

    def scanner(  # type: ignore[override]
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - Arrow's word
        **_: object,
    ) -> Opened:
        """The rows that match, and of these some columns."""
        try:
            return Opened(self._opened(list(self._shown.names if columns is None else columns), filter))
        except PhalanxError as error:
            self._failed(error)
            raise

    def _opened(self, names: list[str], condition: pc.Expression | None) -> pa.RecordBatchReader:
        segment, version = self._segment, self._version
        used = [] if condition is None else columns_of(condition, self._shown)
        pushed = condition if condition is not None and self._takes(condition, used) else None
        later = condition if pushed is None else None
        # A blocklist would switch an index off: then hidden rows are better dropped from what it finds.
        sifted = pushed is not None and segment.is_head and len(segment.hidden) > 0
        sifted = sifted and not version.indexed_columns.isdisjoint(used)
        reader = version.stream(
            names if later is None else [*names, *(name for name in used if name not in names)],
            where=pushed,
            without=None if sifted else segment.hidden,
            fragments=segment.fragments,
            row_ids=sifted,
        )
        if sifted:
            later = ~pc.field(ROW_ID).isin(pa.array(segment.hidden, pa.uint64()))
        return _sifted(_shown_as(reader, self._shown), names, later)

    def _takes(self, condition: pc.Expression, used: Sequence[str]) -> bool:
        """Whether Lance can look for the rows that match."""
        held = self._version.dataset.schema
        as_held = all(self._shown.field(name).type == held.field(name).type for name in used)
        return as_held and self._version.plans(condition)


def parts(reading: Reading, failed: Failed) -> list[object]:
    """A table, as what the engine reads one after the other."""
    overlay = reading.overlay
    schema = readable(overlay.shape.schema)
    found: list[object] = [
        Part(reading.version(segment.manifest), segment, schema, failed) for segment in overlay.segments
    ]
    rows = overlay.memory.living()
    return [*found, rows.cast(schema)] if rows.num_rows else found


def readable(schema: pa.Schema) -> pa.Schema:
    """The schema in types that the engine has: of half floats it knows nothing."""
    return pa.schema([field.with_type(_readable(field.type)) for field in schema])


def _readable(kind: Any) -> Any:  # noqa: ANN401 - the stubs have a type for each
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        return pa.struct([_inside(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _inside(kind.item_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_inside(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pa.list_ if types.is_list(kind) else pa.large_list)(_inside(kind.value_field))
    return kind


def _inside(field: Any) -> Any:  # noqa: ANN401 - as above
    return field.with_type(_readable(field.type))


def columns_of(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns that a condition speaks of: those without which it means nothing."""
    return [name for name in schema.names if not _binds(condition, (field for field in schema if field.name != name))]


def _binds(condition: pc.Expression, fields: Iterable[Any]) -> bool:
    try:
        pds.dataset(pa.schema(list(fields)).empty_table()).scanner(filter=condition)
    except pa.ArrowInvalid:
        return False
    return True


def _shown_as(reader: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The same rows, in the types that were announced."""
    kinds = {field.name: schema.field(field.name).type for field in reader.schema if field.name != ROW_ID}
    if all(reader.schema.field(name).type == kind for name, kind in kinds.items()):
        return reader
    shown: dict[str, pc.Expression] = {name: pc.field(name).cast(kind) for name, kind in kinds.items()}
    if ROW_ID in reader.schema.names:
        shown[ROW_ID] = pc.field(ROW_ID)
    return cast("pa.RecordBatchReader", _Scanner.from_batches(reader, columns=shown).to_reader())


def _sifted(reader: pa.RecordBatchReader, names: list[str], condition: pc.Expression | None) -> pa.RecordBatchReader:
    if condition is None:
        return reader
    return cast("pa.RecordBatchReader", _Scanner.from_batches(reader, columns=names, filter=condition).to_reader())
