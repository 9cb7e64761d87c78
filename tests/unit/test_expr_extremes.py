"""Rows at the edges of every type, expressions of many shapes, and what must hold for each that may be logged."""

import struct
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import InvalidInputError
from phalanx.expr import Predicate, plan_assignments, plan_predicate

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
WHOLE = [-(2**63), 2**63 - 1, 0, -1, 1, None, 1767225600000000, 86399999, 7]
TEXTS = ["", None, "a", "abc", "ß", "ŉΐ", "\x00", "😀é", "x" * 300, "%_\\", "12", str(-(2**63)), "NaN", "2026-01-01"]
FLOATS = [float("nan"), NEGATIVE_NAN, float("inf"), -float("inf"), 0.0, -0.0, 5e-324, -1.5, None, 9.3e18, 1.0]
COUNT = 36


def _cycled(values: list[Any], kind: pa.DataType) -> Any:
    return pa.array([values[at % len(values)] for at in range(COUNT)], kind)


def _integers(kind: Any) -> Any:
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if not pa.types.is_signed_integer(kind):
        low, high = 0, 2**kind.bit_width - 1
    return _cycled([low, high, low + 1, high - 1, 1, None, 7, 0], kind)


def extreme_rows() -> pa.Table:
    """Every type that a comparison is logged for, with its extremes, in one table."""
    nested = pa.StructArray.from_arrays(
        [_cycled(WHOLE, pa.int64()), _cycled(TEXTS, pa.string())],
        names=["x", "Y z"],
        mask=pa.array([at % 4 == 1 for at in range(COUNT)]),
    )
    columns = {
        "i8": _integers(pa.int8()),
        "i32": _integers(pa.int32()),
        "i64": _cycled(WHOLE, pa.int64()),
        "u8": _integers(pa.uint8()),
        "u64": _integers(pa.uint64()),
        "f32": _cycled(FLOATS, pa.float64()).cast(pa.float32(), safe=False),
        "f64": _cycled(FLOATS, pa.float64()),
        "s": _cycled(TEXTS, pa.string()),
        "ls": _cycled(TEXTS[3:], pa.large_string()),
        "bin": _cycled([b"", None, b"\xff\xfe", b"abc", b"\x00"], pa.binary()),
        "b": _cycled([True, False, None], pa.bool_()),
        "d": _cycled([-(2**31), 2**31 - 1, 0, -1, None, 20454], pa.int32()).view(pa.date32()),
        "t": _cycled(WHOLE, pa.int64()).view(pa.timestamp("us")),
        "ns": _cycled(WHOLE, pa.int64()).view(pa.timestamp("ns")),
        "z": _cycled(WHOLE, pa.int64()).view(pa.timestamp("us", "UTC")),
        "dec": _cycled([Decimal("99999999.99"), Decimal("-99999999.99"), None, Decimal("0.01")], pa.decimal128(10, 2)),
        "Big Name": _cycled(WHOLE[2:], pa.int64()),
        "st": nested,
    }
    return pa.table(columns)


ROWS = extreme_rows()
SCHEMA = ROWS.schema
INTEGERS = ["i8", "i32", "i64", "u8", "u64", "`Big Name`", "st.x"]
LITERALS = {
    "integer": ["0", "1", "-1", "7", "300", "2147483648", "-9223372036854775808", "9223372036854775807", "null"],
    "float": ["0.0", "1.5", "-1.5", "1e300", "cast('NaN' as double)", "cast('inf' as double)", "null"],
    "text": ["''", "'a'", "'abc'", "'ß'", "'it''s'", "'😀é'", "'12'", "null"],
    "day": ["'2026-01-01'", "date '1970-01-01'", "null"],
    "moment": ["'2026-01-01'", "timestamp '2026-01-01T00:00:00'", "'1970-01-01T00:00:00.000001'", "null"],
    "bytes": ["X''", "X'fffe'", "'abc'", "null"],
    "decimal": ["0.01", "1", "-99999999.99", "null"],
    "truth": ["true", "false", "null"],
}
FAMILIES = {
    "float": ["f32", "f64"],
    "text": ["s", "ls", "st.`Y z`"],
    "day": ["d"],
    "moment": ["t", "ns", "z"],
    "bytes": ["bin"],
    "decimal": ["dec"],
    "truth": ["b"],
    "integer": INTEGERS,
}
FUNCTIONS = [
    "lower({})",
    "upper({})",
    "trim({})",
    "ltrim({}, 'a')",
    "substr({}, 2)",
    "substr({}, -3, 5)",
    "left({}, -1)",
    "right({}, 2)",
    "{} || 'x'",
    "concat({}, 'é', 'b')",
    "coalesce({}, 'none')",
    "nullif({}, 'a')",
    "md5({})",
    "try_cast(try_cast({} as int) as string)",
]


