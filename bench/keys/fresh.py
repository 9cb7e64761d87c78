"""A row by its key right after another process changed it: how long that takes, and whether it is the new one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.frame import Bench
from bench.keys.large import KEY, TABLE, chosen, large
from bench.report import Section, Target, median, milliseconds
from bench.tables.rows import made
from bench.workers import Crew, Work
from phalanx import open as open_lake

NEVER = Target("==", 0)
CHANGED, AGAIN, UPSERT = "get of the row just changed", "get of it again", "the upsert, in the other process"
_CHANGED = "x"
"""The column that is changed, and compared."""


@contextmanager
def upserting(uri: str, options: dict[str, str], key: int, value: float) -> Iterator[Work[float]]:
    """The order for a process: change one row; it answers how many seconds that took."""
    row = made(1).to_pylist()[0] | {KEY: key, _CHANGED: value}
    with open_lake(uri, storage_options=options or None) as lake:
        table = lake[TABLE]

        def work(_: float) -> float:
            began = time.perf_counter()
            table.upsert([row])
            return time.perf_counter() - began

        yield work


def measure(bench: Bench) -> Section:
    """The section."""
    here, rounds = large(bench), bench.pick(100, 5)
    note = (
        f"{here.rows:,} rows, written out, with an index on the key. A process of its own upserts a row and says so; then "
        "this one, which has the lake open all the time, gets it: it reads the new entry, hides the old row and finds "
        "the new one. The tail grows by one row in each round."
    )
    with (
        bench.section("fresh", "A row right after another process changed it", note) as section,
        bench.place.lake(here.uri) as lake,
        Crew(1) as crew,
    ):
        table = lake[TABLE]
        stale = 0
        for number, key in enumerate(chosen(here.rows, rounds, 2).tolist(), 1):
            bench.step("in turns", number, rounds)
            table.get(0)
            _, (seconds,) = crew.together(upserting, [(here.uri, bench.place.options, key, float(number))])
            section.series(UPSERT).append(seconds)
            for name in (CHANGED, AGAIN):
                began = time.perf_counter()
                found = table.get(key)
                section.series(name).append(time.perf_counter() - began)
                stale += found is None or found[_CHANGED] != number
        for name, values in section.samples.items():
            section.row(name, milliseconds(values))
        section.count("stale answers", stale, NEVER)
        times = {name: median(values) for name, values in section.samples.items()}
        section.ratio(f"{CHANGED} / {AGAIN}, medians", times[CHANGED] / times[AGAIN])
        lake.flush(TABLE)
    return section
