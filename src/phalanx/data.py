"""What users hand in as rows, made into Arrow rows of a table's schema, or refused with what to correct.

Taken are Arrow tables, batches, readers and datasets, everything with the Arrow PyCapsule interface (pandas, polars,
DuckDB, …), lists of dicts, dicts of lists, and iterators of batches. Columns are matched by name; types are cast where
no value can change; a missing column is null. A stream is read once, batch by batch.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from phalanx.errors import InvalidInputError

_TAKEN = "an Arrow table or stream, a pandas or polars frame, a list of dicts, or a dict of columns"


class Source(msgspec.Struct, frozen=True):
    """Rows of a known schema, to be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def table(self) -> pa.Table:
        """All of them."""
        return pa.Table.from_batches(list(self.batches), self.schema)


def source(data: object, schema: pa.Schema | None = None) -> Source:
    """Rows as they come; `schema` only tells how Python values are read."""
    try:
        return _source(data, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        msg = f"these rows cannot be read: {' '.join(str(error).split())}; give {_TAKEN}"
        raise InvalidInputError(msg) from error


def _source(data: object, schema: pa.Schema | None) -> Source:  # noqa: PLR0911 - one line for each kind
    if isinstance(data, pa.Schema | str | bytes) or data is None:
        raise InvalidInputError(f"rows cannot be made from a {type(data).__name__}: give {_TAKEN}")
    if isinstance(data, pa.RecordBatch):
        return Source(data.schema, iter([data]))
    if isinstance(data, Mapping):
        return _from_table(_from_columns(data, schema))
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        return _from_table(_from_rows(data, schema))
    if not isinstance(data, pa.Table | pa.RecordBatchReader) and hasattr(data, "scanner"):
        data = data.scanner().to_reader()
    if type(data).__module__.startswith("pandas"):  # its own stream would carry the index along
        return _from_table(pa.Table.from_pandas(cast("Any", data), preserve_index=False))
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, iter(reader))
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return Source(batch.schema, iter([batch]))
    if isinstance(data, Iterable):
        return _from_iterable(iter(data))
    raise InvalidInputError(f"rows cannot be made from a {type(data).__name__}: give {_TAKEN}")


def _from_table(table: pa.Table) -> Source:
    return Source(table.schema, iter(table.to_batches()))


def _from_columns(data: Mapping[Any, Any], schema: pa.Schema | None) -> pa.Table:
    if schema is None:
        return pa.table(dict(data))
    _require_known(data, schema)
    return pa.table({name: column(data[name], schema.field(name).type) for name in schema.names if name in data})


def _from_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    held = list(rows)
    names = {name: None for row in held for name in row}
    if schema is None:
        return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in held])
    _require_known(names, schema)
    fields = [schema.field(name) for name in schema.names if name in names]
    arrays = [column([row.get(field.name) for row in held], field.type) for field in fields]
    # Whether a column may be null is checked later, with the column's name.
    return pa.table(arrays, schema=pa.schema([field.with_nullable(nullable=True) for field in fields]))


def column(values: Any, kind: pa.DataType) -> "pa.Array[Any]":  # noqa: ANN401 - whatever Arrow makes an array of
    """Python values as an array, refused where Arrow would cut something off: it makes 1.5 a 1 without a word."""
    if isinstance(values, list) and (types.is_integer(kind) or types.is_temporal(kind)):
        for given in set(map(type, values)):
            cut = next((check for of, check in _CUTS if issubclass(given, of)), None)
            if cut is not None and any(cut(value, kind) for value in values if type(value) is given):
                msg = f"a {given.__name__} would be cut off to become {kind}: round it yourself, or use another type"
                raise pa.ArrowInvalid(msg)
    return pa.array(values, kind)


def _rest(microseconds: int, kind: Any) -> bool:  # noqa: ANN401 - a type with a unit
    """Whether a part of a second is finer than the unit."""
    return microseconds % {"s": 1_000_000, "ms": 1_000}.get(getattr(kind, "unit", ""), 1) != 0


def _of_a_moment(value: datetime, kind: pa.DataType) -> bool:
    return value.time() != time(0) if types.is_date(kind) else _rest(value.microsecond, kind)


_CUTS: tuple[tuple[type, Callable[[Any, pa.DataType], bool]], ...] = (
    (float, lambda value, _: value % 1 != 0),
    (np.floating, lambda value, _: bool(value % 1 != 0)),
    (Decimal, lambda value, _: value != value.to_integral_value()),
    (datetime, _of_a_moment),
    (time, lambda value, kind: _rest(value.microsecond, kind)),
    (timedelta, lambda value, kind: _rest(value.microseconds, kind)),
)


def _from_iterable(parts: Iterator[Any]) -> Source:
    first = next(parts, None)
    if first is None:
        raise InvalidInputError(f"there are no rows: give {_TAKEN}")
    if not isinstance(first, pa.RecordBatch | pa.Table):
        raise InvalidInputError(f"rows cannot be made from an iterator of {type(first).__name__}: give {_TAKEN}")
    together = itertools.chain([first], parts)
    batches = (batch for part in together for batch in (part.to_batches() if isinstance(part, pa.Table) else [part]))
    return Source(first.schema, batches)


def conform(given: Source, schema: pa.Schema) -> Source:
    """The same rows with exactly the columns and types of the schema."""
    _require_known(given.schema.names, schema)
    missing = [field.name for field in schema if field.name not in given.schema.names and not field.nullable]
    if missing:
        raise InvalidInputError(f"column {missing[0]!r} is missing, and it cannot be null: give it a value")
    return Source(schema, (_conformed(batch, schema) for batch in given.batches))


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        arrays = batch.columns
    else:
        _require_known(batch.schema.names, schema)  # batches of one stream may differ: none of their columns is lost
        held = set(batch.schema.names)
        arrays = [
            _cast(batch.column(field.name), field) if field.name in held else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
    for field, array in zip(schema, arrays, strict=True):
        if not field.nullable and array.null_count:
            raise InvalidInputError(f"column {field.name!r} cannot be null: row {_first_null(array)} is")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: "pa.Array[Any]", field: "pa.Field[Any]") -> "pa.Array[Any]":
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = " ".join(str(error).split())
        msg = f"column {field.name!r} is of type {field.type}, and {array.type} was given: {reason}"
        raise InvalidInputError(msg) from error


def _require_known(names: Iterable[str], schema: pa.Schema) -> None:
    given, known = list(names), schema.names
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(known)}")
    if len(set(given)) != len(given):
        raise InvalidInputError("a column is there twice: give each once")


def _first_null(array: "pa.Array[Any]") -> int:
    return int(pc.index(array.is_null(), value=True).as_py())
