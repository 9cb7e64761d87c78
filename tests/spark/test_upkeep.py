"""Maintenance in tasks: the same result as without Spark, and no row changes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import phalanx
from phalanx.runs import Ids
from phalanx.spark import SparkLake
from phalanx.spark.upkeep import Runner
from phalanx.tables.dataset import Version
from phalanx.txn.bulk import Large
from phalanx.upkeep.flush import Flushed
from tests.cli.running import real
from tests.spark.rows import EVENTS, events, multiset, run_program
from tests.unit.covering import head

WIDE = pa.schema([*EVENTS, ("vector", pa.list_(pa.float32(), 8)), ("text", pa.string())])

_COMMANDS = """
import json, sys
from phalanx.cli.app import app
for arguments in json.loads(sys.argv[1]):
    app(arguments, standalone_mode=False)
"""


def test_optimize_by_tasks_changes_no_row_and_leaves_few_fragments(lake: phalanx.Lake, there: SparkLake) -> None:
    """Small fragments and deleted rows are rewritten by tasks, and indexed by them."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", WIDE, key="id")
    random = np.random.default_rng(1)
    for first in range(0, 6_000, 1_000):
        rows = pa.Table.from_pylist(events(first, 1_000), EVENTS)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(8_000, dtype=np.float32)), 8)
        words = pa.array([f"word {at} of {at % 7}" for at in range(first, first + 1_000)])
        table.append(rows.append_column(WIDE.field("vector"), vectors).append_column("text", words), stage=True)
    table.delete("id % 10 = 3")
    table.create_index("x", "btree")
    table.create_index("text", "inverted")
    before = multiset(table)
    version = table.version
    done = there.optimize("events")["events"]
    assert (done.rewritten, done.skipped) == (1, ())
    assert (done.before, done.after) == (6, 1)
    assert multiset(table) == before
    assert table.version == version
    assert {one.column for one in table.indexes() if one.fragments == one.of} == {"id", "x", "text"}
    assert table.search(text="word 1234", k=1, columns=["id"])["id"].to_pylist() == [1234]
    assert lake.check().whole


def test_an_index_is_built_by_several_tasks_and_is_one(lake: phalanx.Lake, there: SparkLake) -> None:
    """Each of some fragments, put together: the same answers as without it, and one segment."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", pa.schema([*EVENTS, ("text", pa.string())]))
    for first in range(0, 5_000, 1_000):
        rows = pa.Table.from_pylist(events(first, 1_000), EVENTS)
        words = pa.array([f"word w{at} of {at % 7}" for at in range(first, first + 1_000)])
        table.append(rows.append_column("text", words), stage=True)
    lake.flush()
    table.append([{"id": 9_000, "kind": "late", "x": 1.0, "text": "word w9000"}])
    wheres = ("x = 617.0", "x < 3", "kind = 'late'", "kind <> 'late'")
    asked = {where: sorted(table.to_arrow(where=where)["id"].to_pylist()) for where in wheres}
    there._runner.indexed_rows = 100
    built = list[str]()
    run = there._runner._run
    there._runner._run = lambda what, count, work: (built.append(f"{what}: {count}"), run(what, count, work))[1]  # type: ignore[method-assign]
    there.create_index("events", "x")
    there.create_index("events", "kind", "bitmap")
    there.create_index("events", "text", "inverted", with_position=True)
    assert built == [
        f"{what} index {name!r}{how}"
        for name in ("x_btree", "kind_bitmap", "text_inverted")
        for what, how in (("building", ": 2"), ("putting", " together: 1"))
    ]
    assert [(one.segments, one.fragments, one.of) for one in table.indexes()] == [(1, 6, 6)] * 3, "it flushed first"
    assert {where: sorted(table.to_arrow(where=where)["id"].to_pylist()) for where in wheres} == asked
    for word in (0, 999, 1_000, 4_999, 9_000):
        assert table.search(text=f"w{word}", k=3, columns=["id"])["id"].to_pylist() == [word]
    table.delete("id < 500")
    table.update({"x": "-1.0"}, "id = 1234")
    assert there.optimize("events")["events"].skipped == ()
    assert table.count("x = 617.0") == 0
    assert table.count("x >= 0") == 4_500
    assert lake.check(deep=True).whole


def test_an_index_that_cannot_be_built_leaves_none(lake: phalanx.Lake, there: SparkLake) -> None:
    """Refused before anything is declared."""
    lake.create_table("events", EVENTS)
    with pytest.raises(phalanx.InvalidInputError, match="needs a column of text"):
        there.create_index("events", "x", "inverted")
    with pytest.raises(phalanx.InvalidInputError, match="has no option 'colour'"):
        there.create_index("events", "x", colour="red")
    assert lake["events"].indexes() == []


def test_the_command_line_lets_tasks_do_the_work(tmp_path: Path) -> None:
    """`--spark MASTER`: as without it, in a process with a session of its own; wrong use is said in a sentence."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("events", EVENTS, key="id")
        for first in range(0, 3_000, 1_000):
            table.append(pa.Table.from_pylist(events(first, 1_000), EVENTS), stage=True)
        table.upsert(events(2_990, 20, "b"))
        before = multiset(table)
    verbs = (["flush", uri], ["index", uri, "events", "--create", "x"], ["optimize", uri], ["check", uri, "--deep"])
    asked = [[*verb, "--spark", "local[2]", "--json"] for verb in verbs]
    done = run_program(_COMMANDS, json.dumps(asked), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    flushed, indexed, optimized, checked = map(json.loads, done.stdout.splitlines())
    assert flushed["events"]["rows"] == 20
    assert indexed["created"]["fragments"] == indexed["created"]["of"] == 4
    assert (optimized["events"]["before"], optimized["events"]["after"]) == (4, 1)
    assert (checked["whole"], checked["compared"] > 0) == (True, True)
    with phalanx.open(uri) as lake:
        assert multiset(lake["events"]) == before


def test_spark_is_for_work_that_tasks_can_do(tmp_path: Path) -> None:
    """Wrong use is said in a sentence, before Spark is started."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.create_table("events", EVENTS)
    wrong = {"give --deep too": ("check", uri), "give --create COLUMN too": ("index", uri, "events")}
    for said, arguments in wrong.items():
        ended = real(*arguments, "--spark", "local[2]")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert said in ended.stderr


def test_a_flush_by_tasks_changes_no_row(lake: phalanx.Lake, there: SparkLake) -> None:
    """Many pending rows become a fragment for each task, in their order; few are written by the driver."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", EVENTS, key="id")
    table.append(pa.Table.from_pylist(events(0, 500), EVENTS))
    lake.flush("events")
    table.upsert(pa.Table.from_pylist(events(400, 900, "b"), EVENTS), stage=False)
    table.delete("id % 10 = 3")
    before = multiset(table)
    there._runner.flushed_rows = 100
    done = there.flush()["events"]
    assert done.rows == 810
    assert there.flush() == {"events": Flushed(0, 0, None)}
    assert len(head(lake, "events").fragments) == 3
    assert multiset(table) == before
    assert table.get(1234) == {"id": 1234, "kind": "b", "x": 617.0}
    table.update({"kind": "'c'"}, "id = 1250")
    table.upsert(events(1260, 1, "d"))
    assert there.flush("events")["events"].rows == 2
    assert table.count("kind = 'b'") == 808
    assert lake.check(deep=True).whole


