"""Rows of data frames as commits: staged by tasks, committed once by the driver."""

import contextlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import phalanx
from phalanx.errors import ConflictError, InvalidInputError, NotFoundError
from phalanx.objects.local import LocalStore
from phalanx.spark import Pipeline, SparkLake, run_pipeline, whole
from tests.spark.rows import EVENTS, events, multiset


def frame(spark: SparkSession, first: int, count: int, kind: str = "s", tasks: int = 3):  # noqa: ANN201 - a data frame
    return spark.range(first, first + count, 1, tasks).select(
        "id", f.lit(kind).alias("kind"), (f.col("id") / 2).alias("x")
    )


@pytest.mark.parametrize("count", [10, 60_000])
def test_append_overwrite_and_upsert_are_those_of_a_table(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession, count: int
) -> None:
    """Few rows travel in the log, many as files: the table holds the same."""
    table = lake.create_table("events", EVENTS, key="id")
    twin = lake.create_table("twin", EVENTS, key="id")
    for mode, first, kind in (
        ("append", 0, "a"),
        ("upsert", count // 2, "b"),
        ("append", count, "c"),
        ("overwrite", 3, "d"),
    ):
        before = lake.version
        landed = there.write(frame(spark, first, count, kind), "events", mode, note=mode)
        assert landed > before
        getattr(twin, mode)(pa.Table.from_pylist(events(first, count, kind), EVENTS))
        assert multiset(table) == multiset(twin)
    assert [one.note for one in lake.history("events", 4)] == ["overwrite", "append", "upsert", "append"]


def test_without_a_key_rows_are_added_and_nothing_is_one_commit_more(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """An empty frame appends nothing, and overwrites with nothing."""
    table = lake.create_table("events", EVENTS)
    there.write(frame(spark, 0, 5), "events")
    there.write(frame(spark, 0, 5), "events")
    assert table.count() == 10
    version = lake.version
    assert there.write(frame(spark, 0, 0), "events") == version
    there.write(frame(spark, 0, 0), "events", "overwrite")
    assert table.count() == 0


def test_a_frame_may_be_written_to_the_table_it_is_of(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """It reads its snapshot, whatever is written."""
    table = lake.create_table("events", EVENTS)
    there.write(frame(spark, 0, 20_000), "events")
    there.write(there.table("events", where="id < 10"), "events", "overwrite")
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == list(range(10))
    there.write(there.table("events").withColumn("id", f.col("id") + 100), "events")
    assert table.count() == 20


def test_of_equal_keys_the_last_counts(lake: phalanx.Lake, there: SparkLake, spark: SparkSession) -> None:
    """In the order of the frame, across its partitions."""
    table = lake.create_table("events", EVENTS, key="id")
    both = frame(spark, 0, 9_000, "first", 1).union(frame(spark, 0, 9_000, "last", 1))
    there.write(both, "events")
    assert Counter(row["kind"] for row in table.to_arrow().to_pylist()) == {"last": 9_000}


def test_what_lands_meanwhile_is_kept_and_the_write_too(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """A write never conflicts: it lands behind what was committed while its tasks ran."""
    table = lake.create_table("events", EVENTS, key="id")
    table.append(events(0, 30_000, "old"), stage=True)
    uri = lake.uri

    def slowly(batches):  # noqa: ANN001, ANN202 - runs in a task
        with phalanx.open(uri) as other:
            other["events"].upsert(events(5, 1, "meanwhile"))
            other["events"].delete("id = 6")
        yield from batches

    late = frame(spark, 7, 20_000, "spark", 1).mapInArrow(slowly, "id long, kind string, x double")
    there.write(late, "events", "upsert")
    assert table.get(5) == {"id": 5, "kind": "meanwhile", "x": 2.5}
    assert table.get(6) is None
    assert table.get(7) == {"id": 7, "kind": "spark", "x": 3.5}
    assert table.count() == 29_999


def test_files_are_bounded(lake: phalanx.Lake, there: SparkLake, spark: SparkSession) -> None:
    """A task that has many rows writes several files."""
    lake.create_table("events", EVENTS)
    there.write(frame(spark, 0, 50_000, tasks=1), "events", rows_per_file=10_000)
    assert lake.describe("events").head.fragments == 5


def test_tasks_that_have_few_rows_write_no_files_of_their_own(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """The driver writes the rows of all of them, in their order, into files that are bounded as well."""
    for name, most, files in (("one", 1 << 20, 1), ("bounded", 10_000, 3)):
        table = lake.create_table(name, EVENTS)
        there.write(frame(spark, 0, 30_000, tasks=30), name, rows_per_file=most)
        assert lake.describe(name).head.fragments == files
        assert table.to_arrow()["id"].to_pylist() == list(range(30_000))
    lake.create_table("steps", EVENTS)
    steps = Pipeline("steps")
    steps.step(reads=[whole("one")], writes="steps", rows_per_file=15_000)(lambda one: one.where("id >= 0"))
    run_pipeline(there, steps)
    assert lake.describe("steps").head.fragments == 2


def test_an_altered_table_takes_rows_of_its_new_columns(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """Before the alteration is written out, and after."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", EVENTS)
    there.write(frame(spark, 0, 20_000), "events")
    table.add_column("extra", pa.int64(), default=1)
    there.write(frame(spark, 20_000, 20_000).withColumn("extra", f.lit(2)), "events")
    lake.flush("events")
    there.write(frame(spark, 40_000, 20_000), "events")
    assert [table.count(f"extra = {one}") for one in (1, 2)] == [20_000, 20_000]
    assert table.count("extra is null") == 20_000


def test_rows_of_another_schema_are_refused_before_the_job(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """Unknown columns, missing ones, types that cannot be, modes that do not exist: nothing runs, nothing changes."""
    lake.create_table("events", EVENTS)
    version = lake.version
    ran = spark.sparkContext.accumulator(0)
    good = frame(spark, 0, 3)
    watched = good.rdd.map(lambda row: (ran.add(1), row)[1]).toDF(good.schema)
    for wrong, says in (
        (watched.withColumn("y", f.lit(1)), "there is no column 'y'"),
        (watched.drop("id"), "column 'id' is missing"),
        (watched.withColumn("id", f.array("id")), "column 'id' is of type int64"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            there.write(wrong, "events")
    with pytest.raises(InvalidInputError, match="mode is one of"):
        there.write(watched, "events", "merge")
    with pytest.raises(InvalidInputError, match="upsert needs a key"):
        there.write(watched, "events", "upsert")
    with pytest.raises(NotFoundError, match="there is no table 'nowhere'"):
        there.write(watched, "nowhere")
    assert (ran.value, lake.version) == (0, version)


def test_a_bad_value_fails_the_write_and_nothing_is_visible(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """The error of the task, in one line, as if it had happened here."""
    table = lake.create_table("events", EVENTS)
    bad = frame(spark, 0, 100).withColumn("id", f.when(f.col("id") != 77, f.col("id")))
    with pytest.raises(InvalidInputError, match=r"^column 'id' cannot be null: row \d+ is$") as caught:
        there.write(bad, "events")
    assert "Traceback" not in str(caught.value)
    assert table.count() == 0


def test_a_repeated_task_writes_all_its_rows(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession, tmp_path: Path
) -> None:
    """Known bug 28: a task that fails after some batches and is run again has lost nothing, and nothing is there twice."""
    table = lake.create_table("events", EVENTS)
    marks = str(tmp_path)

    def failing_once(batches):  # noqa: ANN001, ANN202 - runs in a task
        for number, batch in enumerate(batches):
            mark = Path(marks) / f"failed-{batch.column(0)[0].as_py()}"
            if number == 2 and not list(Path(marks).glob("failed-*")):
                mark.touch()
                raise OSError("the first attempt")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5000")
    try:
        there.write(
            frame(spark, 0, 40_000, tasks=2).mapInArrow(failing_once, "id long, kind string, x double"), "events"
        )
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    assert len(list(tmp_path.glob("failed-*"))) == 1
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == list(range(40_000))


def test_several_tables_land_in_one_entry_with_ordinary_changes(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """A transaction reads its own writes, as frames too; nobody sees any of it before."""
    lake.create_table("orders", EVENTS)
    lake.create_table("items", EVENTS, key="id")
    lake.create_table("log", EVENTS).append(events(0, 2))
    before = lake.version
    with there.transaction("both") as txn:
        assert txn.write("orders", frame(spark, 0, 20_000)) == 20_000
        txn.write("items", frame(spark, 0, 5), mode="upsert")
        txn["log"].delete("id = 0")
        txn["items"].upsert(events(4, 2, "mine"))
        assert txn.table("items").count() == 6
        assert txn.table("orders", where="id < 10").count() == 10
        assert lake["orders"].count() == 0
    assert txn.version is not None
    assert txn.version == lake.log(1)[0].version
    assert lake.log(1)[0].note == "both"
    assert [lake[name].count() for name in ("orders", "items", "log")] == [20_000, 6, 1]
    assert lake["items"].get(4) == {"id": 4, "kind": "mine", "x": 2.0}
    assert lake.snapshot(version=before)["items"].count() == 0


def test_a_transaction_that_raises_or_conflicts_leaves_nothing(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """Snapshot isolation holds for what Spark wrote, too."""
    lake.create_table("items", EVENTS, key="id").append(events(0, 3))
    with contextlib.suppress(RuntimeError), there.transaction() as txn:
        txn.write("items", frame(spark, 0, 9_000))
        raise RuntimeError("no")
    txn = there.transaction()
    txn.write("items", frame(spark, 0, 9_000))
    lake["items"].upsert(events(1, 1, "first"))
    with pytest.raises(ConflictError):
        txn.commit()
    assert lake["items"].count() == 3


@pytest.mark.parametrize("checksums", [None, "off"])
def test_what_tasks_wrote_has_the_checksums_that_they_told(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, checksums: str | None
) -> None:
    """The driver reads none of the files, and a flipped bit is found later; unless the lake does without checksums."""
    if checksums is not None:
        lake.set_property("checksums", checksums)
    table = lake.create_table("events", EVENTS, key="id")
    read: list[str] = []
    digest = LocalStore.digest
    monkeypatch.setattr(LocalStore, "digest", lambda store, name: (read.append(name), digest(store, name))[1])
    there.write(frame(spark, 0, 60_000), "events")
    assert not [name for name in read if "/data/" in name]
    monkeypatch.undo()
    assert lake.check(deep=True).whole
    file = max((Path(lake.uri) / "tables" / table.id / "data").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    assert lake.check(deep=True).whole == (checksums == "off")
