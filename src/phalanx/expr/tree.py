"""DataFusion's expression tree as plain nodes: what the judge of safety and the compiler of kernels walk over.

Only what has a meaning row by row becomes a node. Subqueries, aggregates, windows, placeholders and whatever DataFusion
does not show to Python are refused here, so that nothing that is unknown is ever logged or evaluated. Chains of AND and
of OR become one node; everything else may nest so deep and no deeper, wherever on the stack the reader stands.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from datafusion import Expr
from pyarrow import types

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
JUNCTIONS = frozenset({"AND", "OR"})
TESTS = frozenset(
    {"Not", "IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsUnknown", "IsNotTrue", "IsNotFalse", "IsNotUnknown"}
)
MOST_DEPTH = 64
_SETTLED = TESTS | {"Column", "BinaryExpr", "InList"}
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


class Node:
    """One operation; `name` is the column, operator, function or escape character, `value` a literal's."""

    __slots__ = ("constant", "inputs", "kind", "name", "negated", "type", "value")

    def __init__(
        self,
        kind: str,
        type_: pa.DataType,
        inputs: tuple["Node", ...] = (),
        name: str = "",
        *,
        value: Any = None,  # noqa: ANN401 — a scalar of any type.
        negated: bool = False,
    ) -> None:
        self.kind = kind
        self.type = type_
        self.inputs = inputs
        self.name = name
        self.value = value
        self.negated = negated
        self.constant: bool = kind != "Column" and all(one.constant for one in inputs)
        """Whether no column is below."""

    def walk(self) -> Iterator["Node"]:
        """This node and all below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.inputs)

    @property
    def settled(self) -> bool:
        """Whether there is nothing to fold below, and no cast that might move to a literal."""
        return all(one.kind == "Literal" or (one.kind in _SETTLED and not one.constant) for one in self.walk())


class Reader:
    """Reads expressions over one schema; DataFusion does not name the type of its raw expressions."""

    def __init__(self, schema: pa.Schema, type_of: TypeOf) -> None:
        self._schema = schema
        self._type_of = type_of

    def read(self, raw: Any, depth: int = 0) -> Node:  # noqa: ANN401
        """The tree under one of DataFusion's expressions."""
        if depth > MOST_DEPTH:
            raise ValueError(f"an expression may nest {MOST_DEPTH} deep: write it in a simpler form")
        kind = raw.variant_name()
        if kind == "Alias" and raw.to_variant().expr().variant_name() == "ScalarFunction":
            # `length(s)` is planned as character_length(s) under the name that was written.
            raw, kind = raw.to_variant().expr(), "ScalarFunction"
        if kind == "Column":
            name = raw.to_variant().name()
            return Node(kind, self._schema.field(name).type, name=name)
        if kind == "Literal":
            value = raw.python_value()
            return Node(kind, value.type, value=value)
        if kind == "BinaryExpr":
            return self._binary(raw, depth + 1)
        return self._rarer(kind, raw, depth + 1)

    def _binary(self, raw: Any, depth: int) -> Node:  # noqa: ANN401
        shown = raw.to_variant()
        operator = shown.op()
        if operator in JUNCTIONS:
            return self._junction(operator, raw, depth)
        left, right = self.read(shown.left(), depth), self.read(shown.right(), depth)
        if operator in COMPARISONS:
            kind: pa.DataType = pa.bool_()
        elif left.type == right.type and (types.is_integer(left.type) or types.is_floating(left.type)):
            kind = left.type  # After coercion both sides of arithmetic have the type of the result.
        else:
            kind = self._type_of(Expr(raw))
        return Node("BinaryExpr", kind, (left, right), operator)

    def _junction(self, operator: str, raw: Any, depth: int) -> Node:  # noqa: ANN401
        inputs, waiting = [], [raw]
        while waiting:
            one = waiting.pop()
            shown = one.to_variant() if one.variant_name() == "BinaryExpr" else None
            if shown is not None and shown.op() == operator:
                waiting += (shown.right(), shown.left())
            else:
                inputs.append(self.read(one, depth))
        return Node("BinaryExpr", pa.bool_(), tuple(inputs), operator)

    def _rarer(self, kind: str, raw: Any, depth: int) -> Node:  # noqa: ANN401
        if kind in TESTS:
            return Node(kind, pa.bool_(), (self.read(raw.to_variant().expr(), depth),))
        if kind in {"Cast", "TryCast"}:
            return Node(kind, self._type_of(Expr(raw)), (self.read(raw.to_variant().expr(), depth),))
        if kind in {"Between", "InList"}:
            shown = raw.to_variant()
            others = (shown.low(), shown.high()) if kind == "Between" else shown.list()
            inputs = [self.read(one, depth) for one in (shown.expr(), *others)]
            return Node(kind, pa.bool_(), tuple(inputs), negated=shown.negated())
        if kind in {"Like", "ILike"}:
            shown = raw.to_variant()
            kind = "Like" if _minds_case(raw, shown) else "ILike"
            sides = (self.read(shown.expr(), depth), self.read(shown.pattern(), depth))
            return Node(kind, pa.bool_(), sides, shown.escape_char() or "", negated=shown.negated())
        if kind == "Negative":
            inner = self.read(raw.to_variant().expr(), depth)
            return Node(kind, inner.type, (inner,))
        if kind in {"Case", "ScalarFunction"}:
            # The operands of a CASE are its conditions and results in turn, and last the ELSE if there is one.
            parts = tuple(self.read(one, depth) for one in raw.rex_call_operands())
            name = raw.rex_call_operator() if kind == "ScalarFunction" else ""
            return Node(kind, self._type_of(Expr(raw)), parts, name)
        what = _REFUSED.get(kind, f"an expression of kind {kind}")
        raise ValueError(f"{what} cannot be used here; write an expression over the columns of one row")


def _minds_case(raw: Any, shown: Any) -> bool:  # noqa: ANN401 - DataFusion's
    """Whether it is LIKE: of ILIKE, too, DataFusion says that it is one, and only its name tells them apart."""
    word = "NOT LIKE" if shown.negated() else "LIKE"
    name = str(raw.canonical_name())
    return name.startswith(f"{shown.expr().canonical_name()} {word} {shown.pattern().canonical_name()}")
