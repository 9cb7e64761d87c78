"""Requests for each operation, as an object store would be asked: counted at the port, over memory."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from bench.frame import Bench
from bench.log.history import built, checkpoint, long_history
from bench.log.work import small_commit
from bench.report import Section, Target
from phalanx import Lake
from phalanx.clock import SYSTEM, Deadline
from phalanx.lake import join
from phalanx.log.action import Settings
from phalanx.objects import layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore

BEHIND = (1, 5, 50)
CALLS = ("put", "get", "list", "delete")


def measure(bench: Bench) -> Section:
    """The section."""
    note = "A delete is counted for each object; an object store deletes up to a thousand with one request."
    with bench.section("requests", "Requests for each operation on an object store", note) as section:
        _commits(section)
        for behind in BEHIND:
            _behind(section, behind)
        _opening(bench, section)
        _trims(section)
    return section


def _handle(memory: MemoryStore, **settings: object) -> tuple[CountingStore, Lake]:
    store = CountingStore(memory, remote=True)
    return store, join(store, SYSTEM, Settings(**settings), timeout=30)  # type: ignore[arg-type]


def _counted(section: Section, name: str, store: CountingStore, work: Callable[[], object]) -> Counter[str]:
    with store.counted() as counts:
        work()
    section.row(name, {**{call: counts[call] for call in CALLS}, "all": counts.total()})
    return counts


def _commits(section: Section) -> None:
    store, lake = _handle(MemoryStore())
    with lake:
        small_commit(lake)()
        counts = _counted(section, "commit, nobody else writes", store, small_commit(lake))
        section.count("puts of a commit", counts["put"], Target("==", 1))
        section.count("reads of a commit", counts.total() - counts["put"], Target("==", 0))
        counts = _counted(section, "refresh, nothing new", store, lake.refresh)
        section.count("requests of a refresh with nothing new", counts.total())


def _behind(section: Section, behind: int) -> None:
    memory = MemoryStore()
    store, lake = _handle(memory)
    _, other = _handle(memory)
    with lake, other:
        commit = small_commit(other, "other")
        for _ in range(behind):
            commit()
        counts = _counted(section, f"commit that meets {behind} newer", store, small_commit(lake))
        section.count(f"puts, {behind} newer", counts["put"], Target("==", 2))
        section.count(f"gets, {behind} newer", counts["get"], Target("==", behind))
        section.count(f"lists, {behind} newer", counts["list"], Target("<=", 1))


def _opening(bench: Bench, section: Section) -> None:
    """The long history of the local disk, copied; then with entries behind the last checkpoint."""
    entries = long_history(bench)
    uri = built(bench, entries)
    memory = MemoryStore()
    local = bench.place.store(uri)
    for folder in (layout.FLOOR, layout.CHECKPOINT, layout.LOG):
        names = [found.name for found in local.list(folder)]
        for number, name in enumerate(names):
            if number % 1000 == 0:
                bench.step("copying the history into memory", number, len(names))
            data = local.get(name, limit=1 << 30)
            assert data is not None
            memory.create(name, data)
    since = _log_end(memory) + 1 - checkpoint(bench, uri)
    for more in (0, 100):
        _, writer = _handle(memory)
        with writer:
            commit = small_commit(writer)
            for _ in range(more):
                commit()
        store = CountingStore(memory, remote=True)
        name = f"open, {entries + more:,} entries, {since + more} to replay"
        counts = _counted(section, name, store, partial(_open_and_close, store))
        section.count(f"requests to {name}", counts.total(), Target("<=", 4 + since + more))


def _open_and_close(store: CountingStore) -> None:
    join(store, SYSTEM, None, timeout=30).close()


def _log_end(memory: MemoryStore) -> int:
    return max(layout.entry_position(found.name) or 0 for found in memory.list(layout.LOG))


def _trims(section: Section) -> None:
    for grace, what in ((600.0, "the grace time keeps them"), (0.0, "they are deleted")):
        store, lake = _handle(MemoryStore(), grace=grace)
        with lake:
            commit = small_commit(lake)
            for _ in range(199):
                commit()
            trim = partial(lake._log.trim, 101, Deadline.after(SYSTEM, 30))
            _counted(section, f"trim, 100 entries below the floor, {what}", store, trim)
