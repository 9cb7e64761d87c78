"""Blind-first against read-first, several writers at once: each with a handle of its own, in a thread of its own."""

import threading
import time
from collections import Counter
from functools import partial

from bench.frame import Bench, timed
from bench.log.order import CALLS, WAYS, Ground, Handle, grounds
from bench.report import Section, Value, median, quantile

WRITERS = 4
SPREAD = 0.5
"""Requests take between half and one and a half times their mean: in lockstep, the same writer would always win."""


def measure(bench: Bench) -> Section:
    """The section."""
    note = (
        f"{WRITERS} writers commit as fast as they can, all to one log. Requests are those of one commit, on average. "
        "Share: the commits of the unluckiest writer, of the mean of all."
    )
    with bench.section("contended", "Blind-first against read-first, several writers", note) as section:
        for ground in grounds(bench):
            _Contest(bench, section, ground).run()
    return section


class _Contest:
    def __init__(self, bench: Bench, section: Section, ground: Ground) -> None:
        self._bench = bench
        self._section = section
        self._ground = ground
        self._seconds = bench.seconds(3.0 if ground.latency >= 0.02 else 2.0, 0.3)
        self._taken: dict[str, list[float]] = {way: [] for way in WAYS}
        self._asked: dict[str, Counter[str]] = {way: Counter() for way in WAYS}

    def run(self) -> None:
        name = self._ground.name
        rounds = self._bench.pick(4, 1)
        self._bench.in_turns(name, rounds, {way: partial(self._together, way) for way in WAYS})
        for way in WAYS:
            self._section.row(f"{name}, {way}", self._figures(way))
        blind, read = (median(self._section.samples[f"{name}, {way}, commits/s"]) for way in WAYS)
        self._section.ratio(f"{name}: commits/s of blind-first / read-first", blind / read)
        for way in WAYS:
            share = median(self._section.samples[f"{name}, {way}, share"])
            self._section.ratio(f"{name}: min share / mean share, {way}", share)

    def _together(self, way: str) -> None:
        reach = self._ground.fresh()
        handles = [Handle(self._ground, reach, SPREAD) for _ in range(WRITERS)]
        taken: list[list[float]] = [[] for _ in handles]
        until = time.perf_counter() + self._seconds

        def write(number: int) -> None:
            handle = handles[number].slow()
            with handle.counted.counted() as counts:
                while time.perf_counter() < until:
                    timed(taken[number], partial(handle.commit, way))()
            self._asked[way].update(counts)

        threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = [len(times) for times in taken]
        series = f"{self._ground.name}, {way}"
        self._section.series(f"{series}, commits/s").append(sum(made) / self._seconds)
        self._section.series(f"{series}, share").append(min(made) * WRITERS / sum(made))
        self._taken[way] += [one for times in taken for one in times]
        for handle in handles:
            handle.lake.close()

    def _figures(self, way: str) -> dict[str, Value]:
        times, series = self._taken[way], f"{self._ground.name}, {way}"
        figures: dict[str, Value] = {
            "commits/s": median(self._section.samples[f"{series}, commits/s"]),
            "p50 ms": median(times) * 1e3,
            "p99 ms": quantile(times, 0.99) * 1e3,
            "longest ms": max(times) * 1e3,
            "min share / mean": median(self._section.samples[f"{series}, share"]),
        }
        return figures | {f"{call}s": self._asked[way][call] / len(times) for call in CALLS}
