"""Pipelines: declared, run as one transaction, once; what fails leaves nothing, and says which step and why."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import phalanx
from phalanx.cli.app import app
from phalanx.errors import ExpectationError, InvalidInputError, NotFoundError, StateError
from phalanx.spark import Pipeline, SparkLake, added, changes, expect, load_pipeline, made, run_pipeline, state, whole
from phalanx.spark.run import StepRan, source_of, told
from phalanx.spark.state import Source, drawn, history, planned, status
from tests.spark import shop
from tests.spark.rows import EVENTS, events


def test_a_run_reads_what_is_new_and_publishes_everything_at_once(lake: phalanx.Lake, there: SparkLake) -> None:
    """Five tables, Python and SQL, whole tables and changes; each run is one entry, and the next goes on from there."""
    shop.prepare(lake)
    declared = shop.pipeline()
    seen = []
    first = run_pipeline(there, declared, progress=seen.append)
    assert [one.name for one in seen] == ["cleaned", "items", "totals", "daily"]
    assert (first.number, first.steps[0].rows, first.already) == (1, 31, False)
    assert first.version == first.snapshot + 1
    assert shop.whole_runs(lake) == 31
    shop.prepare(lake, 5)
    second = run_pipeline(there, declared)
    assert [one.rows for one in second.steps] == [5, 5, 4, 1]
    assert shop.whole_runs(lake) == 36
    assert run_pipeline(there, declared, number=2).already
    early = run_pipeline(there, declared, number=1)
    assert (early.already, early.number, early.last, early.version) == (True, 1, 2, second.version)
    assert shop.whole_runs(lake) == 36
    here = status(lake, declared)
    assert (here.run, here.inputs[0].table, here.inputs[0].version, here.inputs[0].new) == (
        2,
        "orders",
        second.snapshot,
        0,
    )
    past = history(lake, "shop")
    assert [one.number for one in past] == [2, 1]
    assert [one.rows for one in past[0].steps] == [5, 5, 4, 1]
    assert past[0].version == second.version


def test_nothing_of_a_run_is_visible_if_a_step_or_an_expectation_fails(lake: phalanx.Lake, there: SparkLake) -> None:
    """The error names the step, the reason, and how many rows; the number is free for the next attempt."""
    lake.create_table("events", EVENTS).append([*events(0, 4), {"id": 3, "kind": None, "x": None}])
    for name in ("good", "bad"):
        lake.create_table(name, EVENTS)

    def declared(*expected: expect.Expectation) -> Pipeline:
        both = Pipeline("both")
        both.sql("first", "select * from events", reads=[whole("events")], writes="good")
        both.sql("second", "select * from events", reads=[whole("events")], writes="bad", expect=expected)
        return both

    version = lake.version
    for expected, says in (
        (expect.rows(at_least=9), "there are 5 rows, and at least 9 are expected"),
        (expect.rows(at_most=4), "at most 4 are expected"),
        (expect.not_null("kind"), "column 'kind' is null in 1 of 5 rows"),
        (expect.unique("id"), r"\(id = 3\) is there 2 times"),
        (expect.holds("x < 1"), "'x < 1' does not hold in 3 of 5 rows"),
        (expect.custom(lambda frame: f"no {frame.columns[0]}, please"), "no id, please"),
    ):
        with pytest.raises(ExpectationError, match=rf"^step 'second' of pipeline 'both', run 1: .*{says}"):
            run_pipeline(there, declared(expected))
    assert lake.version == version
    run_pipeline(there, declared(expect.rows(1, 5), expect.not_null("id"), expect.custom(lambda _: None)))
    assert lake["bad"].count() == 5


def test_keys_that_are_made_twice_and_rows_that_are_not_made_break_expectations(
    lake: phalanx.Lake, there: SparkLake
) -> None:
    """A table with a key keeps one row of each: that there were two is known all the same; no rows are looked at as well."""
    lake.create_table("events", EVENTS).append(events(0, 3))
    lake.create_table("large", EVENTS).append(pa.Table.from_pylist(events(0, 40_000), EVENTS), stage=True)
    lake.create_table("out", EVENTS, key="id")

    def declared(sql: str, *expected: expect.Expectation) -> Pipeline:
        doubling = Pipeline("doubling")
        doubling.sql(
            "doubled", sql, reads=[whole("events"), whole("large")], writes="out", mode="upsert", expect=expected
        )
        return doubling

    for table, count in (("events", "3 of 6"), ("large", "40,000 of 80,000")):
        twice = (
            f"select id, 'a' as kind, x from {table} union all select id, 'b' as kind, 1000000 + x as x from {table}"
        )
        for columns in (("id",), ("id", "x"), ("kind", "id"), ("kind",)):
            declaration = declared(f"select id, kind, 0.0 as x from ({twice})", expect.unique(*columns))
            if columns == ("kind", "id"):
                run_pipeline(there, declaration)
                continue
            with pytest.raises(ExpectationError, match=rf"\({columns[0]} = .*is there [\d,]+ times"):
                run_pipeline(there, declaration)
        with pytest.raises(ExpectationError, match=f"does not hold in {count} rows"):
            run_pipeline(there, declared(twice, expect.holds("kind = 'b'")))
    nothing = "select * from events where false"
    total = expect.custom(lambda frame: None if frame.count() else "there is no total")
    with pytest.raises(ExpectationError, match="there is no total"):
        run_pipeline(there, declared(nothing, total))
    run_pipeline(there, declared(nothing, expect.not_null("id"), expect.unique("id"), expect.holds("x > 0")))


def test_a_table_that_a_step_creates_has_the_types_of_its_inputs(lake: phalanx.Lake, there: SparkLake) -> None:
    """Vectors, unsigned integers, dictionaries: of an input as it is, of its columns in SQL, of what a step has made."""
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.uint8()),
            "e": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
            "word": pa.array(["x", "y"]).dictionary_encode(),
            "day": pa.array([0, 86_400_000], pa.date64()),
            "big": pa.array([1, 2**64 - 1], pa.uint64()),
        }
    )
    lake.create_table("t", rows)
    lake.create_table("other", pa.table({"day": pa.array([0], pa.date32())}))
    p = Pipeline("p")
    p.step(reads=[whole("t")], writes="same", create=True, name="same")(lambda t: t)
    p.sql("some", "select id, e, word, 1.5 as big from t where id > 0", reads=[whole("t")], writes="some", create=True)
    p.sql("more", "select e, cast(id as int) as id from some", reads=[made("some")], writes="more", create=True)
    p.sql("days", "select t.day from t", reads=[whole("t"), whole("other")], writes="days", create=True)
    own = pa.schema([("e", pa.list_(pa.float32()))])
    p.sql("own", "select slice(e, 1, 1) as e from t", reads=[changes("t")], writes="own", create=own)
    run_pipeline(there, p)
    assert lake["same"].schema == rows.schema
    assert lake["same"].to_arrow().to_pylist() == rows.to_pylist()
    assert lake["some"].schema.types[:3] == rows.schema.types[:3]
    assert pa.types.is_decimal(lake["some"].schema.field("big").type)
    assert lake["more"].schema.types == [rows.schema.field("e").type, pa.int32()]
    assert (lake["days"].schema.types, lake["own"].schema.types) == ([pa.date32()], [pa.list_(pa.float32())])


def test_inputs_that_would_have_one_name_are_refused() -> None:
    """The second would take the place of the first."""
    with pytest.raises(InvalidInputError, match="two inputs would be called 't'"):
        Pipeline("p").sql("s", "select 1", reads=[changes("t"), whole("t")], writes="out")


def test_what_goes_wrong_in_a_step_is_told_in_a_sentence(lake: phalanx.Lake, there: SparkLake) -> None:
    """Python, SQL, tasks, tables: an error of Phalanx with the step's name, and no trace of Java."""
    lake.create_table("events", EVENTS).append(events(0, 4))
    lake.create_table("out", EVENTS)
    version = lake.version

    def fails(frame: DataFrame) -> DataFrame:
        raise ValueError("not today")

    def in_a_task(batches):  # noqa: ANN001, ANN202 - runs in a task
        raise RuntimeError("in a task")
        yield from batches

    for work, says in (
        (fails, "ValueError: not today"),
        (lambda frame: frame.mapInArrow(in_a_task, frame.schema), "RuntimeError: in a task"),
        (lambda frame: frame.withColumnRenamed("x", "y"), "there is no column 'y'"),
        (lambda frame: len(frame.columns), "it returned a int, and a step returns a data frame"),
        ("select nothing from frame", "nothing"),
        ("select id from frame where id = ", "Syntax error at or near end of input"),
        ("select id from nowhere", "nowhere"),
    ):
        one = Pipeline("one")
        if isinstance(work, str):
            one.sql("it", work, reads={"frame": whole("events")}, writes="out")
        else:
            one.step(reads={"frame": whole("events")}, writes="out", name="it")(work)
        with pytest.raises(phalanx.PhalanxError, match=r"^step 'it' of pipeline 'one', run 1: ") as caught:
            run_pipeline(there, one)
        assert says in str(caught.value)
        assert isinstance(caught.value, InvalidInputError) == ("in a task" not in says)
        assert "\tat " not in str(caught.value)
    gone = Pipeline("gone")
    gone.sql("it", "select 1", reads={"frame": whole("nowhere")}, writes="out")
    with pytest.raises(NotFoundError, match="there is no table 'nowhere'"):
        run_pipeline(there, gone)
    assert lake.version == version


