"""Many upserts written out into a large table, beside `merge_insert` of the same rows by pylance."""

import os
from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa

from bench.frame import Bench, timed
from bench.keys.large import KEY, TABLE, Large, chosen, large
from bench.report import Section, Target, median, milliseconds
from bench.systems.port import DISK, LEFT_OUT, PYLANCE, caveat
from bench.tables.rows import made
from bench.tails import STATEMENT, upserts
from phalanx import Lake

TARGET = Target(">=", 2)
LOGGED, FLUSH = f"{DISK}: one statement", f"{DISK}: flush"


def measure(bench: Bench) -> Section:
    """The section."""
    here, count = large(bench), bench.pick(10_000, 500, "upserts")
    size = min(STATEMENT, count // 5)
    note = (
        f"{count:,} rows, a half of whose keys exist, into {here.rows:,} rows with an index on the key: logged by statements "
        f"of {size:,} rows each, then written out; merged at once by pylance. Between two rounds both are optimized and "
        f"indexed, which is not measured. {caveat(local=bench.place.local)}"
    )
    with (
        bench.section("flush", "Upserts written out into a large table", note) as section,
        bench.place.lake(here.uri) as lake,
    ):
        contestants: dict[str, Callable[[], object]] = {DISK: _upserting(section, lake, here, count, size)}
        if here.plain is not None:
            contestants[PYLANCE] = _merging(section, here.plain, here, count)
        bench.in_turns("in turns", bench.pick(5, 2), contestants)
        _conclude(section, count)
    return section


def batch(here: Large, count: int, number: int) -> pa.Table:
    """The rows of a round: a half of them has keys that exist."""
    old = chosen(here.rows, count // 2, number)
    new = here.rows + number * count + np.arange(count - len(old))
    ids = np.random.default_rng(number).permutation(np.concatenate([old, new]))
    return made(count, first=here.rows).set_column(0, KEY, pa.array(ids))


def _upserting(section: Section, lake: Lake, here: Large, count: int, size: int) -> Callable[[], object]:
    table = lake[TABLE]
    flushes = section.series(FLUSH)

    def once() -> None:
        rows = batch(here, count, len(flushes))
        os.sync()
        for statement in upserts(table, rows, size):
            timed(section.series(LOGGED), statement)()
        timed(flushes, lambda: lake.flush(TABLE))()
        assert table.count() == here.rows + len(flushes) * (count - count // 2)
        lake.optimize(TABLE)

    return once


def _merging(section: Section, uri: str, here: Large, count: int) -> Callable[[], object]:
    series = section.series(PYLANCE)
    dataset = lance.dataset(uri)  # once, as the lake is: what it has read of the index stays in memory

    def once() -> None:
        rows = batch(here, count, len(series))
        os.sync()
        merge = dataset.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
        timed(series, lambda: merge.execute(rows))()
        assert dataset.count_rows() == here.rows + len(series) * (count - count // 2)
        dataset.optimize.compact_files()
        dataset.optimize.optimize_indices(num_indices_to_merge=0)  # one segment more; else all is indexed and read anew

    return once


def _conclude(section: Section, count: int) -> None:
    for name, values in section.samples.items():
        section.row(name, milliseconds(values))
    if PYLANCE not in section.samples:
        section.row(PYLANCE, LEFT_OUT)
        return
    merged, flushed = median(section.samples[PYLANCE]), median(section.samples[FLUSH])
    rounds = len(section.samples[FLUSH])
    logged = sum(section.samples[LOGGED]) / rounds
    section.ratio(f"{PYLANCE}, merge of {count:,} rows / {FLUSH}, medians", merged / flushed, TARGET)
    section.ratio(f"{PYLANCE}, merge of {count:,} rows / all statements and the flush", merged / (logged + flushed))
