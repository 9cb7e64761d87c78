"""After a power loss at any moment, every acknowledged commit is there, exactly once (I3, rules H1-H3; known bug 30)."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from phalanx.catalog import Catalog
from phalanx.clock import SYSTEM, Deadline
from phalanx.errors import NotFoundError, PhalanxError
from phalanx.lake import Lake, join
from phalanx.log.action import Progress, Settings
from phalanx.log.log import Log
from phalanx.objects import layout, local, open_store
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Crash, Recorder
from phalanx.testing.power import Event

SEED = 20260
SMALL = Settings(checkpoint_every=4, remembered=100)

Scenario = Callable[[Path, "Recorded"], None]


def commit(lake: Lake, name: str) -> None:
    """A commit that can be found in the state as well as in the log."""
    lake.commit([Progress(name, None, 1)], note=name)


class Recorded:
    """A scenario's way to commit and to note what was acknowledged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder: Recorder | None = None
        self.before: Callable[[Event], None] | None = None
        self.ignore: set[str] = set()
        self.early = False
        self._name: str | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        with Recorder(self.root, self.ignore, self._before) as recorder:
            self.recorder = recorder
            yield

    def lake(self) -> Lake:
        return join(open_store(self.root), SYSTEM, SMALL, timeout=10)

    def commit(self, lake: Lake, name: str) -> None:
        self._name = name if self.early else None
        commit(lake, name)
        if not self.early:
            self.ack(name)

    def ack(self, name: str) -> None:
        if self.recorder is not None:
            self.recorder.ack(name)

    def _before(self, event: Event) -> None:
        if (
            self.early
            and self._name is not None
            and event.kind == "dirsync"
            and event.path.startswith(layout.LOG + "/")
        ):
            self.ack(self._name)
        if self.before is not None:
            self.before(event)


def create_and_commit(root: Path, run: Recorded) -> None:
    with run.recording(), run.lake() as lake:
        for number in range(6):
            run.commit(lake, f"c{number}")


def change_of_bucket(root: Path, run: Recorded) -> None:
    _lake_at(run, layout.BUCKET - 3)
    with run.recording(), run.lake() as lake:
        for number in range(6):
            run.commit(lake, f"c{number}")


def two_writers_at_a_change_of_bucket(root: Path, run: Recorded) -> None:
    """The first has linked 999 and not yet synced it when the second commits 1000 and 1001."""
    _lake_at(run, layout.BUCKET - 2)
    first, second = run.lake(), run.lake()
    done = False

    def interleave(event: Event) -> None:
        nonlocal done
        if not done and event.kind == "dirsync" and event.path == layout.bucket(layout.BUCKET - 1):
            done = True
            run.commit(second, "second-1")
            run.commit(second, "second-2")

    run.before = interleave
    with run.recording():
        run.commit(first, "first-1")
        run.commit(first, "first-2")
    assert done


def a_reader_of_an_entry_that_is_not_synced_yet(root: Path, run: Recorded) -> None:
    """What a reader was shown has to survive, although its writer has not been acknowledged."""
    run.lake().close()
    writer, reader = run.lake(), run.lake()
    shown = 0

    def look(event: Event) -> None:
        nonlocal shown
        if event.kind == "dirsync" and event.path.startswith(layout.LOG + "/"):
            for commit in reader.log(3):
                if commit.note:
                    run.ack(commit.note)
                    shown += 1

    run.before = look
    with run.recording():
        for number in range(4):
            commit(writer, f"c{number}")
    assert shown


def lost_races(root: Path, run: Recorded) -> None:
    """Entries that lose their position are linked again, unchanged, at the next."""
    run.lake().close()
    first, second = run.lake(), run.lake()
    busy = 0

    def overtake(event: Event) -> None:
        nonlocal busy
        if event.kind == "fsync" and busy < 3:
            busy += 1
            run.commit(second, f"winner{busy}")

    run.before = overtake
    with run.recording():
        for number in range(4):
            run.commit(first, f"loser{number}")
    assert busy == 3


