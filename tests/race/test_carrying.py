"""Processes that carry each other's changes into the log: what rides, where it lands, and whose it is."""

import shutil
from pathlib import Path

import pytest

import phalanx
from phalanx import Lake
from tests.race.carriers import (
    MOST_TURNS,
    PATIENCE,
    appends,
    carried,
    context,
    crowded,
    ids,
    version,
)


def test_what_is_carried_is_where_the_answer_says_and_is_its_own_writers(pair: tuple[Lake, Lake]) -> None:
    """Position, history and rows, for both; the carrier's own commits are its own."""
    first, second = pair
    at = [second["t"].append([{"id": 3, "v": 0}]), first["t"].append([{"id": 4, "v": 0}])]
    assert ids(first) == ids(second) == [0, 1, 2, 3, 4]
    writers = {change.lake_version: change.writer for change in first.history("t")}
    mine, others = (lake._committer._writer for lake in (first, second))
    assert (writers[at[0]], writers[at[1]]) == (others, mine)
    assert {commit.version: commit.writer for commit in second.log()}[at[0]] == others


def test_many_processes_share_entries(uri: str) -> None:
    """Ten processes, twenty appends each, in far fewer entries; all rows once."""
    before, begin = version(uri), context().Barrier(10)
    given = [(uri, number, 20, None, None, begin) for number in range(10)]
    crew = [context().Process(target=appends, args=one) for one in given]
    for process in crew:
        process.start()
    for process in crew:
        process.join(PATIENCE)
    assert [process.exitcode for process in crew] == [0] * 10
    with phalanx.open(uri) as lake:
        assert ids(lake) == sorted([0, *(MOST_TURNS * number + turn for number in range(10) for turn in range(1, 21))])
        assert lake.version - before < 200
        assert any(change.place for change in lake.history("t", 200))


def test_only_changes_of_rows_ride(pair: tuple[Lake, Lake]) -> None:
    """Names, tags and transactions that have looked at something go by themselves, through the same door."""
    _, second = pair
    before = carried(second)
    second.create_namespace("n")
    second.tag("now")
    with second.transaction() as txn:
        txn["t"].update({"v": "v + 1"}, "id = 0")
    assert carried(second) == before
    second["t"].delete("id = 1")
    assert carried(second) == before + 1
    assert ids(second) == [0, 2]


def test_a_transaction_that_only_adds_rows_rides_with_the_names_of_its_tables(pair: tuple[Lake, Lake]) -> None:
    """It lands as a whole, in one entry; if a name means another table by now, it is in the way, whoever brings it in."""
    first, second = pair
    first.create_table("u", {"id": [0], "v": [0]}, key="id")
    second.refresh()
    before = carried(second)

    def write(number: int) -> None:
        with second.transaction() as txn:
            txn["t"].append([{"id": number, "v": 0}])
            txn["u"].upsert([{"id": number, "v": number}])

    write(5)
    assert carried(second) == before + 1
    assert (ids(first), first["u"].get(5)) == ([0, 1, 2, 5], {"id": 5, "v": 5})
    first.rename_table("u", "old")
    first.create_table("u", {"id": [0], "v": [0]}, key="id")
    with pytest.raises(phalanx.ConflictError, match="'u' is another one by now"):
        write(6)
    write(7)
    assert ids(first) == [0, 1, 2, 5, 7]
    assert [first[name].get(7) for name in ("u", "old")] == [{"id": 7, "v": 7}, None]


def test_who_only_writes_for_long_is_carried_all_the_same(tmp_path: Path) -> None:
    """It never reads the log, which remembers the last ids only: what is new to the log was never forgotten by it."""
    path = tmp_path / "short"
    with phalanx.open(path, create=True, durability="os", settings={"remembered": 20}) as first:
        first.create_table("t", {"id": [0], "v": [0]})
        table = first["t"]
        with phalanx.open(path) as second:
            mine = second["t"]
            crowded(first).append([{"id": 1, "v": 0}])
            second._committer._passenger.lost()
            for number in range(2, 60):
                mine.append([{"id": number, "v": 0}])  # each is answered, and the next is sent with what that says
            assert carried(second) >= 58
            for number in range(60, 100):
                table.append([{"id": number, "v": 0}])  # by others, while it is idle
            mine.append([{"id": 100, "v": 0}])
            assert ids(first) == list(range(101))


def test_a_large_change_goes_by_itself(pair: tuple[Lake, Lake]) -> None:
    """Copying it to another process gains nothing."""
    _, second = pair
    before = carried(second)
    second["t"].append({"id": list(range(100, 100_100)), "v": [0] * 100_000}, stage=False)
    assert carried(second) == before
    assert second["t"].count() == 100_003


def test_a_full_tail_is_its_own_processes_business(pair: tuple[Lake, Lake]) -> None:
    """The carrier leaves it, the process finds out, and waits for a flush like everybody."""
    first, second = pair
    first.set_property("flush.background", "off")
    first.set_property("flush.rows", "1")
    first.set_property("flush.hard", "3")
    first.refresh()
    for number in range(10, 14):
        second["t"].append([{"id": number, "v": 0}])
    assert ids(first) == [0, 1, 2, 10, 11, 12, 13]
    assert first.describe("t").tail.rows <= 4


def test_a_dropped_table_is_said_to_be_gone(pair: tuple[Lake, Lake]) -> None:
    """What the carrier refuses is judged again by the process itself, which knows how to say it."""
    first, second = pair
    table = second["t"]
    first.drop_table("t")
    with pytest.raises(phalanx.NotFoundError, match="does no longer exist"):
        table.append([{"id": 9, "v": 0}])


def test_a_copy_of_a_lake_is_another_place(uri: str, tmp_path: Path) -> None:
    """It has the same id, and a commit to it must not land in the original."""
    shutil.copytree(uri, tmp_path / "copy")
    with phalanx.open(uri) as first, phalanx.open(tmp_path / "copy") as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert ids(first) == [0, 1]
        assert ids(second) == [0, 2]


def test_a_handle_that_does_not_carry_is_alone(uri: str) -> None:
    """As asked."""
    with phalanx.open(uri) as first, phalanx.open(uri, carry=False) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert second._committer._passenger._connection is None
        assert ids(first) == [0, 1, 2]
