"""Loading many rows at once, beside the others: each is given the same stream, and writes files as it likes.

Before each load everything on the disk is synced, so that nobody pays for what somebody else left behind.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

from bench.frame import Bench
from bench.report import Section, Value, median
from bench.systems.port import DELTA, LANCEDB, LEFT_OUT, PYLANCE, caveat, own
from bench.tables.rows import SCHEMA, made, stream

Load = Callable[[pa.Table], float]
"""Loads the rows into a table that is new, and answers how many seconds that took."""


def measure(bench: Bench) -> Section:
    """The section."""
    count = bench.pick(5_000_000, 100_000, "rows")
    note = (
        f"{count:,} rows of 6 columns, from memory, into an empty table, which exists already. Phalanx stages them as files "
        f"and syncs these before it commits (disk). {caveat(local=bench.place.local)}"
    )
    with bench.section("bulk", "Loading many rows", note) as section:
        rows = made(count)
        mine = own(local=bench.place.local)
        contestants: dict[str, Load] = {system.name: _phalanx(bench, system.durability) for system in mine}
        if bench.place.local:
            contestants |= {PYLANCE: _pylance(bench), DELTA: _delta(bench), LANCEDB: _lancedb(bench)}

        def round_of(name: str) -> Callable[[], None]:
            return lambda: section.series(name).append(_synced(contestants[name], rows))

        bench.in_turns("in turns", bench.pick(4, 1), {name: round_of(name) for name in contestants})
        for name in contestants:
            section.row(name, _figures(section.samples[name], rows))
        for name in (PYLANCE, DELTA, LANCEDB):
            if name not in contestants:
                section.row(name, LEFT_OUT)
                continue
            for system in mine:
                ratio = median(section.samples[name]) / median(section.samples[system.name])
                section.ratio(f"rows/s: {system.name} / {name}", ratio)
    return section


def _synced(load: Load, rows: pa.Table) -> float:
    os.sync()
    return load(rows)


def _figures(values: list[float], rows: pa.Table) -> dict[str, Value]:
    typical = median(values)
    return {
        "rows/s": round(rows.num_rows / typical),
        "MB/s in memory": round(rows.nbytes / typical / 1e6),
        "p50 s": typical,
        "best s": min(values),
        "samples": len(values),
    }


def _phalanx(bench: Bench, durability: str) -> Load:
    def load(rows: pa.Table) -> float:
        with bench.place.lake(bench.place.new("bulk"), durability=durability) as lake:
            table = lake.create_table("t", SCHEMA)
            began = time.perf_counter()
            table.append(stream(rows), stage=True, timeout=600)
            return time.perf_counter() - began

    return load


def _pylance(bench: Bench) -> Load:
    def load(rows: pa.Table) -> float:
        dataset = lance.write_dataset(SCHEMA.empty_table(), bench.place.new("bulk"))
        began = time.perf_counter()
        lance.write_dataset(stream(rows), dataset, mode="append")
        return time.perf_counter() - began

    return load


def _delta(bench: Bench) -> Load:
    from deltalake import DeltaTable, write_deltalake

    def load(rows: pa.Table) -> float:
        uri = bench.place.new("bulk")
        Path(uri).mkdir()
        table = DeltaTable.create(uri, SCHEMA)
        began = time.perf_counter()
        write_deltalake(table, stream(rows), mode="append")
        return time.perf_counter() - began

    return load


def _lancedb(bench: Bench) -> Load:
    import lancedb

    def load(rows: pa.Table) -> float:
        table = lancedb.connect(bench.place.new("bulk")).create_table("t", schema=SCHEMA)
        began = time.perf_counter()
        table.add(stream(rows))
        return time.perf_counter() - began

    return load