def trim(root: Path, run: Recorded) -> None:
    with run.lake() as lake:
        for number in range(8):
            commit(lake, f"c{number}")
        lake._log.close()
        with run.recording():
            for number in range(8):
                run.ack(f"c{number}")
            lake._log.trim(7, Deadline.after(SYSTEM, 10), keep=[3])
            run.commit(lake, "after")


def trim_across_buckets(root: Path, run: Recorded) -> None:
    _lake_at(run, layout.BUCKET - 4)
    with run.lake() as lake:
        for number in range(24):
            commit(lake, f"c{number}")
        lake._log.close()
        with run.recording():
            for number in range(24):
                run.ack(f"c{number}")
            lake._log.trim(layout.BUCKET + 12, Deadline.after(SYSTEM, 10))
            run.commit(lake, "after")
            lake._log.trim(layout.BUCKET + 18, Deadline.after(SYSTEM, 10))


def group_commit(root: Path, run: Recorded) -> None:
    """Several transactions in one entry, from threads that wait for it together."""
    with run.lake() as lake, run.recording(), ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: run.commit(lake, f"c{number}"), range(24)))


def checkpoints(root: Path, run: Recorded) -> None:
    with run.lake() as lake:
        commit(lake, "first")
        lake._log.close()
        with run.recording():
            for number in range(9):
                run.commit(lake, f"c{number}")
                lake._log.close()


SCENARIOS: list[Scenario] = [
    create_and_commit,
    change_of_bucket,
    two_writers_at_a_change_of_bucket,
    a_reader_of_an_entry_that_is_not_synced_yet,
    lost_races,
    trim,
    trim_across_buckets,
    group_commit,
    checkpoints,
]


def _lake_at(run: Recorded, position: int) -> None:
    """A lake whose log begins shortly before `position`, so that opening it is quick."""
    with join(open_store(run.root), SYSTEM, Settings(durability="disk", checkpoint_every=4), timeout=10) as lake:
        lake._store.relax()
        while lake._log.view.position < position - 1:
            lake.commit([])
        lake._log.trim(position - 2, Deadline.after(SYSTEM, 10))


def violation(crash: Crash) -> str | None:
    """What is wrong with a lake after a power loss; None if nothing is."""
    store = MemoryStore()
    store._objects = {name: (data, 0.0) for name, data in crash.files.items()}
    try:
        log = Log.open(store, Catalog(), SYSTEM)
    except NotFoundError:
        return f"no lake, and {crash.acked} were acknowledged" if crash.acked else None
    except PhalanxError as error:
        return f"cannot be opened: {error}"
    found: set[str] = set()
    for position in range(log.oldest(), log.view.position + 1):
        for transaction in log.read(position).transactions:
            if transaction.note in found:
                return f"{transaction.note} stands twice"
            found |= {transaction.note} - {""}
    lost = [name for name in crash.acked if name not in log.view.state.progress]
    if lost:
        return f"{lost} were acknowledged, and are lost"
    return None


def explore(scenario: Scenario, root: Path, run: Recorded) -> tuple[int, str | None]:
    scenario(root, run)
    assert run.recorder is not None
    states = 0
    for crash in run.recorder.crashes(SEED):
        states += 1
        wrong = violation(crash)
        if wrong is not None:
            trace = [f"{event.kind} {event.path or event.file}" for event in run.recorder.events[: crash.prefix]]
            return states, f"{wrong}\nafter: " + "; ".join(trace[-12:])
    return states, None


def test_no_power_loss_loses_an_acknowledged_commit(tmp_path: Path) -> None:
    """Every legal disk after every prefix of nine scenarios opens, and holds what was acknowledged."""
    counts = {}
    for scenario in SCENARIOS:
        root = tmp_path / scenario.__name__
        states, wrong = explore(scenario, root, Recorded(root))
        assert wrong is None, f"{scenario.__name__} (seed {SEED}): {wrong}"
        counts[scenario.__name__] = states
    counts["power loss during recovery"] = _recoveries(tmp_path)
    print(f"power-loss states (seed {SEED}): {counts}, {sum(counts.values())} in all")
    assert sum(counts.values()) >= 5000


