"""Reads that are large in Spark's eyes: joins that do not send them to every task, and nulls that are or are not there."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import ArrayType

import phalanx
from phalanx import Lake
from phalanx.errors import CorruptionError
from phalanx.spark import SparkLake, shares
from phalanx.spark.parts import plan_scan
from phalanx.spark.reach import reach
from phalanx.spark.source import PhalanxSource

COUNT = 5000
VECTOR = pa.list_(pa.float32(), 4)
FIELDS: list[tuple[str, Any]] = [
    ("id", pa.int64()),
    ("text", pa.string()),
    ("v", VECTOR),
    ("tags", pa.list_(pa.string())),
]
SCHEMA = pa.schema(FIELDS)


def rows(count: int, *, null: bool) -> list[dict[str, object]]:
    """With nulls in each of their places but the id, or without any."""
    made: list[dict[str, object]] = [
        {"id": at, "text": f"t{at}", "v": [float(at), 1.0, 2.0, 3.0], "tags": ["a"] * (at % 3)} for at in range(count)
    ]
    if null:
        made[7] |= {"text": None, "v": None, "tags": None}
        made[11] |= {"v": [None, 1.0, 2.0, 3.0], "tags": [None, "b"]}
    return made


def joined(left: DataFrame, right: DataFrame) -> str:
    """The plan of a join."""
    frame: Any = left.join(right, "id")
    return str(frame._jdf.queryExecution().executedPlan())


def test_a_large_table_is_not_sent_to_every_task_of_a_join(
    lake: Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would take it for as large as the numbers of its pieces. A small one is sent, as Spark does by itself."""
    lake.create_table("few", SCHEMA).append(rows(10, null=False))
    lake.create_table("many", SCHEMA).append(pa.Table.from_pylist(rows(COUNT, null=False), SCHEMA), stage=True)
    assert "BroadcastHashJoin" in joined(there.table("many"), there.table("few"))
    monkeypatch.setattr(shares, "SMALL", 100_000)
    assert "BroadcastHashJoin" in joined(there.table("many"), there.table("few"))
    assert "SortMergeJoin" in joined(there.table("many"), there.table("many"))
    assert there.table("many").join(there.table("many"), "id").count() == COUNT


@pytest.mark.parametrize("null", [False, True])
def test_nulls_come_through_where_they_are(
    lake: Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch, *, null: bool
) -> None:
    """Columns without any are sent without asking; the data frame is the same either way."""
    monkeypatch.setattr(shares, "SMALL", 0)
    given = rows(COUNT, null=null)
    table = lake.create_table("t", SCHEMA)
    table.append(pa.Table.from_pylist(given, SCHEMA), stage=True)
    planned = plan_scan(lake.core, reach(lake), lake.refresh().found("t"), None, None, 2)
    assert planned.scan.full == (("id",) if null else ("id", "text", "v", "tags"))
    frame = there.table("t")
    assert all(field.nullable for field in frame.schema.fields)
    assert [field.dataType.simpleString() for field in frame.schema.fields] == [
        "bigint",
        "string",
        "array<float>",
        "array<string>",
    ]
    assert "containsNull = true" in frame._jdf.schema().treeString()  # type: ignore[attr-defined, operator, unused-ignore]
    assert "containsNull = false" not in frame._jdf.schema().treeString()  # type: ignore[attr-defined, operator, unused-ignore]
    assert sorted(map(repr, (row.asDict() for row in frame.collect()))) == sorted(map(repr, given))
    assert frame.where("v is null or text is null").count() == int(null)
    assert frame.selectExpr("explode(v) as n").where("n is null").count() == int(null)
    assert frame.rdd.getNumPartitions() == planned.scan.count


