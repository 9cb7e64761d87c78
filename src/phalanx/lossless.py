"""Values as Arrow columns of a type, refused where one of them would change.

Arrow alone cuts off without a word: 1.5 becomes the integer 1, 5 becomes true, a moment its day, and a field that a
struct does not have is gone. What it refuses itself is not looked for again here. Floating point numbers are rounded to
the precision of their column, as everybody expects of them, but never to infinity.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

_TAKEN_WHOLE = {kind.id for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.float64())}
"""Kinds of which Arrow itself refuses what does not fit: there is nothing to look for."""
_WHOLE = {int}
_Leaves = Iterator[tuple[pa.DataType, pa.DataType]]


BLOB = "lance.blob.v2"
"""What Lance calls its own type of blobs, which are stored as bytes."""


def column(values: Any, kind: pa.DataType) -> "pa.Array[Any]":  # noqa: ANN401 - whatever Arrow makes an array of
    """Python values, or an array of another kind, as a column."""
    if not isinstance(values, list) and hasattr(values, "__array__") and str(getattr(values, "dtype", "")) != "object":
        return recast(_whole(pa.array(values)), kind)
    held = values if isinstance(values, list) else list(values)
    if kind.id not in _TAKEN_WHOLE:
        require_uncut(held, kind)
    try:
        made = _whole(pa.array(held, kind))
    except (TypeError, UnicodeEncodeError) as error:  # of Python's own, from somewhere inside
        raise pa.ArrowTypeError(str(error)) from error
    if (
        kind.id not in _TAKEN_WHOLE
        and _rounds(kind)
        and (found := _infinite(made))
        and found > sum(map(_infinite_in, held))
    ):
        raise pa.ArrowInvalid(f"a number is too large for {kind}: use another type")
    return made


def _whole(made: Any) -> "pa.Array[Any]":  # noqa: ANN401 - an array, in one piece or not
    whole: pa.Array[Any] = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return whole


def recast(array: "pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    """A column as another type."""
    if "list_view" in str(array.type):
        raise pa.ArrowInvalid(
            f"a column is of type {array.type}, of which Arrow casts lose values: make lists of it first"
        )
    if types.is_string_view(array.type):
        array = array.cast(pa.string())  # Arrow makes no dictionary of a view
    leaves = list(_leaves(array.type, kind))
    if "fixed_size_list" in str(kind) and _lists_of_nothing(array):
        # Arrow would follow a pointer to values that are not there: copied, they are there, and none.
        array = array.take(np.arange(len(array)))
    found: pa.Array[Any] = _filled(array, kind).cast(kind)
    if any(_may_cut(one, other) for one, other in leaves) and not found.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a value would be cut off: round it yourself, or use another type")
    rounded = any(one != other and _rounds(other) for one, other in leaves)
    if rounded and _infinite(found) > _infinite(array):
        raise pa.ArrowInvalid(f"a number is too large for {kind}: use another type")
    return found


def _filled(array: Any, kind: Any) -> Any:  # noqa: ANN401 - any array, a type
    """The same structs, with something in the fields of those that are null where a field must not be.

    Whoever sends a null struct may send fields that are null (Spark does), and Arrow's cast counts those as well.
    """
    if not (types.is_struct(array.type) and types.is_struct(kind)) or not array.null_count:
        return array
    wanted = [kind.field(one.name) for one in array.type]
    if all(one.nullable and not types.is_struct(one.type) for one in wanted):
        return array
    there = np.asarray(array.is_valid())
    if not there.any():
        return pa.array([None] * len(array), kind)
    rows = np.where(there, np.arange(len(array)), int(there.argmax()))  # fields of another one: nobody sees them
    parts = [_filled(array.field(at).take(rows), one.type) for at, one in enumerate(wanted)]
    return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=pa.array(~there))


def _leaves(one: Any, other: Any) -> _Leaves:  # noqa: ANN401 - two types
    """The types that values have, before and after, however deep they are."""
    if types.is_dictionary(one) or types.is_dictionary(other):
        yield from _leaves(getattr(one, "value_type", one), getattr(other, "value_type", other))
    elif types.is_struct(one) and types.is_struct(other):
        for field in one:
            if other.get_field_index(field.name) < 0:
                raise pa.ArrowInvalid(f"there is no field {field.name!r} in {other}")
            yield from _leaves(field.type, other.field(field.name).type)
    elif types.is_map(one) and types.is_map(other):
        yield from _leaves(one.key_type, other.key_type)
        yield from _leaves(one.item_type, other.item_type)
    elif _is_list(one) and _is_list(other):
        yield from _leaves(one.value_type, other.value_type)
    else:
        yield one, other


def _lists_of_nothing(array: Any) -> bool:  # noqa: ANN401 - any array
    """Whether there are lists in it, however deep, that have no value in any row, as a column of nulls has."""
    if types.is_struct(array.type):
        return any(_lists_of_nothing(array.field(at)) for at in range(array.type.num_fields))
    if types.is_map(array.type):
        return _lists_of_nothing(array.keys) or _lists_of_nothing(array.items)
    return _is_list(array.type) and (not len(array.values) or _lists_of_nothing(array.values))


def _is_list(kind: pa.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _may_cut(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Arrow casts the one type to the other without looking at what is lost."""
    if types.is_boolean(other):
        return types.is_integer(one) or types.is_floating(one)
    if types.is_timestamp(one):
        return types.is_date(other) or types.is_time(other)
    if types.is_floating(other):
        return types.is_decimal(one) or (types.is_integer(one) and types.is_float16(other))
    return types.is_floating(one) and types.is_decimal(other)


