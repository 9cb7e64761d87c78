"""Many callers in one process: group commit puts what they ask for into shared entries."""

import asyncio
import threading
import time
from collections.abc import Callable

from bench.frame import Bench
from bench.log.work import small_commit
from bench.report import Section, Target, median, milliseconds
from phalanx import Lake
from phalanx.log.action import SetProperty

THREADS = (8, 64)
TASKS = (8, 64, 512, 2048)
TARGETS = {"64 threads": Target(">=", 5), "512 asyncio callers": Target(">=", 20)}
ONE = "one client"

Run = Callable[[Lake, float], list[float]]
"""Commits for so many seconds; the seconds that each of them took."""


def measure(bench: Bench) -> Section:
    """The section."""
    note = "All callers use one handle on one lake; each waits for its commit before it makes the next."
    with bench.section("sharing", "Many callers in one process: threads and asyncio", note) as section:
        contestants: dict[str, Run] = {ONE: _one_client}
        contestants |= {f"{callers} threads": _threads(callers) for callers in THREADS}
        contestants |= {f"{callers} asyncio callers": _tasks(callers) for callers in TASKS}
        taken: dict[str, list[float]] = {name: [] for name in contestants}
        seconds = bench.seconds(1.0, 0.1)
        with bench.place.lake(bench.place.new("sharing")) as lake:

            def round_of(name: str) -> Callable[[], None]:
                def go() -> None:
                    began = time.perf_counter()
                    commits = contestants[name](lake, seconds)
                    section.series(f"{name}, commits/s").append(len(commits) / (time.perf_counter() - began))
                    taken[name] += commits

                return go

            bench.in_turns("in turns", bench.pick(5, 2), {name: round_of(name) for name in contestants})
        _conclude(section, taken)
    return section


def _conclude(section: Section, taken: dict[str, list[float]]) -> None:
    rates = {name: median(section.samples[f"{name}, commits/s"]) for name in taken}
    for name, times in taken.items():
        section.row(name, {"commits/s": rates[name], "x one client": rates[name] / rates[ONE], **milliseconds(times)})
        if name in TARGETS:
            section.ratio(f"commits/s of {name} / {ONE}", rates[name] / rates[ONE], TARGETS[name])


def _one_client(lake: Lake, seconds: float) -> list[float]:
    return _repeat(small_commit(lake), time.perf_counter() + seconds)


def _repeat(commit: Callable[[], object], until: float) -> list[float]:
    taken = []
    before = time.perf_counter()
    while before < until:
        commit()
        after = time.perf_counter()
        taken.append(after - before)
        before = after
    return taken


def _threads(callers: int) -> Run:
    def run(lake: Lake, seconds: float) -> list[float]:
        taken: list[list[float]] = [[] for _ in range(callers)]
        until = time.perf_counter() + seconds

        def work(number: int) -> None:
            taken[number] = _repeat(small_commit(lake, f"thread-{number}"), until)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [one for times in taken for one in times]

    return run


def _tasks(callers: int) -> Run:
    async def caller(lake: Lake, key: str, until: float, taken: list[float]) -> None:
        number = 0
        before = time.perf_counter()
        while before < until:
            number += 1
            await lake.commit_async([SetProperty(key, str(number))])
            after = time.perf_counter()
            taken.append(after - before)
            before = after

    async def together(lake: Lake, seconds: float) -> list[float]:
        taken: list[float] = []
        until = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                group.create_task(caller(lake, f"task-{number}", until, taken))
        return taken

    return lambda lake, seconds: asyncio.run(together(lake, seconds))
