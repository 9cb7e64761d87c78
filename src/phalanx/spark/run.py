"""Running a pipeline: one snapshot, all steps staged, expectations checked, and one entry for outputs and input positions.

A run is (pipeline, number): the number is compared and set with the outputs, so a run takes effect once, whoever runs it
and however often (I12, rule B7). Nothing is visible before the entry, and everything is with it: a run that fails or is
killed leaves files that nobody sees, and the next one begins where the last one that landed has ended.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from phalanx.errors import ChangesExpiredError, ConflictError, ExpectationError, InvalidInputError, PhalanxError
from phalanx.feed import CHANGE, ORDER, TIME, VERSION, hold_changes
from phalanx.pins import Hold
from phalanx.spark.columns import exchanged, spark_schema, to_spark
from phalanx.spark.creating import columns_of
from phalanx.spark.expect import broken
from phalanx.spark.feed import compared, compared_added, require_same
from phalanx.spark.inputs import Changed, Input, Made
from phalanx.spark.lake import SparkLake
from phalanx.spark.land import Staged
from phalanx.spark.parts import Scan
from phalanx.spark.pipeline import Pipeline, Step
from phalanx.spark.reach import reach
from phalanx.spark.read import added_frame, changes_frame, parallelism, pieces_frame
from phalanx.spark.session import beside
from phalanx.spark.shares import bytes_of, shared
from phalanx.spark.telling import JOB_ERRORS, translated
from phalanx.spark.transaction import SparkTransaction
from phalanx.tables.stage import hide
from phalanx.txn.bulk import Large
from phalanx.txn.transaction import again

TIMEOUT = 3600.0
"""Seconds for which a run whose outputs were changed by others meanwhile is run again."""


class StepRan(msgspec.Struct, frozen=True):
    """What a step did: rows and bytes that it wrote, and how long it took."""

    name: str
    table: str
    mode: str
    rows: int
    size: int
    seconds: float


class Ran(msgspec.Struct, frozen=True):
    """What a run did. `version` is the lake's version that it became, and `snapshot` the one that it read.

    `already` says that the pipeline had come to this number before, or farther: then nothing was done, and `version` is that
    of `last`, the last run that landed. Numbers may be left out, so of one below it nobody knows whether it was a run.
    """

    pipeline: str
    number: int
    version: int
    snapshot: int
    steps: tuple[StepRan, ...] = ()
    seconds: float = 0.0
    already: bool = False
    last: int | None = None


def source_of(pipeline: str, table: str | None = None) -> str:
    """What the log calls a pipeline, and the table whose changes it reads."""
    return f"pipeline/{pipeline}" if table is None else f"pipeline/{pipeline}/{table}"


def tag_of(pipeline: str) -> str:
    """The tag of the version that the last run of a pipeline has read, so that prune leaves it to the next one."""
    return f"pipeline.{pipeline}"


def run_pipeline(
    there: SparkLake,
    pipeline: Pipeline,
    *,
    number: int | None = None,
    full: bool = False,
    progress: Callable[[StepRan], None] | None = None,
    timeout: float = TIMEOUT,
) -> Ran:
    """Run a pipeline as number `number` (the next one by default), in one commit.

    With `full`, inputs that are changes are read as a whole, as in the first run. If somebody else changed the same rows of
    its outputs meanwhile, or the log that it reads was pruned, it is run again on a newer snapshot.
    """
    steps = pipeline.ordered()
    core = there.lake.core

    def attempt() -> Ran:
        mark = there.lake.refresh().state.progress.get(source_of(pipeline.name))
        held, made = (None, 0) if mark is None else (mark.number, mark.made)
        wanted = (held or 0) + 1 if number is None else number
        if held is not None and held >= wanted:
            return Ran(pipeline.name, wanted, made, made, already=True, last=held)
        with beside(there.spark) as own:  # views of steps are nobody else's
            run = _Run(there, own, pipeline.name, wanted, held, full=full)
            try:
                return run.go(steps, pipeline.incremental(), progress)
            except ChangesExpiredError as error:
                if not run.follows:
                    raise
                raise ConflictError(f"{error}; a prune that had begun before this run landed in it") from error

    return again(core, core.deadline(timeout), attempt)


class _Run:
    """One attempt of one run."""

    def __init__(
        self, there: SparkLake, own: SparkSession, name: str, number: int, held: int | None, *, full: bool
    ) -> None:
        self._lake, self._clock = there.lake, there.lake.core.clock
        self._spark = own
        self._name, self._number, self._held, self._full = name, number, held, full
        self._made: dict[str, Staged] = {}
        self._holds: list[Hold] = []

    @property
    def follows(self) -> bool:
        """Whether it reads changes from the log. Then a prune that did not see its pins may come between."""
        return bool(self._holds)

    def go(self, steps: list[Step], incremental: list[str], progress: Callable[[StepRan], None] | None) -> Ran:
        began = self._clock.steady()
        ran: list[StepRan] = []
        with SparkTransaction(self._lake, self._spark) as txn:
            base = txn.snapshot_version
            since = {table: self._since(table, txn) for table in incremental}
            for step in steps:
                ran.append(self._step(step, txn, base, since))
                if progress is not None:
                    progress(ran[-1])
            txn.record_progress(source_of(self._name), self._number, expected=self._held)
            for table, held in since.items():
                if held != base:
                    txn.record_progress(source_of(self._name, table), base, expected=held)
            if since:
                txn.tag(tag_of(self._name), base)  # what the next run begins with is not pruned before it
            seconds = self._clock.steady() - began
            txn.annotate(told(self._name, self._number, base, ran, seconds))
        return Ran(self._name, self._number, txn.version or base, base, tuple(ran), self._clock.steady() - began)

    def _since(self, table: str, txn: SparkTransaction) -> int | None:
        return self._lake.snapshot(version=txn.snapshot_version).progress(source_of(self._name, table))

    def _step(self, step: Step, txn: SparkTransaction, base: int, since: dict[str, int | None]) -> StepRan:
        began = self._clock.steady()
        with _named(step, self._name, self._number):
            frames = {name: self._input(one, txn, base, since) for name, one in step.reads.items()}
            frame = self._worked(step, frames)
            self._create(step, frame, txn)
            staged = txn.stage(step.writes, frame, step.mode, rows_per_file=step.rows_per_file)
            self._made[step.name] = staged
            wrong = broken(step.expect, staged.rows, lambda: self._staged(staged, all_made=True))
            if wrong:
                raise ExpectationError(f"its rows are not as expected: {'; '.join(wrong)}")
        seconds = self._clock.steady() - began
        return StepRan(step.name, step.writes, step.mode, staged.rows, staged.size, seconds)

    def _create(self, step: Step, frame: DataFrame, txn: SparkTransaction) -> None:
        """The table of a step that declares its key is created with the first rows that it makes."""
        if step.key is not None and step.writes not in txn.tables():
            inputs = (
                self._made[one.step].found.shape.schema if isinstance(one, Made) else txn[one.table].schema
                for one in step.reads.values()
            )
            txn.create_table(step.writes, columns_of(frame, inputs, step.schema), key=step.key)

    def _worked(self, step: Step, frames: dict[str, DataFrame]) -> DataFrame:
        if isinstance(step.work, str):
            for name, frame in frames.items():
                frame.createOrReplaceTempView(name)
            return self._spark.sql(step.work)
        made: Any = step.work(**frames)
        if not isinstance(made, DataFrame):
            raise InvalidInputError(f"it returned a {type(made).__name__}, and a step returns a data frame")
        return made

    def _input(self, one: Input, txn: SparkTransaction, base: int, since: dict[str, int | None]) -> DataFrame:
        if isinstance(one, Made):
            return self._staged(self._made[one.step])
        if not isinstance(one, Changed):
            return txn.table(one.table, columns=one.columns, where=one.where)
        held = None if self._full else since[one.table]
        if held is not None:
            return self._changed(one, held, base)
        if one.added:
            return txn.table(one.table, columns=one.columns, where=one.where)
        return _as_inserts(txn.table(one.table), base, self._lake.snapshot(version=base).view.time)

    def _changed(self, one: Changed, held: int, base: int) -> DataFrame:
        """What happened since the last run: by the log, or if that was pruned by comparing with what that run has read."""
        lake, spark = self._lake, self._spark
        require_same(lake, one.table, held, base)
        try:
            table = lake.snapshot(version=base).found(one.table).table.id
            self._holds.append(hold_changes(lake.core, table, held, base))  # tasks read them later
            if one.added:
                return added_frame(lake, spark, one.table, held, base, one.columns, one.where)
            return changes_frame(lake, spark, one.table, held, base)
        except ChangesExpiredError:
            if one.added:
                return _frame(spark, compared_added(lake, one.table, held, base, one.columns, one.where))
            return _frame(spark, compared(lake, one.table, held, base))

    def _staged(self, staged: Staged, *, all_made: bool = False) -> DataFrame:
        """The rows that a step has staged: the last of each key, or all that it made."""
        ready, shape = staged.ready, staged.found.shape
        if not isinstance(ready, Large):
            return _frame(self._spark, staged.made if all_made and staged.made is not None else ready.rows)
        version = ready.version
        if len(ready.dead) and not all_made:
            first = staged.found.contents.head.next_row_id
            version = hide(self._lake.core.datasets, version, np.sort(ready.dead + first))
        own = set(range(ready.first, ready.first + ready.fragments))
        rows = {one: int(version.fragment(one).metadata.num_rows) for one in version.fragments if one in own}
        where = reach(self._lake), ".".join(staged.found.name), shape.table, version.manifest
        names = tuple(shape.schema.names)
        shares, size = shared(rows, parallelism(self._spark)), bytes_of(sum(rows.values()), shape.schema)
        return pieces_frame(self._spark, Scan(*where, shape.schema, names, None, shares, size=size))


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that are in this process."""
    types = exchanged(rows.schema)
    # In one piece: Spark takes an empty batch for the end of them.
    batches = [to_spark(batch, types) for batch in rows.combine_chunks().to_batches() if batch.num_rows]
    made: DataFrame = spark.createDataFrame(pa.Table.from_batches(batches, types), schema=spark_schema(rows.schema))
    return made


