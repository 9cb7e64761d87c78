"""Automatic upkeep: off, suggested or on, read afresh before each decision."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.errors import InvalidInputError
from phalanx.upkeep import background, retention
from phalanx.upkeep.due import Habits, habits
from phalanx.upkeep.prune import prune
from phalanx.upkeep.pruned import Pruned
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few, live


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    made.lake.set_property("flush.background", None)
    yield made
    made.close()


def until(done: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.05)
    return done()


def fragments(lake: phalanx.Lake) -> int:
    return lake.describe("t").head.fragments


def kept(lake: phalanx.Lake) -> int:
    return len(retention.live(lake.refresh().state.contents[lake["t"].id]))


def many_parts(lake: phalanx.Lake, parts: int = 20) -> phalanx.Table:
    table = lake.create_table("t", SCHEMA, key="id")
    for part in range(parts):
        table.append(bulk(part * BULK), stage=True)
    lake._background.close()
    lake._background._closed = False
    lake.flush("t")  # bulk changes that met an index being built wait in the tail
    return table


def test_what_is_due_is_said_with_the_reason(ground: Ground) -> None:
    lake = ground.lake
    assert lake.due() == []
    table = many_parts(lake)
    lake.set_property("flush.background", "off")
    lake.set_property("flush.rows", "2")
    lake.set_property("upkeep.entries", "5")
    lake.set_property("prune.older_than", "0")
    lake.set_property("prune.protect", "0")
    table.append(few(1, 2, 3))
    assert [(one.table, one.what) for one in lake.due()] == [
        ("t", "flush"),
        ("t", "optimize"),
        ("", "prune"),
        ("t", "prune"),
    ]
    assert "20 fragments are small" in lake.due()[1].why
    lake.optimize()
    lake.prune(keep=1, unconditional=True)
    assert lake.due() == []


@pytest.mark.parametrize("habit", ["off", "suggested"])
def test_nothing_is_done_that_is_not_wanted(ground: Ground, habit: str) -> None:
    lake = ground.lake
    lake.set_property("upkeep", habit)
    lake.set_property("upkeep.entries", "5")
    lake.set_property("prune.protect", "0")
    many_parts(lake)
    lake._background._index(lake["t"].id)
    assert fragments(lake) == 20
    assert len(live(lake, "t")) == 21


def test_what_is_on_is_done_by_itself(ground: Ground) -> None:
    """A writer that flushes optimizes and prunes as well, within limits, and no row changes."""
    lake = ground.lake
    for key, value in {
        "upkeep": "on",
        "upkeep.entries": "5",
        "prune.keep": "2",
        "prune.older_than": "0",
        "prune.protect": "0",
        "flush.rows": "10",
    }.items():
        lake.set_property(key, value)
    table = many_parts(lake)
    table.append(few(*range(20)))
    assert until(lambda: fragments(lake) <= 3 and kept(lake) <= 4), (fragments(lake), kept(lake))
    assert table.count() == 20 * BULK
    assert any("prune" in change for commit in lake.log(limit=50) for change in commit.changes)


def pruning(lake: phalanx.Lake, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Where each prune that the background makes by itself has landed, from now on."""
    landed: list[int | None] = []

    def told(*given: Any) -> Pruned:
        done = prune(*given)
        landed.append(done.version)
        return done

    monkeypatch.setattr(background, "prune", told)
    for key, value in {"upkeep": "on", "upkeep.entries": "5", "prune.keep": "2", "prune.protect": "0"}.items():
        lake.set_property(key, value)
    return landed


def prunes_due(lake: phalanx.Lake) -> list[str]:
    return [one.table for one in lake.due() if one.what == "prune"]


def test_a_prune_that_would_find_everything_too_young_is_neither_due_nor_made(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the times in the log and the store's clock; once they are old enough it is due, does something, and is not due."""
    landed = pruning(ground.lake, monkeypatch)
    table = ground.lake.create_table("t", SCHEMA, key="id")
    for number in range(12):
        table.append(few(number))
        ground.lake._background._index(table.id)
        assert prunes_due(ground.lake) == []
    assert landed == []
    later = ground.store()
    later.ahead = 8 * 86_400.0
    other = ground.process(later)
    assert prunes_due(other) == ["", "t"]
    other._background._index(table.id)
    assert len(landed) == 1
    assert landed[0] is not None
    assert prunes_due(other) == []


def test_versions_that_tags_hold_are_not_due(ground: Ground) -> None:
    """The log says that none of them would go."""
    lake = ground.lake
    for key, value in {"upkeep.entries": "5", "prune.keep": "1", "prune.older_than": "0", "prune.protect": "0"}.items():
        lake.set_property(key, value)
    table = lake.create_table("t", SCHEMA, key="id")
    for number in range(8):
        table.append(few(number))
        lake.tag(f"v{number}")
    assert prunes_due(lake) == [""], "entries of the log go all the same"
    assert lake.prune().versions == {}
    assert prunes_due(lake) == []
    assert kept(lake) == 9


def test_a_prune_that_pins_keep_idle_is_not_made_after_each_flush(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pins are not in the log: it is tried, and again when the log has grown as much once more."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    reader = ground.process().transaction()
    assert reader["t"].count() == 0
    landed = pruning(ground.lake, monkeypatch)
    ground.lake.set_property("prune.older_than", "0")
    for number in range(24):
        table.append(few(number))
        ground.lake._background._index(table.id)
    idle = [one for one in landed if one is None]
    assert 2 <= len(idle) <= 5
    assert table.count() == 24
    reader.rollback()


def test_bad_habits_are_refused_and_unknown_ones_passed_over(ground: Ground) -> None:
    for key, value, says in [
        ("upkeep", "maybe", "off, suggested or on"),
        ("upkeep.bytes", "much", "a number and a unit"),
        ("upkeep.entries", "0", "1 at the least"),
        ("prune.keep", "0", "1 at the least"),
        ("prune.older_than", "5y", "a number and a unit"),
        ("prune.protect", "x", "a number and a unit"),
        ("prune.mode", "now", "eager or background"),
        ("prune.protekt", "1", "there is no property"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            ground.lake.set_property(key, value)
    assert habits({"upkeep": "later", "prune.keep": "3"}) == Habits(keep=3)