def test_a_table_made_of_such_rows_may_have_nulls(
    lake: Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of some rows is not a rule for others."""
    monkeypatch.setattr(shares, "SMALL", 0)
    table = lake.create_table("t", SCHEMA)
    table.append(pa.Table.from_pylist(rows(COUNT, null=False), SCHEMA), stage=True)
    there.write(there.table("t").union(there.table("t")).where("id < 5"), "t", mode="append")
    there.write(there.spark.createDataFrame([(1, None, None, None)], there.table("t").schema), "t", mode="append")
    assert lake["t"].count() == COUNT + 11


def by_source(spark: SparkSession, lake: Lake, **options: object) -> DataFrame:
    return spark.read.format("phalanx").options(lake=lake.uri, table="t", **options).load()


def nullable(frame: DataFrame) -> list[str]:
    """The columns that may be null, or whose arrays may have nulls."""
    kinds = [(field.name, field.nullable, field.dataType) for field in frame.schema.fields]
    return [name for name, may, kind in kinds if may or (isinstance(kind, ArrayType) and kind.containsNull)]


def test_the_data_source_says_which_columns_of_a_version_have_no_null(lake: Lake, there: SparkLake) -> None:
    """Where options show that it is no stream; rows are the same, and so they are with those of others, or of later."""
    part = pa.Table.from_pylist(rows(COUNT, null=False), SCHEMA)
    table = lake.create_table("t", SCHEMA)
    table.append(pa.concat_tables([part] * (1 + shares.SMALL // part.nbytes * 2)), stage=True)
    lake.tag("full")
    full = by_source(there.spark, lake, tasks=2)
    assert nullable(full) == []
    assert nullable(by_source(there.spark, lake)) == SCHEMA.names
    table.append([{"id": None, "text": "pending", "v": None, "tags": ["a", None]}])
    some = by_source(there.spark, lake, tasks=2)
    assert (nullable(some), nullable(by_source(there.spark, lake, tag="full"))) == (["id", "v", "tags"], [])
    assert (full.count(), some.where("id is null and v is null").count()) == (table.count() - 1, 1)
    both = full.where("id < 10").union(some.where("id is null or id = 11"))
    many = (table.count() - 1) // COUNT
    assert nullable(both) == ["id", "v", "tags"]
    assert sorted({str(row.id) for row in both.collect()}) == sorted({*map(str, range(10)), "11", "None"})
    there.write(full.where("id < 10"), "t")
    assert table.count() == many * (COUNT + 10) + 1
    given = there.spark.read.format("phalanx").options(lake=lake.uri, table="t", tag="full")
    assert given.schema(by_source(there.spark, lake).schema).load().where("v is null").count() == 0
    stream = there.spark.readStream.format("phalanx").options(lake=lake.uri, table="t", start=1).load()
    assert nullable(stream) == SCHEMA.names


def test_a_file_that_lies_is_told(lake: Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A null where the file says that there is none fails the read: it would be a zero for Spark."""
    monkeypatch.setattr(shares, "SMALL", 0)
    lake.create_table("t", SCHEMA).append(pa.Table.from_pylist(rows(COUNT, null=True), SCHEMA), stage=True)
    monkeypatch.setattr("phalanx.spark.parts.full_columns", lambda _version, names: tuple(names))
    planned = plan_scan(lake.core, reach(lake), lake.refresh().found("t"), None, None, 2)
    with pytest.raises(
        CorruptionError, match="column 'text' of table 't' has a null, and its file says that it has none"
    ):
        list(planned.scan.for_spark(0))
    with pytest.raises(Exception, match="has a null, and its file says that it has none"):
        there.table("t").collect()
    source = PhalanxSource({"lake": lake.uri, "table": "t", "tasks": "2"})
    reader = source.reader(source.schema())
    with pytest.raises(CorruptionError, match="has a null, and its file says that it has none"):
        list(reader.read(InputPartition(0)))


def test_the_active_session_stays_the_same(lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads with another session does not make it that of everybody; nor does a table without rows."""
    monkeypatch.setattr(shares, "SMALL", 0)
    lake.create_table("none", SCHEMA)
    lake.create_table("t", SCHEMA).append(pa.Table.from_pylist(rows(COUNT, null=False), SCHEMA), stage=True)
    before = SparkSession.getActiveSession()
    other = phalanx.spark.on(lake, spark.newSession())
    assert (other.table("t").count(), other.table("none").count()) == (COUNT, 0)
    assert other.changes("t", since=0).count() == COUNT
    assert SparkSession.getActiveSession() is before
