"""Ingest under pressure: crowds of producers, stores that lose answers, and every row accounted for."""

import asyncio
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from phalanx.clock import SYSTEM
from phalanx.errors import PhalanxError, UnavailableError
from phalanx.lake import Lake, join
from phalanx.log.ack import Ack
from phalanx.log.action import Settings
from phalanx.objects import layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Fault, FaultyStore, randomly
from phalanx.testing.faults import PUT_FAULTS, Plan
from phalanx.writer import Row, Writer, tell

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
SEED = 90125
SOON = 60


class Told:
    """What every row's producer heard."""

    def __init__(self) -> None:
        self.landed: dict[int, int] = {}
        self.failed: dict[int, str] = {}
        self.unknown: set[int] = set()

    def hear(self, row: int, ack: Ack) -> bool:
        """Wait for one; whether it landed."""
        try:
            self.landed[row] = ack.result(SOON)
        except PhalanxError as error:
            self._wrong(row, error)
            return False
        return True

    async def await_(self, row: int, ack: Ack) -> None:
        """As `hear`, for tasks."""
        try:
            self.landed[row] = await ack
        except PhalanxError as error:
            self._wrong(row, error)

    def _wrong(self, row: int, error: PhalanxError) -> None:
        if error.committed is None:
            self.unknown.add(row)
        else:
            self.failed[row] = type(error).__name__

    def require(self, lake: Lake) -> None:
        """Acknowledged rows are there exactly once, where they were said to be; failed ones are not; others may be."""
        found = Counter(lake["t"].to_arrow(["id"])["id"].to_pylist())
        assert {row: found[row] for row in self.landed} == dict.fromkeys(self.landed, 1)
        assert [row for row in self.failed if found[row]] == []
        assert {row for row, count in found.items() if count > 1 or row not in self.unknown | set(self.landed)} == set()


def on_entries(plan: Plan) -> Plan:
    """A plan for puts of entries alone."""
    return lambda call, name: plan(call, name) if name.startswith(layout.LOG) else None


def crowd(writer: Writer, told: Told, threads: int, tasks: int, each: int) -> int:
    """Threads and tasks that each hand in one row after the other; how many rows that were."""

    def thread(number: int) -> None:
        for row in range(each):
            told.hear(number * 1000 + row, writer.append({"id": number * 1000 + row, "v": row}))

    async def task(number: int) -> None:
        for row in range(each):
            await told.await_(number * 1000 + row, writer.append({"id": number * 1000 + row, "v": row}))

    async def all_tasks() -> None:
        await asyncio.gather(*(task(threads + number) for number in range(tasks)))

    with ThreadPoolExecutor(threads + 1) as pool:
        running = [pool.submit(thread, number) for number in range(threads)]
        running.append(pool.submit(asyncio.run, all_tasks()))
        for one in running:
            one.result(SOON)
    return (threads + tasks) * each


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("seed", [SEED, SEED + 1, SEED + 2])
def test_lost_late_and_false_answers_lose_no_row_and_write_none_twice(seed: int, remote: bool) -> None:
    """Every producer is told; what was acknowledged is found exactly once, what failed not at all."""
    print(f"seed {seed}: pytest {__file__} -k 'lost_late and {seed}'")
    inner = MemoryStore()
    store = FaultyStore(inner, lambda *_: None, remote=remote)
    told = Told()
    with join(store, SYSTEM, Settings(), timeout=10) as lake:
        lake.create_table("t", SCHEMA)
        store.plan = on_entries(randomly(seed, 0.3, PUT_FAULTS))
        rival = join(inner, SYSTEM, None, timeout=10)
        with lake.writer("t") as writer, rival, ThreadPoolExecutor(1) as pool:
            disturbing = pool.submit(lambda: [rival.commit([]) for _ in range(20)])
            handed_in = crowd(writer, told, 4, 8, 40)
            disturbing.result(SOON)
        store.plan = lambda *_: None
    assert len(told.landed) + len(told.failed) + len(told.unknown) == handed_in
    assert len(told.landed) > handed_in // 2
    assert len(store.struck) >= 5
    store.land_late_puts()
    with join(inner, SYSTEM, None, timeout=10) as after:
        told.require(after)
        commits = [commit.version for commit in after.log(10_000)]
        assert set(told.landed.values()) <= set(commits)


def test_a_store_that_takes_nothing_fails_every_row_and_recovers() -> None:
    """Rows are told that they were not written; handed in again, they land once."""
    inner = MemoryStore()
    store = FaultyStore(inner, lambda *_: None)
    told, again = Told(), Told()
    with join(store, SYSTEM, Settings(), timeout=2) as lake:
        lake.create_table("t", SCHEMA)
        with lake.writer("t") as writer:
            store.plan = on_entries(lambda call, _: Fault.REFUSED if call == "put" else None)
            acks = {number: writer.append({"id": number, "v": 0}) for number in range(100)}
            assert {told.hear(number, ack) for number, ack in acks.items()} == {False}
            store.plan = lambda *_: None
            acks = {number: writer.append({"id": number, "v": 0}) for number in range(100)}
            assert {again.hear(number, ack) for number, ack in acks.items()} == {True}
        again.require(lake)
    assert set(told.failed.values()) == {UnavailableError.__name__}


