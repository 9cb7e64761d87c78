"""The log and its floor (rules A1-A5, A7, A8; I2, I4): positions are used once, for ever."""

import threading
from pathlib import Path

import pytest

from phalanx.errors import (
    CommitUnknownError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
    UnavailableError,
    UnsupportedError,
)
from phalanx.log import entry
from phalanx.log.action import Settings
from phalanx.log.entry import Transaction, seal
from phalanx.objects import Put, layout, open_store
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore, Fault, FaultyStore, ManualClock, nth
from phalanx.testing.wrapping import WrappedStore
from tests.lakes import commit, fill, handle, names, trim


class Stalling(WrappedStore):
    """One process's way to the store; its next put of an entry waits until the test lets it go."""

    def __init__(self, inner: MemoryStore, *, remote: bool) -> None:
        super().__init__(inner)
        self.probes = not remote
        self.stall = False
        self.reached = threading.Event()
        self.go = threading.Event()

    def _create(self, blob: object, name: str, data: bytes) -> Put:
        if self.stall and name.startswith(layout.LOG):
            self.stall = False
            self.reached.set()
            assert self.go.wait(30)
        return super()._create(blob, name, data)  # type: ignore[arg-type]


@pytest.fixture(params=[False, True], ids=["local", "object store"])
def remote(request: pytest.FixtureRequest) -> bool:
    """The rules hold where names are asked one by one, and where they are listed."""
    return bool(request.param)


def test_positions_are_dense_and_a_losing_writer_goes_on_at_the_end(remote: bool) -> None:
    """Losing a position drops nobody (rule B3)."""
    store, clock = MemoryStore(), ManualClock()
    first, second = (handle(CountingStore(store, remote=remote), clock) for _ in range(2))
    assert [commit(first, "a"), commit(second, "b"), commit(first, "c"), commit(second, "d")] == [2, 3, 4, 5]
    assert names(first) == names(second) == {"a", "b", "c", "d"}


def commit_stalled_through_a_trim(remote: bool, *, refresh: bool) -> tuple[list[int], set[str]]:
    """Where a commit is acknowledged whose put was stalled while its position was taken and trimmed away."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    others = handle(CountingStore(store, remote=remote), clock)
    stalling = Stalling(store, remote=remote)
    writer = handle(stalling, clock, timeout=1e6)
    stalling.stall = True
    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(commit(writer, "stalled")))
    thread.start()
    assert stalling.reached.wait(10)
    fill(others, 3)
    trim(others, 4)
    clock.advance(601)
    trim(others, 4)
    assert store.get(layout.entry(2), limit=9999) is None
    if refresh:
        writer.refresh()
    stalling.go.set()
    thread.join(10)
    assert names(writer) == names(others)
    return told, names(others)


def test_a_stalled_put_at_a_trimmed_position_is_not_acknowledged_there(remote: bool) -> None:
    """Known bug 8: the name was deleted, so the put "succeeds"; it must land again, at the end, exactly once."""
    told, found = commit_stalled_through_a_trim(remote, refresh=False)
    assert told == [5]
    assert found == {"fill-0", "fill-1", "fill-2", "stalled"}


def test_freshness_of_a_later_slot_says_nothing_about_an_earlier_one(remote: bool) -> None:
    """A refresh in another thread, while a put is stalled, must not vouch for the stalled position (rule A7)."""
    told, found = commit_stalled_through_a_trim(remote, refresh=True)
    assert told == [5]
    assert "stalled" in found


def test_committed_and_then_trimmed_is_still_committed(remote: bool) -> None:
    """Rule A5: its answer was lost and a floor passed it; the remembered ids say that it landed, and where."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    others = handle(CountingStore(store, remote=remote), clock)
    struck = threading.Event()

    def plan(call: str, name: str) -> Fault | None:
        if call == "put" and name == layout.entry(2) and not struck.is_set():
            struck.set()
            return Fault.ERROR_AFTER
        if call == "get" and name == layout.entry(2) and struck.is_set():
            fill(others, 3)
            trim(others, 4)
            clock.advance(10_000)
            trim(others, 4)
        return None

    writer = handle(FaultyStore(store, plan, remote=remote), clock, timeout=1e6)
    assert commit(writer, "mine") == 2
    assert sorted(names(others)) == ["fill-0", "fill-1", "fill-2", "mine"]
    assert [one.note for one in others.log(100)].count("mine") == 0


