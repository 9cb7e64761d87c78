"""The index that keyed tables keep on their key: built by itself, used wherever keys are looked for, never wrong."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import AlreadyExistsError, InvalidInputError
from phalanx.lake import Lake
from phalanx.table import Table
from phalanx.tables.index import segments
from phalanx.tail import lookup
from phalanx.upkeep.cover import LEAST_ROWS
from tests.unit.covering import asked, coverage, covered, head, held, opened

KEY = lookup.KEY_INDEX
NUMBERS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def numbers(first: int, count: int, v: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + count), "v": [v] * count}, schema=NUMBERS)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    """3,000 rows that the key's index covers."""
    table = lake.create_table("t", NUMBERS, key="id")
    table.append(numbers(0, 3000))
    lake.flush("t")
    assert covered(lake, "t").names == (KEY,)
    return table


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["bulk load", "flush"])
def test_a_keyed_table_gets_its_index_by_itself(tmp_path: Path, how: str) -> None:
    """In the background, after a bulk load and after a flush, once there are rows enough to be worth it."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", NUMBERS, key="id")
        if how == "bulk load":
            table.append(numbers(0, LEAST_ROWS), stage=True)
        else:
            lake.set_property("flush.rows", str(LEAST_ROWS))
            table.append(numbers(0, LEAST_ROWS), stage=False)
        until(lambda: coverage(lake, "t") == {KEY: (1, 1)})
        assert [(info.name, info.column, info.kind) for info in table.indexes()] == [(KEY, "id", "btree")]
        assert table.get(LEAST_ROWS - 1) == {"id": LEAST_ROWS - 1, "v": 0}


def test_a_table_without_a_key_has_no_index_and_few_rows_get_none(lake: Lake) -> None:
    """Fewer than some thousand rows are scanned in a few milliseconds; optimize indexes them all the same."""
    lake.create_table("bare", NUMBERS).append(numbers(0, 10))
    keyed = lake.create_table("keyed", NUMBERS, key="id")
    keyed.append(numbers(0, LEAST_ROWS - 1))
    assert lake["bare"].indexes() == []
    for name in ("bare", "keyed"):
        lake.flush(name)
        assert covered(lake, name, LEAST_ROWS).names == ()
    assert coverage(lake, "keyed") == {KEY: (0, 1)}
    for name in ("bare", "keyed"):
        lake.optimize(name)
    assert (coverage(lake, "bare"), coverage(lake, "keyed")) == ({}, {KEY: (1, 1)})


LOOKUPS: dict[str, Callable[[Table], object]] = {
    "get": lambda table: table.get(1500),
    "get of a key that is absent": lambda table: table.get(-1),
    "an upsert that is read": lambda table: (table.upsert([{"id": 1500, "v": 1}]), table.count())[1],
    "an insert's check": lambda table: table.insert([{"id": 5000, "v": 1}]),
    "a delete by key": lambda table: (table.delete("id = 7"), table.get(7))[1],
}


@pytest.mark.parametrize("what", LOOKUPS)
def test_keys_are_looked_up_in_the_index(table: Table, lake: Lake, what: str) -> None:
    """Lance is asked for the key alone, and answers from the index: a handful of rows is read instead of all."""
    table.append([{"id": 4000, "v": 4}])  # a tail, and with it hidden rows, does not switch the index off
    table.upsert([{"id": 9, "v": 9}])
    assert table.get(9) == {"id": 9, "v": 9}
    with asked() as record:
        LOOKUPS[what](table)
    if "delete" in what:  # a predicate is looked for in a pass over the column it names
        record.where = [where if where is not None and " in (" in where else None for where in record.where]
    else:
        assert record.rows <= 4
    plans = record.plans()
    assert plans
    assert all("ScalarIndexQuery: query=[id IN" in plan or f"@{KEY}(BTree)" in plan for plan in plans)


def test_without_the_index_every_key_is_read(lake: Lake) -> None:
    """What the test above would see if no index were used."""
    lake.create_table("u", NUMBERS, key="id").append(numbers(0, 3000))
    lake.flush("u")
    with asked() as record:
        lake["u"].get(1500)
    assert record.rows > 3000
    assert record.plans() == []


def test_many_keys_at_once_are_found_in_one_pass(table: Table, lake: Lake) -> None:
    """A pass over the keys is cheaper than hundreds of lookups, and finds the same."""
    table.upsert(numbers(1000, 1000, v=1))
    with asked() as record:
        assert table.count("v = 1") == 1000
    assert record.where[0] is None
    assert {row["v"] for row in (table.get(999), table.get(1000), table.get(1999), table.get(2000)) if row} == {0, 1}
    with pytest.raises(AlreadyExistsError, match="key 1000 exists"):
        table.insert(numbers(1000, 1000))


def test_many_keys_are_got_at_once(table: Table) -> None:
    """Head and tail, each key once, those that are absent left out; some columns or all."""
    table.upsert([{"id": 9, "v": 9}, {"id": 5000, "v": 5}])
    table.delete("id = 7")
    found = table.get_many([7, 8, 9, 9, 5000, 6000])
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 8, "v": 0},
        {"id": 9, "v": 9},
        {"id": 5000, "v": 5},
    ]
    assert max(table.get_many(range(2000), ["v"])["v"].to_pylist()) == 9
    assert table.get_many([]).num_rows == 0
    for wrong, said in ((["x"], "not a key"), ([None], "null"), ("ab", "list of values"), (5, "list of values")):
        with pytest.raises(InvalidInputError, match=said):
            table.get_many(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no column 'w'"):
        table.get_many([1], ["w"])


def test_many_keys_are_deleted_at_once(table: Table, lake: Lake) -> None:
    """In a transaction; those that are absent, or gone by then, are not counted, and what is no key is refused."""
    with lake.transaction() as txn:
        txn["t"].upsert(numbers(5000, 1))
        txn["t"].delete("id = 7")
        assert txn["t"].delete_many(iter([7, 8, 9, 9, 5000, 6000])) == 3
        assert txn["t"].delete_many([]) == 0
        for wrong, said in ((["x"], "not a key"), ([None], "null"), ("ab", "list of values")):
            with pytest.raises(InvalidInputError, match=said):
                txn["t"].delete_many(wrong)
    assert table.get_many([6, 7, 8, 9, 10, 5000])["id"].to_pylist() == [6, 10]
    assert table.count() == 2997


def test_an_index_that_covers_some_fragments_finds_the_rows_of_all(table: Table, lake: Lake) -> None:
    """Rows flushed since it was built are found without it."""
    table.upsert(numbers(2990, 20, v=1))
    lake.flush("t")
    assert coverage(lake, "t") == {KEY: (1, 2)}
    found = [table.get(one) for one in (0, 2989, 2990, 3009, 3010)]
    assert [row and row["v"] for row in found] == [0, 0, 1, 1, None]
    covered(lake, "t")
    assert coverage(lake, "t") == {KEY: (2, 2)}
    assert [table.get(one) for one in (0, 2989, 2990, 3009, 3010)] == found


def test_segments_stay_few_and_the_large_one_is_left_alone(table: Table, lake: Lake) -> None:
    """A new one takes in those that are not larger than itself; no fragment is in two of them, and none is left out."""
    [first] = segments(head(lake, "t"))
    for number in range(12):
        table.append([{"id": 10_000 + number, "v": number}])
        lake.flush("t")
        covered(lake, "t")
        there = held(lake, "t")[KEY]
        assert len(there) <= 4
        assert sum(map(len, there)) == len(set().union(*there)) == len(head(lake, "t").fragments)
        assert first in segments(head(lake, "t"))
    assert [table.get(10_000 + number) for number in range(12)] == [
        {"id": 10_000 + number, "v": number} for number in range(12)
    ]


def test_a_table_that_was_emptied_keeps_no_index_of_what_is_gone(table: Table, lake: Lake) -> None:
    """Its segments go at the next upkeep, and keys of new rows are found."""
    table.overwrite([{"id": 1, "v": 7}])
    lake.flush("t")
    assert (table.get(1), table.get(2)) == ({"id": 1, "v": 7}, None)
    covered(lake, "t")
    assert held(lake, "t")[KEY] == [set(head(lake, "t").fragments)]
    assert (table.get(1), table.get(2)) == ({"id": 1, "v": 7}, None)
    table.delete("true")
    lake.flush("t")
    covered(lake, "t")
    assert (table.get(1), held(lake, "t"), table.count()) == (None, {}, 0)


@pytest.mark.parametrize("key", ["x", (1, 2), None, 1.5, 1 << 70, [1]])
def test_a_key_of_the_wrong_kind_is_refused(table: Table, key: object) -> None:
    """With an index as without."""
    with pytest.raises(InvalidInputError, match="key"):
        table.get(key)
