"""A long history: what it costs those who commit, and those who open the lake."""

import os
from collections.abc import Callable
from functools import partial
from typing import cast

from bench.frame import Bench, timed
from bench.log.work import small_commit
from bench.report import Section, Target, median, milliseconds
from phalanx.clock import SYSTEM
from phalanx.lake import join
from phalanx.log.action import Progress, Settings
from phalanx.objects import layout

TARGET = Target("<=", 1.2)
SHORT = 10
EVERY = Settings().checkpoint_every


def measure(bench: Bench) -> Section:
    """The section."""
    note = f'Durability "disk", a checkpoint every {EVERY} entries. Opened with a warm page cache, closed at once.'
    with bench.section("history", "A long history", note) as section:
        long = long_history(bench)
        sizes = {size: built(bench, size) for size in (SHORT, bench.pick(10_000, 1000), long)}
        middle = sorted(sizes)[1]
        # As long as the one in the middle, and just before the next checkpoint instead of just behind one.
        sizes[middle + EVERY - 1] = built(bench, middle + EVERY - 1)
        os.sync()  # the histories were built without, and would be written by the syncs that are measured
        _open(bench, section, sizes, middle)
        _commit(bench, section, sizes, long)
    return section


def long_history(bench: Bench) -> int:
    """How many entries are a long history."""
    return bench.pick(100_000, 2000)


def built(bench: Bench, entries: int) -> str:
    """A lake with so many entries; built once, for all sections, without syncs and with the default settings."""
    return cast("str", bench.once(("history", entries), partial(_build, bench, entries)))


def _build(bench: Bench, entries: int) -> str:
    uri = bench.place.new("history")
    store = bench.place.store(uri)
    store.relax()
    with join(store, SYSTEM, Settings(), timeout=30) as lake:
        for number in range(1, entries):
            lake.commit([Progress("source", number - 1 if number > 1 else None, number)])
            if number % 1000 == 0:
                bench.step(f"building {entries:,} entries", number, entries)
        assert lake.version == entries
    return uri


def _open(bench: Bench, section: Section, sizes: dict[int, str], middle: int) -> None:
    names = {size: f"open, {size:,} entries" for size in sorted(sizes)}
    replayed = {size: size + 1 - checkpoint(bench, uri) for size, uri in sizes.items()}

    def opening(uri: str) -> Callable[[], None]:
        return lambda: bench.place.lake(uri).close()

    contestants = {name: timed(section.series(name), opening(sizes[size])) for size, name in names.items()}
    bench.in_turns("opening", bench.pick(40, 3), contestants)
    for size, name in names.items():
        section.row(name, {**milliseconds(section.samples[name]), "entries replayed": replayed[size]})
    times = {size: median(section.samples[name]) for size, name in names.items()}
    long = max(sizes)
    before = middle + EVERY - 1
    section.ratio(f"open: {long:,} entries / {middle:,}, both just checkpointed", times[long] / times[middle])
    section.ratio("open: just before a checkpoint / just behind one", times[before] / times[middle])


def _commit(bench: Bench, section: Section, sizes: dict[int, str], long: int) -> None:
    with bench.place.lake(sizes[SHORT]) as short_lake, bench.place.lake(sizes[long]) as long_lake:
        lakes = {f"commit after {SHORT:,} entries": short_lake, f"commit after {long:,} entries": long_lake}
        work = {name: small_commit(lake) for name, lake in lakes.items()}
        for one in work.values():
            one()
        contestants = {name: timed(section.series(name), one) for name, one in work.items()}
        bench.in_turns("committing", bench.pick(1500, 30), contestants)
        for name in lakes:
            section.row(name, milliseconds(section.samples[name]))
        short, length = (median(section.samples[name]) for name in lakes)
        section.ratio(f"median commit after {long:,} entries / after {SHORT}", length / short, TARGET)


def checkpoint(bench: Bench, uri: str) -> int:
    """The position of a lake's newest checkpoint: entries from there on are replayed; 1 if there is none."""
    listed = [layout.checkpoint_position(found.name) for found in bench.place.store(uri).list(layout.CHECKPOINT)]
    return max([position for position in listed if position is not None], default=1)