def test_too_old_to_know_is_an_unknown_outcome(remote: bool) -> None:
    """Rule A5: when the ids of that time are forgotten, nothing is guessed."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    others = handle(CountingStore(store, remote=remote), clock, Settings(remembered=3, checkpoint_every=1000))
    stalling = Stalling(store, remote=remote)
    writer = handle(stalling, clock, timeout=1e6)
    stalling.stall = True
    errors: list[Exception] = []

    def write() -> None:
        try:
            commit(writer, "stalled")
        except CommitUnknownError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert stalling.reached.wait(10)
    fill(others, 10)
    trim(others, 10)
    clock.advance(10_000)
    trim(others, 10)
    stalling.go.set()
    thread.join(10)
    assert len(errors) == 1
    assert "stalled" not in names(others)


def test_a_reader_that_slept_through_a_trim_does_not_fold_a_recreated_position(remote: bool) -> None:
    """Rule A4: what is concluded above a cached position counts only if a later floor read confirms it."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    reader = handle(CountingStore(store, remote=remote), clock)
    others = handle(CountingStore(store, remote=remote), clock)
    fill(others, 5)
    trim(others, 5)
    clock.advance(10_000)
    trim(others, 5)
    with store.prepare([_entry_bytes(others.id, "ghost")]) as blob:
        blob.put(layout.entry(2))
    assert names(reader) == {f"fill-{number}" for number in range(5)}
    assert reader.version == 6


def test_nothing_is_judged_on_entries_that_no_floor_read_has_confirmed(remote: bool) -> None:
    """Rule A4: a refresh that failed halfway leaves entries behind that were read and not confirmed."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    plan = {"fails": False}
    faulty = FaultyStore(
        store,
        lambda call, name: Fault.UNREADABLE if plan["fails"] and (call, name) == ("list", layout.FLOOR) else None,
        remote=remote,
    )
    stale = handle(faulty, clock, timeout=1e6)
    others = handle(CountingStore(store, remote=remote), clock)
    fill(others, 5)
    trim(others, 5)
    clock.advance(10_000)
    trim(others, 5)
    for position in (2, 3, 4):
        with store.prepare([_entry_bytes(others.id, f"ghost-{position}", progress=True)]) as blob:
            blob.put(layout.entry(position))
    plan["fails"] = True
    with pytest.raises(UnavailableError):
        stale.refresh()
    plan["fails"] = False
    assert commit(stale, "mine") == 7
    assert names(stale) == names(others) == {*(f"fill-{number}" for number in range(5)), "mine"}


def test_the_floor_never_goes_down(remote: bool) -> None:
    """Rule A2: two trimmers, the slower one with the lower floor; nothing is overwritten."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    first, second = (handle(CountingStore(store, remote=remote), clock) for _ in range(2))
    fill(first, 10)
    trim(first, 8)
    clock.advance(10_000)
    trim(first, 8)
    assert trim(second, 5).floor == 8
    assert second._log.oldest() == 8
    assert handle(store, clock).version == 11


def test_trim_waits_for_the_grace_time_on_an_object_store_only() -> None:
    """Rule A7: entries go when the floor has been there for the grace time, by the store's clock."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(CountingStore(store, remote=True), clock)
    fill(lake, 9)
    done = trim(lake, 6)
    assert (done.entries, done.waiting) == (0, 5)
    clock.advance(599)
    assert trim(lake, 6).entries == 0
    clock.advance(2)
    done = trim(lake, 6)
    assert (done.entries, done.waiting) == (5, 0)
    assert trim(lake, 6).entries == 0


def test_the_last_entry_is_never_trimmed() -> None:
    """F <= end (rule A2)."""
    lake = handle(MemoryStore(), ManualClock())
    fill(lake, 3)
    for floor in (0, -1, 5, 99):
        with pytest.raises(InvalidInputError, match="between 1 and 4"):
            trim(lake, floor)
    assert trim(lake, 4).floor == 4
    assert lake.version == 4


def test_a_kept_position_can_be_read_after_the_floor_has_passed_it(remote: bool) -> None:
    """Rule A6: its fold was stored first; its neighbours are gone, with a typed error."""
    clock = ManualClock()
    lake = handle(CountingStore(MemoryStore(clock=clock), remote=remote), clock)
    fill(lake, 9)
    trim(lake, 8, keep=(4,))
    assert sorted(lake.snapshot(version=4).state.progress) == ["fill-0", "fill-1", "fill-2"]
    for version in (1, 3, 5, 6):
        with pytest.raises(SnapshotExpiredError, match="oldest version that is kept is 7"):
            lake.snapshot(version=version)
    assert len(lake.snapshot(version=7).state.progress) == 6


def test_empty_folders_below_the_floor_go_and_others_stay(tmp_path: Path) -> None:
    """Rule A8: a bucket is removed when it lies wholly below the floor, never with anything in it."""
    lake = handle(open_store(tmp_path / "lake"), ManualClock(), Settings(durability="os"))
    while lake._log.view.position < 2 * layout.BUCKET + 5:
        lake.commit([])
    (tmp_path / "lake" / layout.bucket(0) / "foreign").write_text("not ours")
    trim(lake, 2 * layout.BUCKET + 2)
    folders = sorted(path.name for path in (tmp_path / "lake" / "log").iterdir())
    assert folders == [layout.bucket(0).split("/")[1], layout.bucket(2 * layout.BUCKET).split("/")[1]]
    assert handle(open_store(tmp_path / "lake"), ManualClock()).version == 2 * layout.BUCKET + 5


def test_a_gap_is_damage_and_is_never_skipped(remote: bool) -> None:
    """Rule A1: an entry that is missing below later ones stops everything, with what to do."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(store, clock, Settings(checkpoint_every=1000))
    fill(lake, 9)
    store.delete([layout.entry(5)])
    with pytest.raises(CorruptionError, match="restore it from a copy"):
        handle(CountingStore(store, remote=remote), clock)
    assert store.get(layout.entry(5), limit=9999) is None


