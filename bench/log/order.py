"""Blind-first against read-first: whether to look at the end of the log before a commit, or only after losing.

Blind-first is the commit loop as it is. Read-first is the same loop with a refresh before each commit, which is what a
writer does that will not try before it knows the end. Here one writer at a time: it knows the end (warm), or commits
for the first time since others did (cold). Several at once are in `contended.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import msgspec

from bench.frame import Bench, timed
from bench.log.stores import LatencyStore, ParallelCountingStore
from bench.report import Section, Value, median
from phalanx import Lake
from phalanx.clock import SYSTEM
from phalanx.lake import join
from phalanx.log.action import SetProperty, Settings
from phalanx.objects import Store
from phalanx.objects.memory import MemoryStore

BEHIND = (0, 1, 10)
WAYS = ("blind-first", "read-first")
CALLS = ("put", "get", "list")
_numbers = count()


class Ground(msgspec.Struct, frozen=True):
    """One kind of store: `fresh` names an empty place, `reach` gives a new way to it."""

    name: str
    latency: float
    remote: bool
    fresh: Callable[[], Callable[[], Store]]


class Handle:
    """A lake opened by a process of its own, as the log sees it; slow only once it is open."""

    def __init__(self, ground: Ground, reach: Callable[[], Store], spread: float = 0.0) -> None:
        self.counted = ParallelCountingStore(reach(), remote=ground.remote)
        self._slow = LatencyStore(self.counted, 0.0, spread) if ground.latency else None
        self._latency = ground.latency
        self.lake: Lake = join(self._slow or self.counted, SYSTEM, Settings(), timeout=30)
        # Waiting after a loss looks at how many writers there are: these are to be told apart, as processes are.
        self.lake._committer._writer += f"-{next(_numbers)}"

    def slow(self) -> "Handle":
        """From now on, requests take their time."""
        if self._slow is not None:
            self._slow.seconds = self._latency
        return self

    def commit(self, way: str) -> None:
        """A small commit."""
        if way == "read-first":
            self.lake.refresh()
        self.lake.commit([SetProperty("bench", str(next(_numbers)))])


def measure(bench: Bench) -> Section:
    """The section."""
    note = (
        "Read-first refreshes before each commit. Warm: nobody else writes. Cold: a handle's first commit, k entries "
        "behind. Requests are those of one commit: puts + gets + lists."
    )
    with bench.section("order", "Blind-first against read-first, one writer at a time", note) as section:
        for ground in grounds(bench):
            few = ground.latency >= 0.02 or not bench.place.local
            rounds = bench.pick(20 if few else 200 if ground.remote else 500, 3)
            _case(bench, section, f"{ground.name}: warm", _warm(ground), rounds)
            for behind in BEHIND:
                _case(bench, section, f"{ground.name}: cold, {behind} behind", _cold(ground, behind), min(rounds, 100))
    return section


def grounds(bench: Bench) -> Sequence[Ground]:
    """What is compared on: the disk and requests of two lengths, or the object store that was asked for."""

    def at_place() -> Callable[[], Store]:
        return partial(bench.place.store, bench.place.new("order"))

    def in_memory() -> Callable[[], Store]:
        memory = MemoryStore()
        return lambda: memory

    if not bench.place.local:
        return [Ground(bench.place.root.partition("://")[0], 0.0, remote=True, fresh=at_place)]
    slow = [Ground(f"{ms} ms a request", ms / 1000, remote=True, fresh=in_memory) for ms in (5, 30)]
    return [Ground("local disk", 0.0, remote=False, fresh=at_place), *slow]


Attempt = Callable[[str], tuple[Handle, Callable[[], None]]]
"""For a way: the handle that will commit, made ready, and what is to be done with it afterwards."""


def _warm(ground: Ground) -> Attempt:
    handles = {way: Handle(ground, ground.fresh()).slow() for way in WAYS}
    for way, handle in handles.items():
        handle.commit(way)
    return lambda way: (handles[way], lambda: None)


def _cold(ground: Ground, behind: int) -> Attempt:
    reach = ground.fresh()
    other = Handle(ground, reach)

    def ready(way: str) -> tuple[Handle, Callable[[], None]]:
        del way
        handle = Handle(ground, reach)
        other.lake.refresh()
        for _ in range(behind):
            other.commit("blind-first")
        return handle.slow(), handle.lake.close

    return ready


def _case(bench: Bench, section: Section, name: str, attempt: Attempt, rounds: int) -> None:
    asked: dict[str, list[tuple[int, ...]]] = {way: [] for way in WAYS}

    def once(way: str) -> None:
        handle, after = attempt(way)
        with handle.counted.counted() as counts:
            timed(section.series(f"{name}, {way}"), partial(handle.commit, way))()
        asked[way].append(tuple(counts[call] for call in CALLS))
        after()

    bench.in_turns(name, rounds, {way: partial(once, way) for way in WAYS})
    blind, read = (section.samples[f"{name}, {way}"] for way in WAYS)
    figures: dict[str, Value] = {"blind p50 ms": median(blind) * 1e3, "read p50 ms": median(read) * 1e3}
    figures["read / blind"] = median(read) / median(blind)
    for way, short in zip(WAYS, ("blind", "read"), strict=True):
        # The median, call by call: a checkpoint that is due is nobody's in particular.
        figures[f"{short} requests"] = _requests(list(zip(*asked[way], strict=True)))
    section.row(name, figures)
    section.ratio(f"{name}: latency of read-first / blind-first", median(read) / median(blind))


def _requests(calls: Sequence[Sequence[float]]) -> str:
    """Puts, gets and lists of one commit, as "1 + 0 + 0"."""
    return " + ".join(f"{median(one):.3g}" for one in calls)
