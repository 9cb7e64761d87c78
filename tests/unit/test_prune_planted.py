"""Prune, wrong on purpose: each mistake of systems like this is made here, and is seen.

What is asked is what the other tests of prune ask; a mistake that nobody would notice makes these tests fail.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.errors import CorruptionError, PhalanxError, SnapshotExpiredError
from phalanx.log import action as do
from phalanx.pins import Pins
from phalanx.retained import Retained
from phalanx.tables.files import Kind
from phalanx.testing import Process
from phalanx.txn import conflict, kept
from phalanx.upkeep import ages, garbage, prune, reach, retention
from phalanx.upkeep.retention import Needs
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few, grown, live

YEARS = 3650 * 86_400.0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def test_a_writers_pin_that_is_not_seen_is_told_to_stage_again_and_without_the_fence_rows_are_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 5: the pin keeps the files; if it is not seen, the fence keeps the log from naming what is gone."""
    table = grown(ground, 1)

    def committed_after_a_prune() -> None:
        with ground.process().transaction() as txn:
            txn["t"].append(bulk(10**6))
            table.upsert(few(1))
            ground.lake.prune(keep=1, unconditional=True)

    monkeypatch.setattr(prune._Run, "_writers", lambda *_: [])
    with pytest.raises(phalanx.StagingExpiredError):
        committed_after_a_prune()
    assert table.count() == BULK
    monkeypatch.setattr(Retained, "lets", lambda *_: True)
    monkeypatch.setattr("phalanx.txn.bulk.replaced", lambda *_: None)  # it would notice
    committed_after_a_prune()
    with pytest.raises(CorruptionError, match="missing"):
        table.to_arrow()


def test_a_pin_that_is_not_renewed_makes_a_long_job_stage_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 6: the job takes longer than its pin lives, and nobody renews it."""
    ground = Ground(tmp_path, life=60.0)
    grown(ground, 2)
    old = ground.store()
    pruner, writer = ground.process(old), ground.process()
    monkeypatch.setattr(Pins, "_renew", lambda *_: None)
    with pytest.raises(phalanx.StagingExpiredError), writer.transaction() as txn:  # noqa: PT012 - the commit is what fails
        txn["t"].append(bulk(10**6))
        old.ahead = 3600.0
        writer.core.pins.renew()
        assert pruner.prune(keep=10, protect=0).files
    ground.close()


def test_the_base_of_a_write_that_nobody_protects_is_gone(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 11: without anchor and pin, a change that was begun on a version finds nothing there."""
    table = grown(ground, 2)
    writer = ground.process()
    monkeypatch.setattr(prune, "FROM", "nobody")
    monkeypatch.setattr(retention, "FROM", "nobody")
    with pytest.raises(PhalanxError, match=r"missing|no longer|deleted"), writer.transaction() as txn:  # noqa: PT012
        begun = txn["t"]
        assert begun.count() == 2 * BULK
        for number in range(2):
            table.overwrite(bulk(0, number))
        assert ground.lake.prune(keep=1, unconditional=True).files
        begun.update({"v": "v + 1"}, where="v = 1")


@pytest.mark.parametrize("planted", [False, True])
def test_of_two_prunes_at_once_the_one_that_goes_less_far_does_not_bring_back_what_is_gone(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, planted: bool
) -> None:
    """Known bug 14: without the rule for it, the log says that versions can be read which the other one has removed."""
    table = ground.lake.create_table("t", SCHEMA)
    for number in range(8):
        table.overwrite(bulk(number))
    other = ground.process()
    for lake in (ground.lake, other):
        lake.refresh()
        lake.core.pins.renew()
    if planted:
        rules = [one for one in conflict.RULES[do.Prune] if one is not kept.prune_overtaken]
        monkeypatch.setitem(conflict.RULES, do.Prune, tuple(rules))
    real, floors = prune._Run._commit, list[int]()

    def commit(run: Any, *given: Any) -> int:
        if run._core is not ground.lake.core:
            return real(run, *given)
        if not floors:
            floors.append(1)
            other.prune(keep=1, unconditional=True)
            floors.append(other.core.log.view.state.retained.floor)
        landed = real(run, *given)
        floors.append(run._core.refresh().state.retained.floor)
        if planted and len(floors) == 3:
            assert run._core.log.view.state.retained.has(floors[1] - 2)
            with pytest.raises(PhalanxError):
                ground.process().snapshot(version=floors[1] - 2)["t"].to_arrow()
        return landed

    monkeypatch.setattr(prune._Run, "_commit", commit)
    ground.lake.prune(keep=5, unconditional=True)
    assert (floors != sorted(floors)) is planted


