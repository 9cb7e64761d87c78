"""Transactions that only add rows: nothing is read for them, nothing is in their way, and they land as a whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx
from phalanx import Lake
from phalanx.clock import SYSTEM
from phalanx.errors import ConflictError, NotFoundError
from phalanx.lake import join
from phalanx.log.action import Settings
from phalanx.objects import open_store
from phalanx.testing import CountingStore


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Lake, Lake]]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as first:
        first.create_table("k", {"id": [1], "v": [0]}, key="id")
        first.create_table("u", {"id": [1], "v": [0]})
        with phalanx.open(tmp_path / "lake") as second:
            yield first, second


def both(lake: Lake, value: int, name: str = "k") -> int:
    with lake.transaction() as txn:
        txn[name].upsert([{"id": 1, "v": value}])
        txn["u"].append([{"id": value, "v": value}])
    assert txn.version is not None
    return txn.version


def test_a_commit_of_several_tables_is_one_put(tmp_path: Path) -> None:
    """On an object store that is one request: no listing, no read before or after it."""
    store = CountingStore(open_store(tmp_path / "lake"), remote=True)
    lake = join(store, SYSTEM, Settings(), timeout=10)
    lake.create_table("k", {"id": [1], "v": [0]}, key="id")
    lake.create_table("u", {"id": [1], "v": [0]})
    lake.core.pins.tidy()  # what the creations staged under is taken back, here and not in a thread
    with store.counted() as calls:
        both(lake, 7)
    assert calls == {"put": 1}
    assert (lake["k"].get(1), lake["u"].count()) == ({"id": 1, "v": 7}, 2)
    with store.counted() as calls, lake.transaction() as txn:
        assert txn["k"].get(1) == {"id": 1, "v": 7}
    assert calls["list"] == 1
    lake.close()


def test_it_is_ordered_by_the_log(pair: tuple[Lake, Lake]) -> None:
    """It is begun before another one of the same key lands, and lands after it: the later one counts, in both tables."""
    first, second = pair
    with first.transaction() as txn:
        txn["k"].upsert([{"id": 1, "v": 10}])
        both(second, 5)
        txn["u"].append([{"id": 10, "v": 10}])
    assert second["k"].get(1) == {"id": 1, "v": 10}
    assert sorted(second["u"].to_arrow()["id"].to_pylist()) == [1, 5, 10]


@pytest.mark.parametrize("look", ["get", "count", "snapshot_version", "update", "insert", "tables", "version"])
def test_once_it_looks_it_has_a_snapshot(pair: tuple[Lake, Lake], look: str) -> None:
    """What others did before is seen and is in nobody's way; what they do afterwards to the same rows is."""
    first, second = pair
    txn = first.transaction()
    txn["k"].upsert([{"id": 1, "v": 10}])
    both(second, 5)
    looks = {
        "get": lambda: txn["u"].count("id = 5") == 1 and txn["k"].get(1) == {"id": 1, "v": 10},
        "count": lambda: (txn["u"].count(), txn["k"].count()) == (2, 1),
        "snapshot_version": lambda: txn.snapshot_version == second.version,
        "update": lambda: txn["u"].update({"v": "v + 1"}, "id = 5") == 1,
        "insert": lambda: txn["k"].insert([{"id": 2, "v": 2}]) is None,
        "tables": lambda: txn.tables() == ["k", "u"],
        "version": lambda: txn["k"].version == second["k"].version,
    }
    assert looks[look]()
    assert txn["k"].get(1) == {"id": 1, "v": 10}
    both(second, 6)
    with pytest.raises(ConflictError, match="key 1 was written"):
        txn.commit()
    assert second["k"].get(1) == {"id": 1, "v": 6}


def test_a_table_that_is_not_known_yet_is_looked_for(pair: tuple[Lake, Lake]) -> None:
    """Another process has just created it."""
    first, second = pair
    second.create_table("new", {"id": [1], "v": [1]}, key="id")
    both(first, 3, "new")
    assert second["new"].get(1) == {"id": 1, "v": 3}
    with first.transaction() as txn, pytest.raises(NotFoundError, match="nowhere"):
        txn["nowhere"].append([{"id": 1, "v": 1}])


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("what", ["dropped", "renamed", "replaced"])
def test_a_name_that_means_another_table_by_now_is_in_the_way(
    pair: tuple[Lake, Lake], what: str, *, looks: bool
) -> None:
    """Or none: whenever that happened, as long as this process did not know. Nothing of the transaction lands."""
    first, second = pair
    txn = first.transaction()
    txn["k"].upsert([{"id": 1, "v": 10}])
    txn["u"].append([{"id": 9, "v": 9}])
    if what == "renamed":
        second.rename_table("k", "old")
    else:
        second.drop_table("k")
    if what == "replaced":
        second.create_table("k", {"id": [1], "v": [5]}, key="id")
    with pytest.raises(
        ConflictError if what == "replaced" else NotFoundError, match=r"'k' is another|'k' does no longer"
    ):
        _ = txn["u"].count() if looks else txn.commit()
    assert second["u"].count() == 1
    assert [second[name].count("v = 10") for name in second.tables()] == [0] * len(second.tables())


def test_a_name_means_one_table_in_all_of_a_transaction(pair: tuple[Lake, Lake]) -> None:
    """One that was named before it looked, and renamed since, is in the way: its rows would go to two tables."""
    first, second = pair

    def work(txn: phalanx.Transaction) -> None:
        txn["k"].append([{"id": 2, "v": 2}])
        txn["k"].update({"v": "v + 1"}, "id = 2")
        txn["k"].append([{"id": 3, "v": 3}])

    first.rename_table("k", "old")
    first.create_table("k", {"id": [1], "v": [9]}, key="id")
    with pytest.raises(ConflictError, match="another one by now"), second.transaction() as txn:
        work(txn)
    first.rename_table("k", "older")
    first.create_table("k", {"id": [1], "v": [9]}, key="id")
    second.run(work)
    assert [first[name].count() for name in ("old", "older", "k")] == [1, 1, 3]


def test_many_rows_are_staged_on_the_newest_head(pair: tuple[Lake, Lake]) -> None:
    """A large change looks first, so it may become the head at once."""
    first, second = pair
    second["u"].append([{"id": 2, "v": 2}])
    second.flush("u")
    with first.transaction() as txn:
        txn["u"].append({"id": list(range(100, 20_100)), "v": [0] * 20_000})
    assert second["u"].count() == 20_002
    assert second.describe("u").tail.items == 0


def test_a_token_counts_once_without_looking(pair: tuple[Lake, Lake]) -> None:
    """The same transaction by two processes."""
    first, second = pair
    token = first.token()
    found = []
    for lake in (first, second, first):
        with lake.transaction(token=token) as txn:
            txn["u"].append([{"id": 3, "v": 3}])
        found.append(txn.version)
    assert len(set(found)) == 1
    assert second["u"].count("id = 3") == 1
