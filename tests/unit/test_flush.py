"""A flush that somebody asks for: what follows one in the background follows it as well."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.tail.lookup import KEY_INDEX as KEY
from tests.unit.covering import coverage
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few

SWITCHES = pytest.mark.parametrize("background", ["on", "off"])


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def pending(lake: phalanx.Lake) -> phalanx.Table:
    """A table with logged rows that are worth an index, and nothing on disk."""
    table = lake.create_table("t", SCHEMA, key="id")
    for part in range(4):
        table.upsert(bulk(part * 4500, count=4500), stage=False)
    return table


@SWITCHES
def test_what_a_flush_wrote_out_is_indexed(ground: Ground, background: str) -> None:
    """In the background, or before it returns if the lake does without."""
    ground.lake.set_property("flush.background", background)
    table = pending(ground.lake)
    assert ground.lake.flush("t")["t"].rows == 18_000
    if background == "on":
        ground.lake._background.close()
    assert coverage(ground.lake, "t") == {KEY: (1, 1)}
    assert table.get(17_999) == {"id": 17_999, "v": 0}


def test_a_process_that_ends_right_after_a_flush_leaves_its_index(tmp_path: Path) -> None:
    """Closing waits for it."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        pending(lake)
        lake.flush()
    with phalanx.open(tmp_path / "lake") as lake:
        assert coverage(lake, "t") == {KEY: (1, 1)}
        assert lake.check(deep=True).whole


@SWITCHES
@pytest.mark.parametrize("mode", ["eager", "background"])
def test_what_logged_changes_have_marked_goes_with_the_flush(ground: Ground, background: str, mode: Any) -> None:
    """Rule E6: until then earlier versions are gone by name only."""
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    table.append(bulk(0))
    ground.lake.optimize()
    ground.lake.set_property("flush.background", background)
    for number in range(3):
        table.upsert(few(number, v=number), prune_previous=mode)
    before = ground.files()
    ground.lake.flush()
    if background == "on":
        ground.lake._background.close()
    assert before - ground.files(), "what the earlier versions stood on"
    assert ground.lake._background._marked == set()
    assert table.count() == BULK


def test_a_flush_with_nothing_to_do_asks_for_nothing_more(ground: Ground) -> None:
    """No index is looked for, and nothing lands."""
    pending(ground.lake)
    ground.lake.flush()
    before = ground.lake.version, ground.files()
    assert ground.lake.flush()["t"].version is None
    assert (ground.lake.version, ground.files()) == before