def test_a_missing_floor_is_an_error_and_never_no_floor(remote: bool) -> None:
    """Rule A2: an empty listing is asked again, then it is damage."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    fill(handle(store, clock), 3)
    store.delete([listed.name for listed in store.list(layout.FLOOR)])
    with pytest.raises(CorruptionError, match="no floor"):
        handle(CountingStore(store, remote=remote), clock)


def test_a_floor_listing_that_is_empty_once_is_asked_again() -> None:
    """A passing fault does not stop a lake."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    fill(handle(store, clock), 3)
    assert handle(FaultyStore(store, nth("list", 1, Fault.EMPTY, layout.FLOOR)), clock).version == 4


@pytest.mark.parametrize("fault", [Fault.STALE, Fault.DOUBLE])
def test_a_listing_that_lies_costs_no_commit(fault: Fault) -> None:
    """A stale or doubled listing of the log may show less; it never loses, doubles or reorders a commit."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    honest = handle(CountingStore(store, remote=True), clock)
    lied_to = handle(
        FaultyStore(store, lambda call, name: fault if (call, name) == ("list", "log") else None, remote=True), clock
    )
    for number in range(6):
        commit(honest, f"h{number}")
        commit(lied_to, f"l{number}")
    assert names(honest) == {f"{who}{number}" for who in "hl" for number in range(6)}
    assert honest.version == 13


def test_an_entry_that_needs_a_newer_phalanx_stops_reading_and_writing(remote: bool) -> None:
    """Rule F2, I14: no reading, writing, checkpointing or trimming beyond what is understood."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(CountingStore(store, remote=remote), clock)
    fill(lake, 2)
    with store.prepare([_entry_bytes(lake.id, "future", features=1 << 9)]) as blob:
        blob.put(layout.entry(4))
    for attempt in (lambda: commit(lake, "x"), lake.refresh, lambda: trim(lake, 2)):
        with pytest.raises(UnsupportedError, match="upgrade Phalanx"):
            attempt()
    with pytest.raises(UnsupportedError):
        handle(store, clock)
    assert [listed.name for listed in store.list(layout.LOG)] == [layout.entry(n) for n in (1, 2, 3, 4)]


def test_an_entry_of_another_lake_is_damage() -> None:
    """Copied together, two lakes are not one."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(store, clock)
    with store.prepare([_entry_bytes("00" * 15 + "01", "foreign")]) as blob:
        blob.put(layout.entry(2))
    with pytest.raises(CorruptionError, match="another lake"):
        lake.refresh()


def test_a_damaged_entry_in_the_way_is_named() -> None:
    """The commit that meets it is known not to be committed, and the error says which object is damaged."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lake = handle(store, clock)
    with store.prepare([b"garbage"]) as blob:
        blob.put(layout.entry(2))
    with pytest.raises(CorruptionError, match=layout.entry(2)):
        commit(lake, "x")


def test_a_position_that_never_was_is_not_found() -> None:
    """Versions above the end, zero and below are refused by name."""
    lake = handle(MemoryStore(), ManualClock())
    fill(lake, 2)
    for version in (0, -1, 4, 1 << 70):
        with pytest.raises(NotFoundError, match="at version 3"):
            lake.snapshot(version=version)


@pytest.mark.parametrize("number", range(1, 9))
def test_any_read_that_fails_while_trimming_deletes_nothing_it_should_not(number: int) -> None:
    """I9: doubt deletes nothing; running it again finishes the work."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    fill(handle(store, clock), 12)
    for call in ("get", "list", "put", "delete"):
        fault = Fault.REFUSED if call == "put" else Fault.UNREADABLE
        lake = handle(FaultyStore(store, lambda *_: None), clock)
        lake._store.plan = nth(call, number, fault)  # type: ignore[attr-defined]
        try:
            trim(lake, 6)
        except UnavailableError:
            assert names(handle(store, clock)) == {f"fill-{n}" for n in range(12)}
    trim(handle(store, clock), 6)
    assert handle(store, clock).version == 13


def _entry_bytes(lake: str, name: str, features: int = 0, *, progress: bool = False) -> bytes:
    from phalanx.ids import AttemptId, LakeId
    from phalanx.log import frame
    from phalanx.log.action import Progress

    sealed = seal(Transaction(name.encode().ljust(16), name, (Progress(name, None, 1),) if progress else ()))
    data, _ = entry.encode(LakeId(bytes.fromhex(lake)), AttemptId(b"a" * 16), 0, "test", [sealed])
    if not features:
        return data
    body = frame.decode(entry.MAGIC, data, "test").body
    return frame.encode(entry.MAGIC, bytes.fromhex(lake), b"a" * 16, bytes(body), features=features)[0]
