"""A planned predicate in the words of Lance's scanner, so that both hold for the same rows.

The text that a user wrote must not be given to Lance: it finds columns whatever their case, takes double quotes for
strings, `timestamp` for microseconds, refuses `day < '2026-01-01'`, and takes -0.0 for 0.0 where DataFusion does not.
Here every name is quoted and every literal typed. None means: not expressible, evaluate the mask on scanned rows. Lance
may still refuse a text when it plans the scan; then the mask decides as well.
"""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types

from phalanx.expr import text
from phalanx.expr.tree import COMPARISONS, JUNCTIONS, Node
from phalanx.expr.values import is_bytes, is_text

_INTEGERS = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TESTS = {
    "IsNull": "is null",
    "IsNotNull": "is not null",
    "IsTrue": "is true",
    "IsFalse": "is false",
    "IsNotTrue": "is not true",
    "IsNotFalse": "is not false",
}
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})


class _UnspeakableError(Exception):
    """Lance has no words for it, or other meanings."""


def rendered(node: Node) -> str | None:
    """The text for Lance's scanner, or None."""
    try:
        return _render(node)
    except _UnspeakableError:
        return None


def spelled(value: "pa.Scalar[Any]") -> str | None:
    """One value as Lance's scanner reads it back exactly, or None."""
    for check, spell in _SPELLINGS:
        if value.is_valid and check(value.type):
            try:
                return spell(value)
            except _UnspeakableError:
                return None
    return None


def _render(node: Node) -> str:
    if node.kind in _TESTS:
        return f"({_render(node.inputs[0])} {_TESTS[node.kind]})"
    render = _RENDERERS.get(node.kind)
    if render is None:
        raise _UnspeakableError
    return render(node)


def _column(node: Node) -> str:
    return _name(node.name)


def _not(node: Node) -> str:
    return f"(not {_render(node.inputs[0])})"


def _cast(node: Node) -> str:
    return f"cast({_render(node.inputs[0])} as {_type(node.type)})"


def _field(node: Node) -> str:
    if node.name != "get_field" or node.inputs[0].kind not in {"Column", "ScalarFunction"}:
        raise _UnspeakableError
    return ".".join([_render(node.inputs[0]), *(_name(one.value.as_py()) for one in node.inputs[1:])])


def _name(name: str) -> str:
    if "`" in name or "." in name:
        raise _UnspeakableError
    return f"`{name}`"


def _binary(node: Node) -> str:
    if node.name in JUNCTIONS:
        return "(" + f" {node.name.lower()} ".join(map(_render, node.inputs)) + ")"
    if node.name in COMPARISONS:
        _refuse_zero(node)
    elif node.name not in _ARITHMETIC:
        raise _UnspeakableError
    left, right = map(_render, node.inputs)
    return f"({left} {node.name.lower()} {right})"


def _in_list(node: Node) -> str:
    _refuse_zero(node)
    subject, *listed = map(_render, node.inputs)
    return f"({subject} {'not ' if node.negated else ''}in ({', '.join(listed)}))"


def _like(node: Node) -> str:
    if node.name or not is_text(node.inputs[0].type):
        raise _UnspeakableError
    subject, pattern = map(_render, node.inputs)
    return f"({subject} {'not ' if node.negated else ''}like {pattern})"


def _refuse_zero(node: Node) -> None:
    """Lance compares with a zero as if it had no sign, DataFusion does not."""
    for one in node.inputs:
        if one.kind == "Literal" and types.is_floating(one.type) and one.value.as_py() == 0:
            raise _UnspeakableError


def _literal(node: Node) -> str:
    value, kind = node.value, node.type
    if not value.is_valid:
        return f"cast(null as {_type(kind)})"
    for check, spell in _SPELLINGS:
        if check(kind):
            return spell(value)
    raise _UnspeakableError


def _integer(value: Any) -> str:  # noqa: ANN401 — a scalar, here and below.
    number = value.as_py()
    if value.type == pa.int64() and number > -(2**63):
        return f"({number})" if number < 0 else str(number)
    return f"cast('{number}' as {_type(value.type)})"


def _decimal(value: Any) -> str:  # noqa: ANN401
    return f"cast('{value.as_py():f}' as {_type(value.type)})"  # Lance does not read 1E-8, nor a zero of eight places


def _float(value: Any) -> str:  # noqa: ANN401
    number = value.as_py()
    if math.isfinite(number) and types.is_float64(value.type):
        return f"({number!r})"
    return f"cast('{number!r}' as {_type(value.type)})"


def _day(value: Any) -> str:  # noqa: ANN401
    try:
        return f"date '{value.as_py().isoformat()}'"
    except OverflowError:
        raise _UnspeakableError from None


def _timestamp(value: Any) -> str:  # noqa: ANN401
    if value.type.tz not in {None, "UTC"}:
        raise _UnspeakableError
    # As a number: the words for a moment end with the year 9999, and Python's with microseconds.
    return f"arrow_cast(cast('{value.value}' as bigint), '{_arrow(value.type)}')"


def _arrow(kind: Any) -> str:  # noqa: ANN401
    unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[kind.unit]
    zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
    return f"Timestamp({unit}, {zone})"


def _type(kind: Any) -> str:  # noqa: ANN401
    if types.is_integer(kind):
        return _INTEGERS[kind.bit_width] + ("" if types.is_signed_integer(kind) else " unsigned")
    if types.is_float32(kind) or types.is_float64(kind):
        return "float" if types.is_float32(kind) else "double"
    if types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind) and kind.tz is None:
        return f"timestamp({_PRECISION[kind.unit]})"
    names = ((types.is_boolean, "boolean"), (types.is_string, "string"), (types.is_date32, "date"))
    for check, name in names:
        if check(kind):
            return name
    raise _UnspeakableError


_SPELLINGS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]], ...] = (
    (types.is_boolean, lambda value: str(value.as_py()).lower()),
    (types.is_integer, _integer),
    (is_text, lambda value: text.string(value.as_py())),
    (is_bytes, lambda value: f"X'{value.as_py().hex()}'"),
    (types.is_date32, _day),
    (types.is_timestamp, _timestamp),
    (types.is_floating, _float),
    (types.is_decimal128, _decimal),
)
_RENDERERS: dict[str, Callable[[Node], str]] = {
    "Column": _column,
    "Literal": _literal,
    "BinaryExpr": _binary,
    "Not": _not,
    "InList": _in_list,
    "Like": _like,
    "Cast": _cast,
    "ScalarFunction": _field,
}
