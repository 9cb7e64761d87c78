"""Kernels, DataFusion and Lance's scanner agree, row for row, on everything that two of them understand."""

import threading
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from phalanx.errors import InvalidInputError
from phalanx.expr import plan_assignments, plan_predicate
from tests.unit.test_expr_extremes import COUNT, FAMILIES, ROWS, SCHEMA, conditions, planned, same, values

# An ordinary session, with all its optimizer rules: what anyone would get who runs the expression by hand.
REFERENCE = SessionContext(SessionConfig().set("datafusion.sql_parser.enable_ident_normalization", "false"))


def reference(sql: str, rows: pa.Table) -> Any:
    """What DataFusion says, with fields of null structs made null as they are in storage."""
    whole = rows.to_batches()[0] if rows.num_columns else None
    parts = pa.RecordBatch.from_arrays([_honest(one) for one in whole.columns], schema=whole.schema)
    frame = REFERENCE.read_batch(parts)
    return frame.select(frame.parse_sql_expr(sql).alias("found")).to_arrow_table()["found"]


def _honest(column: Any) -> Any:
    if not pa.types.is_struct(column.type):
        return column
    return pa.StructArray.from_arrays(column.flatten(), fields=list(column.type), mask=column.is_null())


def shuffled(seed: int) -> pa.Table:
    """Twelve of the extreme rows, chosen anew for every column."""
    choice = np.random.default_rng(seed)
    taken = {name: ROWS[name].combine_chunks().take(choice.integers(0, COUNT, 12)) for name in SCHEMA.names}
    return pa.table(taken, schema=SCHEMA)


tables = st.integers(0, 2**32 - 1).map(shuffled)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sql=conditions(3), rows=tables)
def test_a_condition_holds_for_the_rows_that_datafusion_says(sql: str, rows: pa.Table) -> None:
    """By kernels or not: the same truth, null counted as false."""
    predicate = planned(sql)
    if predicate is None or not predicate.loggable:
        return
    event("kernel" if predicate._program.kernel else "query")
    for some in (ROWS, rows):
        expected = reference(sql, some).fill_null(False)
        assert predicate.mask(some).to_pylist() == expected.to_pylist()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), rows=tables)
def test_a_value_is_what_datafusion_says(data: Any, rows: pa.Table) -> None:
    """Arithmetic that wraps around, floats, strings, cases: assigned to a column of their own type."""
    sql = data.draw(values(data.draw(st.sampled_from(sorted(FAMILIES))), 3))
    try:
        kind = reference(sql, ROWS.slice(0, 1)).type
    except Exception:  # noqa: BLE001 — DataFusion refuses the types, or fails on the row.
        return
    schema = SCHEMA.append(pa.field("result", kind))
    try:
        assignments = plan_assignments({"result": sql}, schema)
    except InvalidInputError:
        return
    if not assignments.loggable:
        return
    event("kernel" if assignments._programs[0][1].kernel else "query")
    for some in (ROWS, rows):
        wide = some.append_column(schema.field("result"), pa.nulls(len(some), kind))
        found = assignments.apply(wide)["result"].combine_chunks()
        assert same(found, reference(sql, some).combine_chunks())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The extreme rows as a Lance dataset."""
    numbered = ROWS.append_column("at", pa.array(range(COUNT)))
    return lance.write_dataset(numbered, str(tmp_path_factory.mktemp("lance") / "rows"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sql=conditions(2))
def test_lance_holds_for_the_same_rows_if_it_accepts_the_words(dataset: Any, sql: str) -> None:
    """The text for Lance's scanner means what the mask says."""
    predicate = planned(sql)
    if predicate is None or predicate.lance is None:
        return
    try:
        found = dataset.scanner(columns=["at"], filter=predicate.lance).to_table()["at"].to_pylist()
    except ValueError:
        event("refused by Lance")
        return
    event("accepted by Lance")
    expected = [at for at, holds in enumerate(predicate.mask(ROWS).to_pylist()) if holds]
    assert found == expected


@pytest.mark.parametrize(
    "sql",
    [
        "i64 = 7",
        "i32 > 3 and s != 'a'",
        "`Big Name` in (1, 2, 7)",
        "d < '2026-01-01'",
        "t >= '1970-01-01T00:00:00.000001'",
        "z < '2026-01-01'",
        "ns < timestamp '2026-01-01T00:00:00'",
        "st.x = 7",
        "f64 > 1.5",
        "dec = 0.01",
        "bin = X'fffe'",
        "s like 'a%'",
        "i64 = -9223372036854775808",
        "u64 = 18446744073709551615",
        "i64 % 10 = 7",
        "b is not true",
    ],
)
def test_lance_accepts_the_words_for_ordinary_conditions(dataset: Any, sql: str) -> None:
    """Not only equal where accepted: these are accepted."""
    predicate = plan_predicate(sql, SCHEMA)
    assert predicate.lance is not None
    found = dataset.scanner(columns=["at"], filter=predicate.lance).to_table()["at"].to_pylist()
    assert found == [at for at, holds in enumerate(predicate.mask(ROWS).to_pylist()) if holds]


def test_lance_is_not_asked_where_it_means_something_else(dataset: Any) -> None:
    """A zero without a sign, and a column that is found whatever its case."""
    zero = plan_predicate("f64 = 0.0", SCHEMA)
    assert zero.lance is None
    assert dataset.count_rows("f64 = 0.0") > zero.mask(ROWS).true_count
    assert dataset.count_rows("`Big Name` = 7") == dataset.count_rows("`Big Name` = 7 and I64 = I64 or `Big Name` = 7")
    with pytest.raises(InvalidInputError, match="no column here"):
        plan_predicate("I64 = 1", SCHEMA)


