"""Many producers at once, threads or tasks: each waits for its row before it hands in the next.

Those that take rows are measured in turns, in short runs, each with a table of its own: while one is measured, no other is
open in the process, whose threads would go on. What was acknowledged is counted again at the end of each run.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from bench.frame import Bench
from bench.ingest.sinks import DISK, OS, PEERS, SLOW, Sink, sinks
from bench.report import Section, Target, median, milliseconds

THREADS = 64
TASKS = 1000
KEYS = 100
"""Keys that each producer writes again and again."""
FASTER = {"threads": (Target(">=", 2), " (goal 5)"), "asyncio": (Target(">=", 30), "")}
RIGHT = Target("==", 0)

Run = Callable[[Sink, float], tuple[list[float], set[int]]]
"""Rows for so many seconds: the seconds that each took, and which were acknowledged."""


def measure(bench: Bench, kind: str) -> Section:
    """The section of one kind of producers."""
    many = bench.pick(THREADS if kind == "threads" else TASKS, 8, kind)
    run = _threads(many) if kind == "threads" else _tasks(many)
    note = (
        f"{many} producers in one process, one row of 8 + 20 bytes each; each waits until its row is acknowledged. Phalanx "
        "and MemWAL upsert by key, the others append. Only Phalanx with durability disk syncs. Systems without asyncio of "
        "their own get 64 threads for it; those that take a minute for a thousand rows are left out there."
    )
    with bench.section(kind, f"{many} {kind} producers of single rows", note) as section:
        made = sinks(bench)
        slow = SLOW if kind == "asyncio" else ()
        taken: dict[str, list[float]] = {name: [] for name in made if name not in slow}
        missing: list[int] = []
        seconds = bench.seconds(2.0, 0.2)

        def round_of(name: str) -> Callable[[], None]:
            def go() -> None:
                with made[name]() as sink:
                    _, before = run(sink, seconds / 10)
                    began = time.perf_counter()
                    times, numbers = run(sink, seconds)
                    section.series(f"{name}, rows/s").append(len(times) / (time.perf_counter() - began))
                    taken[name] += times
                    if name in {DISK, OS}:
                        missing.append(max(0, len(before | numbers) - (sink.count() or 0)))

            return go

        bench.in_turns("in turns", bench.pick(5, 1), {name: round_of(name) for name in taken})
        for name, times in taken.items():
            rate = median(section.samples[f"{name}, rows/s"])
            section.row(name, {"rows/s": rate, **milliseconds(times)})
        for name in slow:
            if name in made:
                section.row(name, {"note": "left out: see threads"})
        _conclude(section, kind)
        section.count("rows acknowledged and not found, Phalanx", sum(missing), RIGHT)
    return section


def _conclude(section: Section, kind: str) -> None:
    rates = {name.removesuffix(", rows/s"): median(values) for name, values in section.samples.items()}
    peers = {name: rate for name, rate in rates.items() if name in PEERS}
    if not peers:
        return
    best = max(peers, key=lambda name: peers[name])
    target, goal = FASTER[kind]
    section.ratio(f"rows/s: {DISK} / the best of the others, {best}{goal}", rates[DISK] / peers[best], target)
    for name, rate in peers.items():
        section.ratio(f"rows/s: {OS} / {name}", rates[OS] / rate)


def _threads(many: int) -> Run:
    def run(sink: Sink, seconds: float) -> tuple[list[float], set[int]]:
        taken: list[list[float]] = [[] for _ in range(many)]
        told: list[set[int]] = [set() for _ in range(many)]
        until = time.perf_counter() + seconds

        def work(mine: int) -> None:
            for number in _numbers(mine):
                before = time.perf_counter()
                if before >= until:
                    return
                sink.put(number)
                taken[mine].append(time.perf_counter() - before)
                told[mine].add(number)

        threads = [threading.Thread(target=work, args=(mine,), daemon=True) for mine in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return _joined(taken), set().union(*told)

    return run


def _tasks(many: int) -> Run:
    async def producer(sink: Sink, mine: int, until: float, taken: list[float], told: set[int]) -> None:
        for number in _numbers(mine):
            before = time.perf_counter()
            if before >= until:
                return
            await sink.put_async(number)
            taken.append(time.perf_counter() - before)
            told.add(number)

    async def together(sink: Sink, seconds: float) -> tuple[list[float], set[int]]:
        taken: list[float] = []
        told: set[int] = set()
        until = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as group:
            for mine in range(many):
                group.create_task(producer(sink, mine, until, taken, told))
        return taken, told

    return lambda sink, seconds: asyncio.run(together(sink, seconds))


def _numbers(mine: int) -> Iterator[int]:
    return itertools.cycle(range(mine * KEYS, (mine + 1) * KEYS))


def _joined(parts: Sequence[list[float]]) -> list[float]:
    return [one for part in parts for one in part]
