"""Prune beside everything else, in processes of their own: nobody meets a missing file, and nothing is left behind.

Known bugs 5, 9, 10, 11, 12, 14 and 37, all at once.
"""

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import environment
from phalanx.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SnapshotExpiredError,
    StateError,
    VersionDeletedError,
)
from phalanx.lake import Lake
from tests.race.crew import together

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
SECONDS = 20.0
BULK = 6000
GONE = (SnapshotExpiredError, VersionDeletedError)
"""What a reader may be told of something old; a missing file is a `CorruptionError`."""


def appends(lake: Lake, seed: int, seconds: float) -> tuple[str, int]:
    """Rows of its own, few or many; how many were acknowledged."""
    chance, end, written = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        many = chance.choice([3, 3, BULK])
        first = seed * 10**9 + written
        rows = pa.table({"id": range(first, first + many), "v": [seed] * many}, schema=SCHEMA)
        lake["t"].append(rows, prune_previous=chance.choice([False, False, "background", "eager"]))
        written += many
        time.sleep(0.3 * chance.random())
    return f"appended {seed}", written


def changes(lake: Lake, seed: int, seconds: float) -> tuple[str, int]:
    """Counts up a row of its own, by statements and transactions; how often that was acknowledged."""
    chance, end, done = random.Random(seed), time.monotonic() + seconds, 0
    lake["t"].upsert([{"id": -seed, "v": 0}])
    while time.monotonic() < end:
        if chance.random() < 0.5:
            lake["t"].update({"v": "v + 1"}, where=f"id = {-seed}")
        else:
            lake.run(lambda txn: txn["t"].update({"v": "v + 1"}, where=f"id = {-seed}"), timeout=250)
        done += 1
        if chance.random() < 0.1:
            lake.flush("t")
        if chance.random() < 0.05:
            lake.optimize("t")
    return f"counted {seed}", done


def reads(lake: Lake, seed: int, seconds: float) -> tuple[str, int]:
    """Scans in small steps, at the newest version and at older ones, and looks twice at what it holds."""
    chance, end, seen = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        newest = lake.refresh()
        wanted = newest.version - chance.choice([0, 0, 1, 3, 10])
        try:
            snapshot = lake.snapshot(version=max(wanted, 4))
            table = snapshot["t"]
            count = sum(batch.num_rows for batch in slowly(table.scan(batch_size=4096), chance))
        except GONE:
            continue
        assert table.count() == count, "a snapshot that was read once can be read again"
        seen += 1
    return f"read {seed}", seen


def slowly(batches: Any, chance: random.Random) -> Any:
    for batch in batches:
        time.sleep(0.02 * chance.random())
        yield batch


def tags(lake: Lake, seed: int, seconds: float) -> tuple[str, int]:
    """Tags a version, reads it by its tag and number, and takes the tag away."""
    chance, end, done = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        version = max(4, lake.version - chance.choice([0, 1, 5, 20]))
        name = f"tag-{seed}-{done}"
        try:
            lake.tag(name, version=version)
        except (StateError, NotFoundError, AlreadyExistsError):
            continue
        time.sleep(0.1 * chance.random())
        try:
            count = lake.snapshot(tag=name)["t"].count()
            assert lake.snapshot(version=version)["t"].count() == count
        except VersionDeletedError:
            pass  # it was deleted before the tag named it
        lake.untag(name)
        done += 1
    return f"tagged {seed}", done


def prunes(lake: Lake, seed: int, seconds: float) -> tuple[str, int]:
    """Prunes in every way, without any window."""
    chance, end, files = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        mode: Any = chance.choice(["eager", "eager", "background", "sweep"])
        try:
            done = lake.prune(
                chance.choice([None, None, "t"]),
                keep=chance.choice([1, 2, 5]),
                protect=0,
                mode=mode,
                unconditional=chance.random() < 0.5,
            )
        except ConflictError:
            continue  # tagged meanwhile, again and again
        files += done.files
        time.sleep(0.2 * chance.random())
    return f"pruned {seed}", files


@pytest.mark.timeout(300)
def test_prune_beside_everything_else(tmp_path: Path) -> None:
    """Real processes: appends, updates, transactions, long scans, tags, other prunes."""
    seed = int(environment().get("SEED", random.randrange(10**6)))
    print(f"\nrepeat with: SEED={seed} pytest -s tests/race/test_pruners.py")
    path = str(tmp_path / "lake")
    with phalanx.open(path, create=True, durability="os", settings={"grace": 0.0}) as lake:
        lake.set_property("prune.protect", "0")
        lake.set_property("flush.predicates", "8")  # so that heads come and go
        lake.create_table("t", SCHEMA, key="id")
        lake["t"].append([{"id": -1, "v": 0}])
    work: list[Any] = [
        (kind, (seed + number, SECONDS))
        for number, kind in enumerate([appends, appends, changes, reads, reads, tags, prunes, prunes], start=1)
    ]
    done = dict(together(path, work))
    print(done)
    with phalanx.open(path) as lake:
        rows = lake["t"].to_arrow().to_pandas()
        for number in (1, 2):
            assert (rows["v"] == seed + number).sum() == done[f"appended {seed + number}"]
        assert rows[rows["id"] == -(seed + 3)]["v"].tolist() == [done[f"counted {seed + 3}"]]
        assert done[f"pruned {seed + 7}"] + done[f"pruned {seed + 8}"] > 0
        assert done[f"read {seed + 4}"] > 3
        assert done[f"tagged {seed + 6}"] > 3
        assert lake.check().whole
        lake.optimize()
        lake.prune(keep=1, unconditional=True)
        again = lake.prune(keep=1, unconditional=True)
        assert (again.version, again.files) == (None, 0)
        left = {one.why.value for one in again.kept_files}
        assert left == {"a version that is kept is made of it"}, left
        assert lake["t"].count() == len(rows)
        assert lake.check(deep=True).problems == ()
        assert not [one for one in (tmp_path / "lake" / "kept").rglob("*") if one.is_file()]
