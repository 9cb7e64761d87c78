"""What prunes keep below the floor, beside each other and beside readers: the log says what it is, and it is there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import SnapshotExpiredError
from phalanx.upkeep import prune as pruning
from tests.unit.pruning import SCHEMA, Ground, few, grown


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def kept_for_a_reader(ground: Ground) -> tuple[Any, Any]:
    """A version below the floor that is kept for a reader, who holds it."""
    table = ground.lake.create_table("t", SCHEMA)
    for number in range(4):
        table.append(few(number))
    reader = ground.process()
    snapshot = reader.snapshot(version=reader.version - 2)
    table.append(few(9))
    reader.refresh()
    reader.core.pins.renew()
    ground.lake.core.pins.renew()
    ground.lake._background.sweep = lambda *_: None  # type: ignore[method-assign] # whoever wants one says when
    ground.lake.prune(keep=1, protect=0, mode="background")
    kept = ground.lake.core.log.view.state.retained.kept
    assert kept == (snapshot.version,)
    return reader, snapshot


def test_a_sweep_lets_go_of_what_was_kept_by_an_entry(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although there is nothing else to decide: or a tag could still name it, and would name nothing."""
    reader, snapshot = kept_for_a_reader(ground)
    position = snapshot.version
    del snapshot
    reader.close()
    other = ground.process()
    real = pruning._Run._carry_out
    refused: list[str] = []

    def carry_out(run: Any, *given: Any) -> Any:
        with pytest.raises(SnapshotExpiredError) as error:
            other.tag("late", version=position)
        refused.append(str(error.value))
        return real(run, *given)

    monkeypatch.setattr(pruning._Run, "_carry_out", carry_out)
    ground.lake.prune(mode="sweep", protect=0)
    assert refused
    assert ground.lake.core.log.view.state.retained.kept == ()
    assert ground.lake.check().whole


def test_a_prune_does_not_keep_what_another_has_let_go(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen a reader who is gone since; it decides anew, and the log does not say that something is kept."""
    reader, held = kept_for_a_reader(ground)
    ground.lake.prune(mode="sweep", protect=0)
    other = ground.process()
    ground.lake["t"].append(few(50))
    for lake in (ground.lake, other, reader):
        lake.refresh()
        lake.core.pins.renew()
    real = pruning._Run._commit
    done: list[int] = []

    def commit(run: Any, *given: Any) -> int:
        if run._core is ground.lake.core and not done:
            done.append(1)
            reader.close()
            other.prune(keep=1, protect=0)
        return real(run, *given)

    monkeypatch.setattr(pruning._Run, "_commit", commit)
    ground.lake.prune(keep=1, protect=0)
    assert done
    assert ground.process().check().problems == ()
    del held


def test_what_the_log_says_is_kept_is_not_forgotten(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by a prune that went further, after this one had looked at the log, and before it looked at what is kept."""
    table = ground.lake.create_table("t", SCHEMA)
    for number in range(10):
        table.append(few(number))
    other = ground.process()
    other.tag("release", version=other.version - 3)
    for lake in (ground.lake, other):
        lake.refresh()
        lake.core.pins.renew()
    log, done = ground.lake.core.log, []
    real = log.oldest

    def oldest() -> int:
        found = real()
        if not done:
            done.append(1)
            other.prune(keep=1, protect=0)
        return found

    monkeypatch.setattr(log, "oldest", oldest)
    ground.lake.prune(keep=7, protect=0)
    assert done
    assert ground.process().snapshot(tag="release")["t"].count() == 7
    assert ground.lake.check().whole


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("how", ["at once", "streamed"])
def test_a_reader_whose_pin_has_lapsed_is_told_so(ground: Ground, how: str, tail: bool) -> None:
    """Not that the lake is damaged: its files are gone because this process could not say that it needs them."""
    table = grown(ground, 2)
    if tail:
        table.upsert(few(1, v=99))
    reading = ground.process()["t"]._reading()
    for path in ground.folder.rglob("*.lance"):
        path.unlink()
    reading.held.pin.renewed -= 2 * ground.life
    with pytest.raises(SnapshotExpiredError, match="could not renew its pin"):
        reading.table() if how == "at once" else reading.scan().read_all()
