"""Many threads on two handles of one lake, with tails so short that it flushes all the while: nothing is lost or doubled.

Threads of one handle share entries, so here transactions meet others in their own batch. Each thread draws what it does
from the seed; how they meet is up to the machine.
"""

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import phalanx
from phalanx import AlreadyExistsError, Lake, Transaction

SEED = 4711
SECONDS = 10.0
ACCOUNTS, EACH = 20, 100
TABLES = {"k1": "id", "k2": "id", "u1": (), "u2": ()}
SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})


class Bank:
    """Accounts in four tables, two counters, a log and a register; and what its users were told."""

    def __init__(self, lakes: list[Lake]) -> None:
        self.lakes = lakes
        self.told: Counter[str] = Counter()
        self.entered: Counter[int] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        for name, key in TABLES.items():
            lakes[0].create_table(name, {"id": list(range(ACCOUNTS)), "v": [EACH] * ACCOUNTS}, key=key)
        lakes[0].create_table("counters", {"id": [0, 1], "v": [0, 0]}, key="id")
        lakes[0].create_table("register", SCHEMA, key="id")
        lakes[0].create_table("events", SCHEMA)

    def work(self, user: Callable[[Lake, random.Random], object], number: int, end: float) -> None:
        """One user, until the time is over."""
        chance = random.Random(SEED + number)
        while time.monotonic() < end and not self.wrong:
            try:
                user(self.lakes[number % 2], chance)
            except Exception:  # noqa: BLE001 - the test has to hear of it
                self.wrong.append(traceback.format_exc())
            with self._lock:
                self.told[user.__name__] += 1

    def transfer(self, lake: Lake, chance: random.Random) -> None:
        """From one account to another, possibly of another table."""
        here, there = chance.sample(sorted(TABLES), 2)
        one, other, amount = chance.randrange(ACCOUNTS), chance.randrange(ACCOUNTS), chance.randrange(5)
        stage = here.startswith("k") and chance.random() < 0.2

        def move(txn: Transaction) -> None:
            if stage:
                left = txn[here].to_arrow(where=f"id = {one}")["v"][0].as_py() - amount
                txn[here].upsert({"id": [one], "v": [left]}, stage=True)
            else:
                assert txn[here].update({"v": f"v - {amount}"}, f"id = {one}") == 1
            assert txn[there].update({"v": f"v + {amount}"}, f"id = {other}") == 1

        lake.run(move, timeout=60)

    def count(self, lake: Lake, chance: random.Random) -> None:
        """By a statement, which never conflicts."""
        lake["counters"].update({"v": "v + 1"}, "id = 0", timeout=60)

    def count_by_reading(self, lake: Lake, chance: random.Random) -> None:
        """By a transaction, which runs again when it conflicts."""

        def step(txn: Transaction) -> None:
            row = txn["counters"].get(1)
            assert row is not None
            txn["counters"].upsert([{"id": 1, "v": row["v"] + 1}])

        lake.run(step, timeout=60)

    def register(self, lake: Lake, chance: random.Random) -> None:
        """Each number is given to one."""
        number = chance.randrange(300)
        try:
            lake["register"].insert([{"id": number, "v": 0}], timeout=60)
        except AlreadyExistsError:
            return
        with self._lock:
            self.entered[number] += 1

    def note(self, lake: Lake, chance: random.Random) -> None:
        """Rows that only grow in number, small and staged."""
        rows = [{"id": chance.randrange(1 << 60), "v": 0} for _ in range(chance.randint(1, 5))]
        lake["events"].append(rows, stage=chance.random() < 0.2, timeout=60)
        with self._lock:
            self.told["rows"] += len(rows)

    def audit(self, lake: Lake, chance: random.Random) -> None:
        """At every moment all the money is there, every account once, every number once."""
        snapshot = lake.snapshot()
        total = 0
        for name in TABLES:
            found = snapshot[name].to_arrow()
            assert sorted(found["id"].to_pylist()) == list(range(ACCOUNTS)), f"{name} at {snapshot.version}"
            total += sum(found["v"].to_pylist())
        assert total == len(TABLES) * ACCOUNTS * EACH, f"version {snapshot.version}"
        for name in ("register", "events"):
            ids = snapshot[name].to_arrow(["id"])["id"].to_pylist()
            assert len(ids) == len(set(ids)) == snapshot[name].count(), f"{name} at {snapshot.version}"


def run(folder: Path, seconds: float) -> Counter[str]:
    """All of it for so long; how often each was done."""
    lakes = [phalanx.open(folder / "lake", create=True, durability="os", settings={"checkpoint_every": 20})]
    lakes.append(phalanx.open(folder / "lake"))
    for name, value in {"flush.rows": "15", "flush.predicates": "6", "flush.hidden": "5"}.items():
        lakes[0].set_property(name, value)
    bank = Bank(lakes)
    users = [bank.transfer] * 4 + [bank.count, bank.count_by_reading, bank.register, bank.note, bank.audit] * 2
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=bank.work, args=(user, at, end)) for at, user in enumerate(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lake in lakes:
        lake.close()
    assert not bank.wrong, bank.wrong[0]
    with phalanx.open(folder / "lake") as lake:
        for _ in range(2):
            bank.audit(lake, random.Random(SEED))
            counters = lake["counters"].to_arrow().to_pylist()
            wanted = [bank.told["count"], bank.told["count_by_reading"]]
            assert [row["v"] for row in sorted(counters, key=lambda row: row["id"])] == wanted
            assert set(bank.entered.values()) == {1}
            assert sorted(lake["register"].to_arrow(["id"])["id"].to_pylist()) == sorted(bank.entered)
            assert lake["events"].count() == bank.told["rows"]
            lake.flush()
        assert lake.check().whole
    return bank.told


def test_threads_that_share_handles_lose_and_double_nothing(tmp_path: Path) -> None:
    """Fourteen threads transfer, count, register, append and audit, while flushes and indexes go on beside them."""
    told = run(tmp_path, SECONDS)
    print(f"seed {SEED}, `pytest tests/race/test_table_threads.py -s`: {dict(told)}")
    assert all(told[name] for name in ("transfer", "count", "count_by_reading", "register", "note", "audit"))
