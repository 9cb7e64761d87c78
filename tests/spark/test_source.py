"""The data source `phalanx`: found by itself, with options; and the defect of Spark that it works around."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

import phalanx
from phalanx.errors import InvalidInputError, UnavailableError
from phalanx.spark.columns import spark_schema
from phalanx.spark.source import PhalanxSource
from phalanx.spark.telling import told, translated
from tests.spark.rows import EVENTS, events, multiset


def reading(spark: SparkSession, lake: phalanx.Lake, **options: object) -> DataFrame:
    return spark.read.format("phalanx").options(lake=lake.uri, table="events", **options).load()


def write(frame: DataFrame, lake: phalanx.Lake, mode: str = "append", **options: object) -> None:
    frame.write.format("phalanx").options(lake=lake.uri, **({"table": "events"} | options)).mode(mode).save()


def test_a_table_is_read_at_the_version_of_its_frame(spark: SparkSession, lake: phalanx.Lake) -> None:
    """Columns, conditions, versions and tags are options; a frame that is used twice reads the same rows twice."""
    table = lake.create_table("events", EVENTS, key="id")
    table.append(events(0, 10))
    lake.tag("ten")
    frame = reading(spark, lake)
    table.append(events(10, 10))
    assert frame.union(frame).count() == 20
    assert sorted(
        row.x for row in reading(spark, lake, columns="x", filter="id < 3", version=lake.version).collect()
    ) == [0, 0.5, 1]
    assert (reading(spark, lake, tag="ten").count(), reading(spark, lake).count()) == (10, 20)
    changed = reading(spark, lake, since=lake.snapshot(tag="ten").version)
    assert changed.groupBy("_change_type").count().collect()[0].asDict() == {"_change_type": "insert", "count": 10}
    view = f"create temporary view ev using phalanx options (lake '{lake.uri}', table 'events', tag 'ten')"
    spark.sql(view)
    assert spark.sql("select count(*) as n from ev").collect()[0].n == 10


def test_a_frame_is_written_in_one_commit(spark: SparkSession, lake: phalanx.Lake) -> None:
    """Append, overwrite, and upsert by the option mode."""
    table = lake.create_table("events", EVENTS, key="id")
    rows = spark.createDataFrame([(1, "a", 0.5), (2, "a", 1.0)], "id long, kind string, x double")
    write(rows, lake, note="from spark")
    rows.limit(1).selectExpr("id", "'b' as kind", "x").write.format("phalanx").options(
        lake=lake.uri, table="events", mode="upsert"
    ).mode("append").save()
    assert multiset(table) == {(1, "b", 0.5): 1, (2, "a", 1.0): 1}
    assert lake.history("events")[1].note == "from spark"
    write(rows.where("id = 2"), lake, "overwrite")
    assert table.to_arrow().to_pylist() == [{"id": 2, "kind": "a", "x": 1.0}]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tabel": "x"}, "there is no option 'tabel' of the data source phalanx; did you mean 'table'"),
        ({"filter": "y > 1"}, "names y, which is no column"),
        ({"columns": "id,y"}, "there is no column 'y'"),
        ({"version": "new"}, "the option version is a number: 'new' is not"),
        ({"version": 99}, "there is no version 99"),
        ({"tag": "no"}, "there is no tag 'no'"),
        ({"as_of": "soon"}, "the option as_of is a time like"),
        ({"changes": "all"}, "the option changes is feed or append"),
        ({"until": 3}, "a read has no option 'until'"),
        ({"since": 1, "filter": "id > 3"}, "a read of changes has no option 'filter'"),
        ({"mode": "append"}, "a read has no option 'mode'"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(
    spark: SparkSession, lake: phalanx.Lake, options: dict[str, object], says: str
) -> None:
    """What Spark raises has the sentence, and little else."""
    lake.create_table("events", EVENTS)
    with pytest.raises(PySparkException) as caught:
        reading(spark, lake, **options).count()
    error = translated(str(caught.value), "reading")
    assert says in str(error)
    assert type(error).__name__ in {"InvalidInputError", "NotFoundError"}
    assert str(caught.value).count("\tat ") == 0, "no trace of Java"
    assert len(str(caught.value)) < 2500


def test_columns_and_paths_that_would_not_be_obeyed_are_refused(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """In a sentence, before a task runs; columns that are the table's own are fine."""
    lake.create_table("events", EVENTS).append(events(0, 3))
    asked = spark.read.format("phalanx").options(lake=lake.uri, table="events")
    given = ("id long, kind string", "id string, kind string, x double", "kind string, id long, x double")
    for how in (*given, "id long, kind string not null, x double"):
        with pytest.raises(PySparkException, match=r"leave \.schema\(…\) out|leave that out") as caught:
            asked.schema(how).load().collect()
        assert isinstance(translated(caught.value, "reading"), InvalidInputError)
    assert asked.schema("id long not null, kind string, x double").load().count() == 3
    asked = spark.read.format("phalanx").options(lake=lake.uri, table="events")
    followed = spark.readStream.format("phalanx").options(lake=lake.uri, table="events").schema("id long").load()
    run = followed.writeStream.format("phalanx").options(lake=lake.uri, table="events").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"leave \.schema\(…\) out"):
        run.option("checkpointLocation", str(tmp_path / "mark")).start().awaitTermination(60)
    for work in (
        lambda: asked.load("/somewhere/else").count(),
        lambda: spark.range(1).write.format("phalanx").options(lake=lake.uri, table="events").mode("append").save("/a"),
    ):
        with pytest.raises(PySparkException, match="the data source phalanx takes no path"):
            work()
    assert lake["events"].count() == 3


