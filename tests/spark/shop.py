"""A pipeline over five tables, as tests run it: orders come in, and four tables are derived from them in one run."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import phalanx
from phalanx.spark import Pipeline, added, changes, expect, made, on, run_pipeline, session, whole

KILLED_AT = ("cleaned", "expected", "items", "task", "totals", "daily", "commit", "landed")
"""Where a driver is killed: in one of the steps, while rows are checked, by a task that writes, before or right after the commit."""


def pipeline(kill_at: str = "") -> Pipeline:
    """The pipeline; the driver that runs it dies at a certain point."""
    shop = Pipeline("shop")

    def die(where: str) -> None:
        if where == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def checked(_: DataFrame) -> None:
        die("expected")

    expected = [expect.not_null("id", "amount"), expect.custom(checked)]

    @shop.step(reads=[added("orders")], writes="cleaned", create=True, expect=expected)
    def cleaned(orders: DataFrame) -> DataFrame:
        die("cleaned")
        return orders.where("amount is not null")

    @shop.step(reads={"rows": made("cleaned")}, writes="items", create=True, key="id", mode="upsert")
    def items(rows: DataFrame) -> DataFrame:
        die("items")
        made = rows.selectExpr("id", "amount * 2 as double", "who")
        return made.mapInArrow(ending(os.getpid()), made.schema) if kill_at == "task" else made

    shop.sql(
        "totals",
        "select who, sum(amount) as total, count(*) as n from cleaned group by who",
        reads=[whole("cleaned")],
        writes="totals",
        mode="overwrite",
        create=True,
        key="who",
        expect=[expect.unique("who"), expect.holds("n > 0")],
    )

    @shop.step(reads=[changes("orders")], writes="daily", create=True)
    def daily(orders: DataFrame) -> DataFrame:
        die("daily")
        return orders.groupBy(orders["_change_type"].alias("what")).count()

    return shop


def ending(driver: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that kills the driver when it has given its rows: whoever writes them is not told that there are no more."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        os.kill(driver, signal.SIGKILL)

    return run


def prepare(lake: phalanx.Lake, count: int = 30) -> None:
    """The table that orders come into, with some."""
    if "orders" not in lake.tables():
        lake.create_table("orders", [{"id": -1, "who": "nobody", "amount": 0}])
    first = lake["orders"].count()
    lake["orders"].append([{"id": at, "who": f"who-{at % 3}", "amount": at} for at in range(first, first + count)])


def whole_runs(lake: phalanx.Lake) -> int:
    """How many orders the derived tables have; fails if they do not all have the same."""
    snapshot = lake.snapshot()
    if "cleaned" not in snapshot.tables():
        assert snapshot.tables() == ["orders"], "some of the tables of a run, and not all"
        return 0
    counts = {
        "cleaned": snapshot["cleaned"].count(),
        "items": snapshot["items"].count(),
        "totals": sum(snapshot["totals"].to_arrow(["n"])["n"].to_pylist()),
        "daily": sum(snapshot["daily"].to_arrow(["count"])["count"].to_pylist()),
    }
    assert len(set(counts.values())) == 1, counts
    return counts["cleaned"]


def main(uri: str, kill_at: str) -> None:
    """A driver that runs the pipeline once, and dies where it is told to."""
    with phalanx.open(uri) as lake:
        there = on(lake, session("local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"}))
        if kill_at == "totals":
            ask = SparkSession.sql

            def asking(spark: SparkSession, query: str) -> None:
                ask(spark, query)
                os.kill(os.getpid(), signal.SIGKILL)

            SparkSession.sql = asking  # type: ignore[method-assign,assignment] # a step of SQL has no function of its own
        if kill_at in {"commit", "landed"}:
            commit = lake.core.committer.commit

            def dying(intent):  # noqa: ANN001, ANN202 - as the committer's
                if kill_at == "commit":
                    os.kill(os.getpid(), signal.SIGKILL)
                landed = commit(intent)
                os.kill(os.getpid(), signal.SIGKILL)
                return landed

            lake.core.committer.commit = dying  # type: ignore[method-assign]
        run_pipeline(there, pipeline(kill_at))


if __name__ == "__main__":
    main(*sys.argv[1:])