def test_a_reader_that_is_not_seen_loses_its_files(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 9."""
    grown(ground, 2)
    held = ground.process().snapshot()
    monkeypatch.setattr(prune, "FROM", "nobody")
    monkeypatch.setattr(retention, "FROM", "nobody")
    ground.lake["t"].overwrite(bulk(0, 1))
    ground.lake.prune(keep=1, unconditional=True)
    with pytest.raises(PhalanxError, match="was pruned"):
        held["t"].to_arrow()


def test_what_was_deleted_and_is_still_marked_leaks(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 10."""
    grown(ground, 2)
    ground.lake["t"].overwrite(bulk(0))
    monkeypatch.setattr(reach, "is_lost", lambda *_: False)
    monkeypatch.setattr(prune._Run, "_oldest", lambda *_: 0)  # what lies before it is not even looked at
    ground.lake.prune(["t"], keep=1, unconditional=True)
    monkeypatch.undo()
    assert ground.lake.prune(["t"], keep=1, unconditional=True).files


def test_a_tag_that_is_not_read_loses_its_version(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bugs 12 and 13: no tags, and an error that is taken for that, are the same to what was tagged."""
    grown(ground, 3)
    ground.lake["t"].overwrite(bulk(0))
    ground.lake.tag("release", version=5)
    ground.lake["t"].overwrite(bulk(0))
    monkeypatch.setattr(Needs, "of", classmethod(lambda cls, *_: cls({}, None)))
    monkeypatch.setitem(conflict.RULES, do.Prune, ())  # type: ignore[arg-type] # nobody else looks either
    ground.lake.prune(keep=1, unconditional=True)
    with pytest.raises(SnapshotExpiredError):
        ground.lake.snapshot(tag="release")


def test_a_version_too_many_is_seen(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 37: the boundary is one too high, so the anchor goes."""
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    inner = retention._reasons

    def one_too_high(*given: Any) -> dict[int, str]:
        return {version: why for version, why in inner(*given).items() if "anchor" not in why}

    monkeypatch.setattr(retention, "_reasons", one_too_high)
    for number in range(3):
        table.upsert(bulk(number * BULK), prune_previous=True)
    assert live(ground.lake, "t") == [4], "and 3 should be there"


def test_a_clock_that_is_believed_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 16."""
    ground = Ground(tmp_path)
    grown(ground, 3)
    ground.lake._core.pins.renew()
    store = ground.store()
    store.ahead = YEARS
    monkeypatch.setattr(ages, "JUMP", 10 * YEARS)
    assert ground.process(store).prune(keep=1).versions
    ground.close()


def test_a_kind_that_is_not_known_and_taken_for_rows_is_deleted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 7."""
    table = grown(ground, 1)
    path = ground.folder / "tables" / table.id / "_new_kind"
    path.write_bytes(b"of a newer release")
    inner = garbage.kind_of
    monkeypatch.setattr(garbage, "kind_of", lambda name: Kind.DATA if name == "_new_kind" else inner(name))
    ground.lake.prune(keep=1, unconditional=True)
    assert not path.exists()


WRITER = """
import sys, pyarrow as pa, phalanx
lake = phalanx.open(sys.argv[1], carry=False)
first = int(sys.argv[2])
with lake.transaction() as txn:
    txn["t"].append(pa.table({"id": pa.array(range(first, first + 6000)), "v": [first] * 6000}))
    print("staged", flush=True)
    sys.stdin.readline()
lake.close()
"""


def four_writers(ground: Ground) -> list[bool]:
    """Whether each of three writers commits, after a fourth was killed and a prune came by."""
    done: list[bool] = []
    with ExitStack() as running:
        started = [running.enter_context(Process(WRITER, ground.folder, 10**6 * number)) for number in range(1, 5)]
        for one in started:
            assert one.line() == "staged"
        started[0].kill()
        ground.lake["t"].upsert(few(1))
        ground.lake.prune(keep=1, unconditional=True)
        for one in started[1:]:
            one.tell("go")
            try:
                one.finish()
            except AssertionError as error:
                if "StagingExpiredError" not in str(error):
                    raise
                done.append(False)
            else:
                done.append(True)
    return done


def test_a_writer_that_dies_takes_nobody_with_it(ground: Ground) -> None:
    """Known bug 15: it leaves its pin, which expires; those of the others are theirs."""
    grown(ground, 1)
    assert four_writers(ground) == [True] * 3
    assert ground.lake["t"].count() == 4 * BULK


def test_who_takes_back_the_pins_of_others_is_seen(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 15, planted: whoever renews removes all there are."""
    grown(ground, 1)
    inner = Pins.renew

    def renew(pins: Pins) -> None:
        inner(pins)
        pins._store.delete([one.name for one in pins._store.list("pins") if not pins.owns(one.name.split("-")[2])])

    monkeypatch.setattr(Pins, "renew", renew)
    assert False in four_writers(ground)
