"""A flow from a table of a lake to another one: rows that are added to `turns` arrive in `words` once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

active = SparkSession.active()
lake = active.conf.get("lake") or ""

dp.create_sink("words", "phalanx", {"lake": lake, "table": "words"})


@dp.append_flow(target="words")
def split() -> DataFrame:
    """A row for each word of a turn."""
    rows = active.readStream.format("phalanx").option("lake", lake).option("table", "turns").load()
    return rows.select("id", f.explode(f.split("text", " ")).alias("word"))
