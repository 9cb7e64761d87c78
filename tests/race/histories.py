"""Plays of eight real processes, some of them killed, and the judgement of what they saw.

Which transaction does what, and who is killed when, follows from the seed; who wins does not.

python -m tests.race.histories snapshot 60221 2000 4    (isolation, seed, transactions, kills)
"""

import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import msgspec

import phalanx
from phalanx.testing import Process
from phalanx.testing.histories import Anomaly, Isolation, Scan, Transaction, check
from tests.race.lists import SCHEMA, TABLES, Job, recorded

PROCESSES = 8
_RUN = "import sys; from tests.race.lists import main; main(sys.argv[1])"


def play(tmp_path: Path, isolation: Isolation, seed: int, count: int, kills: int) -> list[Transaction]:
    """Eight processes make a history; at random moments one of them is killed, and another goes on in its place."""
    uri, records = str(tmp_path / "lake"), tmp_path / "records"
    records.mkdir()
    with phalanx.open(uri, create=True, durability="os", settings={"checkpoint_every": 200}) as lake:
        for table in TABLES:
            lake.create_table(table, SCHEMA, key="id")
    chance = random.Random(seed)
    with ExitStack() as stack:

        def start(process: int, life: int) -> Process:
            first = len(recorded(records, f"p{process}.*"))
            name = f"p{process}.{life}"
            job = Job(uri, str(records / name), name, process, count // PROCESSES, seed, isolation, first)
            return stack.enter_context(Process(_RUN, msgspec.json.encode(job).decode()))

        crew = [start(process, 0) for process in range(PROCESSES)]
        for process in crew:
            assert process.line() == "ready", process.finish()
        for process in crew:
            process.tell("go")
        for life in range(1, kills + 1):
            time.sleep(chance.uniform(0.3, 1.5))
            doomed = chance.randrange(PROCESSES)
            crew[doomed].kill()
            crew[doomed] = start(doomed, life)
            assert crew[doomed].line() == "ready", crew[doomed].finish()
            crew[doomed].tell("go")
        for process in crew:
            process.finish(7200)  # twenty thousand transactions on a busy machine
    return [*recorded(records), final(uri)]


def final(uri: str) -> Transaction:
    """All lists, as they are in the end."""
    begin = time.monotonic_ns()
    with phalanx.open(uri) as lake:
        assert lake.check().whole
        snapshot = lake.snapshot()
        groups: dict[str, dict[str, tuple[int, ...]]] = {}
        for table in TABLES:
            for row in snapshot[table].to_arrow().to_pylist():
                group = f"{table}/{row['grp']}"
                groups.setdefault(group, {})[f"{group}/{row['id'] % 10}"] = tuple(row["list"])
        operations = tuple(Scan(group, found) for group, found in groups.items())
        return Transaction("the end", "", begin, time.monotonic_ns(), operations, snapshot=snapshot.version)


def judge(tmp_path: Path, isolation: Isolation, seed: int, count: int, kills: int) -> None:
    """Play, check, and tell."""
    began = time.monotonic()
    history = play(tmp_path, isolation, seed, count, kills)
    took = time.monotonic() - began
    outcomes = Counter(one.outcome for one in history)
    findings = check(history, isolation)
    print(f"{isolation}, seed {seed}: {dict(outcomes)}, {len(findings)} anomalies, {took:.0f} s")
    print(f"again: python -m tests.race.histories {isolation} {seed} {count} {kills}")
    kinds = Counter(one.anomaly.name for one in findings)
    first = {one.anomaly: one for one in reversed(findings)}
    assert not findings, "\n".join([str(kinds), *map(str, first.values())])
    assert outcomes.total() >= count - kills
    assert outcomes["aborted"] >= 0.1 * outcomes.total()
    skews = sum(one.anomaly is Anomaly.WRITE_SKEW for one in check(history, "serializable"))
    print(f"write skew: {skews}")
    assert bool(skews) == (isolation == "snapshot"), "snapshots do have write skew, and only they"


if __name__ == "__main__":
    asked: Isolation = "serializable" if sys.argv[1] == "serializable" else "snapshot"
    with tempfile.TemporaryDirectory() as folder:
        judge(Path(folder), asked, *map(int, sys.argv[2:]))
