"""Rows that are dicts, as Arrow, in one pass: how single rows come, so that what a row costs is mostly this.

Only the plain case is here: each row says something of every column, and of nothing else. All others are left to `data.py`,
which asks here whether something inside of a column is null that must not be.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.lossless import column

_KEPT = 256


class Dicts:
    """Makes rows of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._kinds = schema.types
        self._read = [itemgetter(name) for name in schema.names]
        self._required = [at for at, field in enumerate(schema) if not field.nullable]
        self._strict = [(at, field) for at, field in enumerate(schema) if _is_strict(field.type)]

    def batch(self, rows: list[Any]) -> pa.RecordBatch | None:
        """The rows, exactly as the schema asks for; None if they are not that plain. Raises what Arrow raises."""
        if set(map(type, rows)) != {dict} or set(map(len, rows)) != {len(self._read)}:
            return None
        try:
            held = [list(map(read, rows)) for read in self._read]
        except KeyError:
            return None
        arrays = [column(values, kind) for values, kind in zip(held, self._kinds, strict=True)]
        if any(arrays[at].null_count for at in self._required):
            return None
        self.require_inside(arrays)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def require_inside(self, arrays: Sequence[Any]) -> None:
        """Refuse a null inside of a list, struct or map that must have none: Arrow holds it, and Lance cannot write it."""
        for at, field in self._strict:
            if _null_inside(arrays[at]):
                raise InvalidInputError(
                    f"column {field.name!r} is of type {field.type}, and a value inside of it is null"
                )


def _inner(kind: Any) -> "list[pa.Field[Any]]":  # noqa: ANN401 - a type
    """What values of a type consist of."""
    if types.is_struct(kind):
        return [kind.field(at) for at in range(kind.num_fields)]
    if types.is_map(kind):
        return [kind.item_field]
    return [kind.value_field] if _is_list(kind) else []


def _is_list(kind: pa.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_strict(kind: pa.DataType) -> bool:
    """Whether something inside of a type must not be null, however deep."""
    return any(not field.nullable or _is_strict(field.type) for field in _inner(kind))


def _null_inside(array: Any) -> bool:  # noqa: ANN401 - any array
    """Whether something is null that its type says is not. What a null consists of does not count."""
    fields = _inner(array.type)
    if not any(not field.nullable or _is_strict(field.type) for field in fields):
        return False
    if types.is_fixed_size_list(array.type) and array.null_count:
        return True  # a null vector has its numbers, which are null as well: Lance does not take it
    there = array.filter(array.is_valid()) if array.null_count else array
    if types.is_struct(array.type):
        parts = [there.field(at) for at in range(len(fields))]
    elif types.is_map(array.type):
        inside = there.offsets  # `items` has those of the whole array that this may be a slice of
        parts = [there.items[inside[0].as_py() : inside[-1].as_py()] if len(there) else there.items[:0]]
    else:
        parts = [there.flatten()]
    return any(
        (not field.nullable and part.null_count) or _null_inside(part)
        for field, part in zip(fields, parts, strict=True)
    )


_made: dict[int, Dicts] = {}
"""By the identity of the schema, which those of tables keep: to compute its hash takes as long as making a row."""


def dicts(schema: pa.Schema) -> Dicts:
    """What makes rows of this schema."""
    found = _made.get(id(schema))
    if found is None or found.schema is not schema:
        if len(_made) >= _KEPT:
            _made.clear()
        found = _made[id(schema)] = Dicts(schema)
    return found
