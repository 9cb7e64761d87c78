"""Which expressions may be logged: those that cannot fail on any row, and give every reader the same answer.

A logged expression is evaluated later, by every reader, on rows that its writer never saw. One that fails on a row makes
the table unreadable for ever (rule C9). So this is a list of what is allowed, not of what is forbidden: an operator,
cast or function that is not named here is an obstacle, and the statement is evaluated on a snapshot first instead.

Two trees are judged. The analyzed one shows all that was written; its casts of columns are not final, because the
simplifier moves most of them to the literal they are compared with. The simplified one is what runs.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyarrow import types

from phalanx.expr.functions import CONSTANT, obstacle_of_function
from phalanx.expr.tree import COMPARISONS, JUNCTIONS, TESTS, Node
from phalanx.expr.values import comparable, is_number, is_text, survives, tries

_WRAPPING = frozenset({"+", "-", "*"})
_BITWISE = frozenset({"&", "|", "BIT_XOR"})
_ORDERING = frozenset({"nullif", "greatest", "least"})
_LONGEST_PATTERN = 1000
"""Longer patterns may not compile: the matcher of LIKE has a limit, and meets it on the first row."""


def obstacle(analyzed: Node, simplified: Node, *, assigned: bool) -> str | None:
    """Why an expression may not be logged, or None if it may; an assigned one must not multiply what it reads."""
    written = (_obstacle(one, final=False) for one in _not_constant(analyzed))
    constants = (_obstacle_of_constant(one) for one in _constants(analyzed))
    runs = (_obstacle(one, final=True) for one in simplified.walk())
    found = next(filter(None, (*written, *constants, *runs)), None)
    return found or (_growth(simplified) if assigned else None)


def _not_constant(node: Node) -> Iterator[Node]:
    if not node.constant:
        yield node
        for one in node.inputs:
            yield from _not_constant(one)


def _constants(node: Node) -> Iterator[Node]:
    if node.constant:
        yield from node.walk()
    else:
        for one in node.inputs:
            yield from _constants(one)


def _obstacle_of_constant(node: Node) -> str | None:
    """What is folded at planning may fail there, but must be the same for every reader."""
    if node.kind == "ScalarFunction" and node.name not in CONSTANT:
        return obstacle_of_function(node, final=False)
    return None


def _obstacle(node: Node, *, final: bool) -> str | None:
    judge = _JUDGES.get(node.kind)
    if judge is not None:
        return judge(node, final)
    allowed = node.kind in TESTS or node.kind in {"Column", "Literal", "Case"}
    return None if allowed else f"{node.kind} is not known to succeed on every row"


def _obstacle_of_call(node: Node, final: bool) -> str | None:  # noqa: FBT001 — judges share one signature.
    found = obstacle_of_function(node, final=final)
    return found or (_uncertain_order(node) if node.name in _ORDERING else None)


def _obstacle_of_negative(node: Node, _: bool) -> str | None:  # noqa: FBT001
    return None if is_number(node.type) else f"negating a {node.type} may fail on a row"


def _obstacle_of_operator(node: Node, final: bool) -> str | None:  # noqa: FBT001
    if node.name in JUNCTIONS:
        return None
    if node.name in COMPARISONS:
        return _obstacle_of_comparison(node, final)
    left, right = (one.type for one in node.inputs)
    if left == right and _cannot_fail(node.name, left, node.inputs[1]):
        return None
    return "division may fail on a row" if node.name in {"/", "%"} else f"{node.name} of {left} and {right} may fail"


def _cannot_fail(operator: str, kind: pa.DataType, right: Node) -> bool:
    if operator in {"/", "%"}:
        return types.is_floating(kind) or _harmless_divisor(right)
    if operator in _BITWISE:
        return types.is_integer(kind)
    return is_text(kind) if operator == "||" else operator in _WRAPPING and is_number(kind)


def _harmless_divisor(node: Node) -> bool:
    """Zero fails, and so does the least integer divided by -1; in the analyzed tree a literal is still below its cast."""
    while node.kind == "Cast":
        node = node.inputs[0]
    return node.kind == "Literal" and types.is_integer(node.type) and node.value.as_py() not in {None, 0, -1}


def _obstacle_of_comparison(node: Node, _: bool) -> str | None:  # noqa: FBT001
    for one in node.inputs:
        if not comparable(one.type):
            return f"comparing values of type {one.type} is not known to succeed on every row"
    return _uncertain_order(node)


def _uncertain_order(node: Node) -> str | None:
    """A NaN that is computed has the sign that the processor likes, and by its sign it sorts first or last."""
    if any(_may_make_nan(one) for side in node.inputs for one in side.walk()):
        return "comparing computed floats may differ between processors: a computed NaN sorts first or last"
    return None


def _may_make_nan(node: Node) -> bool:
    arithmetic = node.kind == "BinaryExpr" or (node.kind == "ScalarFunction" and node.name == "sqrt")
    return arithmetic and types.is_floating(node.type)


def computes_floats(node: Node) -> bool:
    """Whether there may be a NaN that was not in the rows."""
    return any(map(_may_make_nan, node.walk()))


def _obstacle_of_cast(node: Node, final: bool) -> str | None:  # noqa: FBT001
    source, target = node.inputs[0].type, node.type
    if not final or survives(source, target):
        return None
    if node.kind == "TryCast":
        known = tries(source, target)
        return None if known else f"even try_cast of {source} to {target} is not known to succeed on every row"
    hint = (
        "; a literal written as cast(1 as int) stays narrow" if types.is_integer(target) and is_number(source) else ""
    )
    return f"casting {source} to {target} may fail on a row; try_cast gives null instead{hint}"


def _obstacle_of_match(node: Node, final: bool) -> str | None:  # noqa: FBT001
    if not final:
        return None
    subject, pattern = node.inputs
    if not is_text(subject.type) or node.name not in {"", "\\"}:
        return "LIKE is logged for strings only, and with no other escape than a backslash"
    if pattern.kind != "Literal" or len(pattern.value.as_py() or "") > _LONGEST_PATTERN:
        return f"a pattern of LIKE is logged as a literal of at most {_LONGEST_PATTERN} characters"
    return None


def _growth(node: Node) -> str | None:
    """`s = s || s` doubles: sixty of them are a short log that nobody can read."""
    if node.name == "||" or (node.kind == "ScalarFunction" and node.name == "concat"):
        columns = [one for one in node.walk() if one.kind == "Column" and _has_length(one.type)]
        return "joining several columns may grow without limit when it is repeated" if len(columns) > 1 else None
    return next(filter(None, map(_growth, node.inputs)), None)


def _has_length(kind: pa.DataType) -> bool:
    return not types.is_primitive(kind)


_KEEPS_VALUES = TESTS | {"BinaryExpr", "Cast", "Negative", "InList", "Between", "Like", "ILike"}
_ABOUT_NULLS = frozenset({"IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsUnknown"}) | {
    "IsNotTrue",
    "IsNotFalse",
    "IsNotUnknown",
}


def never_null(node: Node, schema: pa.Schema) -> bool:
    """Whether there is a value for every row, as far as is easily seen."""
    if node.kind == "Column":
        return not schema.field(node.name).nullable
    if node.kind == "Literal":
        return bool(node.value.is_valid)
    known = [never_null(one, schema) for one in node.inputs]
    if node.kind == "Case":
        results = known[1::2] + known[-1:] if len(known) % 2 else [False]
        return all(results)
    if node.kind == "ScalarFunction":
        return any(known) if node.name == "coalesce" else node.name in {"lower", "upper", "concat"} and all(known)
    return node.kind in _ABOUT_NULLS or (node.kind in _KEEPS_VALUES and all(known))


_JUDGES: dict[str, Callable[[Node, bool], str | None]] = {
    "BinaryExpr": _obstacle_of_operator,
    "Cast": _obstacle_of_cast,
    "TryCast": _obstacle_of_cast,
    "Like": _obstacle_of_match,
    "ILike": _obstacle_of_match,
    "InList": _obstacle_of_comparison,
    "Between": _obstacle_of_comparison,
    "ScalarFunction": _obstacle_of_call,
    "Negative": _obstacle_of_negative,
}
