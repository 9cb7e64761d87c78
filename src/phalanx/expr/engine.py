"""DataFusion: parses, coerces types, simplifies, and evaluates what the kernels do not know.

Two sessions are kept for the life of the process, because making one costs milliseconds. The *analyzer* has no optimizer
rule left: what it returns is the expression with every type coercion written out as a cast, nothing folded and nothing
hidden, which is what is judged. The *simplifier* has one rule, which folds constants. No other rule runs, and every
change is one query of one projection: stacked identical projections are merged by DataFusion 54's optimizer, and fifty
increments count forty.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionConfig, SessionContext

from phalanx.errors import InvalidInputError
from phalanx.expr import text

_RULES = (
    "rewrite_set_comparison",
    "optimize_unions",
    "replace_distinct_aggregate",
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_cross_join",
    "eliminate_limit",
    "propagate_empty_relation",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "push_down_limit",
    "push_down_filter",
    "single_distinct_aggregation_to_group_by",
    "eliminate_group_by_constant",
    "common_sub_expression_eliminate",
    "optimize_projections",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
    "unions_to_filter",
)
_SIMPLIFY = "simplify_expressions"
_SLICE_BYTES = 64 << 20
"""Rows are evaluated in slices of about this size: 32-bit offsets of intermediate strings then cannot overflow."""
_UNKNOWN = re.compile(r"No field named (.+?)\. (?:Valid fields|Did you mean|Column names)", re.DOTALL)


def _session(*rules: str) -> SessionContext:
    config = (
        SessionConfig()
        .with_target_partitions(1)
        .set("datafusion.sql_parser.enable_ident_normalization", "false")
        .set("datafusion.execution.collect_statistics", "false")
        .set("datafusion.optimizer.max_passes", "1")
    )
    session = SessionContext(config)
    for rule in (*_RULES, _SIMPLIFY):
        if rule not in rules:
            session.remove_optimizer_rule(rule)
    return session


@cache
def _analyzer() -> SessionContext:
    return _session()


@cache
def _simplifier() -> SessionContext:
    return _session(_SIMPLIFY)


@contextmanager
def refused(sql: str, names: Sequence[str], doing: str) -> Iterator[None]:
    """DataFusion's refusals as errors of the caller's argument; its panics are not even `Exception`s."""
    try:
        yield
    except InvalidInputError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InvalidInputError(_refusal(sql, names, doing, str(error))) from error


def _refusal(sql: str, names: Sequence[str], doing: str, reason: str) -> str:
    unknown = _UNKNOWN.search(reason)
    if unknown:
        name = unknown[1].replace('"?table?".', "").replace('"', "`")
        known = ", ".join(map(text.quoted, names))
        return f"{text.shown(sql)} names {name}, which is no column here: the columns are {known}"
    last = reason.rsplit("caused by\n", 1)[-1].removeprefix("DataFusion error: ").removeprefix("SQL error: ")
    return f"{text.shown(sql)} {doing}: {last.strip()}"


class Frame:
    """One schema, ready to plan against."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        self._analyzed = _analyzer().read_batch(empty)
        self._simplified = _simplifier().read_batch(empty)

    def parse(self, sql: str) -> Expr:
        """The expression in the text, without any coercion."""
        return self._analyzed.parse_sql_expr(sql)

    def type_of(self, expression: Expr) -> pa.DataType:
        """The type an expression has."""
        found: pa.DataType = self._analyzed.select(expression.alias("_")).schema().field(0).type
        return found

    def analyze(self, expression: Expr) -> Any:  # noqa: ANN401 — DataFusion does not name its raw type.
        """The expression with its coercions written out as casts."""
        return _only(self._analyzed, expression)

    def simplify(self, expression: Expr) -> Any:  # noqa: ANN401
        """The same with constants folded."""
        found = _only(self._simplified, expression)
        return found.to_variant().expr() if found.variant_name() == "Alias" else found


def _only(frame: DataFrame, expression: Expr) -> Any:  # noqa: ANN401
    plan = frame.select(expression).optimized_logical_plan()
    inputs = plan.inputs()
    # An aggregate, a window or `unnest` becomes a plan of its own below (or instead of) the projection.
    if type(plan.to_variant()).__name__ != "Projection" or type(inputs[0].to_variant()).__name__ != "TableScan":
        raise ValueError(
            "aggregates and window functions cannot be used here; write an expression over the columns of one row"
        )
    return plan.to_variant().projections()[0]


def evaluate(expressions: Sequence[Expr], rows: pa.RecordBatch, *, judged: bool) -> "list[pa.Array[Any]]":
    """The values of expressions on these rows, which must have all columns that they name.

    What was simplified and judged runs as it stands; anything else is simplified anew, so that a clock is read now.
    """
    rows = pa.RecordBatch.from_arrays([_pushed(one) for one in rows.columns], schema=rows.schema)
    slices = max(1, -(-rows.nbytes // _SLICE_BYTES))
    step = max(1, -(-rows.num_rows // slices))
    parts = [_evaluate(expressions, rows.slice(at, step), judged) for at in range(0, max(1, rows.num_rows), step)]
    if len(parts) == 1:
        return parts[0]
    return [pa.concat_arrays([part[at] for part in parts]) for at in range(len(expressions))]


def _evaluate(expressions: Sequence[Expr], rows: pa.RecordBatch, judged: bool) -> "list[pa.Array[Any]]":  # noqa: FBT001
    named = [one.alias(str(at)) for at, one in enumerate(expressions)]
    session = _analyzer() if judged else _simplifier()
    found = session.read_batch(rows).select(*named).to_arrow_table()
    return [one.combine_chunks() for one in found.columns]


def _pushed(values: Any) -> Any:  # noqa: ANN401 — an array of any type.
    """Fields of a null struct as nulls: DataFusion reads what lies under the null, which is different in every copy."""
    if not pa.types.is_struct(values.type) or not values.null_count:
        return values
    fields = [_pushed(one) for one in values.flatten()]
    return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=values.is_null())
