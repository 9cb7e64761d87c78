"""The functions that may be logged, each with the arguments for which it cannot fail.

Left out on purpose: what fails on some value (`abs` of the least integer, `chr`, `to_timestamp`, `date_trunc`, array
subscripts), what multiplies its input (`repeat`, `lpad`, `replace`), what mathematical libraries round differently
(`exp`, `ln`, `power`, `sin`), what knows time zones, and `nvl`, which turns dates into strings; `coalesce` does not.
"""

from collections.abc import Callable, Sequence

from pyarrow import types

from phalanx.expr.tree import Node
from phalanx.expr.values import comparable, is_bytes, is_text

_CLOCK = frozenset({"now", "current_timestamp", "current_date", "current_time", "today"})
_CHANCE = frozenset({"random", "rand", "uuid"})
_PARTS = frozenset({"year", "quarter", "month", "week", "day", "doy", "dow", "hour", "minute", "second"})
_FAR = 1 << 31

Check = Callable[[Sequence[Node]], bool]


def _all_text(inputs: Sequence[Node]) -> bool:
    return all(is_text(one.type) for one in inputs)


def _all_comparable(inputs: Sequence[Node]) -> bool:
    return all(comparable(one.type) for one in inputs)


def _one_float(inputs: Sequence[Node]) -> bool:
    return len(inputs) == 1 and types.is_floating(inputs[0].type) and not types.is_float16(inputs[0].type)


def _digestible(inputs: Sequence[Node]) -> bool:
    return is_text(inputs[0].type) or is_bytes(inputs[0].type)


def _field(inputs: Sequence[Node]) -> bool:
    """Fields of structs; a map is subscripted by the same function."""
    return types.is_struct(inputs[0].type) and all(one.kind == "Literal" for one in inputs[1:])


def _number(node: Node) -> int | None:
    value = node.value.as_py() if node.kind == "Literal" and types.is_integer(node.type) else None
    return value if isinstance(value, int) and -_FAR < value < _FAR else None


def _part_of_text(inputs: Sequence[Node]) -> bool:
    """A negative length fails, and so does a start near the end of all integers."""
    numbers = [_number(one) for one in inputs[1:]]
    return is_text(inputs[0].type) and None not in numbers and (len(numbers) < 2 or (numbers[1] or 0) >= 0)


def _end_of_text(inputs: Sequence[Node]) -> bool:
    return is_text(inputs[0].type) and _number(inputs[1]) is not None


def _part_of_date(inputs: Sequence[Node]) -> bool:
    """Days and local timestamps; what a part of a zoned one is depends on a database of time zones."""
    part, when = inputs[0], inputs[1].type
    known = part.kind == "Literal" and str(part.value.as_py()).lower() in _PARTS
    return known and (types.is_date(when) or (types.is_timestamp(when) and when.tz is None))


FUNCTIONS: dict[str, Check] = {
    "btrim": _all_text,
    "ceil": _one_float,
    "character_length": _all_text,
    "coalesce": _all_comparable,
    "concat": _all_text,
    "contains": _all_text,
    "date_part": _part_of_date,
    "ends_with": _all_text,
    "floor": _one_float,
    "get_field": _field,
    "greatest": _all_comparable,
    "isnan": _one_float,
    "least": _all_comparable,
    "left": _end_of_text,
    "lower": _all_text,
    "ltrim": _all_text,
    "md5": _digestible,
    "nullif": _all_comparable,
    "octet_length": _all_text,
    "right": _end_of_text,
    "round": _one_float,
    "rtrim": _all_text,
    "sha256": _digestible,
    "sqrt": _one_float,
    "starts_with": _all_text,
    "strpos": _all_text,
    "substr": _part_of_text,
    "trunc": _one_float,
    "upper": _all_text,
}
CONSTANT = frozenset(
    {"abs", "arrow_cast", "make_array", "named_struct", "struct", "to_date", "to_timestamp", "to_timestamp_micros"}
)
"""Functions that may be logged besides if they name no column: they were evaluated when the statement was planned."""


def obstacle_of_function(node: Node, *, final: bool) -> str | None:
    """Why a function may not be logged; its arguments are looked at when they are final."""
    check = FUNCTIONS.get(node.name)
    if check is not None and (not final or check(node.inputs)):
        return None
    if node.name in _CLOCK:
        return f"{node.name}() is another time for every reader"
    if node.name in _CHANCE:
        return f"{node.name}() is another value for every reader"
    kinds = ", ".join(str(one.type) for one in node.inputs)
    return f"{node.name}({kinds}) is not known to succeed on every row"
