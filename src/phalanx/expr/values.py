"""Classes of Arrow types, and which casts between them cannot fail: tried on the extremes of every type.

`try_cast` is not enough by itself: DataFusion's fails on dates and timestamps that have no calendar day.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_UNITS = ("s", "ms", "us", "ns")


def is_number(kind: pa.DataType) -> bool:
    """Integers and floats: their arithmetic wraps around or ends in infinity, and never fails."""
    return types.is_integer(kind) or types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Strings, in any layout."""
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Binary values, in any layout of variable length."""
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)


def is_moment(kind: pa.DataType) -> bool:
    """Dates, times of day, timestamps and durations: whole numbers in disguise."""
    return types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind) or types.is_duration(kind)


def comparable(kind: pa.DataType) -> bool:
    """Types whose comparison succeeds for every pair of values."""
    simple = types.is_boolean(kind) or is_number(kind) or is_text(kind) or is_bytes(kind) or is_moment(kind)
    return simple or types.is_decimal128(kind) or types.is_decimal256(kind) or types.is_null(kind)


def survives(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast succeeds for every value (floats are rounded, finer timestamps are cut)."""
    if source == target or types.is_null(source):
        return True
    if types.is_floating(target):
        return is_number(source) and not types.is_float16(target)
    return any(check(source) and holds(source, target) for check, holds in _SURVIVALS)


def _timestamp_survives(source: Any, target: Any) -> bool:  # noqa: ANN401 — types with a unit, here and below.
    if not types.is_timestamp(target):
        return False
    return bool(source.tz == target.tz) and _UNITS.index(source.unit) >= _UNITS.index(target.unit)


def _decimal_survives(source: Any, target: Any) -> bool:  # noqa: ANN401
    if not (types.is_decimal128(target) or types.is_decimal256(target)):
        return False
    whole = source.precision - source.scale
    return bool(target.scale >= source.scale and target.precision - target.scale >= whole)


def _integer_survives(source: Any, target: Any) -> bool:  # noqa: ANN401
    if is_text(target):
        return True
    if types.is_decimal128(target) or types.is_decimal256(target):
        return bool(target.precision - target.scale >= _DIGITS[source.bit_width])
    if not types.is_integer(target):
        return False
    if types.is_signed_integer(source):
        return types.is_signed_integer(target) and bool(source.bit_width <= target.bit_width)
    return bool(source.bit_width + types.is_signed_integer(target) <= target.bit_width)


_Holds = Callable[[Any, Any], bool]
_SURVIVALS: tuple[tuple[Callable[[pa.DataType], bool], _Holds], ...] = (
    (types.is_integer, _integer_survives),
    (types.is_boolean, lambda _, target: is_text(target)),
    (is_text, lambda _, target: is_text(target) or is_bytes(target)),
    (is_bytes, lambda _, target: is_bytes(target)),
    (types.is_fixed_size_binary, lambda _, target: is_bytes(target)),
    (types.is_timestamp, _timestamp_survives),
    (types.is_decimal128, _decimal_survives),
    (types.is_date32, lambda _, target: types.is_date64(target)),
)


def tries(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether `try_cast` gives null for every value that has no equal."""
    return any(check(target) and holds(source) for check, holds in _TRIALS)


def _exact(kind: pa.DataType) -> bool:
    return types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal128(kind)


def _local_timestamp(kind: Any) -> bool:  # noqa: ANN401
    return types.is_timestamp(kind) and kind.tz is None


_TRIALS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (types.is_integer, lambda source: _exact(source) or types.is_floating(source) or is_text(source)),
    (types.is_float32, is_text),
    (types.is_float64, is_text),
    (types.is_boolean, lambda source: is_number(source) or is_text(source)),
    (types.is_decimal128, lambda source: types.is_integer(source) or is_text(source) or types.is_decimal128(source)),
    (is_text, lambda source: _exact(source) or is_bytes(source)),
    (types.is_date32, is_text),
    (_local_timestamp, is_text),
)