def test_a_deep_check_by_tasks_finds_what_the_lake_finds(lake: phalanx.Lake, there: SparkLake) -> None:
    """A flipped bit in a data file, named with its file."""
    lake.set_property("flush.background", "off")
    lake.create_table("events", EVENTS).append(pa.Table.from_pylist(events(0, 3_000), EVENTS), stage=True)
    assert there.check().whole
    assert there.check().compared == lake.check(deep=True).compared > 0
    file = next(Path(lake.uri).glob("tables/*/data/*.lance"))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    found = there.check()
    assert [one.name.rpartition("/")[2] for one in found.problems] == [file.name]
    assert "its bytes are not those that were written" in found.problems[0].what


@pytest.mark.parametrize("how", ["alone", "in a transaction", "few"])
def test_rows_that_a_bulk_upsert_replaces_are_found_by_tasks(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As the driver would find them, in any fragment; and few keys by it, through their index."""
    lake.set_property("flush.background", "off")  # an index that comes meanwhile would be another head
    table = lake.create_table("events", EVENTS, key="id")
    for first in range(0, 40_000, 10_000):
        table.append(pa.Table.from_pylist(events(first, 10_000), EVENTS), stage=True)
    lake.flush("events")
    asked = list[int]()
    inner = Runner.replaced

    def noting(runner: Runner, head: Version, large: Large, key: tuple[str, ...]) -> Ids:
        asked.append(large.count)
        return inner(runner, head, large, key)

    monkeypatch.setattr(Runner, "replaced", noting)
    monkeypatch.setattr("phalanx.spark.upkeep.MANY_ROWS", 1)
    there._runner.many_rows = 1
    if how == "few":
        lake.optimize("events")
        monkeypatch.setattr("phalanx.tail.lookup._SCANNED", 1)
    new = spark.range(5_000, 47_000, 7).selectExpr("id", "'new' as kind", "id / 2 as x")
    if how == "in a transaction":
        with there.transaction() as txn:
            txn.write("events", new, "upsert")
    else:
        there.write(new, "events", "upsert")
    assert asked == ([] if how == "few" else [6_000])
    assert table.count() == 40_000 + len([at for at in range(5_000, 47_000, 7) if at >= 40_000])
    assert table.count("kind = 'new'") == 6_000
    assert lake.describe("events").tail.items == 0, "it is the head at once"
