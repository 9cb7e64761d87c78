"""Streams from and to tables: every change once, whatever is lost or run again."""

import os
import signal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import phalanx
from phalanx.spark import SparkLake, SparkTransaction
from phalanx.spark.options import read_options
from phalanx.spark.stream import FeedReader, stream_schema
from phalanx.spark.telling import translated
from tests.spark.rows import EVENTS, events, multiset


def followed(spark: SparkSession, lake: phalanx.Lake, **options: object) -> DataFrame:
    return spark.readStream.format("phalanx").options(lake=lake.uri, table="events", **options).load()


def into(frame: DataFrame, lake: phalanx.Lake, checkpoint: Path, table: str, **options: object) -> StreamingQuery:
    query = (
        frame.writeStream.format("phalanx")
        .options(lake=lake.uri, table=table, **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return query


def forget_commit(checkpoint: Path, number: int) -> None:
    """Remove Spark's own note that a batch is done."""
    for name in (f"{number}", f".{number}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_rows_that_are_added_arrive_once(spark: SparkSession, lake: phalanx.Lake, tmp_path: Path) -> None:
    """First the whole table, then what is new; nothing when nothing is."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    source.append(events(0, 30))
    for more in (0, 10, 0, 20_000):
        if more:
            source.append(events(source.count(), more))
        into(followed(spark, lake), lake, tmp_path / "mark", "copy")
        assert multiset(copy) == multiset(source)


def test_a_query_begins_with_the_whole_table_though_the_log_was_pruned(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """What came before the floor is in the table."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    for number in range(5):
        source.append(events(10 * number, 10))
    lake.prune(keep=1, unconditional=True)
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert multiset(copy) == multiset(source)


def test_a_batch_whose_note_spark_lost_is_not_done_twice(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """Known bug 27: Spark runs the batch again, and the log says that it was done."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    for number in range(3):
        source.append(events(10 * number, 10))
        into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    forget_commit(tmp_path / "mark", 2)
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert multiset(copy) == multiset(source)
    source.append(events(100, 5))
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert multiset(copy) == multiset(source)


def test_changes_upserted_by_key_make_the_same_table(spark: SparkSession, lake: phalanx.Lake, tmp_path: Path) -> None:
    """A feed with updates, as the newest form of each row, into a table with a key."""
    source = lake.create_table("events", EVENTS, key="id")
    copy = lake.create_table("copy", EVENTS, key="id")
    source.append(events(0, 20))
    feed = followed(spark, lake, changes="feed", max_versions=1)
    new = feed.where("_change_type in ('insert', 'update_postimage')").select(*EVENTS.names)
    for kind in "bcd":
        source.upsert(events(5, 3, kind))
        source.append(events(source.count(), 2, kind))
        into(new, lake, tmp_path / "mark", "copy", mode="upsert")
        assert multiset(copy) == multiset(source)


def test_batches_are_as_small_as_they_are_asked_to_be(spark: SparkSession, lake: phalanx.Lake, tmp_path: Path) -> None:
    """Admission control counts commits; a stream may begin at a version, or with what is new."""
    source = lake.create_table("events", EVENTS)
    for name in ("copy", "late"):
        lake.create_table(name, EVENTS)
    source.append(events(0, 1))
    since = lake.version
    for number in range(1, 6):
        source.append(events(number, 1))
    query = into(followed(spark, lake, start=since, max_versions=2), lake, tmp_path / "mark", "copy")
    assert sorted(row["id"] for row in lake["copy"].to_arrow().to_pylist()) == [1, 2, 3, 4, 5]
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [2, 2, 1]
    into(followed(spark, lake, start="latest"), lake, tmp_path / "late", "late")
    assert lake["late"].count() == 0


def test_a_table_that_is_changed_is_not_followed_as_one_that_is_added_to(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """A deleted row has no place among added ones: the query ends with a sentence."""
    source = lake.create_table("events", EVENTS)
    lake.create_table("copy", EVENTS)
    source.append(events(0, 3))
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    source.delete("id = 1")
    with pytest.raises(StreamingQueryException) as caught:
        into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    said = str(translated(str(caught.value), "following"))
    assert "was not only added to: there is a delete at version" in said
    assert lake["copy"].count() == 3


def test_several_tables_are_changed_by_one_batch_once(
    spark: SparkSession, lake: phalanx.Lake, there: SparkLake, tmp_path: Path
) -> None:
    """By foreachBatch: a batch that fails leaves nothing, and one that is run again does nothing."""
    source = lake.create_table("events", EVENTS)
    lake.create_table("copy", EVENTS)
    lake.create_table("totals", pa.schema({"kind": pa.string(), "n": pa.int64()}), key="kind")
    source.append(events(0, 10))
    failing = [True, False, False, False]

    def work(frame: DataFrame, txn: SparkTransaction) -> None:
        txn.write("copy", frame)
        so_far = {row["kind"]: row["n"] for row in txn["totals"].to_arrow().to_pylist()}
        for row in frame.groupBy("kind").count().collect():
            txn["totals"].upsert([{"kind": row["kind"], "n": so_far.get(row["kind"], 0) + row["count"]}])
        if failing.pop(0):
            raise RuntimeError("half way")

    def run() -> None:
        stream = followed(spark, lake).writeStream.foreachBatch(there.each_batch(work))
        query = stream.option("checkpointLocation", str(tmp_path / "mark")).trigger(availableNow=True).start()
        query.awaitTermination(120)

    with pytest.raises(StreamingQueryException, match="half way"):
        run()
    assert lake["copy"].count() == 0
    run()
    source.append(events(10, 5))
    run()
    forget_commit(tmp_path / "mark", 1)
    run()
    assert len(failing) == 1, "a batch that was done is not worked on again"
    assert multiset(lake["copy"]) == multiset(source)
    assert lake["totals"].get("a") == {"kind": "a", "n": 15}


@pytest.mark.parametrize("how", ["sink", "each batch"])
def test_a_name_belongs_to_one_checkpoint(
    spark: SparkSession, lake: phalanx.Lake, there: SparkLake, tmp_path: Path, how: str
) -> None:
    """A new checkpoint counts from 0: its batches are not taken for those that were done, and their rows are not lost."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)

    def run(checkpoint: str, query: str) -> None:
        if how == "sink":
            into(followed(spark, lake), lake, tmp_path / checkpoint, "copy", query=query)
            return
        work = there.each_batch(lambda frame, txn: txn.write("copy", frame), query=query)
        stream = followed(spark, lake).writeStream.foreachBatch(work)
        stream.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    for first in (0, 10):
        source.append(events(first, 10))
        run("one", "copying")
    assert multiset(copy) == multiset(source)
    copy.overwrite(EVENTS.empty_table())
    with pytest.raises(StreamingQueryException) as refused:
        run("two", "copying")
    assert "give this query another name" in str(translated(str(refused.value), "copying"))
    assert copy.count() == 0
    run("three", "copying again")
    assert multiset(copy) == multiset(source)


def test_a_task_that_is_killed_is_run_again_and_leaves_nothing(
    spark: SparkSession, lake: phalanx.Lake, there: SparkLake, tmp_path: Path
) -> None:
    """SIGKILL in the middle of a task that stages rows."""
    table = lake.create_table("events", EVENTS)
    mark = str(tmp_path / "killed")

    def dying(batches):  # noqa: ANN001, ANN202 - runs in a task
        for batch in batches:
            yield batch
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.range(0, 30_000, 1, 2).selectExpr("id", "'a' as kind", "id / 2 as x")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    try:
        there.write(rows.mapInArrow(dying, rows.schema), "events")
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    assert (tmp_path / "killed").exists()
    assert Counter(table.to_arrow(["id"])["id"].to_pylist()) == Counter(range(30_000))


def test_a_query_goes_on_behind_an_alteration(lake: phalanx.Lake) -> None:
    """A batch that ends before a column was added has that column, too; so a query that is behind can be started again."""
    table = lake.create_table("events", EVENTS)
    table.append(events(0, 2))
    begin = lake.version
    table.append(events(2, 3))
    middle = lake.version
    table.add_column("note", pa.string())
    table.append([{"id": 9, "kind": "b", "x": 1.0, "note": "new"}])
    for changes in ("append", "feed"):
        asked = read_options({"lake": lake.uri, "table": "events", "changes": changes, "max_versions": "1"})
        reader = FeedReader(asked, stream_schema(asked))
        offset = {"version": begin}
        seen: list[list[dict[str, object]]] = []
        while (after := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
            batches = [batch for one in reader.partitions(offset, after) for batch in reader.read(one)]
            seen.append([row for batch in batches for row in batch.to_pylist()])
            offset = after
        reader.stop()
        assert [[(row["id"], row["note"]) for row in rows] for rows in seen if rows] == [
            [(2, None), (3, None), (4, None)],
            [(9, "new")],
        ]
    assert middle < offset["version"]
