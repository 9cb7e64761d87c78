"""Tables that were dropped and brought back: whatever is listed of their versions can be read, prunes or not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx import Lake, Table, restoring
from phalanx.errors import ConflictError, NotFoundError, VersionDeletedError
from phalanx.upkeep import prune as pruning
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    made.lake.create_table("other", SCHEMA)
    yield made
    made.close()


def dropped(ground: Ground, versions: int = 4) -> int:
    """A table with some versions, dropped; the last version of the lake that has it."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    for number in range(versions):
        table.append(few(number))
    last = ground.lake.version
    ground.lake.drop_table("t")
    return last


def move_on(ground: Ground, commits: int = 12) -> None:
    for number in range(commits):
        ground.lake["other"].append(few(number))
    ground.lake.core.pins.renew()


def readable(ground: Ground, name: str = "t") -> dict[int, int]:
    """Every version that is listed, and how many rows it has: all must be there."""
    lake = ground.process()
    table: Table = lake[name]
    found = {}
    for one in lake.core.log.view.state.contents[table.id].versions.oldest_first():
        try:
            found[one.version] = table.at(one.version).count()
        except VersionDeletedError:
            continue
    lake.close()
    return found


def test_the_last_version_before_the_drop_outlives_the_floor(ground: Ground) -> None:
    """It was not replaced by another one, but it is one of the newest that were asked for all the same."""
    last = dropped(ground)
    ground.lake.restore(version=last)
    ground.lake["t"].append(few(100))
    before = readable(ground)
    move_on(ground)
    done = ground.lake.prune(keep=3, protect=0)
    assert done.floor > last + 2
    assert sorted(before.items())[-3:] == sorted(readable(ground).items())[-3:]
    assert ground.lake.check(deep=True).whole


def in_between(monkeypatch: pytest.MonkeyPatch, on: object, name: str, act: Callable[[], object]) -> list[object]:
    """Do something the first time that a function is called, before it goes on."""
    real, done = getattr(on, name), []

    def first(*given: Any, **named: Any) -> Any:
        if not done:
            done.append(None)
            done.append(act())
        return real(*given, **named)

    monkeypatch.setattr(on, name, first)
    return done


