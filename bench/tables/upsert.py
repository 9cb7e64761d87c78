"""An upsert of many keys into a large table, beside `merge_insert` of pylance."""

import os
from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa

from bench.frame import Bench, timed
from bench.report import Section, Value, median
from bench.systems.port import LEFT_OUT, PYLANCE, SCHEMA, caveat, own
from bench.tables.rows import BATCH
from phalanx import Lake
from phalanx.table import Table

STAGED, LOGGED = "staged", "logged"


def measure(bench: Bench) -> Section:
    """The section."""
    count, keys = bench.pick(1_000_000, 20_000, "keyed_rows"), bench.pick(10_000, 500, "keys")
    note = (
        f"{keys:,} keys into {count:,} rows, nine of ten exist. Staged: written as files and matched first. Logged: inside "
        "the entry, matched by whoever reads first. Nothing is indexed. Then all rows are read, and flushed. "
        f"{caveat(local=bench.place.local)}"
    )
    with bench.section("upsert", "An upsert of many keys into a large table", note) as section:
        filled = _rows(np.arange(count))
        series: dict[str, Callable[[], object]] = {}
        lakes = []
        batches = _batches(count, keys)
        for system in own(local=bench.place.local):
            for way in (STAGED, LOGGED):
                lake, table = _filled(bench, system.durability, filled)
                lakes.append(lake)
                name = f"{system.name}, {way}"
                series[name] = _upserting(section, name, lake, table, batches, way)
        if bench.place.local:
            series[PYLANCE] = _merging(section, bench, filled, batches)
        bench.in_turns("in turns", bench.pick(7, 2), series)
        for lake in lakes:
            lake.close()
        _conclude(section, list(series))
    return section


def _rows(ids: "np.typing.NDArray[np.int64]", value: int = 0) -> pa.Table:
    text = pa.array([f"the text of row {number % 1000}" for number in ids.tolist()])
    return pa.table([pa.array(ids), pa.array(np.full(len(ids), value, np.int64)), text], schema=SCHEMA)


def _batches(count: int, keys: int) -> Callable[[int], pa.Table]:
    def batch(number: int) -> pa.Table:
        random = np.random.default_rng(number)
        old = random.choice(count, keys * 9 // 10, replace=False)
        new = count + number * keys + np.arange(keys - len(old))
        return _rows(np.concatenate([old, new]), number)

    return batch


def _filled(bench: Bench, durability: str, rows: pa.Table) -> tuple[Lake, Table]:
    lake = bench.place.lake(bench.place.new("upsert"), durability=durability)
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(rows.to_reader(BATCH), stage=True, timeout=600)
    lake.flush("t")
    return lake, table


def _upserting(
    section: Section, name: str, lake: Lake, table: Table, batches: Callable[[int], pa.Table], way: str
) -> Callable[[], object]:
    series = section.series(name)

    def once() -> None:
        rows = batches(len(series))
        timed(series, lambda: table.upsert(rows, stage=way == STAGED))()
        timed(section.series(f"{name}: read after it"), table.to_arrow)()
        timed(section.series(f"{name}: flush"), lambda: lake.flush("t"))()

    return once


def _merging(
    section: Section, bench: Bench, filled: pa.Table, batches: Callable[[int], pa.Table]
) -> Callable[[], object]:
    dataset = lance.write_dataset(filled, bench.place.new("upsert"))
    series = section.series(PYLANCE)

    def merge(rows: pa.Table) -> None:
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def once() -> None:
        rows = batches(len(series))
        timed(series, lambda: merge(rows))()
        timed(section.series(f"{PYLANCE}: read after it"), dataset.to_table)()
        os.sync()  # it leaves everything to whoever syncs next

    return once


def _conclude(section: Section, names: list[str]) -> None:
    for name in names:
        figures: dict[str, Value] = {"upsert p50 ms": _ms(section, name)}
        figures["read after it p50 ms"] = _ms(section, f"{name}: read after it")
        figures["flush p50 ms"] = _ms(section, f"{name}: flush")
        section.row(name, figures | {"samples": len(section.samples[name])})
    if PYLANCE not in names:
        section.row(PYLANCE, LEFT_OUT)
        return
    for name in names[:-1]:
        ratio = median(section.samples[PYLANCE]) / median(section.samples[name])
        section.ratio(f"time of {PYLANCE} / {name}", ratio)


def _ms(section: Section, name: str) -> float | None:
    values = section.samples.get(name)
    return median(values) * 1e3 if values else None
