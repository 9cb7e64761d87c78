"""Planning: what is refused and how, names and quotes, literals, and plans that are kept."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from phalanx.errors import InvalidInputError
from phalanx.expr import DIALECT, plan_assignments, plan_predicate

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.int32()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("Big Name", pa.int64()),
        ("Cap", pa.int64()),
        ("cap", pa.int64()),
        ("a`b", pa.int64()),
        ("select", pa.int64()),
        ("st", pa.struct([("x", pa.int64()), ("Inner One", pa.struct([("z", pa.string())]))])),
        ("b", pa.bool_()),
        ("f", pa.float64()),
    ]
)
EXOTIC = {
    "ree": pa.run_end_encoded(pa.int32(), pa.int64()),
    "view": pa.list_view(pa.int64()),
    "interval": pa.month_day_nano_interval(),
    "d32": pa.decimal32(5, 2),
    "d256": pa.decimal256(70, 2),
    "uuid": pa.uuid(),
    "json": pa.json_(),
    "tensor": pa.fixed_shape_tensor(pa.float32(), [2, 2]),
    "union": pa.dense_union([pa.field("a", pa.int64())]),
    "map": pa.map_(pa.string(), pa.list_(pa.int64())),
    "dict": pa.dictionary(pa.int8(), pa.string()),
    "nothing": pa.null(),
    "half": pa.float16(),
    "vector": pa.list_(pa.float32(), 4),
    "large": pa.large_list(pa.large_binary()),
    "bv": pa.binary_view(),
    "span": pa.duration("ms"),
    "clock": pa.time32("s"),
}


def one_row(**given: Any) -> pa.Table:
    return pa.Table.from_pylist([given], schema=SCHEMA)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("id =", "Expected: an expression"),
        ("", "Expected: an expression"),
        ("id = 1; drop table x", "end of expression"),
        ("id = 1 group by id", "end of expression"),
        ("nope = 1", "names nope, which is no column here: the columns are id, v, name, day"),
        ("ID = 1", "no column here"),
        ("other.id = 1", "no column here"),
        ("id", "is of type int64, and bool is needed"),
        ("name", "bool is needed"),
        ("id = 'abc'", "Cannot cast string 'abc'"),
        ("day < 'soon'", "Cannot cast string 'soon'"),
        ("b = 1", "Cannot infer common argument type"),
        ("sum(id) > 1", "cannot be used here"),
        ("row_number() over () = 1", "cannot be used here"),
        ("exists (select 1)", "cannot be used here"),
        ("id in (select 1)", "cannot be used here"),
        ("id = (select 1)", "cannot be used here"),
        ("id = $1", "cannot be used here"),
        ("id = 1 as x", "cannot be used here"),
        ("nosuch(id) = 1", "Invalid function"),
        ('"id" = 1', "double quotes: write `name` for a column and 'text' for a string"),
        ('name = "x"', "double quotes"),
        ("id = 7 -- why", "a comment"),
        ("id = 7 /* why */", "a comment"),
        ("name = E'a'", "with a blank before it"),
        ("name = 1e'a'", "with a blank before it"),
        ("name = $$a$$", "cannot be used here"),
        ("day = date'2026-01-01'", "with a blank before it"),
        (5, "is not an SQL expression"),
        (None, "is not an SQL expression"),
    ],
)
def test_a_wrong_condition_is_refused_with_what_to_correct(sql: Any, says: str) -> None:
    """A typed error before anything is logged."""
    with pytest.raises(InvalidInputError) as caught:
        plan_predicate(sql, SCHEMA)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "nothing to set"),
        ({"nope": 1}, "'nope' cannot be set, since it is no column here: the columns are id"),
        ({"id": "nope + 1"}, "names nope"),
        ({"id": "id +"}, "cannot be assigned to id (int64)"),
        ({"v": 3_000_000_000}, "cannot be assigned to v (int32)"),
        ({"v": "'abc'"}, "cannot be assigned to v (int32)"),
        ({"v": "1.5"}, "would be cut to int32"),
        ({"v": "f"}, "would be cut to int32"),
        ({"id": "id = 1"}, "is of type bool, and int64 is needed"),
        ({"b": "id"}, "is of type int64, and bool is needed"),
        ({"id": object()}, "a object cannot be assigned"),
        ({"st": "5"}, "cannot be assigned to st"),
        ({"id": "count(*)"}, "cannot be used here"),
    ],
)
def test_a_wrong_assignment_is_refused_with_what_to_correct(changes: dict[str, Any], says: str) -> None:
    """The same for new values."""
    with pytest.raises(InvalidInputError) as caught:
        plan_assignments(changes, SCHEMA)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("id = 7", ("id",)),
        ("v > 1 and id = 7 or b", ("id", "v", "b")),
        ("`Big Name` = 7", ("Big Name",)),
        ("Cap = 7", ("Cap",)),
        ("`cap` = 7", ("cap",)),
        ("`a``b` = 7", ("a`b",)),
        ("`select` = 7", ("select",)),
        ("st.x = 7", ("st",)),
        ("st['x'] = 7", ("st",)),
        ("st.`Inner One`.z = '7'", ("st",)),
        ("name = 'it''s \"quoted\" -- here'", ("name",)),
        ("true", ()),
    ],
)
def test_names_are_exact_and_quoted_with_backticks(sql: str, columns: tuple[str, ...]) -> None:
    """One dialect: names as they are written in the schema, in backticks if they are no plain words."""
    inner = {"x": 7, "Inner One": {"z": "7"}}
    named = dict.fromkeys(("id", "v", "Big Name", "Cap", "cap", "a`b", "select"), 7)
    rows = one_row(**named, name='it\'s "quoted" -- here', st=inner, b=True)
    predicate = plan_predicate(sql, SCHEMA)
    assert predicate.columns == columns
    assert predicate.loggable
    assert predicate.sql == sql
    assert predicate.mask(rows).to_pylist() == [True]
    assert predicate.mask(rows.select(list(columns) or ["id"])).to_pylist() == [True]


@pytest.mark.parametrize(
    ("sql", "loggable"),
    [
        ("day < '2026-01-02'", True),
        ("day = date '2026-01-01'", True),
        ("at >= '2026-01-01'", True),
        ("at = '2026-01-01T02:00:00+02:00'", True),
        ("id = '7'", True),
        ("name = 7", False),
        ("v = 7.0", True),
        ("id in ('7', 8)", True),
    ],
)
def test_literals_take_the_type_of_the_column(sql: str, loggable: bool) -> None:
    """A literal is cast when the text is planned; a column that must be cast may fail, and is not logged."""
    rows = one_row(id=7, v=7, name="7", day=date(2026, 1, 1), at=datetime(2026, 1, 1, tzinfo=UTC))
    predicate = plan_predicate(sql, SCHEMA)
    assert predicate.loggable == loggable
    assert predicate.mask(rows).to_pylist() == [True]


def test_null_counts_as_false_and_truth_has_three_values() -> None:
    """Kleene's logic, in kernels and in queries."""
    rows = pa.table({"id": [1, None], "b": [None, True]}, schema=pa.schema([("id", pa.int64()), ("b", pa.bool_())]))
    expected = {
        "id = 1": [True, False],
        "not (id = 1)": [False, False],
        "id = 1 or b": [True, True],
        "id = 1 and b": [False, False],
        "id in (2, null)": [False, False],
        "id not in (2, null)": [False, False],
        "id is null": [False, True],
        "b is not true": [True, False],
        "null": [False, False],
        "id is not distinct from null": [False, True],
    }
    for sql, holds in expected.items():
        assert plan_predicate(sql, rows.schema).mask(rows).to_pylist() == holds, sql
        slow = plan_predicate(
            f"({sql}) and upper('x') = 'X' and md5(cast(b as string)) is distinct from ''", rows.schema
        )
        assert slow.mask(rows).to_pylist() == holds, sql


