"""Batches that Spark does not weigh: where rows are small, and nowhere else; the rows are the same either way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

import phalanx
from phalanx.errors import PhalanxError
from phalanx.spark import SparkLake, unweighed
from phalanx.spark.unweighed import MOST_BYTES, ROWS, collected

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
TEXTS = pa.schema([("id", pa.int64()), ("text", pa.string()), ("v", pa.list_(pa.float32(), 4))])


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No table is known to have large rows."""
    unweighed._large.clear()
    yield
    unweighed._large.clear()


def texts(spark: SparkSession, count: int, large: int = -1, size: int = 2 * MOST_BYTES) -> DataFrame:
    """Rows with vectors, nulls among them; that of one id has a large text."""
    text = f.when(f.col("id") == large, f.repeat(f.lit("ä"), size)).when(
        f.col("id") % 5 != 0, f.concat(f.lit("t"), "id")
    )
    vector = f.when(f.col("id") % 7 != 0, f.array(*[f.col("id").cast("float")] * 4))
    return spark.range(0, count, 1, 3).select("id", text.alias("text"), vector.alias("v"))


def runs(frame: DataFrame) -> list[str]:
    """In which sessions its rows are collected: by their limits of a batch."""
    seen: list[str] = []

    def run(rows: DataFrame) -> list[Row]:
        there: Any = rows
        seen.append(str(there._jdf.sparkSession().conf().get(LIMIT)))
        return rows.collect()

    collected(frame, "t", run)
    return seen


def test_small_rows_are_not_weighed_and_the_session_stays_as_it_is(spark: SparkSession) -> None:
    """The job has a session of its own; this fails when Spark has no such thing any more."""

    def of_frames() -> SparkSession:
        """The session that `toDF` takes: the last one that was made in this process, by whomever."""
        return spark.sparkContext.parallelize([(1,)]).toDF(["a"]).sparkSession

    before, last, active = spark.conf.get(LIMIT), of_frames(), SparkSession.getActiveSession()
    assert runs(texts(spark, 100)) == [str((1 << 31) - 1)]
    assert spark.conf.get(LIMIT) == before
    assert (
        SparkSession.getActiveSession() is active
    )  # not asked for again after toDF, which makes its own the active one
    assert of_frames() is last


def test_a_large_row_is_weighed(spark: SparkSession) -> None:
    """The job is broken off and run again; the table is remembered."""
    usual = str(spark.conf.get(LIMIT))
    large = texts(spark, 100, large=77)
    assert runs(large) == [str((1 << 31) - 1), usual]
    assert runs(large) == [usual]


def test_the_largest_row_that_is_not_weighed(spark: SparkSession) -> None:
    """Bytes count, not letters; those of all columns together."""
    rest = 8 + 4 * 8
    assert len(runs(texts(spark, 8, large=6, size=(MOST_BYTES - rest) // 2))) == 1
    assert len(runs(texts(spark, 8, large=6, size=(MOST_BYTES - rest) // 2 + 1))) == 2


@pytest.mark.parametrize(
    "column",
    ["array('a', 'b')", "map('a', 1)", "named_struct('s', 'text')", "array(array(1))", "interval 1 day"],
)
def test_what_cannot_be_bounded_is_weighed(spark: SparkSession, column: str) -> None:
    """To tell its bytes would take a look at every part of it."""
    assert runs(spark.range(3).selectExpr("id", f"{column} as c")) == [str(spark.conf.get(LIMIT))]


@pytest.mark.parametrize("large", [-1, 2 * ROWS + 3])
def test_a_table_holds_the_same_rows_either_way(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession, large: int
) -> None:
    """Several batches, with a large row or without."""
    table = lake.create_table("texts", TEXTS, key="id")
    frame = texts(spark, 3 * ROWS, large)
    there.write(frame, "texts", note="once")
    assert [one.note for one in lake.history("texts", 1)] == ["once"]
    assert table.count() == 3 * ROWS
    held = {row["id"]: row for row in table.to_arrow().to_pylist()}
    for row in frame.collect():
        assert held[row.id] == {"id": row.id, "text": row.text, "v": row.v}


def test_a_column_is_computed_once(lake: phalanx.Lake, there: SparkLake, spark: SparkSession, tmp_path: Path) -> None:
    """By a function of Python, which may take long or ask somebody else, and of which the size of a row is found."""
    lake.create_table("made", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    calls = tmp_path / "calls"

    def text(number: int) -> str:
        with calls.open("a") as file:
            file.write("x")
        return "t" * number

    made = f.udf(text, "string", useArrow=False)
    there.write(spark.range(0, 100, 1, 2).select("id", made("id").alias("text")), "made")
    there.write(spark.range(0, 100, 1, 2).select(made("id").alias("text"), "id"), "made")
    assert [len(row["text"]) for row in lake["made"].to_arrow().to_pylist()] == [*range(100), *range(100)]
    assert calls.stat().st_size == 200


def test_views_joins_and_names_that_need_quotes_are_taken_as_they_are(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """A frame knows its views and settings, wherever it runs."""
    texts(spark, 20).createOrReplaceTempView("given")
    lake.create_table("sums", pa.schema([("who's own", pa.string()), ("n", pa.int64())]))
    made = spark.sql(
        "select coalesce(a.text, 'none') as `who's own`, count(*) as n from given a join given b using (id) group by 1"
    )
    there.write(made, "sums")
    assert sum(row["n"] for row in lake["sums"].to_arrow().to_pylist()) == 20
    assert lake["sums"].count() == 17


def test_an_error_of_the_job_is_not_taken_for_a_large_row(
    lake: phalanx.Lake, there: SparkLake, spark: SparkSession
) -> None:
    """It is told once, and nothing is written."""
    lake.create_table("texts", TEXTS)
    bad = texts(spark, 10).withColumn(
        "id", f.when(f.col("id") == 3, f.raise_error(f.lit("mine"))).otherwise(f.col("id"))
    )
    with pytest.raises(PhalanxError, match="mine"):
        there.write(bad, "texts")
    assert lake["texts"].count() == 0
    assert not unweighed._large
