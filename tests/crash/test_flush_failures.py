"""A flush may fail at any step, die after its last, or never be able to work: no row is lost, none is hidden."""

import errno
import itertools
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx import contents
from phalanx.clock import SYSTEM
from phalanx.contents import Contents
from phalanx.errors import CommitUnknownError, UnavailableError
from phalanx.lake import join
from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.objects import layout, open_store
from phalanx.tables.dataset import Datasets
from phalanx.tail import memory, writeout
from phalanx.tail.overlay import Overlay
from phalanx.testing import Fault, FaultyStore, nth
from phalanx.testing.faults import PUT_FAULTS
from tests.crash.steps import AFTER, Death, Held, Steps, dying, rows, stepping

FULL = "No space left on device"
MORE = {"id": [1, 40], "v": [41, 40]}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake to be copied: a few checkpoints, rows in the heads, every kind of change in the tails."""
    path = tmp_path_factory.mktemp("source") / "lake"
    with phalanx.open(path, create=True, settings={"checkpoint_every": 6}, durability="os") as lake:
        lake.set_property("flush.background", "off")
        for name, key in (("k", "id"), ("t", ())):
            lake.create_table(name, {"id": list(range(6)), "v": list(range(6))}, key=key)
            lake.flush(name)
            lake[name].append({"id": [7, 1], "v": [17, 11]})
            lake[name].append({"id": [8], "v": [18]}, stage=True)
            lake[name].update({"v": "v + 100"}, "id = 3")
            lake[name].delete("id = 2")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def path(source: Path, tmp_path: Path) -> Path:
    """A lake of the test's own."""
    return shutil.copytree(source, tmp_path / "lake")


def held_by(path: Path) -> Held:
    """What a process finds that opens the lake now."""
    with phalanx.open(path) as lake:
        return rows(lake)


def with_more(held: Held) -> Held:
    return {
        "k": sorted({**dict(held["k"]), 1: 41, 40: 40}.items()),
        "t": sorted([*held["t"], (1, 41), (40, 40)]),
    }


def failing(at: int) -> Steps:
    """The disk is full at the step of this number, and only then; a store says so in its own words."""

    def before(number: int, name: str) -> None:
        if number == at and name != AFTER:
            if name.startswith(("put", "persist")):
                raise UnavailableError(f"cannot write: {FULL}; nothing was committed: free some space, then try again")
            raise OSError(errno.ENOSPC, FULL)

    return Steps(before)


def fail_a_flush_then_let_the_next_commit(source: Path, folder: Path, at: int) -> tuple[list[str], str]:
    """Flush n fails at a step, changes land, flush n + 1 commits, the lake is opened again: nothing is missing.

    The steps that flush n took, and what it said.
    """
    path = shutil.copytree(source, folder / f"{at}")
    before, told = held_by(path), ""
    steps = failing(at)
    with stepping(path, steps, inside=True) as lake:
        try:
            lake.flush()
        except UnavailableError as error:
            told = str(error)
        taken, steps.before = list(steps.names), None
        assert rows(lake) == held_by(path) == before
        for name in ("k", "t"):
            lake[name].append(MORE)
        after = with_more(before)
        assert rows(lake) == held_by(path) == after
        assert all(flushed.items for flushed in lake.flush().values())
        assert rows(lake) == held_by(path) == after, "rows after the next flush"
        assert lake.check().whole
    return taken, told


def test_a_flush_that_fails_at_any_step_is_made_up_for_by_the_next(source: Path, tmp_path: Path) -> None:
    """Known bug 25: fail flush n, at each of its steps in turn; n + 1 takes up all of it, and opening finds all rows."""
    seen = set()
    for at in itertools.count(1):
        taken, told = fail_a_flush_then_let_the_next_commit(source, tmp_path, at)
        if at > len(taken):
            break
        if taken[at - 1] != AFTER:
            assert FULL in told
            assert "nothing was committed" in told
            seen.add(taken[at - 1])
    assert seen == {"write_fragments", "commit", "delete_rows", "persist", "put tables", "put log"}


def skipping(overlay: Overlay, datasets: Datasets, writer: writeout.Writer) -> writeout.WrittenOut:
    """Planted: what a flush before was to write out is not written out again."""
    later = [row for row in overlay.memory.living().to_pylist() if row["v"] in MORE["v"]]
    left = memory.empty(overlay.shape.schema, overlay.shape.key).add(
        pa.Table.from_pylist(later, overlay.shape.schema), -np.arange(1, len(later) + 1), overlay.shape.key
    )
    return WRITE_OUT(msgspec.structs.replace(overlay, memory=left), datasets, writer)


WRITE_OUT = writeout.write_out


