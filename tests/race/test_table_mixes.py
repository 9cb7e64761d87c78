"""Many processes on one table: every operation succeeds without the caller retrying, and the rows are exactly right."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx import AlreadyExistsError, ConflictError, Lake
from tests.race.crew import together

ROWS = 2000
EACH = 5


def appends(lake: Lake, number: int) -> None:
    for turn in range(EACH):
        first = 100_000 + 1000 * number + 10 * turn
        lake["t"].append([{"id": first + at, "v": 0} for at in range(10)])


def deletes(lake: Lake, number: int) -> None:
    for turn in range(EACH):
        lake["t"].delete(f"id = {1 + number * EACH + turn}")


def updates(lake: Lake, number: int) -> None:
    for turn in range(EACH):
        lake["t"].update({"v": "v + 1"}, f"id = 0 or id = {1000 + number * EACH + turn}")


def maintains(lake: Lake, number: int) -> None:
    for _ in range(3):
        lake.flush("t")
        lake.optimize("t")


def expected(appenders: int, deleters: int, updaters: int) -> dict[int, int]:
    rows = dict.fromkeys(range(ROWS), 0)
    for number in range(appenders):
        rows |= {100_000 + 1000 * number + 10 * turn + at: 0 for turn in range(EACH) for at in range(10)}
    for number in range(deleters):
        for turn in range(EACH):
            del rows[1 + number * EACH + turn]
    for number in range(updaters):
        for turn in range(EACH):
            rows[1000 + number * EACH + turn] += 1
    rows[0] = updaters * EACH
    return rows


def held(lake: Lake) -> list[tuple[int, int]]:
    found = lake["t"].to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("mix", [(20, 10, 10), (30, 15, 15), (40, 0, 0)], ids=["20+10+10", "30+15+15", "40+0+0"])
def test_every_operation_of_many_processes_succeeds_and_counts_once(tmp_path: Path, mix: tuple[int, int, int]) -> None:
    """With a process that flushes and optimizes all the while; the same rows before and after a flush."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.create_table("t", pa.table({"id": range(ROWS), "v": [0] * ROWS}))
        kinds = (appends, deletes, updates)
        jobs = [(kind, (number,)) for kind, many in zip(kinds, mix, strict=True) for number in range(many)]
        together(uri, [*jobs, (maintains, (0,))])
        wanted = sorted(expected(*mix).items())
        assert held(lake) == wanted
        assert lake["t"].version == 1 + sum(mix) * EACH
        lake.flush()
        assert held(lake) == wanted
        assert lake.check().whole


def counts(lake: Lake, number: int) -> None:
    for _ in range(EACH):
        lake["t"].update({"v": "v + 1"}, "id = 7")


def counts_in_transactions(lake: Lake, number: int) -> int:
    def step(txn: phalanx.Transaction) -> None:
        table = txn["t"]
        row = table.to_arrow(where="id = 7").to_pylist()[0]
        table.update({"v": f"{row['v'] + 1}"}, "id = 7")

    for _ in range(EACH):
        lake.run(step, timeout=120)
    return EACH


@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "unkeyed"])
@pytest.mark.parametrize("work", [counts, counts_in_transactions], ids=["statements", "transactions"])
def test_increments_of_sixteen_processes_add_up(tmp_path: Path, work: object, key: str) -> None:
    """As statements, which never conflict, and as transactions that read, add and write, and run again."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.create_table("t", pa.table({"id": range(20), "v": [0] * 20}), key=key)
        together(uri, [*((work, (number,)) for number in range(16)), (maintains, (0,))])  # type: ignore[list-item]
        assert dict(held(lake))[7] == 16 * EACH
        assert len(held(lake)) == 20


def claims(lake: Lake, number: int) -> list[int]:
    won = []
    for key in range(30):
        try:
            lake["t"].insert([{"id": key, "v": number}])
            won.append(key)
        except AlreadyExistsError:
            lake["t"].upsert([{"id": 1000 + key, "v": number}])
    return won


def test_of_many_inserts_of_one_key_one_succeeds(tmp_path: Path) -> None:
    """Known bug 21: no two live rows of one key, whoever inserts and upserts it; every other insert is refused."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.create_table("t", pa.schema({"id": pa.int64(), "v": pa.int64()}), key="id")
        won = together(uri, [*((claims, (number,)) for number in range(8)), (maintains, (0,))])
        winners = Counter(key for keys in won if keys for key in keys)
        assert winners == Counter(range(30))
        for _ in range(2):
            ids = [row for row, _ in held(lake)]
            assert sorted(ids) == sorted(set(ids))
            assert set(range(30)) <= set(ids)
            lake.flush()


def moves(lake: Lake, number: int) -> int:
    done = 0
    for turn in range(12):
        key = (7 * number + turn) % 40

        def step(txn: phalanx.Transaction, key: int = key) -> None:
            here, there = ("t", "u") if txn["t"].count(f"id = {key}") else ("u", "t")
            rows = txn[here].to_arrow(where=f"id = {key}")
            assert rows.num_rows == 1
            txn[here].delete(f"id = {key}")
            txn[there].append(rows)

        lake.run(step, timeout=120)
        done += 1
    return done


def watches(lake: Lake, number: int) -> int:
    for _ in range(25):
        snapshot = lake.snapshot()
        ids = snapshot["t"].to_arrow(["id"])["id"].to_pylist() + snapshot["u"].to_arrow(["id"])["id"].to_pylist()
        assert sorted(ids) == list(range(40))
    return 25


@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "unkeyed"])
def test_a_row_that_moves_between_two_tables_is_always_in_exactly_one(tmp_path: Path, key: str) -> None:
    """Eight processes move rows to and fro in transactions, two watch, one flushes and optimizes."""
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake, lake.transaction() as txn:
        txn.create_table("t", pa.table({"id": range(40), "v": [0] * 40}), key=key)
        txn.create_table("u", pa.schema({"id": pa.int64(), "v": pa.int64()}), key=key)
    jobs = [(moves, (number,)) for number in range(8)] + [(watches, (0,)), (watches, (1,)), (maintains, (0,))]
    together(uri, jobs)
    with phalanx.open(uri) as lake:
        assert watches(lake, 0) == 25


def test_a_conflict_names_the_table_the_key_and_the_winner(tmp_path: Path) -> None:
    """What a caller needs to understand it."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.create_table("t", pa.table({"id": [1, 2], "v": [0, 0]}), key="id")
        slow = lake.transaction()
        slow["t"].update({"v": "5"}, "id = 2")
        won = lake["t"].update({"v": "7"}, "id = 2")
        with pytest.raises(
            ConflictError, match=rf"table 't': key 2 was updated since version 2, at version {won}"
        ) as caught:
            slow.commit()
        assert caught.value.position == won
        assert lake["t"].get(2) == {"id": 2, "v": 7}
