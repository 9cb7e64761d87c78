"""Tables as data frames: every row at one version, tail included, with values as they are."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import phalanx
from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.spark import SparkLake
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.shares import LEAST_ROWS, balanced, shared
from tests.spark.rows import EVENTS, events

KINDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("vector", pa.list_(pa.float32(), 3)),
        ("moment", pa.timestamp("ns", "Europe/Berlin")),
        ("local", pa.timestamp("s")),
        ("large", pa.uint64()),
        ("small", pa.uint8()),
        ("clock", pa.time32("ms")),
        ("span", pa.duration("ns")),
        ("price", pa.decimal128(12, 3)),
        ("map", pa.map_(pa.string(), pa.list_(pa.float32(), 2))),
        ("nested", pa.struct([("a", pa.uint16()), ("b", pa.list_(pa.struct([("c", pa.large_string())])))])),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("three", pa.binary(3)),
        ("half", pa.float16()),
        ("day", pa.date64()),
    ]
)
FULL = {
    "id": 1,
    "vector": [1.0, 2.5, -3.0],
    "moment": dt.datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=dt.UTC),
    "local": dt.datetime(1969, 7, 20, 20, 17),  # noqa: DTZ001 - without a zone is what it is
    "large": 2**64 - 1,
    "small": 255,
    "clock": dt.time(23, 59, 59, 999000),
    "span": dt.timedelta(days=-1, microseconds=5),
    "price": Decimal("-123456789.125"),
    "map": [("k", [1.0, 2.0]), ("l", None)],
    "nested": {"a": 65535, "b": [{"c": "ü"}, {"c": None}]},
    "word": "lance",
    "three": b"\x00\xff\x01",
    "half": np.float16(1.5),
    "day": dt.date(2020, 2, 29),
}
EMPTY = {"id": 2} | dict.fromkeys(list(FULL)[1:])


def test_values_of_every_kind_come_out_right_and_go_back_the_same(lake: phalanx.Lake, there: SparkLake) -> None:
    """Vectors, zones, decimals, nested values, nulls: read by Spark, and written by it to another table."""
    lake.create_table("kinds", KINDS, key="id").append([FULL, EMPTY])
    lake.create_table("again", KINDS, key="id")
    frame = there.table("kinds")
    first = frame.where("id = 1").first()
    assert first is not None
    row = first.asDict(recursive=True)
    assert (row["vector"], row["price"], row["large"]) == ([1.0, 2.5, -3.0], Decimal("-123456789.125"), 2**64 - 1)
    assert row["moment"].replace(tzinfo=dt.UTC) == FULL["moment"]
    assert row["nested"] == {"a": 65535, "b": [{"c": "ü"}, {"c": None}]}
    assert row["map"] == {"k": [1.0, 2.0], "l": None}
    assert row["span"] == FULL["span"]
    there.write(frame.where("id < 10"), "again")  # through the JVM, not from Lance to Lance
    assert lake["again"].to_arrow().sort_by("id").equals(lake["kinds"].to_arrow().sort_by("id"))


def test_a_value_that_spark_cannot_hold_is_refused_with_its_column(lake: phalanx.Lake, there: SparkLake) -> None:
    """Nanoseconds are not cut off, decimals of 39 digits not rounded."""
    lake.create_table("fine", pa.table({"t": pa.array([1], pa.timestamp("ns"))}))
    lake.create_table("wide", pa.table({"d": pa.array([Decimal(1)], pa.decimal256(40, 0))}))
    with pytest.raises(Exception, match="column 't' has a value that Spark cannot hold"):
        there.table("fine").collect()
    with pytest.raises(InvalidInputError, match="column 'd' is of type decimal256"):
        there.table("wide")


def test_rows_that_are_not_flushed_are_read_and_hidden_ones_are_not(lake: phalanx.Lake, there: SparkLake) -> None:
    """Head, bulk change, logged rows, delete and update: the frame is what a scan gives."""
    table = lake.create_table("events", EVENTS, key="id")
    table.append(events(0, 50), stage=True)
    table.append(events(40, 20, "b"), stage=True)
    table.delete("id < 5")
    table.update({"kind": "'c'"}, where="id = 7")
    frame = there.table("events")
    table.append(events(1000, 5))  # later: not in it
    got = pa.Table.from_pylist([row.asDict() for row in frame.collect()], schema=EVENTS)
    assert got.sort_by("id").equals(lake.snapshot(version=lake.version - 1)["events"].to_arrow().sort_by("id"))


def test_columns_and_conditions_are_those_of_a_scan(lake: phalanx.Lake, there: SparkLake) -> None:
    """Also a condition that Lance's scanner refuses."""
    table = lake.create_table("events", EVENTS)
    table.append(events(0, 20))
    for where in ("id < 7 and kind = 'a'", "case when id < 3 then true else false end"):
        want = table.to_arrow(["x"], where=where)["x"].to_pylist()
        assert [row.x for row in there.table("events", columns=["x"], where=where).collect()] == want
    assert there.table("events", columns=["x", "id"]).columns == ["x", "id"]


