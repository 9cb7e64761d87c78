"""Schemas of tables: what a column and a key may be, checked before anything is written."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.lossless import BLOB

_RESERVED = {
    *("_rowid", "_rowaddr", "_rowoffset", "_distance", "_score", "_relevance_score"),
    *("_change_type", "_commit_version", "_commit_timestamp", "_commit_order"),
}
_AS_BLOB = {"lance-encoding:blob": "true"}
_KEY_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (
    types.is_integer,
    types.is_boolean,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_date,
    types.is_timestamp,
    types.is_time,
    types.is_decimal,
)


def check_schema(schema: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """The schema as it is stored: without metadata of its own, which belongs to whoever made the data."""
    if not len(schema):
        raise InvalidInputError("a table needs at least one column")
    schema = pa.schema([_stored(field) for field in schema])
    names = list(schema.names)
    for name in names:
        if not name or name in _RESERVED or name == "*" or any(char in ".`" or ord(char) < 32 for char in name):
            raise InvalidInputError(f"{name!r} cannot be the name of a column: choose another one, without dots or `")
        if names.count(name) > 1:
            raise InvalidInputError(f"column {name!r} is there twice: column names must differ")
    for name in key:
        if name not in names:
            raise InvalidInputError(f"the key names {name!r}, which is no column; there is: {', '.join(names)}")
        kind = schema.field(name).type
        if not any(allowed(kind) for allowed in _KEY_TYPES):
            raise InvalidInputError(
                f"column {name!r} cannot be part of a key: {kind} values cannot be compared for sure"
            )
    if len(set(key)) != len(key):
        raise InvalidInputError("a column is in the key twice: name each once")
    return schema


def _stored(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """The column as it is stored.

    Text and bytes that polars holds in views cannot be computed with; Lance forgets whether a dictionary is ordered; and
    what polars notes of its own types is no longer true when others have written, so that it would drop their values. Blobs
    of Lance's are bytes, which it keeps as blobs.
    """
    kind: Any = field.type
    held = (field.metadata or {}).items()
    notes: dict[bytes | str, bytes | str] = {key: value for key, value in held if not key.startswith(b"_PL_")}
    if getattr(kind, "extension_name", "") == BLOB:
        return pa.field(field.name, pa.large_binary(), field.nullable, _AS_BLOB)
    if types.is_string_view(kind):
        kind = pa.string()
    elif types.is_binary_view(kind):
        kind = pa.binary()
    elif types.is_dictionary(kind):
        values = _stored(pa.field("", kind.value_type)).type
        kind = pa.dictionary(kind.index_type, values)
    elif types.is_struct(kind):
        kind = pa.struct([_stored(kind.field(at)) for at in range(kind.num_fields)])
    elif types.is_map(kind):
        kind = pa.map_(_stored(kind.key_field), _stored(kind.item_field), kind.keys_sorted)
    elif types.is_fixed_size_list(kind):
        kind = pa.list_(_stored(kind.value_field), kind.list_size)
    elif types.is_list(kind):
        kind = pa.list_(_stored(kind.value_field))
    elif types.is_large_list(kind):
        kind = pa.large_list(_stored(kind.value_field))
    return field.with_type(kind).with_metadata(notes)


def encode_schema(schema: pa.Schema) -> bytes:
    """A schema as the log stores it."""
    return schema.serialize().to_pybytes()


@lru_cache(maxsize=1024)
def decode_schema(data: bytes) -> pa.Schema:
    """The inverse of `encode_schema`; one object for equal bytes, so that plans made for it are found again."""
    if not data:  # a table that was only ever a name in the log: it can be listed, renamed and dropped
        return pa.schema([])
    return pa.ipc.read_schema(pa.py_buffer(data))


def require_keys(rows: pa.RecordBatch | pa.Table, key: Sequence[str]) -> None:
    """No part of a key is ever null (rule C8)."""
    for name in key:
        if rows.column(name).null_count:
            raise InvalidInputError(f"column {name!r} is part of the key, and cannot be null: give every row a key")


def require_values(rows: pa.Table) -> pa.Table:
    """The rows, if no column is null that must not be."""
    for field in rows.schema:
        if not field.nullable and rows.column(field.name).null_count:
            raise InvalidInputError(f"this update would make column {field.name!r} null, which it cannot be")
    return rows
