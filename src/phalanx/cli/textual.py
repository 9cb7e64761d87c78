"""Values in text formats: how CSV and JSON hold what they have no notation for, in both directions.

In JSON a time is text, a duration a number of its column's unit, a decimal text, bytes are base64, and a map is a list of
keys and values. CSV holds nested values as JSON text, and bytes as base64 too. What is written so is read so.
"""

import base64
import binascii
import io
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from pyarrow import compute, json, types

from phalanx.errors import InvalidInputError

Array: TypeAlias = "pa.Array[Any]"
Leaf: TypeAlias = Callable[[pa.DataType], pa.DataType]

_arrow: Any = pa
_compute: Any = compute
"""The stubs know less than these functions take."""


def to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows of plain values, ready to be encoded as JSON."""
    columns = [_spoken(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def to_values(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows of Python values that make the same rows again; nanoseconds, which Python has not, are numbers."""
    kinds = [_valued(column.type) for column in batch.columns]
    columns = [
        column if kind == column.type else column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def to_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in columns that CSV can hold."""
    columns = [_cells(column) if _is_foreign(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def json_schema(schema: pa.Schema) -> pa.Schema:
    """What the JSON reader is asked for, so that `understood` can make the schema's values of it."""
    return pa.schema([pa.field(field.name, _heard(field.type)) for field in schema])


def csv_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """What the CSV reader is asked for."""
    return {field.name: pa.string() if _is_foreign(field.type) else _simple(field.type) for field in schema}


def understood(batch: pa.RecordBatch, schema: pa.Schema, *, cells: bool) -> pa.RecordBatch:
    """What was read, with the values that text holds in its own way made into those of the schema."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        at = schema.get_field_index(name)
        columns.append(column if at < 0 else _understood(column, schema.field(at), cells))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_foreign(kind: pa.DataType) -> bool:
    """Whether CSV has no notation for it."""
    return types.is_nested(kind) or _is_bytes(kind) or types.is_interval(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)


def _is_list(kind: pa.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _spoken(column: Array) -> Array:
    if types.is_interval(column.type):  # Arrow has no text for it
        return pa.array([None if one is None else _interval(*one) for one in column.to_pylist()], pa.string())
    kind = _spoken_type(column.type)
    said = column if kind == column.type else column.cast(kind)
    if types.is_timestamp(column.type):
        said = _compute.replace_substring(said, " ", "T", max_replacements=1)
    return said


def _interval(months: int, days: int, nanoseconds: int) -> str:
    parts = [f"{months} months" * bool(months), f"{days} days" * bool(days), f"{nanoseconds / 1e9:g} s"]
    return " ".join(part for part in parts if part)


def _spoken_type(kind: pa.DataType) -> pa.DataType:
    def leaf(one: pa.DataType) -> pa.DataType:
        return pa.string() if types.is_temporal(one) or types.is_decimal(one) else one

    return _mapped(kind, leaf)


def _heard(kind: pa.DataType) -> pa.DataType:
    def leaf(one: pa.DataType) -> pa.DataType:
        return pa.string() if types.is_temporal(one) or _is_bytes(one) else one

    return _mapped(kind, leaf)


def _valued(kind: Any) -> pa.DataType:  # noqa: ANN401 - what it has depends on which it is
    if types.is_map(kind):
        return pa.map_(_valued(kind.key_type), _valued(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([kind.field(at).with_type(_valued(kind.field(at).type)) for at in range(kind.num_fields)])
    if types.is_fixed_size_list(kind):
        sized: pa.DataType = pa.list_(_valued(kind.value_type), kind.list_size)
        return sized
    if types.is_list(kind) or types.is_large_list(kind):
        inner = _valued(kind.value_type)
        return pa.list_(inner) if types.is_list(kind) else pa.large_list(inner)
    found: pa.DataType = pa.int64() if types.is_temporal(kind) and getattr(kind, "unit", "") == "ns" else kind
    return found


def _mapped(kind: Any, leaf: Leaf) -> pa.DataType:  # noqa: ANN401 - what it has depends on which it is
    """A type with `leaf` applied where it is not nested; the rest as text formats know it."""
    if types.is_map(kind):
        return pa.list_(pa.struct([("key", _mapped(kind.key_type, leaf)), ("value", _mapped(kind.item_type, leaf))]))
    if _is_list(kind):
        return pa.list_(_mapped(kind.value_type, leaf))
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([(field.name, _mapped(field.type, leaf)) for field in fields])
    simple = _simple(kind)
    return simple if simple != kind else leaf(kind)


def _simple(kind: Any) -> pa.DataType:  # noqa: ANN401 - as above
    if types.is_duration(kind):
        return pa.int64()
    if types.is_float16(kind) or types.is_float32(kind):
        return pa.float64()  # what is too large for it would be infinite: who casts it looks
    found: pa.DataType = kind.value_type if types.is_dictionary(kind) else kind
    return found


def _cells(column: Array) -> Array:
    if types.is_interval(column.type):
        return _spoken(column)
    said = _spoken(column).to_pylist()
    if _is_bytes(column.type):
        return pa.array([None if one is None else base64.b64encode(one).decode() for one in said], pa.string())
    return pa.array([None if one is None else msgspec.json.encode(one).decode() for one in said], pa.string())


def _understood(column: Array, field: "pa.Field[Any]", cells: bool) -> Array:
    kind = field.type
    if _is_bytes(kind) and types.is_string(column.type):
        return _decoded(column, field)
    if types.is_time(kind) and types.is_string(column.type):  # Arrow reads times of day as part of a timestamp only
        moments: Array = _compute.binary_join_element_wise("1970-01-01T", column, "")
        return _cast(_cast(moments, pa.timestamp(kind.unit), field), kind, field)
    read = _parsed(column, field) if cells and types.is_nested(kind) else column
    return _as_map(read) if types.is_map(kind) and types.is_list(read.type) else read


def _as_map(column: Any) -> Array:  # noqa: ANN401 - a list of structs
    """Lists of keys and values as a map: Arrow has no cast for it."""
    pairs = column.values
    made: Array = _arrow.MapArray.from_arrays(
        column.offsets, pairs.field("key"), pairs.field("value"), mask=column.is_null()
    )
    return made


def _decoded(column: Array, field: "pa.Field[Any]") -> Array:
    try:
        values = [None if one is None else base64.b64decode(one, validate=True) for one in column.to_pylist()]
        found: Array = pa.array(values, field.type)
    except (binascii.Error, ValueError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"column {field.name!r} holds bytes, and text holds these as base64: {plain_error(error)}"
        ) from error
    return found


def _parsed(column: Array, field: "pa.Field[Any]") -> Array:
    """Cells of JSON text."""
    lines = ['{"c":' + ("null" if one is None else one.replace("\n", " ")) + "}" for one in column.to_pylist()]
    text = "\n".join(lines).encode()
    asked = json.ParseOptions(explicit_schema=pa.schema([pa.field("c", _heard(field.type))]))
    try:
        found = json.read_json(io.BytesIO(text), json.ReadOptions(block_size=len(text) + 1), asked)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"column {field.name!r} is of type {field.type}, and a cell of it is not such a value in JSON: "
            f"{plain_error(error)}"
        ) from error
    whole: Array = _arrow.concat_arrays(found.column("c").chunks) if found.num_rows else column
    return whole


def _cast(column: Array, kind: pa.DataType, field: "pa.Field[Any]") -> Array:
    try:
        found: Array = column.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInputError(f"column {field.name!r} is of type {field.type}: {plain_error(error)}") from error
    return found


def plain_error(error: BaseException) -> str:
    """The text of an error of Arrow, in one line."""
    return " ".join(str(error).split())[:300]
