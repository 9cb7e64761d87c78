"""Prune and a clock that jumps: what running processes need stays, and who has lost something is told what (known bug 16)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.errors import PhalanxError, SnapshotExpiredError, StateError
from phalanx.lake import Lake
from phalanx.objects import Listed, Store, open_store
from phalanx.pinned import seen
from phalanx.pins import STAGING, Pins
from phalanx.upkeep import ages
from phalanx.upkeep.ages import Ages
from tests.unit.pruning import BULK, Ground, bulk, few, grown

DAY, YEARS = 86_400.0, 3650 * 86_400.0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def aged(ground: Ground, seconds: float) -> None:
    """As if the clock had jumped so far ahead: everything that is there is that much older."""
    for path in ground.folder.rglob("*"):
        if path.is_file():
            stamp = path.stat().st_mtime - seconds
            os.utime(path, (stamp, stamp))


@pytest.mark.parametrize("protect", [0, 600])
def test_a_reader_keeps_its_files_after_a_jump_and_a_commit(ground: Ground, protect: float) -> None:
    """One commit after the jump makes the clock look right; until pins are renewed, those that hold seem to have expired."""
    table = grown(ground)
    table.overwrite(bulk(0, 1))
    table.overwrite(bulk(0, 2))
    reader = ground.process()
    snapshot = reader.snapshot(version=reader.version - 2)
    expected = snapshot["t"].to_arrow()
    aged(ground, YEARS)
    ground.process()["t"].append(few(-1))
    ground.process().prune(keep=1, protect=protect)
    assert snapshot["t"].to_arrow() == expected


def test_without_the_rule_for_gaps_its_files_would_go(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, planted; and the reader is told that it was pruned, not that the lake is damaged."""
    monkeypatch.setattr(ages, "JUMP", 10 * YEARS)
    with pytest.raises(SnapshotExpiredError, match="pruned"):
        test_a_reader_keeps_its_files_after_a_jump_and_a_commit(ground, 0)


def test_what_is_older_than_a_jump_goes_when_enough_time_has_passed_since(ground: Ground) -> None:
    table = grown(ground)
    aged(ground, YEARS)
    table.append(few(-1))
    assert ground.lake.prune(keep=1).versions == {}
    aged(ground, 700)
    ground.lake.core.pins.renew()
    table.append(few(-2))
    assert ground.lake.prune(keep=1).versions == {"t": 5}, "all but the anchor, the newest, and the one before it"


def test_whoever_knows_better_says_so(ground: Ground) -> None:
    table = grown(ground)
    aged(ground, YEARS)
    with pytest.raises(StateError, match="3650 days"):
        ground.lake.prune(keep=1)
    table.append(few(-1))
    assert ground.lake.prune(keep=1, trust_clock=True).versions


def test_an_entry_of_the_future_holds_up_nothing_if_the_clock_is_trusted(ground: Ground) -> None:
    """It was put before the one that came after it, whatever its stamp says."""
    grown(ground)
    path = next(one for one in (ground.folder / "log").rglob("*") if one.name.endswith("5"))
    aged(ground, 700)
    os.utime(path, (path.stat().st_mtime + YEARS,) * 2)
    with pytest.raises(StateError, match="seconds ahead"):
        ground.lake.prune(keep=1)
    ground.lake.core.pins.renew()
    done = ground.lake.prune(keep=1, trust_clock=True)
    assert done.floor > 5


def test_a_pin_whose_first_name_is_gone_protects_whatever_may_be_its_own(ground: Ground) -> None:
    """A process that others took for dead goes on, and renews its pin: since when it was there nobody knows any more."""
    grown(ground)
    writer, other = ground.process(), ground.lake.create_table("other", bulk(0).schema)
    for number in range(3):
        other.append(few(number))
    with writer.transaction() as txn:
        txn["t"].append(bulk(10**6))
        aged(ground, 1.1 * DAY)
        for lake in (ground.lake, pruner := ground.process()):
            lake.core.pins.renew()
        pruner["other"].append(few(9))
        assert pruner.prune("other", keep=1, protect=0).log.pins
        writer.core.pins.renew()
        pruner.prune(keep=1, unconditional=True)
    assert ground.lake["t"].to_arrow().num_rows == 6 * BULK
    assert ground.lake.check().whole


def test_a_pin_is_as_old_as_its_first_name_only(ground: Ground) -> None:
    """Planted in the test above: taken for as old as what is left of it, it protects none of its files."""
    names = [f"pins/{STAGING}-{7:020d}-{'ab' * 16}-0000000600-{number:06d}" for number in (0, 3)]
    first, third = (Listed(name, 0, stamp) for name, stamp in zip(names, (100.0, 900.0), strict=True))
    assert [one.since for one in seen([first, third])] == [100.0]
    assert [one.since for one in seen([third])] == [0.0]


def stamped(folder: Path, stamps: dict[int, float]) -> Store:
    """A log whose entries have these stamps."""
    store = open_store(folder)
    for position, stamp in stamps.items():
        path = folder / "log" / f"{position // 1000:017d}" / f"{position:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (stamp, stamp))
    return store


def test_rare_commits_are_no_jumps_for_ever(tmp_path: Path) -> None:
    """A lake that is written once in two months: only the last gap may have been a jump."""
    stamps = {month: 60 * DAY * month for month in range(1, 6)}
    found = Ages(stamped(tmp_path, stamps), stamps[5], (1, 5), (), trust=False)
    assert found.due(600) == 3
    assert [found.passed(stamps[month], 600) for month in range(1, 6)] == [True, True, True, False, False]


def test_only_what_may_be_young_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may be long (I11): a folder that is old as a whole is the last that is listed."""
    store = stamped(tmp_path, {at: 1000.0 + at for at in (1, 999, 1000, 2500, 3000, 3001, 4000)})
    asked, inner = list[str](), store.list
    monkeypatch.setattr(store, "list", lambda name, *more: asked.append(name) or inner(name, *more))
    found = Ages(store, 5100.0, (1, 4000), (), trust=False)
    assert found.due(1090.0) == 3001
    assert [name[-2:] for name in asked] == ["04", "03"]


@pytest.mark.parametrize("how", ["all", "count", "get"])
def test_a_reader_whose_pin_was_taken_for_expired_is_told_so(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By its own clock the pin still holds; the log knows better."""
    monkeypatch.setattr(Pins, "_move_on", lambda *_: None)  # it would put another
    table = grown(ground)
    table.overwrite(bulk(0, 1))
    reading = ground.process().snapshot()["t"]
    for number in range(2):
        table.overwrite(bulk(0, number))
    for path in (ground.folder / "pins").iterdir():
        path.unlink(missing_ok=True)
    ground.process().prune(keep=1, unconditional=True)
    with pytest.raises(SnapshotExpiredError, match="was pruned"):
        {"all": reading.to_arrow, "count": lambda: reading.count("v < 9"), "get": lambda: reading.get(5)}[how]()


def test_damage_is_still_damage(ground: Ground) -> None:
    table = grown(ground)
    lake: Lake = ground.process()
    for path in (ground.folder / "tables" / table.id / "data").iterdir():
        path.unlink()
    with pytest.raises(PhalanxError, match="missing or damaged"):
        lake["t"].to_arrow()