def _recoveries(tmp_path: Path) -> int:
    """A second power loss, while what the first one left is opened and written to (known bug 23)."""
    first = Recorded(tmp_path / "first")
    trim(first.root, first)
    assert first.recorder is not None
    states = 0
    for number, crash in enumerate(first.recorder.crashes(SEED)):
        if number % 12:
            continue
        run = Recorded(write_out(crash, tmp_path / f"again{number}"))
        with run.recording(), run.lake() as lake:
            for name in crash.acked:
                run.ack(name)
            run.commit(lake, "again-1")
            lake._log.trim(lake.version - 1, Deadline.after(SYSTEM, 10))
            run.commit(lake, "again-2")
        assert run.recorder is not None
        for second in run.recorder.crashes(SEED):
            states += 1
            wrong = violation(second)
            assert wrong is None, f"recovery of state {number} (seed {SEED}): {wrong}"
    return states


def write_out(crash: Crash, folder: Path) -> Path:
    for name, data in crash.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("scenario", "ignore", "early"),
    [
        pytest.param(create_and_commit, {"fsync"}, False, id="no fsync of the data"),
        pytest.param(create_and_commit, {"dirsync"}, False, id="no fsync of the folder"),
        pytest.param(create_and_commit, set(), True, id="acknowledged before the folder was synced"),
        pytest.param(trim, {"fsync"}, False, id="a floor that was not synced"),
    ],
)
def test_a_planted_durability_bug_is_found(scenario: Scenario, ignore: set[str], early: bool, tmp_path: Path) -> None:
    """The enumerator is not blind: leaving out one sync, or acknowledging early, turns it red."""
    run = Recorded(tmp_path)
    run.ignore, run.early = ignore, early
    _, wrong = explore(scenario, tmp_path, run)
    assert wrong is not None


def test_building_on_an_unsynced_entry_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules H1 and H2 are needed: without them a later entry outlives an earlier one that is gone."""
    monkeypatch.setattr(Log, "_make_durable", lambda *_: None)
    _, wrong = explore(two_writers_at_a_change_of_bucket, tmp_path, Recorded(tmp_path))
    assert wrong is not None


def test_showing_an_unsynced_entry_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule H2 is needed: without it a reader has seen what a power loss takes away."""
    monkeypatch.setattr(Log, "_publish", lambda self: setattr(self, "_view", self._cursor.view()))
    _, wrong = explore(a_reader_of_an_entry_that_is_not_synced_yet, tmp_path, Recorded(tmp_path))
    assert wrong is not None


def test_a_sample_of_the_disks_opens_from_a_real_disk_too(tmp_path: Path) -> None:
    """The states are checked in memory for speed; some of them are written out and opened as a user would."""
    root = tmp_path / "lake"
    run = Recorded(root)
    checkpoints(root, run)
    assert run.recorder is not None
    for number, crash in enumerate(run.recorder.crashes(SEED)):
        if number % 40:
            continue
        copy = write_out(crash, tmp_path / f"copy{number}")
        with join(open_store(copy), SYSTEM, None, timeout=10) as lake:
            notes = [commit.note for commit in lake.log(100)]
            assert set(crash.acked) <= set(notes)
            commit(lake, "goes on")


def test_what_other_lakes_do_meanwhile_is_not_recorded(tmp_path: Path) -> None:
    """Their threads pass through the same place; what they began before the recording goes on as if there were none."""
    other = open_store(tmp_path / "other")
    run = Recorded(tmp_path / "lake")
    with other.prepare([b"begun before"]) as begun, run.recording():
        begun.put("x/1")
        with other.prepare([b"begun inside"]) as inside:
            inside.put("x/2")
        with run.lake() as lake:
            run.commit(lake, "c")
    assert run.recorder is not None
    assert not [event for event in run.recorder.events if event.path.startswith(("x", "/"))]
    assert [other.get(f"x/{n}", limit=99) for n in (1, 2)] == [b"begun before", b"begun inside"]


def test_what_was_begun_before_the_recording_is_a_mistake_of_the_test(tmp_path: Path) -> None:
    """Otherwise bytes would be on the disk that the record knows nothing of."""
    fd = os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY)
    with pytest.raises(AssertionError, match="before the recording"), Recorded(tmp_path).recording():
        local.os.write(fd, b"x")
    os.close(fd)