def test_views_join_at_one_version(lake: phalanx.Lake, there: SparkLake, spark: SparkSession) -> None:
    """What is committed after the views were made is in none of them."""
    lake.create_namespace("crm")
    orders = lake.create_table("orders", EVENTS)
    lake.create_table("crm.items", EVENTS).append(events(0, 4))
    orders.append(events(0, 4))
    assert there.views() == {"crm.items": "crm_items", "orders": "orders"}
    with lake.transaction() as txn:
        txn["orders"].append(events(4, 1))
        txn["crm.items"].append(events(4, 1))
    assert spark.sql("select count(*) as n from orders join crm_items using (id)").collect()[0].n == 4


def test_time_travel_by_version_tag_and_time(lake: phalanx.Lake, there: SparkLake) -> None:
    """All tables of a snapshot are at its version."""
    table = lake.create_table("events", EVENTS)
    table.append(events(0, 3))
    lake.tag("three")
    version = lake.version
    table.append(events(3, 3))
    assert there.snapshot(tag="three").table("events").count() == 3
    assert there.snapshot(version=version).table("events").count() == 3
    assert there.snapshot(as_of=lake.snapshot().time).table("events").count() == 6


def test_changes_are_those_of_the_lake(lake: phalanx.Lake, there: SparkLake) -> None:
    """The feed, in as many tasks as there is work for, in the columns of the end."""
    table = lake.create_table("events", EVENTS, key="id")
    since = lake.version
    for at in range(6):
        table.upsert(events(at, 2, f"round {at}"))
    table.add_column("more", pa.int32(), default=7)
    table.delete("id = 3")
    want = lake.changes("events", since).read_all().drop_columns(["_commit_timestamp"]).to_pylist()
    got = there.changes("events", since).drop("_commit_timestamp").collect()
    assert sorted(map(str, (row.asDict() for row in got))) == sorted(map(str, want))
    assert there.changes("events", lake.version).count() == 0


def test_an_empty_table_is_an_empty_frame(lake: phalanx.Lake, there: SparkLake) -> None:
    """With its columns."""
    lake.create_table("events", EVENTS)
    assert there.table("events").collect() == []
    assert there.table("events").columns == EVENTS.names


def test_what_is_asked_for_wrongly_is_refused_before_a_job(lake: phalanx.Lake, there: SparkLake) -> None:
    """Short errors of Phalanx."""
    lake.create_table("events", EVENTS)
    with pytest.raises(NotFoundError, match="there is no table 'event'"):
        there.table("event")
    with pytest.raises(InvalidInputError, match="there is no column 'y'"):
        there.table("events", columns=["y"])
    with pytest.raises(InvalidInputError, match="names zz, which is no column"):
        there.table("events", where="zz = 1")
    with pytest.raises(NotFoundError, match="there is no version 99"):
        there.snapshot(version=99)


def test_a_lake_in_memory_is_refused(spark: SparkSession) -> None:
    """Tasks are other processes."""
    with (
        phalanx.open("memory://spark", create=True) as lake,
        pytest.raises(InvalidInputError, match="memory, and Spark's tasks are other processes"),
    ):
        phalanx.spark.on(lake, spark)


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_fragments_are_shared_out_evenly(tasks: int) -> None:
    """Each fragment once, and no group has more than the largest fragment over its share."""
    rows = {at: 1000 + 37 * at % 500 for at in range(11)}
    groups = balanced(rows, tasks)
    assert sorted(one for group in groups for one in group) == sorted(rows)
    loads = [sum(rows[one] for one in group) for group in groups]
    assert len(groups) == min(tasks, 11)
    assert max(loads) - min(loads) <= max(rows.values())


