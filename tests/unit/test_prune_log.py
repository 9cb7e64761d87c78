"""A prune of some tables lets go of entries of the log, too: of those of which nothing is left (rule E6)."""

import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import NotFoundError, SnapshotExpiredError
from phalanx.upkeep import retention
from tests.unit.pruning import BULK, SCHEMA, SETTINGS, Ground, bulk, few

EVERY = SETTINGS.checkpoint_every
ROUNDS = 4 * EVERY


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    ground.lake.set_property("prune.protect", "0")
    yield ground
    ground.close()


def follow(ground: Ground) -> None:
    """The handle's own pin moves on with the log, as it does by itself every few seconds."""
    ground.lake.core.pins.renew()


def settle(ground: Ground) -> None:
    """Whatever goes on beside the writers is done, and may begin anew."""
    ground.lake._background.close()
    ground.lake._background._closed = False


def written(ground: Ground, name: str, mode: Any, count: int = ROUNDS) -> None:
    """Changes that are logged; each prunes what came before it."""
    for number in range(count):
        ground.lake[name].upsert(few(0, v=number), prune_previous=mode)
        if number % 10 == 0:
            follow(ground)


@pytest.mark.parametrize("mode", ["eager", "background"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_log_goes_with_the_versions_that_it_made(ground: Ground, mode: Any, *, alone: bool) -> None:
    """Whoever only ever prunes by its writes, or table by table, does not keep the log of all that was ever written."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    table.append(bulk(0))
    if alone:
        for number in range(ROUNDS):
            table.upsert(few(0, v=number))
        follow(ground)
        ground.lake.prune("t", mode=mode)
    else:
        written(ground, "t", mode)
    follow(ground)
    before = ground.files()
    ground.lake.flush()
    table.upsert(bulk(0, 7, count=1), stage=True, prune_previous=mode)
    settle(ground)
    if mode == "background":
        ground.lake.prune(mode="sweep", protect=0)
    left = ground.entries()
    assert len(left) <= 2 * EVERY, "and what was written since the floor rose last"
    assert len(before - ground.files()) > 0
    assert table.count() == BULK
    assert table.to_arrow(where="id = 0")["v"].to_pylist() == [7]
    with ground.process() as other:
        assert other["t"].count() == BULK
    assert ground.lake.check(deep=True).problems == ()


def test_a_floor_is_not_written_for_each_write(ground: Ground) -> None:
    """It is a base of the log: as dear as a checkpoint, and due as often."""
    ground.lake.create_table("t", SCHEMA, key="id")
    floors = set()
    for number in range(ROUNDS):
        ground.lake["t"].upsert(few(0, v=number), prune_previous=True)
        follow(ground)
        floors.add(ground.lake.core.log.view.state.retained.floor)
    assert 3 <= len(floors) <= 2 + 2 * ROUNDS // EVERY, "each write lands, and what it prunes"


def test_entries_of_versions_that_others_still_have_stay(ground: Ground) -> None:
    """The log is also the change feed and the snapshots of the tables that were not asked for."""
    ground.lake.create_table("t", SCHEMA, key="id")
    written(ground, "t", True, EVERY)
    other = ground.lake.create_table("u", SCHEMA, key="id")
    created = ground.lake.version
    written(ground, "t", True)
    other.append(few(1))
    landed = ground.lake.version
    written(ground, "t", True)
    settle(ground)
    assert ground.lake.core.log.view.state.retained.floor <= created, "its first version is there"
    assert ground.lake.core.log.view.state.retained.floor > created - EVERY, "and before it is nothing"
    assert ground.lake.snapshot(version=created)["u"].count() == 0
    assert ground.lake.snapshot(version=landed)["u"].count() == 1
    assert [row["id"] for row in ground.lake.changes("u", since=created).read_all().to_pylist()] == [1]
    follow(ground)
    said = ground.lake.prune("t", keep=1, dry_run=True)
    assert "of table 'u' was made there" in said.why


@pytest.mark.parametrize("planted", [False, True])
def test_a_table_that_was_dropped_can_be_restored(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, planted: bool
) -> None:
    """Nothing was asked of it."""
    if planted:  # as if nobody wanted it back
        monkeypatch.setattr(retention, "_restorable", lambda *_: [])
    ground.lake.create_table("t", SCHEMA, key="id")
    ground.lake.create_table("gone", SCHEMA, key="id").append(few(1, 2))
    there = ground.lake.version
    ground.lake.drop_table("gone")
    written(ground, "t", True)
    settle(ground)
    with pytest.raises(SnapshotExpiredError) if planted else nullcontext():
        ground.lake.restore(version=there, tables=["gone"])
    assert planted or ground.lake["gone"].count() == 2


def histories(ground: Ground, chance: random.Random, steps: int) -> None:
    """Some tables are pruned by their writes, or one at a time; nothing that another has is lost to it."""
    lake = ground.lake
    for name in ("t", "u", "w"):
        lake.create_table(name, SCHEMA, key="id")
    seen: dict[str, list[tuple[int, int, int]]] = {"u": [], "w": []}
    rows = {"u": 0, "w": 0}
    for number in range(steps):
        name = chance.choice(["t"] * 12 + ["u", "w"])
        if name == "t":
            lake["t"].upsert(few(0, v=number), prune_previous=chance.choice([True, "background", False]))
        else:
            lake[name].append(few(number))
            rows[name] += 1
            seen[name].append((lake.version, lake[name].version, rows[name]))
        if chance.random() < 0.1:
            follow(ground)
        if chance.random() < 0.03:
            lake.prune("t", keep=chance.randint(1, 3), unconditional=chance.random() < 0.5)
        if chance.random() < 0.02 and len(seen["w"]) > 1:
            lake.prune("w", keep=2, unconditional=True)
            seen["w"] = seen["w"][-2:]
        if chance.random() < 0.02:
            lake.flush()
    settle(ground)
    lake.prune(mode="sweep", protect=0)
    for name, places in seen.items():
        for position, version, count in places:
            assert lake[name].at(version).count() == count
            assert lake.snapshot(version=position)[name].count() == count
            assert lake.changes(name, since=position).read_all().num_rows == rows[name] - count


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_of_any_table_can_be_read_and_followed(ground: Ground, seed: int) -> None:
    histories(ground, random.Random(seed), 300)
    assert ground.lake.core.log.view.state.retained.floor > 1, "something went"
    assert ground.lake.check(deep=True).problems == ()


def test_a_floor_that_looks_at_its_own_table_only_loses_what_others_have(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same histories, with the limit of other tables taken away."""
    monkeypatch.setattr(retention, "_oldest", lambda *_: None)
    with pytest.raises((SnapshotExpiredError, NotFoundError)):
        histories(ground, random.Random(0), 300)