def test_rows_that_changed_are_not_taken_for_added_ones_and_a_full_run_reads_all(
    lake: phalanx.Lake, there: SparkLake
) -> None:
    """An input that is only added to says so when it is not; with full, it begins anew."""
    table = lake.create_table("events", EVENTS)
    lake.create_table("copy", EVENTS)
    table.append(events(0, 4))
    copy = Pipeline("copy")
    copy.step(reads={"rows": added("events", columns=["id", "x"], where="id > 0")}, writes="copy", name="it")(
        lambda rows: rows
    )
    run_pipeline(there, copy)
    table.append(events(4, 2))
    assert run_pipeline(there, copy).steps[0].rows == 2
    table.delete("id = 5")
    with pytest.raises(StateError, match="was not only added to: there is a delete at version"):
        run_pipeline(there, copy)
    assert run_pipeline(there, copy, full=True).steps[0].rows == 4


def test_a_declaration_that_cannot_run_is_refused_as_a_whole(tmp_path: Path) -> None:
    """Circles, doubles, unknown steps, changes of what it writes itself, files that declare nothing."""
    circle = Pipeline("circle")
    circle.sql("a", "select 1", reads=[whole("y")], writes="x")
    circle.sql("b", "select 1", reads=[whole("x")], writes="y")
    with pytest.raises(InvalidInputError, match="steps 'a', 'b' read each other's output"):
        circle.ordered()
    twice = Pipeline("twice")
    twice.sql("a", "select 1", reads=[], writes="x")
    twice.sql("a", "select 1", reads=[], writes="y")
    with pytest.raises(InvalidInputError, match="two steps named 'a'"):
        twice.ordered()
    lost = Pipeline("lost")
    lost.sql("a", "select 1", reads=[made("nobody")], writes="x")
    with pytest.raises(InvalidInputError, match="step 'a' reads step 'nobody'"):
        lost.ordered()
    own = Pipeline("own")
    own.sql("a", "select 1", reads=[whole("t")], writes="x")
    own.sql("b", "select 1", reads=[changes("x")], writes="y")
    with pytest.raises(InvalidInputError, match="reads the changes of 'x', which this pipeline writes"):
        own.ordered()
    for name in ("a; b", "a > b", "two words", ""):
        with pytest.raises(InvalidInputError, match="a name is letters, digits and the signs"):
            own.sql(name, "select 1", reads=[], writes="x")
    with pytest.raises(InvalidInputError, match="mode is one of append, overwrite, upsert"):
        own.sql("c", "select 1", reads=[], writes="x", mode="merge")
    for text, says in (
        ("x = 1", "declares 0 pipelines"),
        ("x = ", "cannot be read as Python"),
        ("1 / 0", "ZeroDivision"),
    ):
        (tmp_path / "file.py").write_text(text)
        with pytest.raises(InvalidInputError, match=says):
            load_pipeline(tmp_path / "file.py")


