"""Checkpoints are a cache, the floor's base is truth (rules A3, F1; known bug 29): torn, stale, missing, foreign."""

import itertools

import pytest

from phalanx.catalog import Catalog
from phalanx.clock import Deadline
from phalanx.errors import CorruptionError
from phalanx.log import base as bases
from phalanx.log import checkpoint
from phalanx.log.action import Settings
from phalanx.log.checkpoint import thinned
from phalanx.log.recent import Recent
from phalanx.objects import layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore, ManualClock
from tests.lakes import commit, fill, handle, names, trim

EVERY = {f"fill-{number}" for number in range(23)}


def lake_with_checkpoints(remote: bool = False) -> tuple[MemoryStore, ManualClock]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(CountingStore(store, remote=remote), clock)
    for number in range(23):
        commit(lake, f"fill-{number}")
        lake._log.close()
    return store, clock


def stored(store: MemoryStore, folder: str) -> list[str]:
    return [listed.name for listed in store.list(folder)]


def damage(store: MemoryStore, name: str, how: str) -> None:
    data, at = store._objects[name]
    changed = {
        "missing": None,
        "empty": b"",
        "torn": data[: len(data) // 2],
        "flipped": data[:100] + bytes([data[100] ^ 1]) + data[101:],
        "zeroed": bytes(len(data)),
        "foreign": bases.encode(bases.empty(Catalog()), Catalog())[0],
        "whole": data,
    }[how]
    if changed is None:
        del store._objects[name]
    else:
        store._objects[name] = (changed, at)


HOW = ["missing", "empty", "torn", "flipped", "zeroed", "foreign", "whole"]


@pytest.mark.parametrize(("newest", "older"), list(itertools.product(HOW, HOW)))
def test_no_state_of_the_checkpoints_changes_what_is_read(newest: str, older: str) -> None:
    """Every combination of damages to the newest and all older checkpoints: the same lake, writable."""
    store, clock = lake_with_checkpoints()
    held = stored(store, layout.CHECKPOINT)
    assert len(held) >= 2
    for name in held[:-1]:
        damage(store, name, older)
    damage(store, held[-1], newest)
    lake = handle(store, clock)
    assert names(lake) == EVERY
    assert commit(lake, "more") == 25


@pytest.mark.parametrize("how", [how for how in HOW if how != "whole"])
def test_a_damaged_floor_is_an_error_that_says_so(how: str) -> None:
    """The floor's base is truth: without it deleted entries are gone, so nothing is guessed and nothing is deleted."""
    store, clock = lake_with_checkpoints()
    trim(handle(store, clock), 12)
    store.delete(stored(store, layout.CHECKPOINT))
    (floor,) = stored(store, layout.FLOOR)
    damage(store, floor, how)
    before = dict(store._objects)
    with pytest.raises(CorruptionError):
        handle(store, clock)
    assert store._objects == before


@pytest.mark.parametrize("how", [how for how in HOW if how not in {"whole", "missing"}])
def test_trim_deletes_nothing_if_the_floor_it_finds_is_not_the_one_it_means(how: str) -> None:
    """Rule A3: read back and compared before anything is deleted."""
    store, clock = lake_with_checkpoints()
    lake = handle(store, clock)
    good = trim(lake, 9).floor
    assert good == 9
    with store.prepare([b"placeholder"]) as blob:
        blob.put(layout.floor(15))
    store._objects[layout.floor(15)] = store._objects[layout.floor(9)]
    damage(store, layout.floor(15), how)
    entries = stored(store, layout.LOG)
    with pytest.raises(CorruptionError):
        lake._log._put_base(layout.floor(15), 14, Deadline.after(clock, 10))
    assert stored(store, layout.LOG) == entries


def test_a_checkpoint_of_another_history_is_found_out() -> None:
    """Rule F1: a base names the attempt that follows it; a copy of the lake that went another way has another."""
    store, clock = lake_with_checkpoints()
    twin = MemoryStore(clock=clock)
    twin._objects = {
        name: held for name, held in store._objects.items() if name < layout.entry(20) or "log" not in name
    }
    for name in stored(twin, layout.CHECKPOINT):
        del twin._objects[name]
    other = handle(twin, clock)
    for number in range(6):
        commit(other, f"other-{number}")
        other._log.close()
    for name in stored(twin, layout.CHECKPOINT):
        store._objects[name] = twin._objects[name]
    assert names(handle(store, clock)) == EVERY


def test_equal_histories_give_equal_bytes() -> None:
    """Two processes that fold the same entries store the same base, so they may both put it."""
    store, clock = lake_with_checkpoints()
    first, second = handle(store, clock), handle(CountingStore(store, remote=True), clock)
    following = first._log.read(24).attempt
    one, two = (bases.encode(lake._log._cursor.base(following), Catalog()) for lake in (first, second))
    assert one == two


def test_the_ids_that_are_remembered_survive_in_a_base() -> None:
    """Rule A5: what a floor carries answers as the log itself would."""
    recent = Recent(4)
    for position in range(1, 8):
        recent.add(position, [bytes([position]) * 16, bytes([position + 100]) * 16])  # type: ignore[list-item]
    again = Recent.load(*recent.dump())
    assert list(again) == list(recent)
    assert again.dump() == recent.dump()
    assert again.since == 6
    assert again.find(b"\x07" * 16) == 7  # type: ignore[arg-type]
    assert again.find(b"\x05" * 16) is None  # type: ignore[arg-type]


def test_opening_reads_no_more_than_the_entries_since_the_last_checkpoint() -> None:
    """A checkpoint is used: its interval bounds what opening costs."""
    store, clock = lake_with_checkpoints()
    counting = CountingStore(store)
    with counting.counted() as counts:
        handle(counting, clock)
    assert counts["get"] <= 5 + 4


def test_checkpoints_are_thinned_to_the_logarithm_of_history() -> None:
    """The newest two stay, and one in each doubling distance; the oldest is never far from its predecessor."""
    held: list[int] = []
    for position in range(100, 100_100, 100):
        held.append(position)
        gone = set(thinned(held))
        held = [one for one in held if one not in gone]
        assert held[-1] == position
    assert len(held) <= 24
    assert held[-2] == 99_900


def test_a_checkpoint_that_cannot_be_written_costs_nothing_but_time(caplog: pytest.LogCaptureFixture) -> None:
    """Best effort, off the commit path: the commit is acknowledged, the failure is logged."""
    from phalanx.testing import Fault, FaultyStore

    clock = ManualClock()
    store = MemoryStore(clock=clock)
    faulty = FaultyStore(
        store, lambda call, name: Fault.REFUSED if call == "put" and layout.CHECKPOINT in name else None
    )
    lake = handle(faulty, clock)
    fill(lake, 12)
    lake._log.close()
    assert names(handle(store, clock)) == {f"fill-{number}" for number in range(12)}
    assert "costs nothing but time" in caplog.text


def test_checkpoints_are_written_by_the_process_that_crosses_the_interval() -> None:
    """Each multiple of the interval once, by whoever committed it."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lakes = [handle(store, clock, Settings(checkpoint_every=4)) for _ in range(2)]
    for number in range(11):
        lake = lakes[number % 2]
        commit(lake, f"c{number}")
        lake._log.close()
    assert [layout.checkpoint_position(name) for name in stored(store, layout.CHECKPOINT)] == [4, 8, 12]
    assert next(checkpoint.candidates(store, Catalog(), lambda _: True)).position == 12
