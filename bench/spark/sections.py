"""Reading, writing and pipelines: each beside the same over Parquet, in turns, in one session."""

import shutil
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame

from bench.frame import Bench, timed
from bench.report import Section, Target, median
from bench.spark.ground import NO_STREAM, OURS, PARQUET, SOURCE, Ground, ground
from bench.spark.rows import SCHEMA, made
from phalanx.spark import Pipeline, added, run_pipeline

READ, SUM, WRITE, COPY = Target(">=", 1.2), Target(">=", 0.7), Target(">=", 2.0), Target(">=", 3.0)
SHARE, SECONDS = 0.1, 3.0
WHERE = "x > 0.25 and n < 50"
Frames = dict[str, Callable[[], DataFrame]]
COLUMNS = ["id", "n", "text", "embedding"]


def reading(bench: Bench) -> Section:
    """All columns into nothing, and the sum of one."""
    here = ground(bench)
    note = f"{here.rows:,} rows of 6 columns, 190 bytes each, most of them a vector. All columns are read into Spark's rows and dropped; sum is of one column of numbers."
    with bench.section("read", "Reading", note) as section:
        options = {"lake": here.lake.uri, "table": "t"}
        options |= {f"storage.{key}": value for key, value in bench.place.options.items()}

        def source(**more: str) -> DataFrame:
            return here.spark.read.format("phalanx").options(**options, **more).load()

        tasks = str(here.spark.sparkContext.defaultParallelism)  # as many as there are by default, but no stream has it
        everything: Frames = {
            OURS: lambda: here.there.table("t"),
            NO_STREAM: lambda: source(tasks=tasks),
            SOURCE: source,
        }
        one: Frames = {OURS: lambda: here.there.table("t", columns=["x"]), SOURCE: lambda: source(columns="x")}
        if here.parquet is not None:
            everything[PARQUET] = one[PARQUET] = lambda: here.spark.read.parquet(here.parquet or "")
        for what, frames, work in (("all columns", everything, _drop), ("sum(x)", one, _sum)):
            contestants = {
                name: timed(section.series(f"{what}: {name}"), partial(work, make)) for name, make in frames.items()
            }
            bench.in_turns(what, bench.pick(5, 1, "rounds"), contestants, settle=True)
            for name in frames:
                section.row(f"{what}: {name}", _figures(section, f"{what}: {name}", here.rows))
        _beside(section, "all columns", READ)
        _beside(section, "sum(x)", SUM)
    return section


def _drop(make: Callable[[], DataFrame]) -> None:
    make().write.format("noop").mode("overwrite").save()


def _sum(make: Callable[[], DataFrame]) -> None:
    make().selectExpr("sum(x)").collect()


def writing(bench: Bench) -> Section:
    """The same frame, to a table and to Parquet."""
    here = ground(bench)
    note = f"{here.rows:,} rows of 6 columns, 190 bytes each, most of them a vector, which tasks read from Parquet. Phalanx syncs its files before it commits."
    with bench.section("write", "Writing", note) as section:
        contestants: dict[str, Callable[[], object]] = {OURS: lambda: _into_table(here)}
        if here.parquet is not None:
            contestants[PARQUET] = lambda: _into_parquet(bench, here)
        bench.in_turns(
            "in turns",
            bench.pick(3, 1, "rounds"),
            {name: timed(section.series(f"write: {name}"), work) for name, work in contestants.items()},
            settle=True,
        )
        for name in contestants:
            section.row(name, _figures(section, f"write: {name}", here.rows))
        _beside(section, "write", WRITE)
    return section


def _into_table(here: Ground) -> None:
    name = f"w{len(here.lake.tables())}"
    here.lake.create_table(name, SCHEMA)
    here.there.write(here.source(), name)
    if here.lake[name].count() != here.rows:
        raise AssertionError("rows are missing")


def _into_parquet(bench: Bench, here: Ground) -> None:
    folder = bench.place.new("written")
    here.source().write.parquet(folder)
    shutil.rmtree(folder)


def pipelines(bench: Bench) -> Section:
    """A filter and a projection from table to table, by a pipeline; and again when one row in a hundred is new."""
    here = ground(bench)
    note = (
        f"{here.rows:,} rows: {', '.join(COLUMNS)} where {WHERE}, appended to another table by a pipeline, first all rows, "
        "then those that are new (1 %). Parquet does the whole job each time."
    )
    with bench.section("pipeline", "From table to table", note) as section:
        contestants: dict[str, Callable[[], object]] = {OURS: lambda: _run(here)}
        if here.parquet is not None:
            contestants[PARQUET] = lambda: _parquet_job(bench, here)
        bench.in_turns(
            "whole job",
            bench.pick(3, 1, "rounds"),
            {name: timed(section.series(f"whole job: {name}"), work) for name, work in contestants.items()},
            settle=True,
        )
        for name in contestants:
            section.row(f"whole job: {name}", _figures(section, f"whole job: {name}", here.rows))
        _beside(section, "whole job", COPY)
        new = max(1, here.rows // 100)
        for _ in range(bench.pick(3, 1, "rounds")):
            here.lake["t"].append(made(new, here.rows), stage=True)
            timed(section.series("new rows"), lambda: run_pipeline(here.there, _copying("again", "again")))()
        typical = median(section.samples["new rows"][1:] or section.samples["new rows"])
        limit = max(SHARE * median(section.samples[f"whole job: {OURS}"]), SECONDS)
        section.row("new rows: Phalanx", {"p50 s": typical, "rows": new})
        section.time("a run over 1 % of new rows", typical, Target("<=", round(limit, 2)))
    return section


def _copying(name: str, table: str) -> Pipeline:
    copy = Pipeline(name)
    copy.step(reads={"rows": added("t", columns=COLUMNS, where=WHERE)}, writes=table, create=True)(lambda rows: rows)
    return copy


def _run(here: Ground) -> None:
    name = f"whole{len(here.lake.tables())}"
    run_pipeline(here.there, _copying(name, name))


def _parquet_job(bench: Bench, here: Ground) -> None:
    folder = bench.place.new("copied")
    here.spark.read.parquet(here.parquet or "").where(WHERE).select(*COLUMNS).write.parquet(folder)
    shutil.rmtree(folder)


def _figures(section: Section, name: str, rows: int) -> dict[str, float | int | str | None]:
    values = section.samples[name]
    return {
        "rows/s": round(rows / median(values)),
        "p50 s": median(values),
        "best s": min(values),
        "samples": len(values),
    }


def _beside(section: Section, what: str, target: Target) -> None:
    """How many times as fast as Parquet, in this run."""
    theirs = section.samples.get(f"{what}: {PARQUET}")
    for name in (OURS, NO_STREAM, SOURCE):
        mine = section.samples.get(f"{what}: {name}")
        if theirs and mine:
            section.ratio(
                f"{what}: speed of {name} / {PARQUET}", median(theirs) / median(mine), target if name == OURS else None
            )
