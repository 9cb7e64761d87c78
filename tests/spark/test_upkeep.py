"""Maintenance in tasks: the same result as without Spark, and no row changes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import phalanx
from phalanx.spark import SparkLake
from phalanx.upkeep.flush import Flushed
from tests.spark.rows import EVENTS, events, multiset
from tests.unit.covering import head

WIDE = pa.schema([*EVENTS, ("vector", pa.list_(pa.float32(), 8)), ("text", pa.string())])


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


def test_rows_that_a_bulk_upsert_replaces_are_found_by_tasks(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """As the driver would find them, in any fragment."""
    table = lake.create_table("events", EVENTS, key="id")
    for first in range(0, 40_000, 10_000):
        table.append(pa.Table.from_pylist(events(first, 10_000), EVENTS), stage=True)
    lake.flush("events")
    there._runner.many_rows = 1
    new = spark.range(5_000, 47_000, 7).selectExpr("id", "'new' as kind", "id / 2 as x")
    there.write(new, "events", "upsert")
    assert table.count() == 40_000 + len([at for at in range(5_000, 47_000, 7) if at >= 40_000])
    assert table.count("kind = 'new'") == 6_000
    assert lake.describe("events").tail.items == 0, "it is the head at once"
