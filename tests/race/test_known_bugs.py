"""How others lost data (docs/known-bugs.md, numbers 1-4 and 8): arranged here, and nothing is lost."""

from pathlib import Path

import pytest

import phalanx
from phalanx.errors import CommitUnknownError
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.objects import layout, open_store
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Fault, FaultyStore, ManualClock, Process, nth, randomly
from phalanx.testing.faults import PUT_FAULTS
from tests.lakes import commit, fill, handle, names, trim

TABLE = "0" * 31 + "1"
KINDS: dict[str, list[do.Action]] = {
    "create namespace": [do.CreateNamespace(("new",), {})],
    "alter namespace": [do.AlterNamespace(("crm",), {"a": "b"})],
    "drop namespace": [do.DropNamespace(("empty",))],
    "create table": [do.CreateTable(("crm", "t2"), "0" * 31 + "2", {})],
    "drop table": [do.DropTable(("crm", "t"), TABLE)],
    "rename table": [do.RenameTable(("crm", "t"), TABLE, ("t",))],
    "tag": [do.PutTag("release", 1, False)],
    "untag": [do.Untag("old")],
    "property": [do.SetProperty("k", "v")],
    "progress": [do.Progress("feed", None, 1)],
    "several": [do.CreateNamespace(("a",), {}), do.CreateTable(("a", "b"), "0" * 31 + "3", {}), do.Untag("old")],
}


def prepared(store: MemoryStore, clock: ManualClock) -> None:
    lake = handle(store, clock)
    lake.commit([do.CreateNamespace(("crm",), {}), do.CreateNamespace(("empty",), {})])
    lake.commit([do.CreateTable(("crm", "t"), TABLE, {}), do.PutTag("old", 1, False)])
    lake.close()


def catalog(lake: Lake) -> dict[str, object]:
    now = lake.refresh()
    found = {"tables": now.tables(), "namespaces": now.namespaces(), "tags": now.tags(), "properties": now.properties()}
    return {**found, "progress": {source: mark.number for source, mark in now.state.progress.items()}}


@pytest.mark.parametrize("fault", PUT_FAULTS, ids=[fault.name.lower() for fault in PUT_FAULTS])
@pytest.mark.parametrize("kind", KINDS)
def test_1_no_kind_of_commit_is_lost_or_doubled_by_a_lost_answer(kind: str, fault: Fault) -> None:
    """The answer of the entry's put is lost, late or false: committed once, and everything can be read."""
    clock = ManualClock()
    healthy, store = MemoryStore(clock=clock), MemoryStore(clock=clock)
    for one in (healthy, store):
        prepared(one, clock)
    handle(healthy, clock).commit(KINDS[kind])
    faulty = FaultyStore(store, nth("put", 1, fault, layout.LOG))
    assert handle(faulty, clock).commit(KINDS[kind], note="mine") == 4
    assert len(faulty.struck) == 1
    faulty.land_late_puts()
    reader = handle(store, clock)
    assert catalog(reader) == catalog(handle(healthy, clock))
    assert [one.note for one in reader.log(100)].count("mine") == 1


