"""Columns between Arrow and Spark: which type of Spark holds a column, and values on their way there.

Nothing changes its value on the way: a type of Spark holds every value of the column, or the column is refused with its
name; where only some values fit (nanoseconds), one that does not fails the read. Instants keep their moment and are
labelled UTC. Vectors are lists in Spark, and become vectors again when they are written.
"""

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
from pyarrow import types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, StructField, StructType

from phalanx.data import Source, conform
from phalanx.errors import InvalidInputError, PhalanxError

ZONE = "UTC"
_MOST_DIGITS = 38


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns as Spark has them."""
    return from_arrow_schema(exchanged(schema))


def to_arrow(types: StructType) -> pa.Schema:
    """The Arrow types of columns that Spark has."""
    made: pa.Schema = to_arrow_schema(types, timezone=ZONE)
    return made


def without_null(types: StructType, full: Collection[str]) -> StructType:
    """The same columns, of which some have no null, nor have their arrays: Spark need not ask each value."""
    return StructType([_surely(field) if field.name in full else field for field in types.fields])


def _surely(field: StructField) -> StructField:
    kind = field.dataType
    inside = ArrayType(kind.elementType, containsNull=False) if isinstance(kind, ArrayType) else kind
    return StructField(field.name, inside, nullable=False)


def exchanged(schema: pa.Schema) -> pa.Schema:
    """The columns with the Arrow types in which Spark takes and gives them."""
    return pa.schema([_field(field, field.name) for field in schema])


def _field(field: "pa.Field[Any]", path: str) -> "pa.Field[Any]":
    return pa.field(field.name, _type(field.type, path), nullable=field.nullable)


_NANOSECONDS = pa.time64("ns")
_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (types.is_uint8, pa.int16()),
    (types.is_uint16, pa.int32()),
    (types.is_uint32, pa.int64()),
    (types.is_uint64, pa.decimal128(20, 0)),
    (types.is_float16, pa.float32()),
    (types.is_large_string, pa.string()),
    (types.is_large_binary, pa.binary()),
    (types.is_fixed_size_binary, pa.binary()),
    (types.is_date, pa.date32()),
    (types.is_time, _NANOSECONDS),
    (types.is_duration, pa.duration("us")),
)


def _type(kind: Any, path: str) -> Any:  # noqa: ANN401, PLR0911 - Arrow's types, a line for each; stubs know some
    if types.is_dictionary(kind):
        return _type(kind.value_type, path)
    if types.is_struct(kind):
        return pa.struct([_field(kind.field(at), f"{path}.{kind.field(at).name}") for at in range(kind.num_fields)])
    if types.is_map(kind):
        items: Any = _field(kind.item_field, path)
        return pa.map_(_type(kind.key_type, path), items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_field
        return pa.list_(pa.field("element", _type(inner.type, path), nullable=inner.nullable))
    if types.is_timestamp(kind):
        return pa.timestamp("us", ZONE if kind.tz is not None else None)
    if types.is_decimal(kind):
        return _decimal(kind, path)
    return next((better for fits, better in _SIMPLE if fits(kind)), kind)


def _decimal(kind: Any, path: str) -> pa.DataType:  # noqa: ANN401 - as above
    if kind.precision > _MOST_DIGITS:
        raise InvalidInputError(
            f"column {path!r} is of type {kind}, and Spark's decimals have {_MOST_DIGITS} digits: leave it out with columns="
        )
    return pa.decimal128(kind.precision, kind.scale)


def to_spark(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Rows of a table as Spark takes them."""
    arrays = [
        array if array.type == field.type and field.type != _NANOSECONDS else _cast(array, field)
        for array, field in zip(batch.columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _cast(array: "pa.Array[Any]", field: "pa.Field[Any]") -> "pa.Array[Any]":
    try:
        if array.type == _NANOSECONDS:
            array = array.cast(pa.time64("us"))  # Spark counts microseconds, and would cut off the rest
        return array.cast(field.type)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise InvalidInputError(f"column {field.name!r} has a value that Spark cannot hold: {reason}") from None


def check_columns(given: StructType, schema: pa.Schema, table: str) -> pa.Schema:
    """Refuse rows of Spark that cannot be a table's, before a job is started; the Arrow types that they will have."""
    try:
        arrow = to_arrow_schema(given, timezone=ZONE)
    except Exception as error:  # noqa: BLE001 - Spark has an error of its own for each kind of type
        raise InvalidInputError(f"these rows cannot be written to table {table!r}: {_first_line(error)}") from None
    nothing = pa.RecordBatch.from_pylist([], schema=arrow)
    try:
        for _ in conform(Source(arrow, iter([nothing])), schema).batches:
            pass
    except PhalanxError as error:
        raise InvalidInputError(f"these rows are not those of table {table!r}: {error}") from None
    return arrow


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
