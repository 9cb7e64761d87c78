"""What users hand in as rows, made into Arrow rows of a table's schema, or refused with what to correct.

Taken are Arrow tables, batches, readers and datasets, everything with the Arrow PyCapsule interface (pandas, polars,
DuckDB, …), lists of dicts, dicts of lists, and iterators of batches. Columns are matched by name; types are cast where
no value can change, except that floating point numbers are rounded to a column's precision; a missing column is null. A
stream is read once, batch by batch: given again, it is refused. What a cast would lose is looked for in `lossless.py`.
"""

import contextlib
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from phalanx.dicts import dicts
from phalanx.errors import InvalidInputError
from phalanx.lossless import BLOB, column, recast, require_uncut

_TAKEN = "an Arrow table or stream, a pandas or polars frame, a list of dicts, or a dict of columns"
_begun: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Streams that were read from: whoever hands one in again, after an error, would write what is left of it, or nothing."""


class Source(msgspec.Struct, frozen=True):
    """Rows of a known schema, to be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    exact: bool = False
    """Whether they are known to be what the schema asks for."""

    def table(self) -> pa.Table:
        """All of them."""
        return pa.Table.from_batches(list(self.batches), self.schema)


def source(data: object, schema: pa.Schema | None = None) -> Source:
    """Rows as they come; `schema` only tells how Python values are read."""
    try:
        if type(data) is list and schema is not None and (plain := dicts(schema).batch(data)) is not None:
            return Source(schema, iter([plain]), exact=True)
        return _source(data, schema)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> InvalidInputError:
    return InvalidInputError(f"these rows cannot be read: {' '.join(str(error).split())}; give {_TAKEN}")


def _refused(data: object) -> InvalidInputError:
    return InvalidInputError(f"rows cannot be made from a {type(data).__name__}: give {_TAKEN}")


def _source(data: object, schema: pa.Schema | None) -> Source:  # noqa: PLR0911 - one line for each kind
    if isinstance(data, pa.Schema | str | bytes) or data is None:
        raise _refused(data)
    if isinstance(data, pa.RecordBatch | pa.Table):
        return Source(data.schema, iter([data] if isinstance(data, pa.RecordBatch) else data.to_batches()))
    if isinstance(data, Mapping):
        return _from_table(_from_columns(data, schema))
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data[:1]):
        return _from_table(_from_rows(data, schema))
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "scanner"):
        data = data.scanner().to_reader()
    if type(data).__module__.startswith("pandas"):  # its own stream would carry the index along
        return _from_table(_from_pandas(data))
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, _once(data, reader))
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return Source(batch.schema, iter([batch]))
    if isinstance(data, Iterable):
        return _from_iterable(_once(data, data))
    raise _refused(data)


def _once(data: object, parts: Iterable[Any]) -> Iterator[Any]:
    """The parts of what may be a stream, which then was never read from before."""
    if isinstance(data, Iterator):
        with contextlib.suppress(TypeError):  # some iterators cannot be remembered
            if data in _begun:
                raise InvalidInputError("this stream was read from before, to its end or not: open it anew, give that")
            _begun.add(data)
    yield from parts


def _from_table(table: pa.Table) -> Source:
    return Source(table.schema, iter(table.to_batches()))


def _from_pandas(data: Any) -> pa.Table:  # noqa: ANN401 - pandas need not be installed
    if not hasattr(data, "columns"):
        raise _refused(data)
    if not data.columns.is_unique:
        raise InvalidInputError("a column is there twice: give each once")
    return pa.Table.from_pandas(data, preserve_index=False)


def _from_columns(data: Mapping[Any, Any], schema: pa.Schema | None) -> pa.Table:
    _require_names(data)
    for name, values in data.items():
        if isinstance(values, str | bytes | Mapping | AbstractSet) or not isinstance(values, Iterable):
            raise InvalidInputError(
                f"column {name!r} is a {type(values).__name__}: a column is a list of values; give a row as [{{...}}]"
            )
    if schema is None:
        return _inferred(pa.table(dict(data)), data)
    _require_known(data, schema)
    return pa.table({name: column(data[name], schema.field(name).type) for name in schema.names if name in data})


def _inferred(table: pa.Table, values: Mapping[Any, Any]) -> pa.Table:
    """A table whose types Arrow chose: it chooses a day for moments, and microseconds for what is finer."""
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if types.is_temporal(kind) and isinstance(values[name], list | tuple):
            require_uncut(list(values[name]), kind)
    return table


