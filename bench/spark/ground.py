"""What all sections stand on: a session, and the same rows in a table and in a folder of Parquet files."""

from collections.abc import Callable

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.frame import Bench
from bench.spark.rows import SCHEMA, batches
from phalanx import Lake
from phalanx.spark import SparkLake, on, session

OURS, PARQUET, SOURCE, NO_STREAM = "Phalanx", "Parquet", "Phalanx, data source", "Phalanx, data source, with tasks"


class Ground(msgspec.Struct, frozen=True):
    """A lake with the table `t`, and the same rows as Parquet, where that is a local disk."""

    spark: SparkSession
    lake: Lake
    there: SparkLake
    parquet: str | None
    rows: int
    source: Callable[[], DataFrame]
    """The rows as a data frame that has nothing to do with the lake, for who writes them."""


def ground(bench: Bench) -> Ground:
    """Made once for all sections."""
    found = bench.once("ground", lambda: _made(bench))
    if not isinstance(found, Ground):
        raise TypeError(found)
    return found


def _made(bench: Bench) -> Ground:
    count = bench.pick(5_000_000, 50_000, "rows")
    spark = session(memory="3g", app="phalanx-bench")
    lake = bench.place.lake(bench.place.new("spark"))
    lake.set_property("flush.background", "off")  # nothing runs beside what is measured
    table = lake.create_table("t", SCHEMA)
    bench.step("loading the rows")
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches(count)), stage=True, timeout=600)
    there = on(lake, spark)
    bench.step("running Spark once")
    there.table("t", where="id < 1000").count()
    parquet = None
    if bench.place.local:
        parquet = bench.place.new("parquet")
        there.table("t").write.parquet(parquet)
    folder = parquet
    return Ground(
        spark, lake, there, parquet, count, lambda: there.table("t") if folder is None else spark.read.parquet(folder)
    )
