"""How others made tables unreadable, were written past, or counted wrongly (docs/known-bugs.md, 38, 40 and 41)."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from datafusion import SessionContext, col, lit

import phalanx
from phalanx.errors import InvalidInputError, PhalanxError
from phalanx.expr import safety
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.tables import dataset
from phalanx.tail import apply
from phalanx.tail.steps import Step, steps

GOOD = {"id": [1, 2], "v": [2, 5], "s": ["7", "8"]}
BAD = {"id": [3, 4, 5], "v": [0, -(2**63), None], "s": ["x", "", None]}
"""Each of the expressions below fails on one of these, and on none of the good ones."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake that flushes only when it is asked to."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.set_property("flush.background", "off")
        yield made


def rows_of(readable: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in readable.to_arrow().to_pylist()), key=str)


def given(rows: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return sorted(zip(*rows.values(), strict=True), key=str)


FALLIBLE = {
    "10 / v": [5, 2],
    "10 % v": [0, 0],
    "v / (v - 2 + 2)": [1, 1],
    "cast(s as bigint)": [7, 8],
    "cast(s as bigint) + 1": [8, 9],
    "cast(cast(v as tinyint) as bigint)": [2, 5],
    "arrow_cast(s, 'Int64')": [7, 8],
    "abs(v)": [2, 5],
    "factorial(v)": [2, 120],
    "character_length(chr(v))": [1, 1],
    "case when v = 0 then 1 / v else v end": [2, 5],
    "cast(to_date(concat('2024-01-0', s)) as int)": [19729, 19730],
}


def logged(lake: Lake, name: str) -> list[type]:
    """The kinds of items in a table's tail."""
    return [type(pending.item) for pending in lake.refresh().state.contents[lake[name].id].pending()]


def update_among_bad_rows(lake: Lake, key: Any, expression: str) -> None:
    """It fails as a whole, at once, and nobody else ever hears of it."""
    lake.create_table("bad", pa.table(GOOD), key=key)
    lake.flush()
    lake["bad"].append(BAD)
    before = rows_of(lake["bad"])
    change = outcome(lambda: lake["bad"].update({"v": expression}))
    readable = outcome(lambda: rows_of(lake["bad"]))
    assert isinstance(change, InvalidInputError), f"{expression} was logged, and the table is now {readable!r}"
    assert readable == before
    # A condition may be simplified to one that cannot fail: `cast(v as tinyint) = 1` is `v = 1`. No row matches.
    outcome(lambda: lake["bad"].update({"v": "1"}, f"{expression} = -7"))
    outcome(lambda: lake["bad"].delete(f"{expression} = -7"))
    assert outcome(lambda: rows_of(lake["bad"])) == before
    lake.flush("bad")
    assert rows_of(lake["bad"]) == before
    lake.drop_table("bad")


def outcome(run: Callable[[], object]) -> object:
    try:
        return run()
    except PhalanxError as error:
        return error


@pytest.mark.parametrize("key", [(), "id"], ids=["plain", "keyed"])
def test_38_a_change_that_fails_on_a_row_is_refused_and_the_table_stays_readable(lake: Lake, key: Any) -> None:
    """Known bug 38: every kind of expression that may fail, on rows of which one makes it fail."""
    for expression in FALLIBLE:
        update_among_bad_rows(lake, key, expression)


@pytest.mark.parametrize("key", [(), "id"], ids=["plain", "keyed"])
def test_38_a_change_that_may_fail_is_never_logged_as_what_it_says(lake: Lake, key: Any) -> None:
    """Known bug 38: where no row makes it fail it counts at once, and rows that would come later do not meet it."""
    for expression, expected in FALLIBLE.items():
        lake.create_table("good", pa.table(GOOD), key=key)
        lake["good"].update({"v": expression})
        lake["good"].append(BAD)
        assert not set(logged(lake, "good")) & {it.UpdateWhere, it.DeleteWhere}, expression
        wanted = given({**GOOD, "v": expected}) + given(BAD)
        assert rows_of(lake["good"]) == sorted(wanted, key=str), expression
        lake.flush("good")
        assert rows_of(lake["good"]) == sorted(wanted, key=str), expression
        lake.drop_table("good")


def test_38_would_be_found_if_division_were_logged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nothing stands in the way of logging; the acknowledged change makes every later read fail."""
    monkeypatch.setattr(safety, "obstacle", lambda *_, **__: None)
    monkeypatch.setattr("tests.race.test_known_bugs_values.GOOD", {**GOOD, "planted": [1, 2]})  # plans are kept
    with pytest.raises(AssertionError, match=r"10 / v was logged, and the table is now .*Error"):
        update_among_bad_rows(lake, (), "10 / v")


PAST: dict[str, Callable[[str], object]] = {
    "append": lambda uri: lance.write_dataset(pa.table({"id": [9]}), uri, mode="append"),
    "overwrite": lambda uri: lance.write_dataset(pa.table({"id": [9]}), uri, mode="overwrite"),
    "create": lambda uri: lance.write_dataset(pa.table({"id": [9]}), uri, mode="create"),
    "delete": lambda uri: lance.dataset(uri).delete("true"),
    "clean up": lambda uri: lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True),
    "compact": lambda uri: lance.dataset(uri).optimize.compact_files(),
}


@pytest.mark.parametrize("what", PAST)
def test_40_a_plain_client_on_a_tables_path_is_refused(lake: Lake, what: str) -> None:
    """Known bug 40: it writes nothing and cleans up nothing; the lake goes on as if it had not been there."""
    lake.create_table("t", {"id": [1, 2]})
    lake["t"].append({"id": [3]}, stage=True)
    with pytest.raises((ValueError, OSError), match="cannot be read by this version of Lance"):
        PAST[what](lake._core.datasets.uri(lake["t"].id))
    assert lake.check().whole
    lake["t"].append({"id": [4]})
    lake.flush()
    with phalanx.open(lake.uri) as fresh:
        assert rows_of(fresh["t"]) == [(1,), (2,), (3,), (4,)]


def write_past(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody who ignores the guard makes a version: it is never adopted, and found by the next flush and check."""
    lake.create_table("t", {"id": [1, 2]})
    lake.flush()
    folder = Path(lake._core.datasets.uri(lake["t"].id))
    foreign = lance.write_dataset(pa.table({"id": [9]}), str(folder.parent / "foreign"))
    for part in ("_versions", "data"):
        for path in Path(foreign.uri, part).iterdir():
            shutil.copy(path, folder / part / path.name)
    lake["t"].append({"id": [3]})
    with caplog.at_level(logging.WARNING, "phalanx.tables"):
        lake.flush()
    with phalanx.open(lake.uri) as fresh:
        assert rows_of(fresh["t"]) == rows_of(lake["t"]) == [(1,), (2,), (3,)]
        found = fresh.check()
    assert "past the log" in caplog.text, "nobody noticed"
    assert [(problem.harmless, problem.name.rpartition("/")[2]) for problem in found.problems] == [
        (True, path.name) for path in Path(foreign.uri, "_versions").glob("*.manifest")
    ]


def test_40_what_was_written_past_the_log_is_reported_and_never_adopted(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    """Known bug 40: a client that does not look at features leaves a version; the next flush and check say so."""
    write_past(lake, caplog)


def test_40_would_be_found_if_nobody_looked(
    lake: Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what lies in a table's folder is not looked at."""
    monkeypatch.setattr(dataset, "intruders", lambda _: [])
    with pytest.raises(AssertionError, match="nobody noticed"):
        write_past(lake, caplog)


TIMES = 50


def statements(lake: Lake, change: Callable[[Any], object]) -> None:
    for _ in range(TIMES):
        change(lake["c"])


def one_transaction(lake: Lake, change: Callable[[Any], object]) -> None:
    with lake.transaction() as txn:
        for _ in range(TIMES):
            change(txn["c"])


def transactions(lake: Lake, change: Callable[[Any], object]) -> None:
    for _ in range(TIMES):
        with lake.transaction() as txn:
            change(txn["c"])


def with_reads_between(lake: Lake, change: Callable[[Any], object]) -> None:
    for number in range(TIMES):
        change(lake["c"])
        if number % 7 == 0:
            assert lake["c"].to_arrow().num_rows


def with_flushes_between(lake: Lake, change: Callable[[Any], object]) -> None:
    for number in range(TIMES):
        change(lake["c"])
        if number % 16 == 0:
            lake.flush("c")


def by_many_threads(lake: Lake, change: Callable[[Any], object]) -> None:
    """So that several share an entry."""
    threads = [threading.Thread(target=lambda: [change(lake["c"]) for _ in range(TIMES // 5)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PATHS = [statements, one_transaction, transactions, with_reads_between, with_flushes_between, by_many_threads]


def repeat(lake: Lake, path: Callable[..., None], key: Any) -> None:
    """The same change fifty times, of rows in the head, in staged files and in memory; and of some of them only."""
    lake.create_table("c", {"id": [1, 2], "v": [0, 0], "w": [0, 0], "x": [0, 0]}, key=key)
    lake.flush()
    lake["c"].append({"id": [3], "v": [0], "w": [0], "x": [0]}, stage=True)
    lake["c"].append({"id": [4], "v": [0], "w": [0], "x": [0]})
    path(lake, lambda table: table.update({"v": "v + 1", "w": "v", "x": "1 - x"}, "id <> 2"))
    expected = [(at, *((0, 0, 0) if at == 2 else (TIMES, TIMES - 1, TIMES % 2))) for at in range(1, 5)]
    for _ in range(2):
        assert rows_of(lake["c"]) == expected, "fifty times the same"
        assert lake["c"].count(f"v = {TIMES}") == 3, "fifty times the same"
        if key:
            assert lake["c"].get(4) == {"id": 4, "v": TIMES, "w": TIMES - 1, "x": TIMES % 2}
        lake.flush()
    lake.drop_table("c")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_41_the_same_change_repeated_counts_every_time(lake: Lake, path: Callable[..., None]) -> None:
    """Known bug 41: increments, a column that follows another and one that toggles, back to back, on every path."""
    repeat(lake, path, ())
    repeat(lake, path, "id")


def test_41_would_be_found_if_changes_were_stacked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: an update that says what the one before it said is taken for the same."""

    def merged(run: Iterable[Any], decode: Any) -> Iterator[Step]:
        before: object = None
        for step in steps(run, decode):
            if not isinstance(step.item, it.UpdateWhere) or step.item != before:
                yield step
            before = step.item

    monkeypatch.setattr(apply, "steps", merged)
    with pytest.raises(AssertionError, match="fifty times the same"):
        repeat(lake, statements, ())


def test_41_is_what_datafusion_does_with_stacked_projections() -> None:
    """The reason why each change is a query of its own: if this fails, DataFusion has been mended."""
    frame = SessionContext().from_arrow(pa.table({"v": [0]}))
    for _ in range(TIMES):
        frame = frame.select((col("v") + lit(1)).alias("v"))
    assert frame.to_arrow_table()["v"].to_pylist() != [TIMES]
