"""The change feed, restore and diff: exact across flushes, optimizes and restores."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import compute as pc

import phalanx
from phalanx.errors import ChangesExpiredError, InvalidInputError, NotFoundError, StateError, VersionDeletedError
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.txn.bulk import Cargo, Small
from tests.lakes import trim

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
Row = dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = phalanx.open(tmp_path / "lake", create=True)
    lake.set_property("flush.background", "off")
    return lake


def rows(*ids: int, v: int = 0) -> list[Row]:
    return [{"id": one, "v": v, "s": f"s{one}"} for one in ids]


def told(lake: Lake, since: int, until: int | None = None, name: str = "t") -> list[tuple[str, int, int]]:
    found = lake.changes(name, since, until).read_all().to_pylist()
    return [(row["_change_type"], row["id"], row["v"]) for row in found]


def test_every_kind_of_change_says_what_it_did(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    start = lake.version
    table.append(rows(1, 2, 3))
    table.upsert(rows(3, 4, v=1))
    table.update({"v": "v + 10"}, "id >= 3")
    table.delete("id = 1")
    with lake.transaction() as txn:
        txn["t"].delete("id = 2")
        txn["t"].insert(rows(9))
    table.overwrite(rows(3, v=5))
    expected = [
        *[("insert", one, 0) for one in (1, 2, 3)],
        *[("update_preimage", 3, 0), ("update_postimage", 3, 1), ("insert", 4, 1)],
        *[
            ("update_preimage", 3, 1),
            ("update_postimage", 3, 11),
            ("update_preimage", 4, 1),
            ("update_postimage", 4, 11),
        ],
        ("delete", 1, 0),
        *[("delete", 2, 0), ("insert", 9, 0)],
        *[("delete", one, v) for one, v in ((3, 11), (4, 11), (9, 0))],
        ("insert", 3, 5),
    ]
    assert Counter(told(lake, start)) == Counter(expected)
    assert told(lake, start)[:6] == expected[:6]
    lake.flush()
    lake.optimize("t")
    assert Counter(told(lake, start)) == Counter(expected)
    found = lake.changes("t", start).read_all()
    assert found["_commit_version"].to_pylist() == sorted(found["_commit_version"].to_pylist())
    assert found.schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")
    assert told(lake, lake.version) == []
    assert told(lake, 0)[:3] == expected[:3]
    assert told(lake, start, start + 1) == expected[:3]


def test_changes_of_one_version_have_an_order_that_is_the_same_in_every_reading(lake: Lake) -> None:
    """Of many transactions in one position, and of many statements in one: wherever the reading begins, in small tails and large."""
    table = lake.create_table("t", SCHEMA, key="id")
    start = lake.version
    with lake.transaction() as txn:
        for value in range(3):
            txn["t"].upsert(rows(1, 2, v=value))
        txn["t"].delete("id = 2")

    def write(thread: int) -> None:
        for number in range(20):
            table.upsert(rows(1, v=100 * thread + number))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(1, 17)))
    found = lake.changes("t", start).read_all()
    places = list(zip(found["_commit_version"].to_pylist(), found["_commit_order"].to_pylist(), strict=True))
    assert places == sorted(set(places))
    assert max(order for _, order in places) >= 3, "no version had several changes"
    for above in range(start, lake.version):
        assert (
            lake.changes("t", above, above + 1)
            .read_all()
            .equals(found.filter(pc.field("_commit_version") == above + 1))
        )
    newest = max(zip(places, found.to_pylist(), strict=True), key=itemgetter(0))[1]
    assert newest["v"] == table.to_arrow().to_pylist()[0]["v"]


def test_history_says_how_many_rows(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows(1, 2, 3))
    table.update({"v": "v + 1"}, "id > 1")
    table.delete("id = 1", note="because")
    lake.flush()
    found = lake.history("t", rows=True)
    assert [(one.operation, one.rows.inserted, one.rows.updated, one.rows.deleted) for one in found if one.rows] == [
        ("delete where id = 1", 0, 0, 1),
        ("update set v = v + 1 where id > 1", 0, 2, 0),
        ("upsert 3 rows", 3, 0, 0),
        ("create", 0, 0, 0),
    ]
    assert found[0].note == "because"


def test_changes_below_the_floor_are_expired(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    start = lake.version
    for one in range(5):
        table.append(rows(one))
    trim(lake, start + 3)
    with pytest.raises(ChangesExpiredError, match="no longer kept"):
        lake.changes("t", start)
    assert [one for _, one, _ in told(lake, start + 2)] == [2, 3, 4]
    with pytest.raises(InvalidInputError, match="after one version"):
        lake.changes("t", 10_000)
    with pytest.raises(NotFoundError):
        lake.changes("nope", 1)


def test_a_table_is_restored_and_the_feed_says_what_that_changed(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows(1, 2, 3))
    good = lake.version
    table.delete("id = 1")
    table.upsert(rows(2, v=7) + rows(8))
    bad = lake.version
    landed = lake.restore(version=good)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert Counter(told(lake, bad, landed)) == Counter(
        [("insert", 1, 0), ("update_preimage", 2, 7), ("update_postimage", 2, 0), ("delete", 8, 0)]
    )
    assert lake.snapshot(version=bad)["t"].count() == 3
    table.append(rows(4))
    lake.flush()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert lake.diff("t", bad, good).num_rows == 4
    assert lake.diff("t", good, good).num_rows == 0
    assert table.version == 6
    assert lake.restore(version=lake.version) == lake.version  # nothing to do


def test_a_bulk_change_begun_before_a_restore(lake: Lake) -> None:
    """What it was matched with is another branch: it counts by what it means (rule C6)."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows(1, 2, 3), stage=True)
    good = lake.version
    table.append(rows(3, 4, 5, v=1), stage=True)

    def batches() -> Any:
        yield pa.RecordBatch.from_pylist(rows(2, 4, v=9), schema=SCHEMA)
        with phalanx.open(lake.uri) as other:
            other.restore(version=good)

    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()), stage=True)
    expected = {1: 0, 2: 9, 3: 0, 4: 9}
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
    lake.flush()
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected


