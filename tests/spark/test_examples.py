"""The examples do what they say."""

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

import phalanx
from examples.spark import incremental, load_parquet, streaming_upsert, time_travel_join
from phalanx.spark import SparkLake
from tests.spark.rows import EVENTS, events


def test_a_directory_of_parquet_becomes_tables_in_one_commit(
    lake: phalanx.Lake, there: SparkLake, tmp_path: Path
) -> None:
    """A table for each folder; loaded again, rows are added."""
    for name, count in (("orders", 3), ("items", 5)):
        (tmp_path / "files" / name).mkdir(parents=True)
        rows = pa.Table.from_pylist(events(0, count), EVENTS)
        parquet.write_table(rows, tmp_path / "files" / name / "part.parquet")
    assert load_parquet.load(there, tmp_path / "files") == {"items": 5, "orders": 3}
    assert lake.log(1)[0].note == "load files"
    load_parquet.load(there, tmp_path / "files")
    assert (lake["orders"].count(), lake["items"].count()) == (6, 10)


def test_totals_are_kept_by_what_is_new(lake: phalanx.Lake, there: SparkLake) -> None:
    """Each order is counted once."""
    incremental.prepare(lake)
    assert incremental.run(there) == {"ann": 20}
    lake["orders"].append([{"id": 3, "customer": "BOB ", "amount": 5}, {"id": 4, "customer": "ann", "amount": 1}])
    assert incremental.run(there) == {"ann": 21, "bob": 5}
    assert incremental.run(there) == {"ann": 21, "bob": 5}


def test_a_mirror_follows_updates_and_deletions(lake: phalanx.Lake, there: SparkLake, tmp_path: Path) -> None:
    """The newest form of each row counts."""
    lake.create_table("users", [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}], key="id")
    lake.create_table("mirror", lake["users"].schema, key="id")
    streaming_upsert.follow(there, "users", "mirror", tmp_path / "marks")
    lake["users"].upsert([{"id": 2, "name": "bert"}])
    lake["users"].upsert([{"id": 2, "name": "ben"}, {"id": 3, "name": "eve"}])
    lake["users"].delete("id = 1")
    streaming_upsert.follow(there, "users", "mirror", tmp_path / "marks")
    assert lake["mirror"].to_arrow().sort_by("id").equals(lake["users"].to_arrow().sort_by("id"))


def test_prices_that_moved_since_a_tag(lake: phalanx.Lake, there: SparkLake) -> None:
    """Both sides of the join are at the version that they name."""
    lake.create_table("prices", [{"item": "lamp", "price": 20}, {"item": "desk", "price": 90}], key="item")
    lake.tag("monday")
    lake["prices"].upsert([{"item": "lamp", "price": 25}])
    found = time_travel_join.moved(there, "prices", "price", "monday").collect()
    assert [row.asDict() for row in found] == [{"item": "lamp", "price": 25, "before": 20}]
