"""A process that works on tables is killed at any moment: what was acknowledged is there once, the rest whole or not.

The worker writes down what it begins and what is done, in a file that outlives it. After each kill the file is played
on a plain model; only the work that was under way may be there or not.

    python -c "from tests.crash.test_table_kills import replay; replay(SEED)"
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import phalanx
from phalanx.lake import Lake
from phalanx.testing import Process
from phalanx.upkeep.cover import cover
from tests.crash.steps import Held, rows

SEED = 20_261
KILLS = 15
_RUN = "import sys; from tests.crash.test_table_kills import work; work(*sys.argv[1:])"
_KINDS = ("both", "both", "bulk", "add", "delete", "replace", "flush", "flush", "optimize", "cover")

Op = dict[str, Any]


def ops(seed: int) -> Iterator[Op]:
    """What a worker does, without end."""
    chance = random.Random(seed)
    while True:
        kind = chance.choice(_KINDS)
        yield {"kind": kind, "n": chance.randrange(1 << 30), "k": chance.randrange(9), "stage": chance.random() < 0.5}


def run(lake: Lake, op: Op) -> None:
    """One piece of work."""
    kind, n, k = op["kind"], op["n"], op["k"]
    if kind == "both":
        with lake.transaction() as txn:
            txn["events"].append({"id": [n, n + 1], "v": [k, k]}, stage=op["stage"])
            txn["counts"].upsert({"id": [k], "v": [n]}, stage=op["stage"])
            txn["counts"].update({"v": "v + 1"}, f"id <> {k}")
    elif kind == "bulk":
        lake["counts"].upsert({"id": list(range(k + 1)), "v": [n] * (k + 1)}, stage=op["stage"])
    elif kind == "add":
        lake["counts"].update({"v": "v + 1"}, f"id < {k}")
    elif kind == "delete":
        lake["events"].delete(f"v = {k}")
    elif kind == "replace":
        lake["events"].overwrite({"id": [n], "v": [k]}, stage=op["stage"])
    elif kind == "flush":
        lake.flush()
    elif kind == "optimize":
        lake.optimize("events" if op["stage"] else "counts")
    elif kind == "cover":
        cover(lake._core, lake["counts"].id, lake._core.deadline(30), least_rows=1)


def played(held: Held, op: Op) -> Held:
    """What it makes of the rows."""
    kind, n, k = op["kind"], op["n"], op["k"]
    events, counts = held["events"], dict(held["counts"])
    if kind == "both":
        events = sorted([*events, (n, k), (n + 1, k)])
        counts = {**{key: v + 1 for key, v in counts.items()}, k: n}
    elif kind == "bulk":
        counts |= dict.fromkeys(range(k + 1), n)
    elif kind == "add":
        counts = {key: v + 1 if key < k else v for key, v in counts.items()}
    elif kind == "delete":
        events = [row for row in events if row[1] != k]
    elif kind == "replace":
        events = [(n, k)]
    return {"events": events, "counts": sorted(counts.items())}


def work(uri: str, path: str, seed: str) -> None:
    """Work until killed, and say so in the file, a line before and a line after each piece."""
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    with phalanx.open(uri) as lake:
        print("ready", flush=True)
        sys.stdin.readline()
        for op in ops(int(seed)):
            os.write(fd, f"{json.dumps(op)}\n".encode())
            run(lake, op)
            os.write(fd, b"done\n")


def kill_workers(folder: Path, seed: int, kills: int) -> tuple[int, int]:
    """Kill one worker after the other; how many pieces of work were done, and how many were cut off and are there."""
    print(f'seed {seed}: python -c "from tests.crash.test_table_kills import replay; replay({seed})"')
    chance = random.Random(seed)
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    with phalanx.open(folder / "lake", create=True, settings={"checkpoint_every": 10}, durability="os") as lake:
        lake.set_property("flush.rows", "20")  # so that the background has work to do as well
        lake.create_table("events", schema)
        lake.create_table("counts", schema, key="id")
        held = rows(lake)
    done = landed = 0
    for number in range(kills):
        record = folder / f"{number}"
        with Process(_RUN, folder / "lake", record, chance.randrange(1 << 30)) as worker:
            assert worker.line() == "ready"
            worker.tell("go")
            time.sleep(chance.uniform(0.01, 0.4))
            worker.kill()
        lines = record.read_text().splitlines() if record.exists() else []
        finished = [json.loads(line) for line, told in zip(lines[::2], lines[1::2], strict=False) if told == "done"]
        for op in finished:
            held = played(held, op)
        done += len(finished)
        begun = json.loads(lines[-1]) if len(lines) % 2 else None
        with phalanx.open(folder / "lake") as lake:
            found = rows(lake)
            assert found == held or (begun and found == played(held, begun)), f"seed {seed}, kill {number}: {begun}"
            landed += found != held
            held = found
            lake.flush()
            assert rows(lake) == held, f"seed {seed}, kill {number}: after a flush"
            assert lake.check().whole, f"seed {seed}, kill {number}"
    return done, landed


def test_killed_workers_leave_tables_whole(tmp_path: Path) -> None:
    """Fifteen workers with transactions, bulk changes, flushes, rewrites and indexes, each killed at a random moment."""
    done, landed = kill_workers(tmp_path, SEED, KILLS)
    print(f"{done} acknowledged, {landed} cut off and there all the same")
    assert done > KILLS


def replay(seed: int) -> None:
    """The same once more; the moments of the kills are drawn from the seed, what they meet is not."""
    with tempfile.TemporaryDirectory() as folder:
        print(kill_workers(Path(folder), seed, KILLS))