def test_values_of_python_are_spelled_as_literals() -> None:
    """What is logged is text, whatever was given."""
    schema = pa.schema(
        [
            ("i", pa.int32()),
            ("f", pa.float32()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("d", pa.date32()),
            ("t", pa.timestamp("us")),
            ("z", pa.timestamp("us", "Europe/Berlin")),
            ("n", pa.decimal128(10, 2)),
            ("x", pa.binary()),
            ("c", pa.time64("us")),
            ("l", pa.list_(pa.int32())),
        ]
    )
    given: dict[str, Any] = {
        "i": -5,
        "f": float("inf"),
        "s": None,
        "b": True,
        "d": date(2026, 1, 31),
        "t": datetime(1, 1, 1, 12, 0, 0, 5),  # noqa: DTZ001 — a local timestamp is meant.
        "z": datetime(2026, 7, 1, 12, tzinfo=UTC),
        "n": Decimal("1.50"),
        "x": b"\x00\xff",
        "c": time(1, 2, 3),
    }
    plan = plan_assignments({**given, "l": "[1, 2, null]"}, schema)
    assert plan.loggable
    assert plan.targets == tuple(schema.names)
    assert plan.columns == ()
    assert all(isinstance(sql, str) for sql in plan.sql.values())
    found = plan.apply(pa.Table.from_pylist([{}], schema=schema))
    assert found.schema == schema
    assert found.to_pylist() == [{**given, "l": [1, 2, None]}]
    again = plan_assignments(plan.sql, schema).apply(pa.Table.from_pylist([{}], schema=schema))
    assert again.equals(found)


@pytest.mark.parametrize("name", EXOTIC)
def test_columns_of_any_type_may_stand_beside(name: str) -> None:
    """They are neither looked at nor changed; a test for null is always possible."""
    schema = pa.schema([("id", pa.int64()), (name, EXOTIC[name])])
    rows = pa.table([pa.array([1, 2]), pa.nulls(2, EXOTIC[name])], schema=schema)
    assert plan_predicate("id = 2", schema).mask(rows).to_pylist() == [False, True]
    mask = plan_predicate("id = 2 and md5('a') != ''", schema).mask(rows)
    changed = plan_assignments({"id": "id + 1"}, schema).apply(rows, mask)
    assert changed.schema == schema
    assert changed["id"].to_pylist() == [1, 3]
    if name not in {"union", "ree"}:
        assert plan_predicate(f"`{name}` is null", schema).mask(rows).to_pylist() == [True, True]
        assert plan_assignments({name: None}, schema).apply(rows, mask).schema == schema


def test_a_text_that_would_kill_the_parser_never_reaches_it() -> None:
    """Ten thousand operators overflow DataFusion's stack; lists of values do not nest, and may be long."""
    many = " or id = 1" * 10_000
    for chain in (
        f"id = 1{many}",
        "+".join(["id"] * 10_000) + " = 1",
        "not " * 5000 + "b",
        f"name = 'a''b'{many}",
        "1" + "or 1" * 9999,
    ):
        with pytest.raises(InvalidInputError, match="too long"):
            plan_predicate(chain, SCHEMA)
    for hidden in (
        f"name = E'\\''{many} or name = ''",
        f"name = $$'$$ {many} or name = ''",
        f"b -- '\n{many} or name=''",
    ):
        with pytest.raises(InvalidInputError):
            plan_predicate(hidden, SCHEMA)
    with pytest.raises(InvalidInputError, match="too long"):
        plan_predicate(f"name = '{'x' * (1 << 20)}'", SCHEMA)
    with pytest.raises(InvalidInputError, match="nest 64 deep"):
        plan_predicate("+".join(["id"] * 100) + " = 1", SCHEMA)
    with pytest.raises(InvalidInputError, match="RecursionLimitExceeded"):
        plan_predicate("(" * 500 + "b" + ")" * 500, SCHEMA)
    listed = plan_predicate(f"id in ({', '.join(str(-one) for one in range(20_000))})", SCHEMA)
    assert listed.loggable
    assert listed.mask(one_row(id=-19_999)).to_pylist() == [True]
    chained = plan_predicate(" or ".join(f"(id = {one} and v = 1)" for one in range(150)), SCHEMA)
    assert chained.mask(one_row(id=149, v=1)).to_pylist() == [True]


def test_rows_of_other_types_are_refused() -> None:
    """A plan is for one schema; what was planned as a number is not compared as a string."""
    predicate = plan_predicate("id = 7", SCHEMA)
    with pytest.raises(InvalidInputError, match="was planned as int64"):
        predicate.mask(pa.table({"id": ["7"]}))


def test_names_must_be_distinct() -> None:
    """Two columns of one name cannot be told apart."""
    with pytest.raises(InvalidInputError, match="same name"):
        plan_predicate("a = 1", pa.schema([("a", pa.int64()), ("a", pa.int64())]))


def test_plans_are_kept_by_schema_and_text() -> None:
    """The same text on an equal schema is planned once; long texts are not kept."""
    equal = pa.schema(list(SCHEMA))
    assert plan_predicate("id = 71", SCHEMA) is plan_predicate("id = 71", equal)
    assert plan_assignments({"id": "id + 71"}, SCHEMA) is plan_assignments({"id": "id + 71"}, equal)
    other = pa.schema([("id", pa.string())])
    assert plan_predicate("id = '71'", other) is not plan_predicate("id = '71'", SCHEMA)
    long = f"id in ({', '.join(map(str, range(5000)))})"
    assert plan_predicate(long, SCHEMA) is not plan_predicate(long, SCHEMA)


def test_the_dialect_has_a_name() -> None:
    """It is logged beside the text."""
    assert DIALECT == "datafusion-54"
