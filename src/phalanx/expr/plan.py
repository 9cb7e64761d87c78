"""What callers hold: a predicate or a set of assignments, planned against a table's schema.

Planning refuses what is wrong (syntax, unknown columns, types) with an error that says what to correct, and says whether
the statement may be written to the log (`loggable`) or why not (`obstacle`). Plans are kept by schema and text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from datafusion import Expr
from pyarrow import compute as pc

from phalanx.errors import InternalError, InvalidInputError
from phalanx.expr import engine, safety, tree

DIALECT = "datafusion-54"
"""What a logged expression means is what this dialect says; it is written beside the text."""
_KEPT_SCHEMAS = 64
_KEPT_PLANS = 4096


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on rows; null counts as false."""

    sql: str
    columns: tuple[str, ...]
    """The top-level columns that are needed to evaluate it."""
    obstacle: str | None
    """Why it may not be logged, or None if it may."""
    _expression: Expr = field(repr=False)

    @property
    def loggable(self) -> bool:
        """Whether it cannot fail on any row and means the same to every reader."""
        return self.obstacle is None

    def mask(self, rows: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
        """Which rows it holds for: one value a row, never null."""
        found: Any = _evaluate([self._expression], self.sql, self.columns, rows, certain=self.loggable)[0]
        whole: pa.BooleanArray = found.fill_null(False) if found.null_count else found  # noqa: FBT003
        return whole


@dataclass(frozen=True, slots=True)
class Assignments:
    """New values of columns; all right-hand sides see the old row."""

    sql: dict[str, str]
    """The expression of each column that is assigned to."""
    columns: tuple[str, ...]
    """The top-level columns that are needed to evaluate it."""
    obstacle: str | None
    """Why it may not be logged, or None if it may."""
    _fields: "tuple[pa.Field[Any], ...]" = field(repr=False)
    _expressions: tuple[Expr, ...] = field(repr=False)

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that are assigned to."""
        return tuple(self.sql)

    @property
    def loggable(self) -> bool:
        """Whether it cannot fail on any row and means the same to every reader."""
        return self.obstacle is None

    def apply(self, rows: pa.Table, mask: pa.BooleanArray | None = None) -> pa.Table:
        """The rows with the columns replaced, in all rows or in those of the mask; types are those of the schema."""
        chosen = rows if mask is None else rows.filter(mask)
        text = ", ".join(f"{name} = {sql}" for name, sql in self.sql.items())
        values = _evaluate(self._expressions, text, self.columns, chosen, certain=self.loggable)
        for target, value in zip(self._fields, values, strict=True):
            at = rows.schema.get_field_index(target.name)
            new = value if mask is None else pc.replace_with_mask(rows.column(at).combine_chunks(), mask, value)
            rows = rows.set_column(at, target, new)
        return rows


def plan_predicate(sql: str, schema: pa.Schema) -> Predicate:
    """The condition in the text, or `InvalidInputError` that says what to correct."""
    return _plan_predicate(sql, schema)


def plan_assignments(changes: Mapping[str, object], schema: pa.Schema) -> Assignments:
    """The assignments: texts are SQL expressions, other values (numbers, dates, bytes, None) are literals."""
    if not changes:
        raise InvalidInputError("there is nothing to set: name at least one column")
    return _plan_assignments(tuple((name, _literal(value)) for name, value in changes.items()), schema)


@lru_cache(_KEPT_SCHEMAS)
def _frame(schema: pa.Schema) -> engine.Frame:
    return engine.Frame(schema)


@lru_cache(_KEPT_PLANS)
def _plan_predicate(sql: str, schema: pa.Schema) -> Predicate:
    frame = _frame(schema)
    with engine.refused(sql, schema.names, "is not a condition that can be planned"):
        expression, node = _analyzed(sql, frame)
        if not (pa.types.is_boolean(node.type) or pa.types.is_null(node.type)):
            raise InvalidInputError(f"{sql!r} is of type {node.type}: a condition must be true or false")
        if pa.types.is_null(node.type):
            expression = Expr(frame.analyze(expression.cast(pa.bool_())))
        frame.simplify(expression)
    return Predicate(sql, _columns([node], schema), safety.obstacle(node), expression)


@lru_cache(_KEPT_PLANS)
def _plan_assignments(changes: tuple[tuple[str, str], ...], schema: pa.Schema) -> Assignments:
    frame = _frame(schema)
    fields, expressions, nodes = [], [], []
    for name, sql in changes:
        if name not in schema.names:
            known = ", ".join(map(engine.quoted, schema.names))
            raise InvalidInputError(f"{name!r} cannot be set, since it is no column here: the columns are {known}")
        target = schema.field(name)
        with engine.refused(sql, schema.names, f"cannot be assigned to {name} ({target.type})"):
            expression, node = _analyzed(sql, frame, target.type)
            frame.simplify(expression)
        fields.append(target)
        expressions.append(expression)
        nodes.append(node)
    obstacle = next(filter(None, map(safety.obstacle, nodes)), None)
    return Assignments(dict(changes), _columns(nodes, schema), obstacle, tuple(fields), tuple(expressions))


def _analyzed(sql: str, frame: engine.Frame, target: pa.DataType | None = None) -> tuple[Expr, tree.Node]:
    parsed = frame.parse(sql)
    raw = frame.analyze(parsed)
    node = tree.read(raw, frame.schema, frame.type_of)
    if target is not None and node.type != target:
        raw = frame.analyze(parsed.cast(target))
        node = tree.read(raw, frame.schema, frame.type_of)
    return Expr(raw), node


def _columns(nodes: Sequence[tree.Node], schema: pa.Schema) -> tuple[str, ...]:
    needed = {one.name for node in nodes for one in node.walk() if one.kind == "Column"}
    return tuple(name for name in schema.names if name in needed)


def _evaluate(
    expressions: Sequence[Expr], text: str, columns: Sequence[str], rows: pa.Table | pa.RecordBatch, *, certain: bool
) -> "list[pa.Array[Any]]":
    # A constant needs some column to have as many values as there are rows.
    part = rows.select(list(columns) or rows.schema.names[:1])
    batch = part.combine_chunks().to_batches()[0] if isinstance(part, pa.Table) and len(part) else part
    if isinstance(batch, pa.Table):
        batch = pa.RecordBatch.from_arrays([pa.array([], one.type) for one in part.schema], schema=part.schema)
    try:
        with engine.refused(text, columns, "fails on a row"):
            return engine.evaluate(expressions, batch)
    except InvalidInputError as error:
        if certain:
            raise InternalError(f"{error}, although it was logged as one that cannot fail") from error
        raise


_SPELLINGS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, str),
    (type(None), lambda _: "null"),
    (bool, lambda value: str(value).lower()),
    (int, str),
    (Decimal, str),
    (float, lambda value: f"cast('{value!r}' as double)"),
    (datetime, lambda value: f"timestamp '{value.isoformat()}'"),
    (date, lambda value: f"date '{value.isoformat()}'"),
    (bytes, lambda value: f"X'{value.hex()}'"),
)


def _literal(value: object) -> str:
    for kind, spell in _SPELLINGS:
        if isinstance(value, kind):
            return spell(value)
    raise InvalidInputError(f"a {type(value).__name__} cannot be assigned: write it as an SQL expression")
