"""What prunes keep below the floor, beside each other and beside readers: the log says what it is, and it is there."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from phalanx.clock import SYSTEM, Deadline
from phalanx.errors import SnapshotExpiredError
from phalanx.upkeep import prune as pruning
from tests.unit.pruning import SCHEMA, Ground, bulk, few, grown


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
    ground.lake._background.sweep = lambda *_, **__: None  # type: ignore[method-assign] # whoever wants one says when
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


class BrokenOffError(Exception):
    """Somebody has killed a prune."""


@pytest.mark.parametrize("killed_at", ["raise_floor", "sweep", None])
def test_a_prune_that_goes_less_far_than_another_decides_anew(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, killed_at: str | None
) -> None:
    """The other one keeps what this one has never seen: it stays, whatever the other has done of it by now."""
    table = ground.lake.create_table("t", SCHEMA)
    for number in range(8):
        table.overwrite(bulk(number))
    position = ground.lake.version - 6
    ground.lake.tag("release", version=position)
    further = ground.process()
    for lake in (ground.lake, further):
        lake.refresh()
        lake.core.pins.renew()
    run = pruning._Run(further.core, pruning.Options(keep=1, protect=0), Deadline.after(SYSTEM, 60.0))
    ground.lake.untag("release")
    log, done = ground.lake.core.log, list[int]()
    real = log.oldest

    def kill(*_: Any) -> Any:
        raise BrokenOffError

    def oldest() -> int:
        """The other prune lands after this one has looked at the log, and before it looks at what is kept."""
        found = real()
        if not done:
            done.append(1)
            with monkeypatch.context() as planted:
                if killed_at is not None:
                    planted.setattr(further.core.log, killed_at, kill)
                with nullcontext() if killed_at is None else pytest.raises(BrokenOffError):
                    run.go()
        return found

    monkeypatch.setattr(log, "oldest", oldest)
    ground.lake.prune(keep=4, protect=0)
    assert done
    lake = ground.process()
    if lake.core.log.view.state.retained.has(position):
        lake.tag("again", version=position)
        lake.prune(keep=1, protect=0)
        assert lake.snapshot(tag="again")["t"].to_arrow() == bulk(1)
    assert lake.check().problems == ()


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


def test_what_another_prune_kept_for_a_tag_stays(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow prune forgets what was kept for tags that are gone, while a newer one keeps a version for a tag it never saw."""
    slow, other = ground.lake, ground.process()
    table = slow.create_table("t", SCHEMA)
    for number in range(10):
        table.append(few(number))
    real = pruning.needless
    ran: list[int] = []

    def forget(*given: Any) -> list[str]:
        if not ran:
            ran.append(1)
            other.tag("release", version=other.refresh().version - 3)
            for number in range(5):
                other["t"].append(few(100 + number))
            for lake in (slow, other):
                lake.core.pins.renew()
            other.prune(keep=1, protect=0)
        return real(*given)

    monkeypatch.setattr(pruning, "needless", forget)
    slow.prune(keep=6, protect=0)
    assert ran
    assert ground.process().snapshot(tag="release")["t"].count() == 8
    assert slow.check().whole