def test_a_lake_that_is_none_and_rows_that_do_not_fit_are_refused(spark: SparkSession, lake: phalanx.Lake) -> None:
    """Before a task runs; nothing is committed."""
    lake.create_table("events", EVENTS)
    version = lake.version
    rows = spark.range(3)
    for options, says in (
        ({"table": "nowhere"}, "there is no table 'nowhere'"),
        ({"lake": lake.uri + "-not"}, "no lake"),
        ({"mode": "upsert"}, "upsert needs a key"),
        ({"rows_per_file": 0}, "the option rows_per_file is 1 at the least"),
        ({"filter": "id > 1"}, "a write has no option 'filter'"),
    ):
        with pytest.raises(PySparkException, match=says):
            rows.write.format("phalanx").options(**({"lake": lake.uri, "table": "events"} | options)).mode(
                "append"
            ).save()
    with pytest.raises(PySparkException, match="there is no column 'y'"):
        write(rows.selectExpr("id", "id as y"), lake)
    assert lake.version == version


class Pushing(DataSource):
    """A data source that takes filters, as Spark's documentation says."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: object) -> DataSourceReader:
        return PushingReader()


class PushingReader(DataSourceReader):
    """Takes `id = constant`, and reads that row only."""

    def __init__(self) -> None:
        self.only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            if isinstance(one, EqualTo):
                self.only = one.value
            else:
                yield one

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [at for at in range(3) if self.only in (None, at)]})


def test_spark_still_leaks_a_pushed_filter_into_other_uses_of_a_frame(spark: SparkSession) -> None:
    """Red when it is fixed: then Phalanx may define pushFilters, and options for filters are no longer needed."""
    spark.dataSource.register(Pushing)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pushing").load()
        both = frame.where("id = 1").union(frame.where("id = 2")).collect()
        again = frame.where("id = 1").union(frame).collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    right = sorted(row.id for row in both) == [1, 2] and sorted(row.id for row in again) == [0, 1, 1, 2]
    assert not right, "the defect is gone"


def test_phalanx_pushes_no_filter_and_the_same_frames_are_right(spark: SparkSession, lake: phalanx.Lake) -> None:
    """The circumstances of the defect, with our source."""
    lake.create_table("events", EVENTS).append(events(0, 3))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reading(spark, lake)
        both = frame.where("id = 1").union(frame.where("id = 2")).union(frame).collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert sorted(row.id for row in both) == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filter": "id > 3"}, "a stream that is read has no option 'filter'"),
        ({"version": "2"}, "a stream that is read has no option 'version'"),
        ({"max_versions": "0"}, "the option max_versions is 1 at the least"),
    ],
)
def test_a_stream_refuses_what_it_would_not_obey(lake: phalanx.Lake, options: dict[str, str], says: str) -> None:
    """Rows that somebody meant to leave out would be wrong rows."""
    lake.create_table("events", EVENTS)
    with pytest.raises(InvalidInputError, match=says):
        PhalanxSource({"lake": lake.uri, "table": "events", **options}).streamReader(spark_schema(EVENTS))


def test_a_stream_does_not_overwrite(lake: phalanx.Lake) -> None:
    """Every batch would replace those before it, whether Spark says so or the option does."""
    lake.create_table("events", EVENTS)
    source = PhalanxSource({"lake": lake.uri, "table": "events", "mode": "overwrite"})
    for overwrite in (True, False):
        with pytest.raises(InvalidInputError, match="a stream appends or upserts"):
            source.streamWriter(source.schema(), overwrite=overwrite)


def test_a_job_that_is_cancelled_is_told_in_a_sentence(spark: SparkSession) -> None:
    """Spark has no class of Python's for it: what Java says of it comes through as one line."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(30)
            yield batch

    threading.Timer(3, spark.sparkContext.cancelAllJobs).start()
    with (
        pytest.raises(UnavailableError, match=r"^writing failed, and nothing was committed: .*cancelled") as caught,
        told("writing"),
    ):
        spark.range(2).mapInArrow(slow, "id long").collect()
    assert "\n" not in str(caught.value)