def _as_inserts(frame: DataFrame, version: int, time: int) -> DataFrame:
    """All rows of a table, as if they had been inserted now."""
    said = {CHANGE: f.lit("insert"), VERSION: f.lit(version).cast("long"), TIME: f.timestamp_micros(f.lit(time))}
    said[ORDER] = f.monotonically_increasing_id()
    return frame.select("*", *(column.alias(name) for name, column in said.items()))


@contextmanager
def _named(step: Step, pipeline: str, number: int) -> Iterator[None]:
    """Whatever goes wrong in a step is told with its name, as an error of Phalanx."""
    where = f"step {step.name!r} of pipeline {pipeline!r}, run {number}"
    try:
        yield
    except PhalanxError as error:
        raise type(error)(f"{where}: {error}") from error
    except JOB_ERRORS as error:
        found = translated(error, "it")
        raise type(found)(f"{where}: {found}") from None
    except Exception as error:
        raise InvalidInputError(f"{where}: {type(error).__name__}: {error}") from error


def told(pipeline: str, number: int, snapshot: int, steps: list[StepRan], seconds: float) -> str:
    """The run in words, for the log; `state.py` reads them again."""
    said = "; ".join(f"{one.name} > {one.table} {one.rows} rows {one.size} bytes {one.seconds:.3f} s" for one in steps)
    return f"pipeline {pipeline}, run {number} on version {snapshot} in {seconds:.3f} s: {said}"
