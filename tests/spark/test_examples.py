"""The examples do what they say."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
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


def test_a_mirror_keeps_the_last_of_many_changes_of_one_version(
    lake: phalanx.Lake, there: SparkLake, tmp_path: Path
) -> None:
    """Writers that share commits change one row many times at one version, which Spark reads in any order."""
    source = lake.create_table("users", pa.schema({"id": pa.int64(), "name": pa.string()}), key="id")
    lake.create_table("mirror", source.schema, key="id")

    def write(thread: int) -> None:
        for number in range(20):
            source.upsert([{"id": at, "name": f"{thread}-{number}"} for at in range(8)])

    since = lake.version
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    feed = there.changes("users", since).where("_change_type = 'update_postimage' and id = 0")
    assert feed.groupBy("_commit_version").count().where("count > 1").count(), "no version had several changes"
    follow = partial(streaming_upsert.follow, there, "users", "mirror", tmp_path / "marks")
    follow()  # the whole table
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    follow()  # its changes
    assert lake["mirror"].to_arrow().sort_by("id").equals(source.to_arrow().sort_by("id"))


def test_a_mirror_has_keys_of_any_type(lake: phalanx.Lake, there: SparkLake, tmp_path: Path) -> None:
    """Keys of several columns, with quotes, dates, decimals and bytes, are deleted as they are; no frame stays cached."""
    key = {
        "name": pa.string(),
        "day": pa.date32(),
        "price": pa.decimal128(9, 2),
        "raw": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "n": pa.uint64(),
    }
    schema = pa.schema({**key, "v": pa.int64()})
    for name in ("users", "mirror"):
        lake.create_table(name, schema, key=list(key))
    same = {"day": date(2026, 1, 2), "price": Decimal("1.50"), "raw": b"\x00'", "at": datetime(2026, 1, 2, tzinfo=UTC)}
    lake["users"].append([{"name": name, "n": 2**64 - 1, "v": 1, **same} for name in ("o'neil", "ann", 'the "x"')])
    cached = there.spark.sparkContext._jsc.getPersistentRDDs
    before = cached().size()
    follow = partial(streaming_upsert.follow, there, "users", "mirror", tmp_path / "marks")
    follow()
    lake["users"].delete("name <> 'ann'")
    follow()
    assert lake["mirror"].to_arrow().to_pylist() == lake["users"].to_arrow().to_pylist()
    assert len(lake["mirror"].to_arrow()) == 1
    assert cached().size() <= before


def test_prices_that_moved_since_a_tag(lake: phalanx.Lake, there: SparkLake) -> None:
    """Both sides of the join are at the version that they name."""
    lake.create_table("prices", [{"item": "lamp", "price": 20}, {"item": "desk", "price": 90}], key="item")
    lake.tag("monday")
    lake["prices"].upsert([{"item": "lamp", "price": 25}])
    found = time_travel_join.moved(there, "prices", "price", "monday").collect()
    assert [row.asDict() for row in found] == [{"item": "lamp", "price": 25, "before": 20}]
