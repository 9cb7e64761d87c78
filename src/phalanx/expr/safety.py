"""Which expressions may be logged: those that cannot fail on any row, and give every reader the same answer.

A logged expression is evaluated later, by every reader, on rows that its writer never saw. One that fails on a row makes
the table unreadable for ever (rule C9). So this is a list of what is allowed, not of what is forbidden: an operator,
cast or function that is not named here is an obstacle, and the statement is evaluated on a snapshot first instead.
"""

import pyarrow as pa
from pyarrow import types

from phalanx.expr.tree import COMPARISONS, JUNCTIONS, TESTS, Node

_WRAPPING = frozenset({"+", "-", "*"})
_CLOCK = frozenset({"now", "current_timestamp", "current_date", "current_time", "today"})
_CHANCE = frozenset({"random", "uuid"})
FUNCTIONS = frozenset({"get_field", "coalesce", "nullif", "nvl", "lower", "upper", "btrim", "ltrim", "rtrim"})
"""Scalar functions that were tried on extreme rows and never failed; see the tests."""


def obstacle(node: Node) -> str | None:
    """Why an analyzed expression may not be logged, or None if it may."""
    for one in node.walk():
        found = _obstacle(one)
        if found:
            return found
    return None


_HARMLESS = frozenset({"Column", "Literal", "TryCast", "Case", "InList", "Between", "Like", "ILike"}) | TESTS


def _obstacle(node: Node) -> str | None:
    if node.kind in _HARMLESS:
        return None
    match node.kind:
        case "BinaryExpr":
            return _obstacle_of_operator(node)
        case "Cast":
            return _obstacle_of_cast(node)
        case "ScalarFunction":
            return _obstacle_of_function(node)
    return f"{node.kind} is not known to succeed on every row"


def _obstacle_of_operator(node: Node) -> str | None:
    if node.name in COMPARISONS or node.name in JUNCTIONS:
        return None
    numeric = all(types.is_integer(one.type) or types.is_floating(one.type) for one in node.inputs)
    if numeric and node.name in _WRAPPING:
        return None
    if node.name in {"/", "%"}:
        return "division may fail on a row"
    return f"{node.name} of {node.inputs[0].type} and {node.inputs[1].type} may fail on a row"


def _obstacle_of_cast(node: Node) -> str | None:
    source, target = node.inputs[0].type, node.type
    if node.inputs[0].constant or widens(source, target):
        return None
    return f"casting {source} to {target} may fail on a row: try_cast gives null instead"


def _obstacle_of_function(node: Node) -> str | None:
    if node.name in FUNCTIONS:
        return None
    if node.name in _CLOCK:
        return f"{node.name}() is another time for every reader"
    if node.name in _CHANCE:
        return f"{node.name}() is another value for every reader"
    return f"the function {node.name} is not known to succeed on every row"


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of one type has a value in the other."""
    if source == target or types.is_null(source):
        return True
    if types.is_integer(source) and types.is_floating(target):
        return not types.is_float16(target)
    if types.is_integer(source) and types.is_integer(target):
        if types.is_signed_integer(source):
            return types.is_signed_integer(target) and source.bit_width <= target.bit_width
        room = source.bit_width if types.is_unsigned_integer(target) else source.bit_width + 1
        return room <= target.bit_width
    return types.is_floating(source) and types.is_floating(target) and source.bit_width <= target.bit_width