def test_an_outcome_that_nobody_can_know_is_told_as_unknown() -> None:
    """The put is under way when time is up, and nothing can be read: the rows may be there later, once."""
    inner = MemoryStore()
    store = FaultyStore(inner, lambda *_: None, remote=True)
    told = Told()
    with join(store, SYSTEM, Settings(), timeout=0.5) as lake:
        lake.create_table("t", SCHEMA)
        writer = lake.writer("t")
        store.plan = on_entries(lambda call, _: Fault.LATE if call == "put" else Fault.UNREADABLE)
        acks = {number: writer.append({"id": number, "v": 0}) for number in range(50)}
        assert {told.hear(number, ack) for number, ack in acks.items()} == {False}
        assert told.unknown
        store.plan = lambda *_: None
        store.land_late_puts()
    with join(inner, SYSTEM, None, timeout=10) as after:
        told.require(after)
        assert after["t"].count() == len(told.unknown) > 0


@pytest.fixture
def lake() -> Iterator[Lake]:
    with join(MemoryStore(), SYSTEM, Settings(), timeout=30) as lake:
        yield lake


def test_threads_and_tasks_by_the_hundred_share_entries(lake: Lake) -> None:
    """64 threads and 500 tasks: every row is acknowledged where it landed, is there once, and entries are few."""
    lake.create_table("t", SCHEMA)
    told = Told()
    with lake.writer("t") as writer:
        handed_in = crowd(writer, told, 64, 500, 4)
    assert len(told.landed) == handed_in == 2256
    told.require(lake)
    assert lake.version < handed_in // 4


def test_each_producer_finds_what_it_wrote_last(lake: Lake) -> None:
    """Upserts and deletes of own keys, mixed, with flushes all the while: the last one counts, at every moment."""
    print(f"seed {SEED}: pytest {__file__} -k test_each_producer_finds")
    table = lake.create_table("t", SCHEMA, key="id")
    lake.set_property("flush.rows", "100")
    wrong: list[str] = []

    def produce(number: int) -> dict[int, int | None]:
        chance = random.Random(SEED + number)
        mine: dict[int, int | None] = {}
        for step in range(40):
            key = number * 10 + chance.randrange(3)
            if chance.random() < 0.3:
                ack, mine[key] = writer.delete(key), None
            else:
                ack, mine[key] = writer.upsert({"id": key, "v": step}), step
            if chance.random() < 0.3:
                ack.result(SOON)
                found = table.get(key)
                if (found and found["v"]) != mine[key]:
                    wrong.append(f"{key}: {found} instead of {mine[key]}")
        return mine

    with lake.writer("t") as writer, ThreadPoolExecutor(16) as pool:
        expected: dict[int, int | None] = {}
        for mine in pool.map(produce, range(16)):
            expected |= mine
    assert wrong == []
    there = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert there == {key: value for key, value in expected.items() if value is not None}


def test_several_writers_of_one_table_do_not_lose_to_each_other() -> None:
    """Two handles, each like a process of its own, with a writer each: all rows of both are there."""
    store = MemoryStore()
    told = Told()
    with join(store, SYSTEM, Settings(), timeout=30) as one, join(store, SYSTEM, None, timeout=30) as other:
        one.create_table("t", SCHEMA)
        with one.writer("t") as first, other.writer("t") as second:
            start = threading.Barrier(2)

            def run(writer: Writer, base: int) -> None:
                start.wait()
                acks = {base + number: writer.append({"id": base + number, "v": 0}) for number in range(300)}
                for number, ack in acks.items():
                    told.hear(number, ack)

            with ThreadPoolExecutor(2) as pool:
                for running in [pool.submit(run, first, 0), pool.submit(run, second, 1000)]:
                    running.result(SOON)
        assert len(told.landed) == 600
        told.require(one)
        told.require(other)


def test_nobody_who_waits_is_forgotten() -> None:
    """Threads and tasks that begin to wait while their rows are being settled: each hears, however they interleave."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            rows = [Row({}, deletes=False) for _ in range(200)]

            async def awaiting(rows: list[Row] = rows) -> list[int]:
                return await asyncio.gather(*(awaited(row) for row in rows))

            with ThreadPoolExecutor(4) as pool:
                waiters: list[Callable[[], Any]] = [
                    lambda rows=rows: [row.result(SOON) for row in rows],
                    lambda rows=rows: [row.result(SOON) for row in reversed(rows)],
                    lambda awaiting=awaiting: asyncio.run(awaiting()),
                ]
                found = [pool.submit(waiter) for waiter in waiters]
                for row in rows:
                    tell([row], 7)
                assert [one.result(SOON) for one in found] == [[7] * 200] * 3
    finally:
        sys.setswitchinterval(before)


async def awaited(ack: Ack) -> int:
    """Await it."""
    return await ack


def test_a_row_is_what_it_was_when_it_was_handed_in() -> None:
    """Who fills the same dict again and again writes as many rows."""
    lake = join(MemoryStore(), SYSTEM, Settings(), timeout=10)
    table = lake.create_table("again", pa.schema([("id", pa.int64())]))
    row: dict[str, int] = {}
    with lake.writer("again") as writer:
        acks = []
        for number in range(50):
            row["id"] = number
            acks.append(writer.append(row))
        for ack in acks:
            ack.result()
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(50))