@pytest.mark.parametrize("expression", ["v + 1", "coalesce(v, 0) + 1", "case when id = 7 then v + 1 else v end"])
@pytest.mark.parametrize("where", ["id = 7", "id = 7 and lower(name) = 'x'"])
def test_fifty_increments_add_up_to_fifty(expression: str, where: str) -> None:
    """Identical changes back to back, through kernels and through queries (known bug 41)."""
    rows = pa.table({"id": [1, 7, 7], "v": [0, 0, 10], "name": ["x", "x", "X"]})
    for _ in range(50):
        mask = plan_predicate(where, rows.schema).mask(rows)
        rows = plan_assignments({"v": expression}, rows.schema).apply(rows, mask)
    assert rows["v"].to_pylist() == [0, 50, 60]


def test_fifty_increments_by_queries_add_up_to_fifty() -> None:
    """The same where the assignment itself is a query."""
    rows = pa.table({"v": [0], "n": ["ab"]})
    change = plan_assignments({"v": "v + strpos(lower(n), 'a')"}, rows.schema)
    assert change._programs[0][1].kernel is None
    for _ in range(50):
        rows = change.apply(rows)
    assert rows["v"].to_pylist() == [50]


def test_all_right_hand_sides_see_the_old_row() -> None:
    """Two columns change places."""
    rows = pa.table({"a": [1, 2], "b": [3, None], "s": ["x", "y"]})
    swap = plan_assignments({"a": "b", "b": "a", "s": "upper(s)"}, rows.schema)
    assert swap.apply(rows).to_pylist() == [{"a": 3, "b": 1, "s": "X"}, {"a": None, "b": 2, "s": "Y"}]


def test_integers_wrap_around_in_both_evaluators() -> None:
    """Overflow is defined: two's complement, in the type of the operands."""
    rows = pa.table({"v": pa.array([2**63 - 1, -(2**63)]), "n": pa.array([127, -128], pa.int8())})
    plan = plan_assignments({"v": "v + 1", "n": "n * cast(2 as tinyint)"}, rows.schema)
    assert plan.loggable
    assert plan.apply(rows).to_pylist() == [{"v": -(2**63), "n": -2}, {"v": -(2**63) + 1, "n": 0}]
    slow = plan_predicate("v + 1 < v and lower('x') = 'x'", rows.schema)
    assert slow.mask(rows).to_pylist() == [True, False]


def test_computed_nans_are_stored_as_one() -> None:
    """Processors give them different signs, and the sign decides where they sort."""
    rows = pa.table({"f": [0.0, 1.0]})
    found = plan_assignments({"f": "f / f - f / f"}, rows.schema).apply(rows)
    divided = plan_assignments({"f": "f / f"}, rows.schema).apply(rows)
    assert divided["f"].combine_chunks().view(pa.int64()).to_pylist()[0] == 0x7FF8000000000000
    assert found["f"].to_pylist()[1] == 0.0


def test_chunks_slices_and_no_rows_at_all() -> None:
    """Tables of several chunks, sliced batches, empty tables, tables without the needed chunk."""
    rows = pa.concat_tables([ROWS.slice(3, 5), ROWS.slice(20, 9), ROWS.slice(0, 0)])
    for sql in ("i64 > 0", "lower(s) != 'q'", "true", "f64 > 1.0", "st.x is null", "f64 != f64 + 1.0"):
        predicate = plan_predicate(sql, SCHEMA)
        expected = [*predicate.mask(ROWS).to_pylist()[3:8], *predicate.mask(ROWS).to_pylist()[20:29]]
        assert predicate.mask(rows).to_pylist() == expected
        assert predicate.mask(rows.combine_chunks().to_batches()[0].slice(2, 3)).to_pylist() == expected[2:5]
        assert len(predicate.mask(SCHEMA.empty_table())) == 0
    changes = plan_assignments({"i64": "i64 + 1", "s": "upper(s)"}, SCHEMA)
    assert changes.apply(SCHEMA.empty_table()).schema == SCHEMA


def test_threads_share_plans_and_sessions() -> None:
    """Eight threads, both evaluators, the same answers."""
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(20):
            fast = plan_predicate(f"i64 > {turn * number}", SCHEMA).mask(ROWS)
            slow = plan_predicate(f"i64 > {turn * number} and lower('x') = 'x' and md5('a') != ''", SCHEMA).mask(ROWS)
            if fast.to_pylist() != slow.to_pylist():
                wrong.append(f"{number} {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_nothing_of_lance_is_imported(tmp_path: Path) -> None:
    """Planning and evaluating stand on DataFusion and Arrow alone."""
    source = Path(__file__).parents[2] / "src" / "phalanx" / "expr"
    assert not [path for path in source.glob("*.py") if "import lance" in path.read_text()]


def test_what_is_computed_of_floats_need_not_be_one() -> None:
    """A comparison, a whole number or a text of floats has no NaN to look for."""
    rows = pa.table({"f": pa.array([1.5, float("nan"), None]), "b": [True] * 3, "n": [0] * 3, "s": [""] * 3})
    for target, sql in {"b": "(f + f) is null", "n": "case when f + f > 1 then 2 else 3 end"}.items():
        found = plan_assignments({target: sql}, rows.schema).apply(rows)
        assert found[target].to_pylist() == reference(sql, rows).to_pylist()