def test_a_flush_that_skips_what_failed_before_would_be_found(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted version of known bug 25: the rows that the failed flush should have written are missing afterwards."""
    monkeypatch.setattr("phalanx.upkeep.flush.write_out", skipping)
    with pytest.raises(AssertionError, match="rows after the next flush"):
        fail_a_flush_then_let_the_next_commit(source, tmp_path, 3)


@pytest.mark.parametrize("fault", [*PUT_FAULTS, Fault.REFUSED], ids=lambda fault: fault.name.lower())
def test_a_flush_whose_answer_is_lost_is_done_once(fault: Fault, path: Path) -> None:
    """Whatever the store says of the entry's put, the flush has happened or it has not, and the next one works."""
    before = held_by(path)
    store = FaultyStore(open_store(path), nth("put", 1, fault, layout.LOG))
    with join(store, SYSTEM, None, timeout=30) as lake:
        if fault is Fault.REFUSED:
            with pytest.raises(UnavailableError, match="nothing was committed"):
                lake.flush("t")
        else:
            assert lake.flush("t")["t"].items == 4
        store.land_late_puts()
        assert store.struck
        assert rows(lake) == held_by(path) == before
        lake["t"].append({"id": [50], "v": [50]})
        lake.flush()
        assert rows(lake) == held_by(path) == before | {"t": sorted([*before["t"], (50, 50)])}
        assert lake.check().whole


@pytest.mark.parametrize("landing", ["at once", "late", "never"])
def test_a_flush_of_unknown_outcome_hides_nothing(landing: str, path: Path) -> None:
    """Neither put nor read is answered: CommitUnknownError; whether the entry stands or not, every row is there once."""
    before = held_by(path)
    fault = {"at once": Fault.ERROR_AFTER, "late": Fault.LATE, "never": Fault.ERROR_BEFORE}[landing]
    deaf = threading.Event()

    def plan(call: str, name: str) -> Fault | None:
        if not name.startswith(layout.LOG):
            return None
        if call == "put":
            deaf.set()
            return fault
        return Fault.UNREADABLE if deaf.is_set() else None

    store = FaultyStore(open_store(path), plan)
    with join(store, SYSTEM, None, timeout=30) as lake:
        with pytest.raises(CommitUnknownError) as raised:
            lake.flush("t", timeout=0.2)
        assert raised.value.committed is None
        store.plan = lambda *_: None
        assert rows(lake) == held_by(path) == before
        with phalanx.open(path) as other:
            other["t"].append({"id": [50], "v": [50]})
        store.land_late_puts()
        after = before | {"t": sorted([*before["t"], (50, 50)])}
        assert rows(lake) == held_by(path) == after
        lake.flush()
        assert rows(lake) == held_by(path) == after
        assert lake.check().whole


def die_after_the_entry(path: Path) -> None:
    before = held_by(path)
    watched = Steps()
    with stepping(shutil.copytree(path, path.parent / "watched"), watched) as lake:
        lake.flush("t")
    with stepping(path, dying(watched.names.index(AFTER) + 1)) as lake, pytest.raises(Death):
        lake.flush("t")
    assert held_by(path) == before, "rows after the crash"
    with phalanx.open(path) as lake:
        assert lake.flush("t")["t"].version is None
        assert rows(lake) == before
        lake["t"].append(MORE)
        lake.flush()
        assert rows(lake) == held_by(path) == before | {"t": with_more(before)["t"]}


def test_a_crash_right_after_the_flush_repeats_no_row(path: Path) -> None:
    """Known bug 24: the entry stands and nobody was told; what was flushed is not applied a second time."""
    die_after_the_entry(path)


def keeping(held: Contents, landing: Landing, action: it.Flush) -> Contents:
    """Planted: the items stay until somebody cleans up."""
    after = FLUSH(held, landing, action)
    return msgspec.structs.replace(after, first=held.first, items=held.items, weight=held.weight)


FLUSH = contents.flush


def test_a_tail_that_is_cleaned_up_later_would_be_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted version of known bug 24: rows are there twice."""
    monkeypatch.setitem(contents._STEPS, it.Flush, keeping)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="rows after the crash"):
        die_after_the_entry(path)


def open_with_a_failing_read(path: Path, number: int, *, remote: bool, dies: bool) -> bool:
    """Whether an open gets through of which the read of this number fails."""
    count = 0

    def plan(call: str, name: str) -> Fault | None:
        nonlocal count
        count += call in {"get", "list"}
        if count != number or call not in {"get", "list"}:
            return None
        if dies:
            raise Death(name)
        return Fault.UNREADABLE

    store = FaultyStore(open_store(path), plan, remote=remote)
    try:
        join(store, SYSTEM, None, timeout=0).close()
    except (UnavailableError, Death):
        return False
    return count < number


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("dies", [False, True], ids=["fails", "dies"])
def test_an_open_that_fails_at_any_read_is_followed_by_one_that_finds_everything(
    path: Path, *, remote: bool, dies: bool
) -> None:
    """Known bug 23: recovery itself is interrupted at each of its reads; the next finds every row, and goes on."""
    before = held_by(path)
    failed = 0
    for number in range(1, 100):
        if open_with_a_failing_read(path, number, remote=remote, dies=dies):
            break
        failed += 1
        assert held_by(path) == before
    assert failed >= 4
    with phalanx.open(path) as lake:
        lake.flush()
        assert rows(lake) == held_by(path) == before


def test_an_open_that_takes_a_failed_read_for_the_end_would_be_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted version of known bug 23: an entry that could not be read is taken for absent, and what follows is lost."""
    before = held_by(path)
    get = FaultyStore._get

    def absent(self: FaultyStore, name: str, limit: int) -> bytes | None:
        try:
            return get(self, name, limit)
        except UnavailableError:
            return None

    monkeypatch.setattr(FaultyStore, "_get", absent)
    store = FaultyStore(open_store(path), lambda *_: None)
    with join(store, SYSTEM, None, timeout=0) as lake:
        last = layout.entry(lake.version)
    store.plan = lambda call, name: Fault.UNREADABLE if (call, name) == ("get", last) else None
    with join(store, SYSTEM, None, timeout=0) as lake:
        assert rows(lake) != before
