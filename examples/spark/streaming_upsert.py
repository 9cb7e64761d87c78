"""A stream that keeps a table up to date with another one: every change once, whatever is killed and started again."""

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

import phalanx
import phalanx.spark
from phalanx.spark import SparkLake, SparkTransaction


def follow(there: SparkLake, source: str, target: str, marks: Path) -> None:
    """Bring a table up to date with the newest form of each row that changed in another one."""
    lake = there.lake
    columns, key = lake[target].schema.names, list(lake[target].key)
    reader = there.spark.readStream.format("phalanx").option("lake", lake.uri).option("table", source)
    feed = reader.option("changes", "feed").load()

    def newest(batch: DataFrame, txn: SparkTransaction) -> None:
        order = Window.partitionBy(*key).orderBy(f.desc("_commit_version"), f.desc("_commit_order"))
        last = batch.where("_change_type <> 'update_preimage'").withColumn("_place", f.row_number().over(order))
        last = last.where("_place = 1").cache()
        try:
            txn.write(target, last.where("_change_type <> 'delete'").select(*columns), mode="upsert")
            gone = last.where("_change_type = 'delete'").select(*key).toArrow()
        finally:
            last.unpersist()
        parts = [column.to_pylist() for column in gone.columns]
        txn[target].delete_many(parts[0] if len(key) == 1 else zip(*parts, strict=True))

    query = feed.writeStream.foreachBatch(there.each_batch(newest)).option("checkpointLocation", str(marks))
    query.trigger(availableNow=True).start().awaitTermination()


def main(lake: str) -> None:
    """`python -m examples.spark.streaming_upsert LAKE`."""
    with phalanx.open(lake, create=True) as found:
        if "users" not in found.tables():
            found.create_table("users", [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}], key="id")
            found.create_table("mirror", found["users"].schema, key="id")
        there = phalanx.spark.on(found)
        follow(there, "users", "mirror", Path(lake).with_suffix(".marks"))
        found["users"].upsert([{"id": 2, "name": "bert"}])
        found["users"].delete("id = 1")
        follow(there, "users", "mirror", Path(lake).with_suffix(".marks"))
        print(found["mirror"].to_arrow().to_pylist())


if __name__ == "__main__":
    main(*sys.argv[1:])
