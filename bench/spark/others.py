"""Rows of other kinds, beside Parquet: what is fast for one kind need not be for another, and nothing is aimed at here."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.frame import Bench, timed
from bench.report import Section, median
from bench.spark.ground import OURS, PARQUET, Ground, ground

_BATCH = 100_000


class Kind(NamedTuple):
    """A kind of rows: how it is called, in a table and in words, and so many of them."""

    table: str
    words: str
    make: Callable[[int, np.random.Generator], pa.RecordBatch]


def _short(size: int, random: np.random.Generator) -> pa.RecordBatch:
    names: Any = pa.array([f"customer {number}" for number in range(1000)])
    columns: dict[str, Any] = {
        "id": pa.array(random.integers(0, 1 << 40, size)),
        "price": pa.array(random.integers(0, 10_000, size) / 100),
        "count": pa.array(random.integers(0, 10, size).astype(np.int32)),
        "name": names.take(random.integers(0, 1000, size)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _texts(size: int, random: np.random.Generator) -> pa.RecordBatch:
    words = np.array([f"word{number}" for number in range(5000)])
    texts: Any = pa.array([" ".join(words[random.integers(0, 5000, 80)]) for _ in range(2000)])
    columns: dict[str, Any] = {
        "id": pa.array(random.integers(0, 1 << 40, size)),
        "text": texts.take(random.integers(0, 2000, size)),
    }
    return pa.RecordBatch.from_pydict(columns)


KINDS = (
    Kind("short", "short, with names that repeat: 30 bytes", _short),
    Kind("texts", "texts of 80 words: 700 bytes", _texts),
)


def others(bench: Bench) -> Section:
    """Reading all columns and writing them, for each kind."""
    here = ground(bench)
    count = {"short": bench.pick(5_000_000, 20_000, "short rows"), "texts": bench.pick(1_000_000, 10_000, "texts")}
    note = "Read into nothing, and written from Parquet by tasks, as above. Nothing is aimed at."
    with bench.section("others", "Rows of other kinds", note) as section:
        for kind in KINDS if here.parquet is not None else ():
            _measure(bench, section, here, kind, count[kind.table])
    return section


def _measure(bench: Bench, section: Section, here: Ground, kind: Kind, count: int) -> None:
    bench.step(f"loading {count:,} rows: {kind.words}")
    schema = kind.make(1, np.random.default_rng(0)).schema
    here.lake.create_table(kind.table, schema)
    rows = pa.RecordBatchReader.from_batches(schema, _batches(kind, count))
    here.lake[kind.table].append(rows, stage=True, timeout=600)
    folder = bench.place.new(f"parquet-{kind.table}")
    here.there.table(kind.table).write.parquet(folder)
    works: dict[str, dict[str, Callable[[], object]]] = {
        "read": {
            OURS: lambda: _drop(here.there.table(kind.table)),
            PARQUET: lambda: _drop(here.spark.read.parquet(folder)),
        },
        "write": {OURS: partial(_into_table, here, kind, folder), PARQUET: partial(_into_parquet, bench, here, folder)},
    }
    for what, contestants in works.items():
        names = {name: f"{what}, {kind.table}: {name}" for name in contestants}
        turns = {name: timed(section.series(names[name]), work) for name, work in contestants.items()}
        bench.in_turns(f"{what} {kind.table}", bench.pick(3, 1, "rounds"), turns, settle=True)
        for name in contestants:
            values = section.samples[names[name]]
            section.row(names[name], {"rows/s": round(count / median(values)), "p50 s": median(values)})
        ours, theirs = (median(section.samples[names[name]]) for name in (OURS, PARQUET))
        section.ratio(f"{what}, {kind.words}: speed of {OURS} / {PARQUET}", theirs / ours)


def _batches(kind: Kind, count: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for begin in range(0, count, _BATCH):
        yield kind.make(min(_BATCH, count - begin), random)


def _drop(frame: Any) -> None:  # noqa: ANN401 - a data frame
    frame.write.format("noop").mode("overwrite").save()


def _into_table(here: Ground, kind: Kind, folder: str) -> None:
    name = f"{kind.table}{len(here.lake.tables())}"
    here.lake.create_table(name, here.lake[kind.table].schema)
    here.there.write(here.spark.read.parquet(folder), name)


def _into_parquet(bench: Bench, here: Ground, folder: str) -> None:
    written = bench.place.new("written")
    here.spark.read.parquet(folder).write.parquet(written)
    shutil.rmtree(written)
