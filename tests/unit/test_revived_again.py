"""Tables that were dropped more than once, or while others read them: versions have numbers of their own, and stay readable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx import restoring
from phalanx.errors import InvalidInputError, SnapshotExpiredError, StagingExpiredError, StateError
from phalanx.tail.read import Reading
from phalanx.txn.core import Core
from phalanx.upkeep import prune as pruning
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few

YEARS = 3650 * 86_400.0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    made.lake.create_table("other", SCHEMA)
    yield made
    made.close()


def move_on(ground: Ground, commits: int) -> None:
    for number in range(commits):
        ground.lake["other"].append(few(number))
    ground.lake.core.pins.renew()


def test_a_table_that_was_dropped_twice_goes_on_behind_its_last_version(ground: Ground) -> None:
    """Not behind the last one of its first life: those numbers are taken, and may have been deleted."""
    lake = ground.lake
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(few(1))
    first = lake.version
    lake.drop_table("t")
    move_on(ground, 10)
    lake.restore(version=first)
    lake["t"].append(few(2))
    assert lake["t"].version == 4
    lake.tag("first", version=first)
    lake.prune("t", keep=1, unconditional=True)
    lake.drop_table("t")
    lake.restore(version=first)
    assert lake["t"].version == 5
    assert lake["t"].to_arrow().to_pylist() == few(1)
    lake.untag("first")
    lake.prune(keep=1, unconditional=True)
    assert ground.process()["t"].to_arrow().to_pylist() == few(1)
    assert lake.check(deep=True).problems == ()


def test_versions_that_are_not_listed_any_more_do_not_leak(ground: Ground) -> None:
    """They were kept below the floor when the table was dropped, and the table that is back does not know of them."""
    lake = ground.lake
    table = lake.create_table("t", SCHEMA)
    for number in range(5):
        table.overwrite(bulk(number))
    last = lake.version
    move_on(ground, 6)
    lake.prune(keep=4, protect=0)
    assert len(ground.kept()) >= 3
    lake.tag("last", version=lake.version)
    lake.drop_table("t")
    lake.restore(tag="last")
    lake.untag("last")
    lake.prune(keep=1, unconditional=True)
    again = lake.prune(keep=1, unconditional=True)
    assert (again.version, again.files) == (None, 0)
    assert ground.kept() == []
    assert len([one for one in ground.files() if one.endswith(".lance") and "/data/" in one]) == 1
    assert last
    assert lake.check(deep=True).problems == ()


def test_a_reader_of_a_version_that_is_kept_by_itself_outlives_the_drop(ground: Ground) -> None:
    """And as many prunes as there are, for as long as its pin holds."""
    lake = ground.lake
    table = lake.create_table("t", SCHEMA)
    for number in range(4):
        table.overwrite(bulk(number))
    move_on(ground, 6)
    lake.prune(keep=4, protect=0)
    reader = ground.process()
    old = reader["t"].at(3)
    assert old.count() == BULK
    reader.core.pins.renew()
    lake.drop_table("t")
    for _ in range(3):
        move_on(ground, 2)
        lake.prune(keep=1, unconditional=True)
    assert old.to_arrow() == bulk(1)


def test_a_reader_let_in_while_a_prune_decides_outlives_the_following_ones(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position is kept for its pin alone, and the version of the table that it reads is deleted."""
    lake = ground.lake
    table = lake.create_table("t", SCHEMA)
    for number in range(4):
        table.overwrite(bulk(number))
    position = lake.version - 2
    reader, begun = ground.process(), list[Reading]()
    for one in (lake, reader):
        one.refresh()
        one.core.pins.renew()
    real = pruning._Run._commit

    def commit(run: pruning._Run, *given: object) -> int:
        if not begun:
            begun.append(reader.snapshot(version=position)["t"]._reading())
        return real(run, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(pruning._Run, "_commit", commit)
    lake.prune(keep=1, unconditional=True)
    reader.core.pins.renew()
    for _ in range(2):
        move_on(ground, 3)
        lake.prune(keep=1, unconditional=True)
    assert begun[0].table() == bulk(1)


def test_a_version_is_read_as_it_was_when_it_was_replaced(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what a prune keeps of it: where its rows were when it landed may be gone at any moment."""
    lake = ground.lake
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(bulk(0), stage=True)
    table.upsert(few(1, v=9))
    lake.flush("t")
    table.upsert(few(2, v=9))
    version = table.version - 1
    move_on(ground, 8)
    other, found = ground.process(), list[object]()
    real = pruning._Run._keep_versions

    def keep_versions(run: pruning._Run, *given: object, **more: object) -> None:
        if not found:
            found.append(other["t"].at(version))
        real(run, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(pruning._Run, "_keep_versions", keep_versions)
    lake.prune(keep=2, unconditional=True)
    assert found[0].count("v = 9") == 1  # type: ignore[attr-defined]
    assert found[0].to_arrow().num_rows == BULK  # type: ignore[attr-defined]


def test_a_restore_is_planned_anew_if_a_prune_has_passed_what_it_looks_at(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it brings back is tagged, and still there."""
    lake = ground.lake
    lake.create_table("t", SCHEMA).append(few(1))
    lake.tag("good", version=lake.version)
    move_on(ground, 3)
    lake.drop_table("t")
    move_on(ground, 6)
    other = ground.process()
    real, done = restoring._last, list[int]()

    def look(core: Core, *given: Any) -> Any:
        if not done:
            done.append(1)
            other.core.pins.renew()
            core.pins.renew()
            other.prune(keep=1, unconditional=True)
        return real(core, *given)

    monkeypatch.setattr(restoring, "_last", look)
    lake.restore(tag="good")
    assert done
    assert lake["t"].to_arrow().to_pylist() == few(1)


def test_rows_that_can_be_read_only_once_are_not_staged_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be none, and an overwrite by none is taken for what was meant."""
    table = ground.lake.create_table("t", SCHEMA)
    table.append(few(1))

    real, refused = ground.lake.core.commit, list[int]()

    def refuse(*given: Any, **more: Any) -> int:
        if refused:
            return real(*given, **more)
        refused.append(1)
        raise StagingExpiredError("planted")

    monkeypatch.setattr(ground.lake.core, "commit", refuse)
    with pytest.raises(StagingExpiredError):
        table.overwrite({"id": iter(range(BULK)), "v": map(int, range(BULK))})
    monkeypatch.undo()
    assert table.count() == 1


def test_a_sweep_does_not_believe_a_clock_that_has_jumped(ground: Ground) -> None:
    """It would take all pins for expired."""
    ground.lake.create_table("t", SCHEMA).append(few(1))
    store = ground.store()
    store.ahead = YEARS
    pruner = ground.process(store)
    with pytest.raises(StateError, match="days have passed"):
        pruner.prune(mode="sweep")
    with pytest.raises((InvalidInputError, StateError, SnapshotExpiredError)):
        pruner.prune(mode="sweep", protect=600)
