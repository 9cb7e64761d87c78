"""A join of a table with itself as it was: what has changed since a tag, and by how much."""

import sys

from pyspark.sql import DataFrame

import phalanx
import phalanx.spark
from phalanx.spark import SparkLake


def moved(there: SparkLake, table: str, column: str, since: str) -> DataFrame:
    """The keys whose value is another one than it was at a tag, with both values."""
    key = list(there.lake[table].key)
    now = there.snapshot().table(table, columns=[*key, column])
    then = there.snapshot(tag=since).table(table, columns=[*key, column]).withColumnRenamed(column, "before")
    return now.join(then, key).where(f"{column} <> before")


def main(lake: str) -> None:
    """`python -m examples.spark.time_travel_join LAKE`."""
    with phalanx.open(lake, create=True) as found:
        if "prices" not in found.tables():
            found.create_table("prices", [{"item": "lamp", "price": 20}, {"item": "desk", "price": 90}], key="item")
            found.tag("monday")
        found["prices"].upsert([{"item": "lamp", "price": 25}])
        moved(phalanx.spark.on(found), "prices", "price", "monday").show()


if __name__ == "__main__":
    main(*sys.argv[1:])