def test_the_lake_is_restored_with_dropped_renamed_and_new_tables(lake: Lake) -> None:
    lake.create_namespace("crm")
    for name in ("crm.a", "b", "c"):
        lake.create_table(name, SCHEMA, key="id").append(rows(1))
    lake.tag("good")
    lake["b"].append(rows(2))
    lake.drop_table("crm.a")
    lake.drop_namespace("crm")
    lake.rename_table("b", "x")
    lake.rename_table("c", "b")
    lake.rename_table("x", "c")
    lake.create_table("new", SCHEMA)
    before = lake.version
    lake.restore(tag="good")
    assert lake.tables() == ["b", "c", "crm.a"]
    assert [lake[name].count() for name in lake.tables()] == [1, 1, 1]
    lake["crm.a"].append(rows(7))
    lake.flush()
    assert lake["crm.a"].count() == 2
    lake.restore(version=before)
    assert lake.tables() == ["b", "c", "new"]
    assert lake["c"].count() == 2
    lake.restore(tag="good", tables=["c"])
    assert lake["c"].count() == 1
    with pytest.raises(NotFoundError, match="did not exist"):
        lake.restore(tag="good", tables=["new"])
    with pytest.raises(InvalidInputError, match="version, tag and as_of"):
        lake.restore()


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_the_feed_replayed_into_an_empty_lake_is_the_source_at_every_version(
    tmp_path: Path, seed: int, keyed: bool
) -> None:
    """Random changes, flushes, optimizes, restores and alterations of other tables; replayed version by version."""
    replay(tmp_path, seed, keyed)


def replay(tmp_path: Path, seed: int, keyed: bool) -> None:
    print(f"seed {seed}, keyed {keyed}")
    rng = random.Random(seed)
    lake = phalanx.open(tmp_path / "source", create=True)
    lake.set_property("flush.background", "off")
    table = lake.create_table("t", SCHEMA, key="id" if keyed else ())
    start = lake.version
    for _ in range(40):
        _change(lake, table, rng, start)
    copy = phalanx.open(tmp_path / "copy", create=True).create_table("t", SCHEMA)
    held: Counter[tuple[Any, ...]] = Counter()
    at = start
    while at < lake.version:
        upto = min(lake.version, at + rng.randint(1, 5))
        for change in lake.changes("t", at, upto).read_all().to_pylist():
            row = (change["id"], change["v"], change["s"])
            kind = change["_change_type"]
            held[row] += 1 if kind in ("insert", "update_postimage") else -1
            assert held[row] >= 0, f"{kind} of a row that is not there, at {change['_commit_version']}"
        source = lake.snapshot(version=upto)["t"].to_arrow()
        assert +held == Counter(zip(*(source[name].to_pylist() for name in SCHEMA.names), strict=True)), upto
        at = upto
    copy.append([dict(zip(SCHEMA.names, row, strict=True)) for row in held.elements()] or rows(0))


def _change(lake: Lake, table: Any, rng: random.Random, start: int) -> None:
    some = rows(*rng.sample(range(30), rng.randint(1, 6)), v=rng.randint(0, 3))
    kind = rng.choice("aaaaabbbduuuwtttfoorx")
    if kind in "ab":
        table.append(some, stage=kind == "b")
    elif kind == "d":
        table.delete(f"id % 7 = {rng.randint(0, 6)}")
    elif kind == "u":
        table.update({"v": "v + 1"}, f"id % 3 = {rng.randint(0, 2)}")
    elif kind == "w":
        table.overwrite(some, stage=rng.random() < 0.5)
    elif kind == "t":
        with lake.transaction() as txn:
            txn["t"].delete(f"id % 5 = {rng.randint(0, 4)}")
            txn["t"].append(some)
            txn["t"].update({"v": "v * 2"}, "v > 1")
    elif kind == "f":
        lake.flush()
    elif kind == "o":
        lake.optimize("t")
    elif kind == "r":
        lake.restore(version=rng.randint(start, lake.version))
    elif kind == "x":
        with lake.transaction() as txn:
            txn["t"].append(some, stage=True)
            txn["t"].append(rows(*range(40, 44)))


