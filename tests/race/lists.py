"""Processes that read lists of two tables in transactions, append to some of them, and record what they saw.

A row is a list under a key, in a group. All processes work on the same few rows, and move on to new ones together:
lists stay short, and rows are born all the time. Before a transaction commits, what it did is written down, and after
it what became of it: who is killed in between leaves an unknown outcome.

python -c "from tests.race.lists import main; main('{"uri": …, "record": …, "name": "p0", "count": 500, …}')"
"""

import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

import phalanx
from phalanx import CommitUnknownError, ConflictError, Lake
from phalanx.testing.histories import Append, Isolation, Operation, Outcome, Read, Scan, Transaction

TABLES = ("left", "right")
SCHEMA = pa.schema({"id": pa.int64(), "grp": pa.int64(), "list": pa.list_(pa.int64())})
STAY = 25
"""Transactions of each process on one group of rows."""
WIDTH = 4
"""Rows of a group, in each table."""


@dataclass
class Job:
    """What one process does; `first` is the number of its first transaction."""

    uri: str
    record: str
    name: str
    process: int
    count: int
    seed: int
    isolation: Isolation = "snapshot"
    first: int = 0


@dataclass
class Hand:
    """A transaction under way, and what it did until now."""

    txn: phalanx.Transaction
    group: int
    operations: list[Operation] = field(default_factory=list)

    def get(self, table: str, slot: int) -> list[int]:
        """Read one list."""
        row = self.txn[table].get(10 * self.group + slot)
        values = list(row["list"]) if row else []
        self.operations.append(Read(f"{table}/{self.group}/{slot}", tuple(values)))
        return values

    def scan(self, table: str) -> dict[int, list[int]]:
        """Read all lists of the group."""
        rows = self.txn[table].to_arrow(where=f"grp = {self.group}").to_pylist()
        found = {row["id"] % 10: list(row["list"]) for row in rows}
        told = {f"{table}/{self.group}/{slot}": tuple(values) for slot, values in found.items()}
        self.operations.append(Scan(f"{table}/{self.group}", told))
        return found

    def append(self, table: str, slot: int, values: list[int], value: int) -> None:
        """Write a list that was read, with one more value."""
        row = {"id": 10 * self.group + slot, "grp": self.group, "list": [*values, value]}
        self.txn[table].upsert([row])
        self.operations.append(Append(f"{table}/{self.group}/{slot}", value))


def mixed(hand: Hand, chance: random.Random, value: int) -> None:
    """Look at a list here and at all of a group there, append to one of each, and look again."""
    here, there = chance.sample(TABLES, 2)
    slot, other = chance.randrange(WIDTH), chance.randrange(WIDTH)
    values, found = hand.get(here, slot), hand.scan(there)
    hand.append(here, slot, values, value)
    hand.append(there, other, found.get(other, []), value)
    if chance.random() < 0.3:
        hand.get(here, slot)
        hand.scan(there)
        hand.append(here, slot, [*values, value], value + 1)


def skewed(hand: Hand, chance: random.Random, value: int) -> None:
    """Look at three lists in two tables, and append to one of them."""
    slots = chance.sample(range(WIDTH), 2)
    seen = [
        (table, slot, hand.get(table, slot)) for table, slot in zip((*TABLES, "left"), (*slots, slots[1]), strict=True)
    ]
    hand.append(*chance.choice(seen), value)


def counted(hand: Hand, chance: random.Random, value: int) -> None:
    """Look at all of a group in both tables, and append to one list of one of them."""
    table, slot = chance.choice(TABLES), chance.randrange(WIDTH)
    seen = {table: hand.scan(table) for table in TABLES}
    hand.append(table, slot, seen[table].get(slot, []), value)


def looked(hand: Hand, chance: random.Random, value: int) -> None:
    """Only look."""
    hand.get("left", chance.randrange(WIDTH))
    hand.scan("right")
    hand.get("right", chance.randrange(WIDTH))
    hand.scan("left")


KINDS = (mixed, mixed, skewed, skewed, counted, looked)


class Recorder:
    """A process's file: one line before a commit, one line after it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def write(self, transaction: Transaction) -> None:
        """All of it, at once."""
        os.write(self._fd, msgspec.json.encode(transaction) + b"\n")


def recorded(folder: Path, names: str = "*") -> list[Transaction]:
    """What processes wrote down: of each transaction the last line."""
    last = {}
    for path in sorted(folder.glob(names)):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                one = msgspec.json.decode(line, type=Transaction)
                last[one.name] = one
    return list(last.values())


def attempt(lake: Lake, job: Job, number: int, recorder: Recorder) -> None:
    """One transaction, with the outcome that the lake tells."""
    chance = random.Random(f"{job.seed} {job.process} {number}")
    asked: dict[str, Any] = {"isolation": job.isolation} if job.isolation == "serializable" else {}
    name = f"{job.name}-{number}"
    begin = time.monotonic_ns()
    txn = lake.transaction(name, **asked)
    hand = Hand(txn, number // STAY)

    def note(outcome: Outcome, end: int | None = None) -> None:
        recorder.write(
            Transaction(name, job.name, begin, end, tuple(hand.operations), outcome, txn.version, txn.snapshot_version)
        )

    try:
        chance.choice(KINDS)(hand, chance, 10 * (100_000 * job.process + number))
        note("unknown")
        txn.commit()
        note("committed", time.monotonic_ns())
    except ConflictError:
        note("aborted", time.monotonic_ns())
    except CommitUnknownError:
        note("unknown")


def main(job_text: str) -> None:
    """Say "ready", wait for a line, work, end."""
    job = msgspec.json.decode(job_text, type=Job)
    recorder = Recorder(job.record)
    with phalanx.open(job.uri, timeout=60) as lake:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(job.first, job.count):
            attempt(lake, job, number, recorder)
            if number % 100 == 10 * job.process:
                lake.flush()
