"""A group-by, a join and the first rows of an order, over two tables: all written out, and with a tail."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import datafusion
import duckdb
import lance
import numpy as np
import pyarrow as pa
from lance import FFILanceTableProvider

from bench.frame import Bench, timed
from bench.keys.large import chosen
from bench.report import Section, Target, Value, median
from bench.tables.rows import SCHEMA, batches, made
from bench.tables.scan import direct_dataset
from bench.tails import quiet_lake, upserts
from phalanx import Lake

TARGET = Target(">=", 0.8)
NEVER = Target("==", 0)
STATEMENTS = {
    "group-by": "select n, count(*) as c, avg(x) as m from t where x > 0.5 and flag group by n order by n",
    "join": "select k.label, count(*) as c, sum(t.x) as s from t join k on t.n = k.n where t.id % 3 = 0 group by all order by all",
    "top-n": "select id, name, x from t where n < 50 order by x desc, id limit 100",
}
OURS, DUCKDB, KEPT, DATAFUSION = "Phalanx", "DuckDB", "DuckDB kept", "DataFusion"
Answers = Callable[[str], pa.Table]


def flushed(bench: Bench) -> Section:
    """Everything is written out."""
    count = bench.pick(5_000_000, 100_000, "rows")
    note = (
        f"{count:,} rows of 6 columns, loaded in bulk and flushed, and a small table to join them with. DuckDB is given the "
        "same versions of the same Lance datasets, opened before: on a fresh database for each statement, which takes some "
        "15 ms to make, and on one that is kept, as Phalanx keeps its own. In turns; the best of each is compared, because "
        "noise only ever adds."
    )
    with bench.section("sql", "SQL beside DuckDB on the same files", note) as section, _loaded(bench, count) as lake:
        contestants = {OURS: _ours(lake), **_others(bench, lake)}
        for name, text in STATEMENTS.items():
            times = _compete(bench, section, name, text, contestants)
            own = times[OURS]
            for one in (DUCKDB, KEPT):
                section.ratio(f"{name}: {one}'s time / {OURS}'s, best", min(times[one]) / min(own), TARGET)
                section.ratio(f"{name}: {one}'s time / {OURS}'s, medians", median(times[one]) / median(own))
            section.ratio(f"{name}: {DATAFUSION}'s time / {OURS}'s, best", min(times[DATAFUSION]) / min(own))
    return section


def pending(bench: Bench) -> Section:
    """Some rows have changed and are not written out."""
    count, changed = bench.pick(5_000_000, 100_000, "rows"), bench.pick(50_000, 500, "changed_rows")
    note = (
        f"The same, with {changed:,} rows, all over the table, changed by logged upserts: with the tail, and after a flush "
        "and optimize. The first statement, which also folds the tail, is timed alone."
    )
    with (
        bench.section("sql_tail", "SQL with a tail beside SQL without", note) as section,
        _loaded(bench, count) as lake,
        bench.place.lake(lake.uri) as other,
    ):
        new = made(changed, first=count).set_column(0, "id", pa.array(chosen(count, changed, 3)))
        for statement in upserts(lake["t"], new):
            statement()
        then = other.snapshot()
        first = section.series("first statement")
        timed(first, lambda: then.sql(STATEMENTS["group-by"]).to_arrow())()
        section.row("first statement", _figures(first))
        bench.step("flush and optimize")
        lake.optimize("t", timeout=600)
        contestants: dict[str, Answers] = {
            "with the tail": lambda text: then.sql(text).to_arrow(),
            "written out": _ours(lake),
        }
        for name, text in STATEMENTS.items():
            times = _compete(bench, section, name, text, contestants)
            tail, without = times.values()
            section.ratio(f"{name}: time written out / with the tail, best", min(without) / min(tail))
    return section


@contextmanager
def _loaded(bench: Bench, count: int) -> Iterator[Lake]:
    with quiet_lake(bench, bench.place.new("sql")) as lake:
        bench.step("loading")
        table = lake.create_table("t", SCHEMA, key="id")
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches(count)), stage=True, timeout=600)
        lake.create_table(
            "k", pa.table({"n": pa.array(np.arange(100, dtype=np.int32)), "label": [f"k{n // 10}" for n in range(100)]})
        )
        lake.optimize("t", timeout=600)
        lake.flush()
        yield lake


def _ours(lake: Lake) -> Answers:
    return lambda text: lake.sql(text).to_arrow()


def _others(bench: Bench, lake: Lake) -> dict[str, Answers]:
    """The other engines, on the versions that the tables stand on."""
    datasets = {name: direct_dataset(bench, lake, lake[name]) for name in ("t", "k")}
    kept = duckdb.connect(":memory:")
    return {
        DUCKDB: lambda text: _duckdb(duckdb.connect(":memory:"), datasets, text),
        KEPT: lambda text: _duckdb(kept.cursor(), datasets, text),
        DATAFUSION: partial(_datafusion, datasets),
    }


def _duckdb(fresh: duckdb.DuckDBPyConnection, datasets: Mapping[str, lance.LanceDataset], text: str) -> pa.Table:
    with fresh as connection:
        for name, dataset in datasets.items():
            connection.register(name, dataset)
        found: pa.Table = connection.sql(text).to_arrow_table()
        return found


def _datafusion(datasets: Mapping[str, lance.LanceDataset], text: str) -> pa.Table:
    context = datafusion.SessionContext()
    for name, dataset in datasets.items():
        context.register_table(name, FFILanceTableProvider(dataset, with_row_id=False, with_row_addr=False))
    return context.sql(text.replace("group by all order by all", "group by k.label order by k.label")).to_arrow_table()


def _compete(
    bench: Bench, section: Section, name: str, text: str, contestants: Mapping[str, Answers]
) -> dict[str, list[float]]:
    first, *others = [work(text) for work in contestants.values()]  # and whatever is slow only the first time is done
    section.count(f"wrong answers, {name}", sum(not _same(first, other) for other in others), NEVER)
    names = {one: f"{one}: {name}" for one in contestants}
    work = {names[one]: timed(section.series(names[one]), partial(ask, text)) for one, ask in contestants.items()}
    bench.in_turns(name, bench.pick(15, 3), work)
    for one in names.values():
        section.row(one, _figures(section.samples[one]))
    return {one: section.samples[names[one]] for one in contestants}


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two engines say the same, sums of floating point numbers aside, which depend on their order."""
    pairs = [
        pair
        for left, right in zip(one.to_pylist(), other.to_pylist(), strict=True)
        for pair in zip(left.values(), right.values(), strict=True)
    ]
    return all(
        left == right or (isinstance(left, float) and abs(left - right) <= 1e-9 * abs(left)) for left, right in pairs
    )


def _figures(values: list[float]) -> dict[str, Value]:
    return {"best ms": min(values) * 1e3, "p50 ms": median(values) * 1e3, "samples": len(values)}