@cache
def values(family: str, depth: int) -> st.SearchStrategy[str]:
    """An expression of one family of types."""
    column, literal = st.sampled_from(FAMILIES[family]), st.sampled_from(LITERALS[family])
    if depth <= 0 or family in {"day", "moment", "bytes", "decimal"}:
        return st.one_of(column, column, literal)
    inner = st.deferred(lambda: values(family, depth - 1))
    test = st.deferred(lambda: conditions(depth - 1))
    shapes = [
        column,
        st.builds("coalesce({}, {})".format, inner, inner),
        st.builds("case when {} then {} else {} end".format, test, inner, inner),
    ]
    if family in {"integer", "float"}:
        shapes += [st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)] * 2
    if family == "integer":
        divisors = st.sampled_from(["2", "-7", "10", "0", "-1"])
        shapes.append(st.builds("({} {} {})".format, inner, st.sampled_from("/%"), divisors))
    if family == "text":
        shapes += [st.builds(str.format, st.sampled_from(FUNCTIONS), inner)] * 2
    return st.one_of(*shapes, test) if family == "truth" else st.one_of(*shapes)


OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
TRUTHS = ["is true", "is not true", "is false", "is not false", "is null", "is unknown", "is not unknown"]


@cache
def conditions(depth: int) -> st.SearchStrategy[str]:
    """A condition, of comparisons, tests and junctions."""
    inner = st.deferred(lambda: conditions(depth - 1))
    shapes = [st.one_of(*(comparisons(family, depth) for family in sorted(FAMILIES)))] * 2
    if depth > 0:
        shapes += [
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {} or {})".format, inner, inner, inner),
            st.builds("not ({})".format, inner),
            st.builds("(({}) {})".format, inner, st.sampled_from(TRUTHS)),
        ]
    return st.one_of(*shapes)


@cache
def comparisons(family: str, depth: int) -> st.SearchStrategy[str]:
    """One condition on values of one family."""
    negation = st.sampled_from(["", "not "])
    value, listed = values(family, depth - 1), st.lists(st.sampled_from(LITERALS[family]), min_size=1, max_size=6)
    shapes = [
        st.builds("({} {} {})".format, value, st.sampled_from(OPERATORS), value),
        st.builds("({} is {}null)".format, value, negation),
        st.builds("({} {}in ({}))".format, value, negation, listed.map(", ".join)),
        st.builds("({} {}between {} and {})".format, value, negation, value, value),
    ]
    if family == "text":
        matches = st.sampled_from(["like", "not like", "ilike", "not ilike"])
        shapes.append(st.builds("({} {} {})".format, value, matches, st.sampled_from(TEXT_PATTERNS)))
    return st.one_of(*shapes)


TEXT_PATTERNS = ["'a%'", "'%b%'", "'_b_'", "'%'", "''", "'\\%_'", "'ß%'"]


def same(left: Any, right: Any) -> bool:
    """Equal, nulls to nulls and signed zeros apart, any NaN to any NaN."""
    if pa.types.is_floating(left.type):
        return repr(left.to_pylist()) == repr(right.to_pylist())
    return bool(left.equals(right))


def planned(sql: str) -> Predicate | None:
    """The plan of a random text, unless its types do not fit."""
    try:
        return plan_predicate(sql, SCHEMA)
    except InvalidInputError:
        return None


@settings(max_examples=300, deadline=None)
@given(sql=conditions(3))
def test_a_loggable_condition_never_fails(sql: str) -> None:
    """Whatever may be logged has an answer for the extremes of every type."""
    predicate = planned(sql)
    if predicate is not None and predicate.loggable:
        found = predicate.mask(ROWS)
        assert len(found) == COUNT
        assert found.null_count == 0


@settings(max_examples=300, deadline=None)
@given(data=st.data(), column=st.sampled_from(SCHEMA.names))
def test_a_loggable_assignment_never_fails_and_keeps_the_schema(data: Any, column: str) -> None:
    """The same for new values, of any family that can be assigned to the column."""
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    sql = data.draw(values(family, 3))
    try:
        assignments = plan_assignments({column: sql}, SCHEMA)
    except InvalidInputError:
        return
    if assignments.loggable:
        assert assignments.apply(ROWS).schema == SCHEMA
        some = pa.array([at % 3 == 0 for at in range(COUNT)])
        changed = assignments.apply(ROWS, some)
        assert changed.schema == SCHEMA
        others = pa.compute.invert(some)
        assert same(changed.filter(others)[column], ROWS.filter(others)[column])


@pytest.mark.parametrize("column", SCHEMA.names)
def test_every_column_can_be_compared_with_itself(column: str) -> None:
    """Also those of types that are not compared by kernels."""
    predicate = plan_predicate(f"`{column}` is null or `{column}` = `{column}`", SCHEMA)
    assert predicate.mask(ROWS).true_count == COUNT
    assert predicate.columns == (column,)