def test_a_table_is_read_at_its_own_versions(lake: Lake) -> None:
    """Also at one that shares its entry with the next."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows(1))
    core = lake.core
    cargo = [Cargo(), Cargo()]
    intents = [
        core.intent(
            [one.upsert(table._shape, Small(pa.Table.from_pylist(rows(at), schema=SCHEMA)))],
            core.deadline(9),
            payloads=one.payloads,
        )
        for at, one in enumerate(cargo, 2)
    ]
    core.committer._commit(intents)
    assert intents[0].ack.result() == intents[1].ack.result()
    table.delete("id = 1")
    lake.flush()
    found = [sorted(table.at(version).to_arrow()["id"].to_pylist()) for version in range(1, table.version + 1)]
    assert found == [[], [1], [1, 2], [1, 2, 3], [2, 3]]
    with pytest.raises(NotFoundError, match="no version 6"):
        table.at(6)


def test_a_restore_across_an_alteration_says_only_what_changed(lake: Lake) -> None:
    """Columns are followed by where they came from, not by their names."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows(1, 2))
    good = lake.version
    table.rename_column("v", "n")
    table.add_column("extra", pa.int64(), default=7)
    table.upsert([{"id": 2, "n": 5, "s": "s2", "extra": 8}])
    altered = lake.version
    lake.restore(version=good)
    found = lake.changes("t", altered).read_all().to_pylist()
    assert [(row["_change_type"], row["id"], row["v"]) for row in found] == [
        ("update_preimage", 2, 5),
        ("update_postimage", 2, 0),
    ]
    assert lake.diff("t", good, altered).to_pylist() == [
        {"id": 2, "n": 0, "s": "s2", "extra": 7, "_change_type": "update_preimage"},
        {"id": 2, "n": 5, "s": "s2", "extra": 8, "_change_type": "update_postimage"},
    ]


def test_a_table_that_was_only_declared(lake: Lake) -> None:
    """It has a name and no columns: whoever wants more is told so."""
    lake.commit([do.CreateTable(("d",), "d" * 32, {})])
    declared = lake.version
    for wanted in (
        lambda: lake["d"].append(rows(1)),
        lake["d"].to_arrow,
        lambda: lake["d"].add_column("x", pa.int64()),
        lambda: lake.transaction()["d"].append(rows(1)),
        lambda: lake.describe("d"),
    ):
        with pytest.raises(StateError, match="only declared"):
            wanted()
    assert lake.optimize("d")["d"].rewritten == 0
    lake.set_property("k", "v")
    assert lake.restore(version=declared) == lake.version


def test_columns_that_come_back_are_other_columns(lake: Lake) -> None:
    """A column goes and another one of its name comes, two swap their names: the feed has what the table has."""
    table = lake.create_table("t", SCHEMA, key="id")
    start = lake.version
    table.append(rows(1, v=10))
    table.drop_column("v")
    table.add_column("v", pa.int64(), default=0)
    assert [(row["id"], row["v"]) for row in lake.changes("t", start).read_all().to_pylist()] == [(1, 0)]
    pair = lake.create_table("pair", pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]), key="id")
    start = lake.version
    pair.append([{"id": 1, "a": 10, "b": 20}])
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        pair.rename_column(old, new)
    pair.order_columns(["id", "a", "b"])
    pair.upsert([{"id": 2, "a": 1, "b": 2}])
    for _ in range(2):
        found = lake.changes("pair", start).read_all().select(["id", "a", "b"]).to_pylist()
        assert found == pair.to_arrow().to_pylist() == [{"id": 1, "a": 20, "b": 10}, {"id": 2, "a": 1, "b": 2}]
        lake.flush("pair")


@pytest.mark.parametrize("tagged", [True, False])
def test_a_table_that_was_dropped_is_restored_though_the_log_was_pruned(lake: Lake, tagged: bool) -> None:
    """From a tag below the floor, or from the last version of the log; what the floor has passed has no number any more."""
    table, other = lake.create_table("t", SCHEMA), lake.create_table("u", SCHEMA)
    for number in range(5):
        table.append(rows(number))
        if tagged and number == 2:
            lake.tag("x")
    last = lake.version
    lake.drop_table("t")
    for number in range(10 if tagged else 1):
        other.append(rows(number))
    lake.core.pins.renew()
    lake.prune(keep=1 if tagged else 3, protect=0)
    before = lake["u"].count()
    lake.restore(tag="x") if tagged else lake.restore(version=last)
    there = lake["t"]
    assert there.count() == (3 if tagged else 5)
    assert lake["u"].count() == 0 < before
    assert lake.check().whole
    there.append(rows(100))
    versions = lake.refresh().state.contents[there.id].versions
    landed = [one.version for one in versions.oldest_first()]
    assert landed == sorted(set(landed))
    assert there.version > 6
    readable = 0
    for version in landed:
        try:
            readable += there.at(version).count() >= 0
        except VersionDeletedError:
            continue
    assert readable == len(landed) >= (2 if tagged else 3)
    assert not tagged or lake.snapshot(tag="x")["t"].count() == 3
    if tagged:
        assert lake.snapshot(tag="x")["t"].count() == 3