def test_a_prune_that_lands_while_a_table_is_brought_back(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knew nothing of the table: what is left of it is looked up again."""
    last = dropped(ground)
    move_on(ground)
    ground.lake.tag("last", version=last)
    writer = ground.process()
    done = in_between(monkeypatch, writer.core.committer, "commit", lambda: ground.lake.prune(keep=1, protect=0))
    writer.restore(version=last)
    assert len(done) == 2
    assert ground.lake.refresh().version
    assert max(readable(ground).values()) == 4
    assert ground.lake.check(deep=True).whole


@pytest.mark.parametrize("step", ["_commit", "_carry_out", "raise_floor"])
def test_a_table_that_is_brought_back_while_a_prune_runs(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before its decision stands, between that and what follows from it, or when it has looked for the last time."""
    last = dropped(ground)
    move_on(ground)
    ground.lake.tag("last", version=last)
    ground.lake.core.pins.renew()

    def bring_back() -> None:
        other = ground.process()
        other.restore(version=last)
        other.close()  # nothing is pinned any more

    done = in_between(monkeypatch, ground.lake.core.log if step == "raise_floor" else pruning._Run, step, bring_back)
    pruned = ground.lake.prune(keep=1, protect=0)
    assert len(done) == 2
    assert pruned.floor > last + 1
    assert max(readable(ground).values()) == 4
    assert ground.lake.check(deep=True).whole


def test_a_table_comes_back_by_the_name_that_it_had(ground: Ground) -> None:
    """Alone, with the namespace that it needs, and nothing else becomes what it was."""
    ground.lake.create_namespace("crm")
    for name in ("crm.a", "b", "c"):
        ground.lake.create_table(name, SCHEMA, key="id").append(few(1))
    there = ground.lake.version
    ground.lake.drop_table("crm.a")
    ground.lake.drop_namespace("crm")
    ground.lake["b"].append(few(2))
    ground.lake.drop_table("c")
    ground.lake.create_table("c", SCHEMA).append(few(1, 2, 3))
    ground.lake.rename_table("b", "d")
    ground.lake.restore(version=there, tables=["crm.a", "d", "crm.a"])
    assert {name: ground.lake[name].count() for name in ground.lake.tables()} == {
        "c": 3,
        "crm.a": 1,
        "d": 1,
        "other": 0,
    }
    with pytest.raises(NotFoundError, match="it was renamed to 'd'"):
        ground.lake.restore(version=there, tables=["b"])
    with pytest.raises(NotFoundError, match="'c' did not exist at version"):
        ground.lake.restore(version=there, tables=["c"])
    ground.lake["crm.a"].append(few(7))
    assert ground.lake["crm.a"].count() == 2
    assert ground.lake.check(deep=True).whole


def test_what_was_pruned_of_a_table_stays_pruned_when_it_is_dropped(ground: Ground) -> None:
    """Versions that were deleted are not missed where the log still has them: by check, by prune, by readers."""
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    for number in range(4):
        table.overwrite(bulk(0, number), prune_previous=True)
    before = ground.lake.version
    table.overwrite(bulk(0, 9), prune_previous=True)
    ground.lake.drop_table("t")
    lake = ground.process()
    assert lake.check(deep=True).problems == ()
    lake.prune(keep=50, protect=0)
    with pytest.raises(VersionDeletedError):
        lake.snapshot(version=before - 3)["t"].count()
    lake.restore(version=before)
    assert lake["t"].count() == BULK
    assert readable(ground)
    move_on(ground)
    lake.core.pins.renew()
    lake.drop_table("t")
    lake.prune(keep=1, unconditional=True)
    assert lake.core.log.view.state.dropped.get(table.id) is not None
    move_on(ground)
    lake.core.pins.renew()
    lake.prune(keep=1, unconditional=True)
    assert lake.core.log.view.state.dropped.get(table.id) is None, "nobody can ask any more"
    assert lake.check(deep=True).whole


def test_a_tag_brings_back_what_the_floor_has_passed(ground: Ground) -> None:
    """Versions below the floor have no number any more; what the tag names can be read by it, and goes with it."""
    last = dropped(ground)
    ground.lake.tag("last", version=last)
    move_on(ground)
    ground.lake.prune(keep=1, protect=0)
    ground.lake.restore(tag="last")
    assert len(readable(ground)) == 1
    assert ground.lake.snapshot(tag="last")["t"].count() == 4
    for _ in range(2):
        move_on(ground)
        done = ground.lake.prune(keep=10, protect=0)
        assert set(done.kept_versions["t"]) <= set(readable(ground))
        assert ground.lake.check(deep=True).whole
    ground.lake.untag("last")
    move_on(ground)
    ground.lake.prune(keep=10, protect=0)
    assert max(readable(ground).values()) == 4
    assert ground.lake.check(deep=True).whole


def test_versions_that_were_kept_of_a_table_go_with_it(ground: Ground) -> None:
    """At the first prune that may; a second one finds nothing."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    for number in range(5):
        table.overwrite(bulk(0, number))
    move_on(ground)
    ground.lake.prune(keep=4, protect=0)
    assert ground.kept()
    ground.lake.drop_table("t")
    move_on(ground)
    assert ground.lake.prune(keep=1, unconditional=True).files
    ground.lake.core.pins.renew()
    again = ground.lake.prune(keep=1, unconditional=True)
    assert (again.files, ground.kept()) == (0, [])


def test_a_restore_gives_up_after_many_prunes(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error that says so; nothing has happened."""
    last = dropped(ground)

    def refuse(*_: Any, **__: Any) -> int:
        tried.append(1)
        raise ConflictError("pruned meanwhile")

    tried: list[int] = []
    monkeypatch.setattr(ground.lake.core.committer, "commit", refuse)
    with pytest.raises(ConflictError, match="pruned meanwhile"):
        ground.lake.restore(version=last)
    assert len(tried) == restoring.ATTEMPTS
    assert isinstance(ground.lake, Lake)
    assert ground.process().tables() == ["other"]