def test_the_history_of_a_pipeline_has_tables_of_any_name(lake: phalanx.Lake) -> None:
    """Runs are told in words, in which a name may look like the end of a step."""
    steps = [StepRan("one", "my; table > two 3 rows", "", 4, 50, 0.5), StepRan("two", "other", "", 0, 0, 1.0)]
    lake.create_table("t", EVENTS)
    with lake.transaction(told("p", 1, 2, steps, 1.5)) as txn:
        txn.record_progress(source_of("p"), 1, expected=None)
        txn["t"].append(events(0, 1))
    assert [(one.number, list(one.steps)) for one in history(lake, "p")] == [(1, steps)]


def test_the_history_of_a_pipeline_ends_with_its_first_run(lake: phalanx.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it in the log is not read, however many runs were asked for."""
    lake.create_table("t", EVENTS)
    for number in range(20):
        lake["t"].append(events(number, 1))
    for number in (1, 2):
        with lake.transaction(told("p", number, 1, [], 1.5)) as txn:
            txn.record_progress(source_of("p"), number, expected=None if number == 1 else 1)
            txn["t"].append(events(0, 1))
    pages: list[int] = []
    log = lake.log
    monkeypatch.setattr(state, "_PAGE", 2)
    monkeypatch.setattr(lake, "log", lambda limit, *, before: pages.append(limit) or log(limit, before=before))
    assert [one.number for one in history(lake, "p", limit=20)] == [2, 1]
    assert len(pages) <= 2


def test_steps_run_after_those_whose_output_they_read(tmp_path: Path) -> None:
    """In whatever order they are declared; a step may read the table that it writes."""
    mixed = Pipeline("mixed")
    mixed.sql("last", "select 1", reads=[whole("b"), whole("own")], writes="c")
    mixed.sql("own", "select 1", reads=[whole("own"), made("first")], writes="own", mode="upsert")
    mixed.sql("first", "select 1", reads=[added("a")], writes="b")
    assert [step.name for step in mixed.ordered()] == ["first", "own", "last"]
    assert [one.after for one in planned(mixed)] == [(), ("first",), ("first", "own")]
    assert planned(mixed)[1].reads == {"own": Source("whole", "own"), "first": Source("made", "first")}
    picture = "\n".join(drawn(mixed))
    assert "a (added since the last run)" in picture
    assert "[first] ─► b (append)" in picture


BESIDE = """
import thrice_beside
from steps_beside.more import double
from phalanx.spark import Pipeline, whole
p = Pipeline("beside")

def work(batches):
    for batch in batches:
        yield thrice_beside.thrice(double(batch))

@p.step(reads=[whole("events")], writes="copy")
def copy(events):
    return events.mapInArrow(work, events.schema)
"""


def test_a_pipeline_imports_modules_beside_its_file(
    lake: phalanx.Lake, there: SparkLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its tasks do, in processes that have never heard of that folder; a second file of it may as well."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    lake.create_table("events", EVENTS).append(events(0, 3))
    copy = lake.create_table("copy", EVENTS)
    (tmp_path / "jobs" / "steps_beside").mkdir(parents=True)
    for name, text in {
        "one.py": BESIDE,
        "two.py": BESIDE,
        "thrice_beside.py": "import pyarrow as pa\ndef thrice(batch):\n    return pa.concat_batches([batch] * 3)\n",
        "steps_beside/__init__.py": "",
        "steps_beside/more.py": "import pyarrow as pa\ndef double(batch):\n    return pa.concat_batches([batch] * 2)\n",
    }.items():
        (tmp_path / "jobs" / name).write_text(text)
    for number, name in enumerate(("one.py", "two.py"), 1):
        run_pipeline(there, load_pipeline(tmp_path / "jobs" / name))
        assert copy.count() == 18 * number


FILE = """
from phalanx.spark import Pipeline, added, expect
p = Pipeline("daily")
p.sql("copy", "select id, kind, x + 1 as x from events", reads=[added("events")], writes="copy",
      expect=[expect.rows(at_most=10)])
"""


def test_the_command_line_runs_plans_and_tells(
    lake: phalanx.Lake, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`phalanx pipeline run | plan | status | history`, for people and as JSON, with exit codes."""
    lake.create_table("events", EVENTS).append(events(0, 3))
    lake.create_table("copy", EVENTS)
    (tmp_path / "daily.py").write_text(FILE)
    file = str(tmp_path / "daily.py")

    def say(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["pipeline", *words])
        assert done.exit_code == code, (done.output, done.exception)
        return done.stdout

    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # the session is that of all tests
    assert "[copy] ─► copy (append)" in say("plan", file)
    (step,) = json.loads(say("plan", file, "--json"))
    assert (step["name"], step["writes"], step["mode"], step["after"]) == ("copy", "copy", "append", [])
    assert step["reads"] == {"events": {"kind": "added", "name": "events", "columns": None, "where": None}}
    assert "none yet" in say("status", file, "--lake", lake.uri)
    told = json.loads(say("run", file, "--lake", lake.uri, "--json"))
    assert (told["number"], told["steps"][0]["rows"]) == (1, 3)
    assert "has landed before" in say("run", file, "--lake", lake.uri, "--run", "1")
    assert "copy > copy: 0 rows" in say("run", file, "--lake", lake.uri)
    at = f"pipeline daily is at run 2, which landed at version {lake.version}: run 1 was before that or was left out"
    assert at in " ".join(say("run", file, "--lake", lake.uri, "--run", "1").split())
    assert "2, at version" in say("status", file, "--lake", lake.uri)
    assert [one["number"] for one in json.loads(say("history", file, "--lake", lake.uri, "--json"))] == [2, 1]
