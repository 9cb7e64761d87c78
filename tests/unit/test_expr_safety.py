"""What may be logged and what may not: every function, cast and operator that DataFusion has is tried."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext

from phalanx.errors import InvalidInputError
from phalanx.expr import plan_assignments, plan_predicate
from phalanx.expr.functions import CONSTANT, FUNCTIONS
from phalanx.expr.plan import _planner
from tests.unit.test_expr_extremes import COUNT, ROWS, SCHEMA

MORE = {
    "d64": pa.date64(),
    "ts": pa.timestamp("s"),
    "ms": pa.timestamp("ms"),
    "zone": pa.timestamp("us", "Europe/Berlin"),
    "time": pa.time64("us"),
    "span": pa.duration("us"),
}
WIDE = ROWS
for _name, _type in MORE.items():
    WIDE = WIDE.append_column(_name, ROWS["i64"].combine_chunks().view(_type))
WIDE = WIDE.append_column("sv", ROWS["s"].combine_chunks().cast(pa.string_view()))
WIDE = WIDE.append_column("u16", pa.array([0, 2**16 - 1, None] * (COUNT // 3), pa.uint16()))
WIDE = WIDE.append_column("f16", pa.array([1.5, None, float("nan")] * (COUNT // 3), pa.float16()))
WIDE = WIDE.append_column("l", pa.array([[], None, [1, 2], [None]] * (COUNT // 4), pa.list_(pa.int64())))
WIDE = WIDE.append_column("fsl", pa.array([[1, 2], None] * (COUNT // 2), pa.list_(pa.float32(), 2)))
WIDE = WIDE.append_column("fsb", pa.array([b"ab", None] * (COUNT // 2), pa.binary(2)))
WIDE = WIDE.append_column("map", pa.array([[("a", 1)], None] * (COUNT // 2), pa.map_(pa.string(), pa.int64())))
WIDE = WIDE.append_column("dic", pa.array(["a", "b", None] * (COUNT // 3)).dictionary_encode())
COLUMNS = WIDE.schema.names

FALLIBLE = [
    "10 / i64 = 1",
    "i64 / i64 = 1",
    "i64 % i64 = 0",
    "i64 / 0 = 1",
    "i64 % 0 = 1",
    "i64 / -1 = 1",
    "i64 / null = 1 or i64 / i8 = 1",
    "1 / 0 = 1",
    "cast(s as int) = 1",
    "cast('x' as int) = i64",
    "s::bigint = 1",
    "s = 5",
    "i64 = s",
    "cast(i64 as int) + i32 = 1",
    "arrow_cast(s, 'Int64') = 1",
    "arrow_cast(i64, 'Int8') = 1",
    "to_timestamp(s) > t",
    "to_date(s) > d",
    "to_char(t, '%Y') = 'a'",
    "date_trunc('day', z) = z",
    "date_trunc('month', t) = t",
    "substr(s, 1, -1) = 'a'",
    "substr(s, i64) = 'a'",
    "substr(s, -9223372036854775808) = 'a'",
    "split_part(s, 'a', i64) = 'a'",
    "repeat(s, 1000000000) = ''",
    "lpad(s, 1000000000) = ''",
    "replace(s, 'a', 'aaaa') = ''",
    "chr(i64) = 'a'",
    "decode(s, 'hex') = bin",
    "abs(i64) = 1",
    "power(i64, 2) = 4",
    "factorial(i64) = 1",
    "exp(f64) is null",
    "l[i64] = 1",
    "l[1] = 1",
    "map['a'] = 1",
    "d + interval '1 day' > d",
    "t + interval '1 month' > t",
    "t - interval '1 day' > t",
    "dec + dec > 1",
    "dec * dec > 1",
    "dec - 1 > 1",
    "u64 + 1 > 1",
    "s ~ 'a'",
    "s ~ s",
    "s similar to 'a'",
    "regexp_like(s, s)",
    "regexp_replace(s, 'a', 'b') = ''",
    "s like s",
    "bin like 'a'",
    "s like 'a#%' escape '#'",
    "now() > z",
    "current_timestamp > z",
    "current_date > d",
    "random() > f64",
    "cast(uuid() as string) = s",
    "try_cast(t as string) = ''",
    "try_cast(d as string) = ''",
    "try_cast(ts as date) = d",
    "try_cast(d as timestamp) = t",
    "cast(t as date) = d",
    "d = t",
    "t = z",
    "date_part('month', z) = 5",
    "greatest(l, l) is null",
    "st = st",
    "l = l",
    "f64 * 2.0 > 1.0",
    "f64 - f64 in (1.0, 2.0)",
    "f64 + 1.0 between 0.0 and 1.0",
    "sqrt(f64) > 1.0",
    "nullif(f64 / f32, 1.0) is null",
    "nvl(d, d) is null",
    "ascii(s) = 1 and encode(s, 'hex') = 'a'",
    "arrow_typeof(s) = 'x'",
    "version() = 'x'",
]


@pytest.mark.parametrize("sql", FALLIBLE)
def test_what_may_fail_or_differ_is_not_logged(sql: str) -> None:
    """Refused at planning, or planned with an obstacle that says why (known bug 38)."""
    try:
        predicate = plan_predicate(sql, WIDE.schema)
    except InvalidInputError:
        return
    assert not predicate.loggable
    assert predicate.obstacle
    assert predicate.lance is None


@pytest.mark.parametrize("sql", ["10 / i64 = 1", "cast(s as int) = 1", "s = 5", "abs(i64) = 1", "chr(i64) = 'a'"])
def test_what_fails_on_a_row_fails_with_a_typed_error(sql: str) -> None:
    """Evaluated on a snapshot, the statement fails for its caller, and nothing was logged."""
    with pytest.raises(InvalidInputError, match="fails on a row"):
        plan_predicate(sql, SCHEMA).mask(ROWS)


HARMLESS = [
    "i64 / 2 = 1",
    "i64 % 10 = 3",
    "i8 % 7 = 3",
    "f64 is null or isnan(f64 / 0.0)",
    "i64 & 3 = 1",
    "-i64 = 1",
    "i32 + 1 > i64",
    "t < '2026-01-01'",
    "d >= '2026-01-01' and d < date '2027-01-01'",
    "z = '2026-01-01T00:00:00+02:00'",
    "t > to_timestamp('2026-01-01')",
    "dec > 1.5",
    "u64 = 5",
    "i64 < u64",
    "bin = 'abc'",
    "s || '!' = 'a!'",
    "try_cast(s as int) = 5",
    "try_cast(i64 as int) = 5",
    "case when i64 = 1 then s when b then 'x' end = 'x'",
    "s like 'a\\%%'",
    "s ilike 'A%'",
    "extract(year from d) = 2026",
    "ns < t",
    "i64 = cast('5' as int) + 1",
]


@pytest.mark.parametrize("sql", HARMLESS)
def test_what_cannot_fail_is_logged(sql: str) -> None:
    """Common conditions are not driven to the slow path."""
    predicate = plan_predicate(sql, SCHEMA)
    assert predicate.obstacle is None
    assert len(predicate.mask(ROWS)) == COUNT


SAMPLES = {
    "btrim": "trim({text})",
    "ceil": "ceil({float})",
    "character_length": "length({text})",
    "coalesce": "coalesce({any}, {any})",
    "concat": "concat({text}, 'x', 1)",
    "contains": "contains({text}, 'a')",
    "date_part": "date_part('week', {moment})",
    "ends_with": "ends_with({text}, 'a')",
    "floor": "floor({float})",
    "get_field": "st.x",
    "greatest": "greatest({any}, {any})",
    "isnan": "isnan({float})",
    "least": "least({any}, {any})",
    "left": "left({text}, -2)",
    "lower": "lower({text})",
    "ltrim": "ltrim({text}, 'a')",
    "md5": "md5({text})",
    "nullif": "nullif({any}, {any})",
    "octet_length": "octet_length({text})",
    "right": "right({text}, 3)",
    "round": "round({float})",
    "rtrim": "rtrim({text})",
    "sha256": "sha256({text})",
    "sqrt": "sqrt({float})",
    "starts_with": "starts_with({text}, 'a')",
    "strpos": "strpos({text}, 'b')",
    "substr": "substr({text}, -2, 4)",
    "trunc": "trunc({float})",
    "upper": "upper({text})",
}
KINDS = {
    "{text}": ["s", "ls", "sv"],
    "{float}": ["f32", "f64"],
    "{moment}": ["d", "d64", "t", "ts", "ms", "ns"],
    "{any}": ["i8", "u64", "f64", "s", "sv", "bin", "b", "d", "t", "ts", "zone", "time", "span", "dec"],
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_an_allowed_function_is_logged_and_never_fails(name: str) -> None:
    """Each one on each type that it is allowed for."""
    sample = SAMPLES[name]
    kind = next((kind for kind in KINDS if kind in sample), "")
    for column in KINDS.get(kind, ["st"]):
        predicate = plan_predicate(f"({sample.replace(kind, column) if kind else sample}) is null", WIDE.schema)
        assert predicate.obstacle is None, column
        assert len(predicate.mask(WIDE)) == COUNT


def _all_functions() -> list[str]:
    session = SessionContext(SessionConfig().set("datafusion.catalog.information_schema", "true"))
    asked = "select distinct routine_name from information_schema.routines where function_type = 'SCALAR'"
    return sorted(session.sql(asked).to_arrow_table()["routine_name"].to_pylist())


ARGUMENTS = ["", *COLUMNS, "s, 'a'", "s, 1", "s, i64", "s, s", "i64, i64", "f64, f64", "l, 1", "'year', t", "s, 1, 1"]
ARGUMENTS += ["s, 'a', 'b'", "s, s, s", "i64, i64, i64", "t, t", "d, d", "bin, 'hex'", "st, 'x'"]


def test_no_other_function_is_ever_logged() -> None:
    """All functions of DataFusion, with all columns and many pairs: only those of the list, and they never fail."""
    names, logged = _all_functions(), set()
    assert len(names) > 200
    planner = _planner(WIDE.schema)
    for name in names:
        for arguments in ARGUMENTS:
            quoted = f"`{arguments}`" if arguments in COLUMNS else arguments
            try:
                predicate = planner.predicate(f"({name}({quoted})) is null")
            except InvalidInputError:
                continue
            if predicate.loggable and predicate.columns:
                predicate.mask(WIDE)
                logged.add(name)
    aliases = {"trim", "ceil", "length", "char_length", "substring", "datepart", "instr", "position"}
    assert logged <= set(FUNCTIONS) | aliases | {"isnull", "isnotnull"}, logged - set(FUNCTIONS) - aliases
    assert len(logged) > 20


TYPES = ["tinyint", "int", "bigint", "tinyint unsigned", "bigint unsigned", "float", "double", "string", "bytea"]
TYPES += ["boolean", "date", "timestamp", "timestamp(0)", "timestamp(6)", "time", "decimal(10, 2)", "decimal(38, 0)"]
TYPES += ["decimal(20, 0)", "decimal(38, 20)"]


@pytest.mark.parametrize("column", COLUMNS)
def test_every_cast_that_is_logged_succeeds(column: str) -> None:
    """From every type to every type, with cast and with try_cast, which fails too."""
    planner = _planner(WIDE.schema)
    for target in TYPES:
        for cast in ("cast", "try_cast"):
            try:
                predicate = planner.predicate(f"{cast}(`{column}` as {target}) is null")
            except InvalidInputError:
                continue
            if predicate.loggable:
                assert len(predicate.mask(WIDE)) == COUNT


def test_growth_is_bounded() -> None:
    """`s = s || s`, sixty times, is a log of two kilobytes that nobody could read."""
    schema = pa.schema([("s", pa.string()), ("t", pa.string()), ("v", pa.int64())])
    for sql in (
        "s || s",
        "concat(s, t)",
        "concat(s, '-', s)",
        "lower(s || t)",
        "case when v = 1 then s || t else s end",
    ):
        assert "grow" in (plan_assignments({"s": sql}, schema).obstacle or "")
    for sql in ("s || 'x'", "concat(upper(t), v, 'x')", "case when s = t then s || '1' else t end"):
        assert plan_assignments({"s": sql}, schema).loggable
    assert plan_predicate("s || t = 'ab'", schema).loggable


def test_a_narrow_integer_is_assigned_without_a_cast_that_may_fail() -> None:
    """Literals are 64 bits wide in this dialect: `v + 1` is, and must be brought back."""
    schema = pa.schema([("v", pa.int32()), ("u", pa.uint64()), ("f", pa.float32())])
    assert "cast(1 as int)" in (plan_assignments({"v": "v + 1"}, schema).obstacle or "")
    assert plan_assignments({"v": "v + cast(1 as int)"}, schema).loggable
    assert plan_assignments({"v": "try_cast(v + 1 as int)"}, schema).loggable
    assert plan_assignments({"v": 5, "u": 5, "f": 0.1}, schema).loggable
    assert plan_assignments({"f": "f * 2.0 + v"}, schema).loggable
    assert plan_assignments({"u": "u + cast(1 as bigint unsigned)"}, schema).loggable
    assert not plan_assignments({"u": "u + 1"}, schema).loggable


def test_a_column_that_must_not_be_null_stays_so() -> None:
    """A null is refused at planning if it is written, and on the row if it is computed."""
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False), ("n", pa.int64())])
    rows = pa.table([pa.array([1, 2]), pa.array([None, 5])], schema=schema)
    with pytest.raises(InvalidInputError, match="must not be null"):
        plan_assignments({"v": None}, schema)
    assert plan_assignments({"v": "v + 1"}, schema).loggable
    assert plan_assignments({"v": "coalesce(n, 0)"}, schema).loggable
    assert plan_assignments({"v": "case when n = 1 then 1 else v end"}, schema).loggable
    for sql in ("n", "nullif(v, 1)", "case when n = 1 then v end"):
        copied = plan_assignments({"v": sql}, schema)
        assert "null" in (copied.obstacle or "")
    copied = plan_assignments({"v": "n"}, schema)
    with pytest.raises(InvalidInputError, match="must not be null"):
        copied.apply(rows)
    assert copied.apply(rows, pa.array([False, True]))["v"].to_pylist() == [1, 5]


def test_a_fallible_assignment_sees_only_the_rows_of_the_mask() -> None:
    """`100 / v where v > 0` does not stumble over a zero that it does not touch."""
    rows = pa.table({"v": [0, 5, None], "s": ["x", "y", "z"]})
    change = plan_assignments({"v": "100 / v"}, rows.schema)
    assert not change.loggable
    mask = plan_predicate("v > 0", rows.schema).mask(rows)
    assert change.apply(rows, mask)["v"].to_pylist() == [0, 20, None]
    with pytest.raises(InvalidInputError, match="fails on a row"):
        change.apply(rows)


def test_a_clock_is_read_when_it_is_evaluated() -> None:
    """A plan that is kept does not stop the clock of a statement that is not logged."""
    rows = pa.table({"t": pa.array([None], pa.timestamp("ns"))})
    change = plan_assignments({"t": "now()"}, rows.schema)
    first, second = (change.apply(rows)["t"][0].value for _ in range(2))
    assert first < second


def test_the_fields_of_a_null_struct_are_null() -> None:
    """What lies under a null is not the same in every copy of a row."""
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["x"], mask=pa.array([False, True]))
    rows = pa.table({"st": hidden})
    for sql in ("st.x = 2", "st.x % 2 = 0", "least(st.x, 5) = 2"):
        assert plan_predicate(sql, rows.schema).mask(rows).to_pylist() == [False, False]


def test_the_page_on_expressions_names_the_functions_that_are_logged() -> None:
    """No function is promised that is not allowed, and none is kept secret."""
    page = (Path(__file__).parents[2] / "docs" / "expressions.md").read_text()
    logged, constant = page.partition("Functions that are logged:")[2].partition("(and their other names")[::2]
    assert set(re.findall(r"`(\w+)`", logged)) == set(FUNCTIONS)
    constant = constant.partition("literals alone may also use")[2].partition("they are evaluated")[0]
    assert set(re.findall(r"`(\w+)`", constant)) == CONSTANT