@pytest.mark.parametrize("tasks", [1, 2, 3, 8, 40])
@pytest.mark.parametrize(
    "rows",
    [
        {},
        {4: 7},
        {4: 5 * LEAST_ROWS},
        {1: 9 * LEAST_ROWS + 5, 2: 0, 7: 11, 8: LEAST_ROWS},
        dict.fromkeys(range(5), 16 * LEAST_ROWS),
        dict.fromkeys(range(11), 1000),
        {3: LEAST_ROWS, 5: 2 * LEAST_ROWS + 1, 6: LEAST_ROWS // 2, 9: 3 * LEAST_ROWS},
    ],
    ids=str,
)
def test_rows_are_shared_out_evenly(rows: dict[int, int], tasks: int) -> None:
    """Every row belongs to one share, in the order of the table; no part of a fragment is small, and no share is large."""
    seen = dict.fromkeys(rows, 0)
    shares, total = shared(rows, tasks), sum(rows.values())
    assert len(shares) <= tasks
    for share in shares:
        many = 0
        for fragment in share.fragments:
            assert seen[fragment] == 0
            seen[fragment] += rows[fragment]
            many += rows[fragment]
        for part in share.parts:
            assert seen[part.fragment] == part.begin < part.end <= rows[part.fragment]
            assert part.end - part.begin >= LEAST_ROWS
            seen[part.fragment] = part.end
            many += part.end - part.begin
        assert 0 < many <= total // tasks + 2 * LEAST_ROWS
    assert seen == rows


def test_a_fragment_is_cut_where_tasks_would_have_more_and_less() -> None:
    """Five fragments for two tasks: neither is waited for."""
    many = 16 * LEAST_ROWS
    loads = [
        sum(many for _ in share.fragments) + sum(part.end - part.begin for part in share.parts)
        for share in shared(dict.fromkeys(range(5), many), 2)
    ]
    assert loads == [5 * many // 2] * 2


def test_parts_of_a_fragment_are_all_of_it(lake: phalanx.Lake, there: SparkLake) -> None:
    """A fragment that is cut, with rows deleted everywhere and changes pending, is read whole, each row once."""
    count = 3 * LEAST_ROWS
    table = lake.create_table("large", pa.schema([("id", pa.int64()), ("v", pa.int64())]), key="id")
    for begin in range(0, count, count // 3):
        part = range(begin, begin + count // 3)
        table.append(pa.table({"id": part, "v": part}), stage=True)
    table.delete("id % 7 = 3")
    lake.flush("large")
    table.upsert([{"id": 5, "v": -5}])
    for where in (None, "v % 3 = 0", "v < 100", "v > 100", "false"):
        frame = there.table("large", columns=["id"], where=where)
        assert frame.rdd.getNumPartitions() > 1
        expected = table.to_arrow(where=where)
        answer = frame.selectExpr("count(*)", "count(distinct id)", "sum(id)").first()
        assert answer is not None
        ids = sum(expected["id"].to_pylist()) if expected.num_rows else None
        assert tuple(answer) == (expected.num_rows, expected.num_rows, ids)


def test_a_time_finer_than_spark_counts_is_refused() -> None:
    """Microseconds come through; a nanosecond would be cut off."""
    wanted = exchanged(pa.schema([("at", pa.time64("ns"))]))
    fine = pa.record_batch({"at": pa.array([1_000, None], pa.time64("ns"))})
    assert to_spark(fine, wanted).column(0).cast(pa.int64()).to_pylist() == [1_000, None]
    with pytest.raises(InvalidInputError, match="column 'at' has a value that Spark cannot hold"):
        to_spark(pa.record_batch({"at": pa.array([1_001], pa.time64("ns"))}), wanted)


def test_no_plan_and_no_error_shows_a_secret(tmp_path: Path) -> None:
    """Storage options travel, and are never shown."""
    where = phalanx.spark.reach.Reach("s3://bucket/lake", (("aws_secret_access_key", "hunter2"),))
    assert "hunter2" not in repr(where)
    assert "hunter2" not in str(where)
