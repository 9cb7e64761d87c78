"""Work in the background that is asked for while it is being done is done once more."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.upkeep import background as background_work
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


class Held:
    """The first call of something waits in the middle until it is told to go on; all are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, chosen: Callable[..., bool]) -> None:
        self.begun, self.go, self.calls = threading.Event(), threading.Event(), 0
        original = getattr(background_work, name)

        def waiting(*given: Any, **named: Any) -> Any:
            done = original(*given, **named)
            if chosen(*given):
                self.calls += 1
                if self.calls == 1:
                    self.begun.set()
                    assert self.go.wait(60)
            return done

        monkeypatch.setattr(background_work, name, waiting)


def settled(lake: phalanx.Lake, held: Held) -> None:
    held.go.set()
    lake._background.close()


def test_what_is_marked_during_a_sweep_is_swept_after_it(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep under way has looked already: without another one the files would stay until somebody prunes."""
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    table.append(bulk(0))
    held = Held(monkeypatch, "prune", lambda _core, how, _deadline: how.mode == "sweep")
    table.overwrite(bulk(0, 1), prune_previous="background")
    assert held.begun.wait(60)
    for number in range(2, 5):
        table.overwrite(bulk(0, number), prune_previous="background")
    marked = ground.files()
    settled(ground.lake, held)
    assert held.calls == 2, "however often it was asked for"
    assert len(marked - ground.files()) >= 3
    assert table.count("v = 4") == BULK


def test_what_is_written_out_during_an_index_job_is_looked_at_after_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job under way looked at an earlier head."""
    ground.lake.set_property("flush.background", "on")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    held = Held(monkeypatch, "cover", lambda *_: True)
    for number in range(4):
        table.upsert(bulk(number * BULK), stage=False)
        ground.lake.flush()
        assert held.begun.wait(60)
    settled(ground.lake, held)
    assert held.calls == 2
    [own] = table.indexes()
    assert (own.fragments, own.of) == (4, 4)
