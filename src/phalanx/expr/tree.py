"""DataFusion's expression tree as plain nodes: what the judge of safety and the compiler of kernels walk over.

Only what has a meaning row by row becomes a node. Subqueries, aggregates, windows, placeholders and whatever DataFusion
does not show to Python are refused here, so that nothing that is unknown is ever logged or evaluated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from datafusion import Expr

from phalanx.errors import InvalidInputError

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
JUNCTIONS = frozenset({"AND", "OR"})
TESTS = frozenset({"Not", "IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsUnknown"}) | {
    "IsNotTrue",
    "IsNotFalse",
    "IsNotUnknown",
}
_MATCHES = frozenset({"Like", "ILike", "SimilarTo"})
_REFUSED = {
    "ScalarSubquery": "a subquery",
    "Exists": "a subquery",
    "InSubquery": "a subquery",
    "SetComparison": "a subquery",
    "AggregateFunction": "an aggregate",
    "WindowFunction": "a window function",
    "Placeholder": "a placeholder",
    "Alias": "a name given with AS",
    "Wildcard": "a wildcard",
    "Unnest": "unnest",
    "ScalarVariable": "a variable",
}

TypeOf = Callable[[Expr], pa.DataType]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; `name` is the column, operator or function, `value` a literal's."""

    kind: str
    type: pa.DataType
    inputs: tuple["Node", ...] = ()
    name: str = ""
    value: Any = None
    negated: bool = False

    def walk(self) -> Iterator["Node"]:
        """This node and all below it."""
        yield self
        for one in self.inputs:
            yield from one.walk()

    @property
    def constant(self) -> bool:
        """Whether no column is below."""
        return not any(node.kind == "Column" for node in self.walk())


def read(raw: Any, schema: pa.Schema, type_of: TypeOf) -> Node:  # noqa: ANN401 — DataFusion does not name its raw type.
    """The tree under one of DataFusion's expressions."""

    def below(one: Any) -> Node:  # noqa: ANN401
        return read(one, schema, type_of)

    kind = raw.variant_name()
    if kind == "Column":
        name = raw.to_variant().name()
        return Node(kind, schema.field(name).type, name=name)
    if kind == "Literal":
        value = raw.python_value()
        return Node(kind, value.type, value=value)
    if kind == "BinaryExpr":
        shown = raw.to_variant()
        left, right, operator = below(shown.left()), below(shown.right()), shown.op()
        return Node(kind, _type_of_binary(operator, left, right, raw, type_of), (left, right), operator)
    if kind in TESTS:
        return Node(kind, pa.bool_(), (below(raw.to_variant().expr()),))
    if kind in {"Cast", "TryCast"}:
        return Node(kind, type_of(Expr(raw)), (below(raw.to_variant().expr()),))
    return _read_rarer(kind, raw, below, type_of)


def _read_rarer(kind: str, raw: Any, below: Callable[[Any], Node], type_of: TypeOf) -> Node:  # noqa: ANN401
    if kind == "Between":
        shown = raw.to_variant()
        bounds = (below(shown.expr()), below(shown.low()), below(shown.high()))
        return Node(kind, pa.bool_(), bounds, negated=shown.negated())
    if kind == "InList":
        shown = raw.to_variant()
        listed = (below(shown.expr()), *map(below, shown.list()))
        return Node(kind, pa.bool_(), listed, negated=shown.negated())
    if kind in _MATCHES:
        shown = raw.to_variant()
        return Node(kind, pa.bool_(), (below(shown.expr()), below(shown.pattern())), negated=shown.negated())
    if kind == "Negative":
        inner = below(raw.to_variant().expr())
        return Node(kind, inner.type, (inner,))
    if kind in {"Case", "ScalarFunction"}:
        # `rex_call_operands` of a CASE are all of its parts; that they are all its parts is pinned by a test.
        inputs = tuple(map(below, raw.rex_call_operands()))
        name = raw.rex_call_operator() if kind == "ScalarFunction" else ""
        return Node(kind, type_of(Expr(raw)), inputs, name)
    what = _REFUSED.get(kind, f"an expression of kind {kind}")
    raise InvalidInputError(f"{what} cannot be used here: write an expression over the columns of one row")


def _type_of_binary(operator: str, left: Node, right: Node, raw: Any, type_of: TypeOf) -> pa.DataType:  # noqa: ANN401
    if operator in COMPARISONS or operator in JUNCTIONS:
        return pa.bool_()
    # After coercion both sides of integer and float arithmetic have the type of the result.
    if left.type == right.type and (pa.types.is_integer(left.type) or pa.types.is_floating(left.type)):
        return left.type
    return type_of(Expr(raw))