def _from_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    held = list(rows)
    for at, row in enumerate(held):
        if not isinstance(row, Mapping):
            raise InvalidInputError(f"row {at} is a {type(row).__name__}, and those before it are dicts: give {_TAKEN}")
    names = {name: None for row in held for name in row}
    _require_names(names)
    if schema is None:
        columns = {name: [row.get(name) for row in held] for name in names}
        return _inferred(pa.Table.from_pylist([{name: row.get(name) for name in names} for row in held]), columns)
    _require_known(names, schema)
    # Rows that say nothing are rows of nulls; a table without a column would have no length.
    fields = [schema.field(name) for name in schema.names if name in names or not names]
    arrays = [column([row.get(field.name) for row in held], field.type) for field in fields]
    # Whether a column may be null is checked later, with the column's name.
    return pa.table(arrays, schema=pa.schema([field.with_nullable(nullable=True) for field in fields]))


def _from_iterable(parts: Iterator[Any]) -> Source:
    first = next(parts, None)
    if first is None:
        raise InvalidInputError(f"there are no rows: give {_TAKEN}")
    if not isinstance(first, pa.RecordBatch | pa.Table):
        raise InvalidInputError(f"rows cannot be made from an iterator of {type(first).__name__}: give {_TAKEN}")
    return Source(first.schema, _batches(itertools.chain([first], parts)))


def _batches(parts: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        if isinstance(part, pa.Table):
            yield from part.to_batches()
        elif isinstance(part, pa.RecordBatch):
            yield part
        else:
            raise InvalidInputError(f"a {type(part).__name__} came in a stream of batches: give batches to its end")


def bytes_of(rows: pa.Table | pa.RecordBatch, enough: int) -> int:
    """The bytes of rows. If all of the buffers that they lie in have no more than `enough`, that is the answer.

    Adding up what of them is used takes forty times as long.
    """
    whole = rows.get_total_buffer_size()
    return whole if whole <= enough else rows.nbytes


def conform(given: Source, schema: pa.Schema) -> Source:
    """The same rows with exactly the columns and types of the schema."""
    if given.exact and given.schema is schema:
        return given
    if given.schema.equals(schema):
        return Source(schema, (_conformed(batch, schema) for batch in _readable(given.batches)))
    _require_known(given.schema.names, schema)
    missing = [field.name for field in schema if field.name not in given.schema.names and not field.nullable]
    if missing:
        raise InvalidInputError(f"column {missing[0]!r} is missing, and it cannot be null: give it a value")
    return Source(schema, (_conformed(batch, schema) for batch in _readable(given.batches)))


def _readable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; where one cannot be read, an error that says so."""
    try:
        yield from batches
    except pa.ArrowException as error:
        raise _unreadable(error) from error


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        arrays = batch.columns
        if all(field.nullable for field in schema) and batch.schema.metadata == schema.metadata:
            dicts(schema).require_inside(arrays)
            return batch
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
    dicts(schema).require_inside(arrays)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bytes_of_blobs(array: Any) -> "pa.Array[Any]":  # noqa: ANN401 - an array of Lance's own type
    """What Lance's arrays of blobs hold; those that only name a file elsewhere hold nothing."""
    data = pc.struct_field(array.storage, "data")  # null where the whole value is
    if data.null_count > array.null_count:
        raise InvalidInputError("a blob that is only a link to a file elsewhere cannot be stored: give its bytes")
    return data  # type: ignore[no-any-return]


def _cast(array: "pa.Array[Any]", field: "pa.Field[Any]") -> "pa.Array[Any]":
    if array.type == field.type:
        return array
    if getattr(array.type, "extension_name", "") == BLOB:
        array = _bytes_of_blobs(array)
    try:
        return recast(array, field.type)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        msg = f"column {field.name!r} is of type {field.type}, and {array.type} was given: {reason}"
        raise InvalidInputError(msg) from error


def _require_names(names: Iterable[Any]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"{name!r} cannot be the name of a column: names are text")


def _require_known(names: Iterable[str], schema: pa.Schema) -> None:
    given, known = list(names), schema.names
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(known)}")
    if len(set(given)) != len(given):
        raise InvalidInputError("a column is there twice: give each once")


def _first_null(array: "pa.Array[Any]") -> int:
    return int(pc.index(array.is_null(), value=True).as_py())