@lru_cache(maxsize=1024)
def _rounds(kind: pa.DataType) -> bool:
    """Whether numbers of Python may be too large for it."""
    return any(types.is_float32(leaf) or types.is_float16(leaf) for leaf, _ in _leaves(kind, kind))


def _infinite(array: Any) -> int:  # noqa: ANN401 - any array
    """How many numbers are infinite, however deep they are."""
    if types.is_floating(array.type):
        return int(pc.sum(pc.is_inf(array)).as_py() or 0)
    if types.is_struct(array.type):
        return sum(map(_infinite, array.flatten()))
    if types.is_map(array.type):
        return _infinite(array.keys) + _infinite(array.items)
    return _infinite(array.flatten()) if _is_list(array.type) else 0


def _infinite_in(value: Any) -> int:  # noqa: ANN401 - any value
    if isinstance(value, float | np.floating):
        return int(np.isinf(value))
    return sum(map(_infinite_in, _inside(value)))


def require_uncut(values: list[Any], kind: Any) -> None:  # noqa: ANN401 - a type
    """Refuse values of which Arrow would cut something off, without a word, to make them of this type."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_temporal(kind):
        if set(map(type, values)) != _WHOLE:  # what most columns of keys are made of
            _require_simple(values, kind)
    elif _is_list(kind) and not types.is_floating(kind.value_type):
        require_uncut([value for row in values for value in _inside(row)], kind.value_type)
    elif types.is_map(kind):
        pairs = [tuple(_inside(pair)) for row in values for pair in _inside(row)]
        for at, inside in enumerate((kind.key_type, kind.item_type)):
            require_uncut([pair[at] for pair in pairs if len(pair) == 2], inside)
    elif types.is_struct(kind):
        rows = [row for row in values if isinstance(row, Mapping)]
        for name in {name: None for row in rows for name in row}:
            at = kind.get_field_index(name)
            if at < 0:
                raise pa.ArrowInvalid(f"there is no field {name!r} in {kind}")
            require_uncut([row.get(name) for row in rows], kind.field(at).type)


def _require_simple(values: list[Any], kind: Any) -> None:  # noqa: ANN401 - a type
    if types.is_timestamp(kind) and len({value.tzinfo is None for value in values if isinstance(value, datetime)}) > 1:
        raise pa.ArrowInvalid("some moments have a zone, and some have none: give all of them one, or none")
    for given in set(map(type, values)):
        cut = next((check for of, check in _CUTS if issubclass(given, of)), None)
        if cut is not None and any(cut(value, kind) for value in values if type(value) is given):
            msg = f"a {given.__name__} would be cut off to become {kind}: round it yourself, or use another type"
            raise pa.ArrowInvalid(msg)


def _inside(value: Any) -> Iterable[Any]:  # noqa: ANN401 - any value
    if isinstance(value, Mapping):
        return value.items()
    many = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim)
    return value if many else ()


def _rest(microseconds: int, kind: Any, nanoseconds: int = 0) -> bool:  # noqa: ANN401 - a type with a unit
    """Whether a part of a second is finer than the unit. Nanoseconds are pandas' own."""
    unit = getattr(kind, "unit", "")
    finer = nanoseconds != 0 and unit != "ns"
    return finer or microseconds % {"s": 1_000_000, "ms": 1_000}.get(unit, 1) != 0


def _of_a_moment(value: datetime, kind: pa.DataType) -> bool:
    fine = getattr(value, "nanosecond", 0)
    return value.time() != time(0) or fine != 0 if types.is_date(kind) else _rest(value.microsecond, kind, fine)


_CUTS: tuple[tuple[type, Callable[[Any, pa.DataType], bool]], ...] = (
    (float, lambda value, _: value % 1 != 0),
    (np.floating, lambda value, _: bool(value % 1 != 0)),
    (Decimal, lambda value, _: value != value.to_integral_value()),
    (datetime, _of_a_moment),
    (time, lambda value, kind: value.tzinfo is not None or _rest(value.microsecond, kind)),
    (timedelta, lambda value, kind: _rest(value.microseconds, kind, getattr(value, "nanoseconds", 0))),
)
