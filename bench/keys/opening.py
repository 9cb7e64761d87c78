"""Opening a lake in whose tail are many small commits, beside reading the entries that it has to read; and the first read."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.frame import Bench, timed
from bench.keys.large import TABLE
from bench.log.history import EVERY, checkpoint
from bench.report import Section, Target, Value, median, milliseconds
from bench.tables.rows import SCHEMA, made
from bench.tails import quiet_lake
from phalanx import open as open_lake
from phalanx.objects import layout

SOON = Target("<=", 0.02)
_LARGEST = 1 << 26
"""No entry has more bytes."""


def measure(bench: Bench) -> Section:
    """The section."""
    entries = bench.pick(10_000, 500, "entries")
    note = (
        f"{entries:,} entries and more, each of which appends one row, and nothing is flushed. A checkpoint, every {EVERY} "
        "entries, holds the tail as it was then; entries since are read one by one. Opened with a warm page cache; closing "
        "is not measured. Raw: the files of those entries, opened and read one by one, and nothing else. First count: the rows "
        "of the table, counted right after opening: the tail is taken as the checkpoint has it applied, and what came since "
        "is applied. Second count: the same once more. The table has no key, so no row is got by one."
    )
    with bench.section("opening", "Opening a lake with a long tail", note) as section:
        uri = bench.place.new("opening")
        with quiet_lake(bench, uri, "os") as lake:
            lake.create_table(TABLE, SCHEMA)
        for end in (
            entries,
            entries + EVERY // 2,
            entries + EVERY - 1,
        ):  # just behind a checkpoint, and just before one
            pending = _append(bench, uri, end)
            _compete(bench, section, uri, end, pending)
    return section


def _append(bench: Bench, uri: str, end: int) -> int:
    """Append one row in each commit until the log ends there; how many rows are pending then."""
    row = made(1)
    with bench.place.lake(uri) as lake:
        table = lake[TABLE]
        for position in range(lake.version + 1, end + 1):
            table.append(row)
            if position % 1000 == 0:
                bench.step("appending", position, end)
        assert lake.version == end
        return table._found().contents.weight.rows


def _compete(bench: Bench, section: Section, uri: str, end: int, pending: int) -> None:
    positions = range(checkpoint(bench, uri), end + 1)
    opening, raw = f"open, {end:,} entries", f"raw, the last {len(positions):,} of them"
    counts = [f"{which} count, {end:,} entries" for which in ("first", "second")]
    figures: dict[str, Value] = {"entries since the checkpoint": len(positions), "rows pending": pending}
    contestants = {
        opening: _opening(bench, uri, section.series(opening), [section.series(name) for name in counts], pending),
        raw: timed(section.series(raw), _reading(bench, uri, positions)),
    }
    bench.in_turns("opening", bench.pick(30, 3), contestants)
    section.row(opening, {**milliseconds(section.samples[opening]), **figures})
    for name in (raw, *counts):
        section.row(name, milliseconds(section.samples[name]))
    beyond = median(section.samples[opening]) - median(section.samples[raw])
    section.time(f"opening with {len(positions):,} entries to read, beyond reading them, medians", beyond, SOON)


def _opening(
    bench: Bench, uri: str, series: list[float], counts: Sequence[list[float]], rows: int
) -> Callable[[], None]:
    def once() -> None:
        began = time.perf_counter()
        lake = open_lake(uri, storage_options=bench.place.options or None)
        series.append(time.perf_counter() - began)
        for count in counts:
            began = time.perf_counter()
            found = lake[TABLE].count()
            count.append(time.perf_counter() - began)
            assert found == rows
        lake.close()

    return once


def _reading(bench: Bench, uri: str, positions: range) -> Callable[[], None]:
    names = [layout.entry(position) for position in positions]
    store = bench.place.store(uri)

    def on_disk() -> None:
        for name in names:
            Path(uri, name).read_bytes()

    def elsewhere() -> None:
        for name in names:
            store.get(name, limit=_LARGEST)

    return on_disk if bench.place.local else elsewhere
