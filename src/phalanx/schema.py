"""Schemas of tables: what a column and a key may be, checked before anything is written."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError

_RESERVED = {"_rowid", "_rowaddr", "_distance", "_score", "_relevance_score", "_rowoffset"}
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
    return schema.remove_metadata()


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
