"""A commit in a lake with many tables and a long history, beside one in a new lake."""

import os
from collections.abc import Callable

from bench.frame import Bench, timed
from bench.report import Section, Target, median, milliseconds
from bench.tables.rows import SCHEMA, made
from phalanx import Lake
from phalanx.clock import SYSTEM
from phalanx.lake import join
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.schema import encode_schema

TARGET = Target("<=", 1.2)
STAGED_ROWS = 1000
SMALL_ROWS = 10
AT_ONCE = 100
"""Tables that one commit creates while the lake is built."""


def measure(bench: Bench) -> Section:
    """The section."""
    tables, versions = bench.pick(1000, 50, "tables"), bench.pick(10_000, 500, "versions")
    note = (
        f'{tables:,} tables and {versions:,} versions, beside a lake with one table. Durability "disk". Staged: {STAGED_ROWS:,} '
        f"rows, written as files first; logged: {SMALL_ROWS} rows, inside the entry. The two tables grow alike."
    )
    with bench.section("many", "Many tables and a long history", note) as section:
        uri = _built(bench, tables, versions)
        os.sync()  # it was built without, and would be written by the syncs that are measured
        with bench.place.lake(uri) as old, bench.place.lake(bench.place.new("many")) as new:
            lakes = {"new lake": new, f"{tables:,} tables, {versions:,} versions": old}
            for way, stage, rows, rounds in (
                ("staged", True, STAGED_ROWS, bench.pick(150, 5)),
                ("logged", False, SMALL_ROWS, bench.pick(600, 10)),
            ):
                work = {f"{way}, {name}": _appending(lake, way, rows, stage=stage) for name, lake in lakes.items()}
                _compete(bench, section, way, work, rounds)
    return section


def _built(bench: Bench, tables: int, versions: int) -> str:
    """A lake whose tables exist in the log alone: no file of theirs is ever asked for."""
    uri = bench.place.new("many")
    store = bench.place.store(uri)
    store.relax()
    schema = encode_schema(SCHEMA)
    with join(store, SYSTEM, Settings(), timeout=30) as lake:
        for first in range(0, tables, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, tables))
            lake.commit([do.CreateTable((f"table_{one}",), f"{one:032x}", {}, schema) for one in numbers])
        known = lake.version
        for number in range(known + 1, versions + 1):
            lake.commit([do.SetProperty("bench", str(number))])
            if number % 1000 == 0:
                bench.step("building", number, versions)
        assert lake.version == max(known, versions)
    return uri


def _appending(lake: Lake, name: str, count: int, *, stage: bool) -> Callable[[], object]:
    table = lake.create_table(name, SCHEMA)
    rows = made(count)
    return lambda: table.append(rows, stage=stage)


def _compete(bench: Bench, section: Section, way: str, work: dict[str, Callable[[], object]], rounds: int) -> None:
    for one in work.values():
        one()
    bench.in_turns(way, rounds, {name: timed(section.series(name), one) for name, one in work.items()})
    for name in work:
        section.row(name, milliseconds(section.samples[name]))
    new, old = (section.samples[name] for name in work)
    section.ratio(f"{way} commit: many tables and versions / new lake, medians", median(old) / median(new), TARGET)