@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.OWN_EXISTS, Fault.LATE])
@pytest.mark.parametrize("number", range(1, 26))
def test_2_no_put_may_delete_or_lose_anything_when_its_response_is_lost(number: int, fault: Fault) -> None:
    """5xx or reset after the effect, at every put of a run that creates, commits, checkpoints, keeps and trims."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    faulty = FaultyStore(store, nth("put", number, fault))
    lake = handle(faulty, clock, Settings(checkpoint_every=4))
    for count in range(12):
        commit(lake, f"a{count}")
        lake._log.close()
    trim(lake, 8, keep=(5,))
    fill(lake, 4, "b")
    assert len(faulty.struck) <= 1
    faulty.land_late_puts()
    expected = {f"a{count}" for count in range(12)} | {f"b-{count}" for count in range(4)}
    assert names(lake) == names(handle(store, clock)) == expected
    assert len(handle(store, clock).snapshot(version=5).state.progress) == 4


def test_2_was_really_struck_at_every_put() -> None:
    """The run above makes as many puts as there are numbers to fail: none is left out."""
    clock = ManualClock()
    puts = []
    lake = handle(
        FaultyStore(MemoryStore(clock=clock), lambda call, name: puts.append(name) if call == "put" else None),  # type: ignore[func-returns-value]
        clock,
        Settings(checkpoint_every=4),
    )
    for count in range(12):
        commit(lake, f"a{count}")
        lake._log.close()
    trim(lake, 8, keep=(5,))
    fill(lake, 4, "b")
    assert 20 <= len(puts) <= 25
    assert {name.split("/")[0] for name in puts} == {"log", "floor", "kept", "checkpoint"}


@pytest.mark.parametrize("landing", ["before the next commit", "after the next commit", "never"])
def test_3_a_put_that_lands_after_its_client_gave_up_is_unknown_and_never_half_done(landing: str) -> None:
    """Told "unknown"; whether it lands late or not, the log stays whole and says which."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    other = handle(store, clock)
    faulty = FaultyStore(store, lambda call, name: Fault.LATE if call == "put" and layout.LOG in name else None)
    writer = handle(faulty, clock, timeout=3.0)
    with pytest.raises(CommitUnknownError) as raised:
        commit(writer, "late")
    assert raised.value.committed is None
    if landing == "before the next commit":
        faulty.land_late_puts()
    commit(other, "next")
    if landing == "after the next commit":
        faulty.land_late_puts()
    landed = landing == "before the next commit"
    assert names(other) == ({"late", "next"} if landed else {"next"})
    assert other.version == (3 if landed else 2)
    faulty.plan = lambda *_: None
    assert commit(writer, "goes on") == other.version
    assert [one.note for one in other.log(10)].count("late") == landed


@pytest.mark.parametrize("seed", range(4))
def test_4_a_counter_adds_up_although_answers_are_lost(seed: int) -> None:
    """The value is the number of acknowledged increments: none is applied twice, none is lost."""
    clock = ManualClock(seed=seed)
    store = MemoryStore(clock=clock)
    lakes = [handle(FaultyStore(store, randomly(seed * 10 + n, 0.4)), clock, timeout=1e6) for n in range(3)]
    acknowledged = 0
    for number in range(120):
        lake = lakes[number % 3]
        value = lake.progress("counter")
        lake.record_progress("counter", (value or 0) + 1, expected=value)
        acknowledged += 1
    for lake in lakes:
        lake._store.land_late_puts()  # type: ignore[attr-defined]
    assert handle(store, clock).progress("counter") == acknowledged == 120
    assert sum(len(lake._store.struck) for lake in lakes) > 30, f"seed {seed}"  # type: ignore[attr-defined]


_STOPS_BEFORE_ITS_LINK = """
import os, signal, sys
import phalanx
from phalanx.objects import local
lake = phalanx.open(sys.argv[1])
link = os.link
def stop_then_link(*arguments, **options):
    local.os.link = link
    os.kill(os.getpid(), signal.SIGSTOP)
    return link(*arguments, **options)
print("ready", flush=True)
sys.stdin.readline()
local.os.link = stop_then_link
from phalanx.log.action import Progress
print(lake.commit([Progress("stopped", None, 1)], note="stopped"))
"""


def test_8_a_writer_that_was_stopped_through_a_trim_commits_exactly_once(tmp_path: Path) -> None:
    """SIGSTOP before its link, three commits, trim, SIGCONT: the stale position is refused, it lands at the end."""
    uri = tmp_path / "lake"
    lake = phalanx.open(uri, create=True)
    with Process(_STOPS_BEFORE_ITS_LINK, uri) as writer:
        assert writer.line() == "ready"
        writer.tell("go")
        writer.wait_until_stopped()
        fill(lake, 3)
        assert trim(lake, 4).entries == 3
        assert open_store(uri).get(layout.entry(2), limit=9999) is None
        writer.resume()
        assert writer.line() == "5"
        writer.finish()
    assert names(lake) == {"fill-0", "fill-1", "fill-2", "stopped"}
    assert [one.note for one in lake.log(10)].count("stopped") == 1
    assert names(phalanx.open(uri)) == names(lake)


def test_8_would_be_found_if_the_floor_were_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a writer that does not look at the floor is acknowledged into a deleted position."""
    from phalanx.log.log import Log

    monkeypatch.setattr(Log, "_passed_by", lambda *_: False)
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    stale = handle(store, clock)
    others = handle(store, clock)
    fill(others, 3)
    trim(others, 4)
    assert commit(stale, "lost") == 2
    monkeypatch.undo()
    assert "lost" not in names(handle(store, clock))
