"""Reading a table that has nothing pending, beside Lance on the very same files."""

import time
from collections.abc import Callable
from functools import partial

import lance
import pyarrow as pa

from bench.frame import Bench, timed
from bench.report import Section, Target, Value, median
from bench.tables.rows import FILTER, SCHEMA, batches
from phalanx import Lake
from phalanx.table import Table

TARGET = Target(">=", 0.95)


def measure(bench: Bench) -> Section:
    """The section."""
    count = bench.pick(5_000_000, 100_000, "rows")
    note = (
        f"{count:,} rows of 6 columns, loaded in bulk, then changed a little and flushed. Lance reads the same version of "
        "the same dataset, opened once. In turns; the best of each is compared, because noise only ever adds."
    )
    with (
        bench.section("scan", "A scan beside Lance's own of the same files", note) as section,
        bench.place.lake(bench.place.new("scan")) as lake,
    ):
        bench.step("loading")
        table = _loaded(lake, count)
        direct = direct_dataset(bench, lake, table)
        for name, (ours, theirs) in _questions(table, direct).items():
            _compete(bench, section, name, ours, theirs)
    return section


def _loaded(lake: Lake, count: int) -> Table:
    table = lake.create_table("t", SCHEMA)
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches(count)), stage=True, timeout=600)
    for number in range(5):
        table.append(pa.Table.from_batches(batches(10, count + 10 * number), SCHEMA))
        table.delete(f"id = {number}")
        table.update({"x": "x + 1"}, f"id = {10 + number}")
    lake.flush("t")
    return table


def direct_dataset(bench: Bench, lake: Lake, table: Table) -> lance.LanceDataset:
    """The dataset that a table stands on, opened by Lance alone."""
    manifest = table._found().contents.head.manifest
    uri = lake._core.datasets.uri(table.id)
    return lance.dataset(uri, version=manifest, storage_options=bench.place.options or None)


def _questions(table: Table, direct: lance.LanceDataset) -> dict[str, tuple[Callable[[], int], Callable[[], int]]]:
    return {
        "all columns": (lambda: table.to_arrow().num_rows, lambda: direct.to_table().num_rows),
        "one column": (lambda: table.to_arrow(["x"]).num_rows, lambda: direct.to_table(["x"]).num_rows),
        f"where {FILTER}": (
            lambda: table.to_arrow(where=FILTER).num_rows,
            lambda: direct.to_table(filter=FILTER).num_rows,
        ),
        f"count where {FILTER}": (lambda: table.count(FILTER), lambda: direct.count_rows(FILTER)),
    }


def _compete(bench: Bench, section: Section, name: str, ours: Callable[[], int], theirs: Callable[[], int]) -> None:
    assert ours() == theirs()  # and whatever is slow only the first time is done
    began = time.perf_counter()
    theirs()
    once = time.perf_counter() - began
    rounds = bench.pick(max(15, min(60, int(10 / once))), 3)
    names = {f"Phalanx: {name}": ours, f"Lance: {name}": theirs}
    contestants = {one: timed(section.series(one), partial(work)) for one, work in names.items()}
    bench.in_turns(name, rounds, contestants)
    for one in names:
        section.row(one, _figures(section.samples[one]))
    own, other = (section.samples[one] for one in names)
    asked = TARGET if not name.startswith("count") else None
    section.ratio(f"{name}: Lance's time / Phalanx's, best", min(other) / min(own), asked)
    section.ratio(f"{name}: Lance's time / Phalanx's, medians", median(other) / median(own))


def _figures(values: list[float]) -> dict[str, Value]:
    return {"best ms": min(values) * 1e3, "p50 ms": median(values) * 1e3, "samples": len(values)}
