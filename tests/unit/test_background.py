"""Work beside writers: what is asked for while it is being done is done once more, and no mistake reaches a commit."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.errors import InvalidInputError
from phalanx.upkeep import background as background_work
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few


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


VARIABLE = "PHALANX_PRUNE_PROTECT"


def test_a_window_that_makes_no_sense_is_refused_before_anything_is_written(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a statement on its own and in a transaction; who does not prune is not asked."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    monkeypatch.setenv(VARIABLE, "ten")
    before = ground.lake.version
    for rows in (few(1), bulk(0)):
        with pytest.raises(InvalidInputError, match=f"{VARIABLE} takes a number and a unit"):
            table.append(rows, prune_previous=True)
    with ground.lake.transaction() as txn, pytest.raises(InvalidInputError, match=VARIABLE):
        txn["t"].upsert(few(1), prune_previous=True)
    assert (ground.lake.refresh().version, table.count()) == (before, 0)
    table.append(few(1))
    assert table.count() == 1


def test_a_window_that_stops_making_sense_meanwhile_reaches_no_writer(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was committed stands, the other tables are looked after, and the log says why nothing was pruned."""
    for name in ("t", "u"):
        ground.lake.create_table(name, SCHEMA, key="id")
    seen: list[str] = []
    monkeypatch.setattr(ground.lake._background, "wrote", lambda table, _: seen.append(table))
    with ground.lake.transaction() as txn:
        txn["t"].append(few(1), prune_previous=True)
        txn["u"].append(few(1), prune_previous="background")
        monkeypatch.setenv(VARIABLE, "ten")
    ground.lake._background.sweep()
    ground.lake._background.close()
    assert {ground.lake["t"].id, ground.lake["u"].id} <= set(seen)
    assert [ground.lake[name].count() for name in ("t", "u")] == [1, 1]
    assert caplog.text.count(f"{VARIABLE} takes a number and a unit") == 3
