"""Streams: a table's changes as a source, and a table as a sink, exactly once.

An offset is a version of the lake; the changes between two versions are always the same, so a batch that is run again has
the same rows. A sink commits each batch with its number: (query, batch) is compared and set in the log with the rows, so a
batch that Spark runs again, because its own note of it was lost, has taken effect before and does nothing (I12, rule B7).
The query is the one that Spark's checkpoint knows, unless the option `query` names it (`queries.py`).
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from phalanx.errors import InvalidInputError, SchemaChangedError
from phalanx.feed import NAMES, feed_schema, hold_changes
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.feed import plan_changes, quiet_until, require_same, shown_at
from phalanx.spark.land import Mode, gather, land_once, newest
from phalanx.spark.options import Options, opened
from phalanx.spark.parts import Scan, plan_scan
from phalanx.spark.queries import QUERY, checked, source_of
from phalanx.spark.reach import Reach, reach
from phalanx.spark.shares import cores
from phalanx.spark.stage import Piece, Place, stage
from phalanx.tail.effects import Kind

PART_BITS = 32
"""A row of the whole table is numbered in its part, and the part above that."""
_NOTHING = -1
"""The offset before the first batch, if that is the whole table."""
_AT = "version"

Offset = dict[str, int]


def stream_schema(asked: Options) -> pa.Schema:
    """The columns that a stream of a table has, as Arrow."""
    with opened(asked) as lake:
        return _schema(asked, lake.refresh().found(asked.table).shape.schema)


def _schema(asked: Options, table: pa.Schema) -> pa.Schema:
    return feed_schema(table) if asked.changes == "feed" else table


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows that are added to a table that nobody changes; with `changes=feed`, all of its changes."""

    def __init__(self, asked: Options, schema: pa.Schema) -> None:
        self._asked, self._types = asked, schema
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        if self._asked.start == "snapshot":
            return {_AT: _NOTHING}
        return {_AT: _kept(self._asked.reach).version if self._asked.start == "latest" else self._asked.start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Commits of the table for one batch: Spark knows files, and a commit stands for one."""
        most = self._asked.max_versions
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is committed from now on is left for the next run."""
        self._target = _kept(self._asked.reach).version

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Up to where the next batch goes. What comes after the last one is held from here on, so that it is not pruned."""
        lake = _kept(self._asked.reach)
        end = lake.version if self._target is None else self._target
        above = start[_AT]
        if above == _NOTHING:
            return {_AT: end}
        if above >= end:
            _batch[:] = [lake.core.hold(above, whole=True)]
            return start
        found = lake.snapshot(version=end).found(self._asked.table)
        begin = quiet_until(found, above, end)
        _batch[:] = [hold_changes(lake.core, found.table.id, begin, end)]
        newer = itertools.takewhile(lambda one: one.position > above, found.contents.versions.newest_first())
        landed = sorted({one.position for one in newer})
        if not landed:
            return start  # what others did to the lake, this query among them, is no reason for a batch
        return {_AT: landed[min(limit.max_files, len(landed)) - 1] if isinstance(limit, ReadMaxFiles) else landed[-1]}

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """How far the lake is."""
        return {_AT: _kept(self._asked.reach).version}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What each task of a batch reads: parts of the whole table, or changes between two versions."""
        lake, asked = _kept(self._asked.reach), self._asked
        above, upto = start[_AT], end[_AT]
        if above >= upto:
            return []
        lake.refresh()
        snapshot = lake.snapshot(version=upto)
        found = snapshot.found(asked.table)
        if above != _NOTHING:
            require_same(lake, asked.table, above, upto)
            shown = self._with_columns(lake, snapshot)
            begin = quiet_until(found, above, upto)
            _batch[:] = [hold_changes(lake.core, found.table.id, begin, upto), shown]
            added = asked.changes == "append"
            planned = shown_at(plan_changes(lake, asked.table, above, upto, cores(), added=added), shown)
            return [InputPartition((planned, at)) for at in range(planned.count)]
        if not _schema(asked, found.shape.schema).equals(self._types):
            raise SchemaChangedError(
                f"the columns of table {asked.table!r} have changed before the first batch of this query was done: start it "
                "with another checkpoint"
            )
        scan, held = plan_scan(lake.core, reach(lake), found, None, None, cores())
        _batch[:] = [snapshot, held, lake.core.hold(upto, whole=True)]
        when = snapshot.view.time
        return [InputPartition((scan, at, upto, when)) for at in range(scan.count)]

    def _with_columns(self, lake: Lake, snapshot: Snapshot) -> Snapshot:
        """A version whose columns are those that the query began with.

        Mostly the end of the batch; the newest one, if a batch ends before an alteration that the query has seen.
        """
        for one in (snapshot, lake.snapshot()):
            if _schema(self._asked, one.found(self._asked.table).shape.schema).equals(self._types):
                return one
        raise SchemaChangedError(f"the columns of table {self._asked.table!r} have changed: start the query again")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Runs in a task."""
        what, *more = partition.value
        if isinstance(what, Scan):
            return self._whole(what, *more)
        found: Iterator[pa.RecordBatch] = what.for_spark(*more)
        return found

    def _whole(self, scan: Scan, number: int, version: int, time: int) -> Iterator[pa.RecordBatch]:
        types = exchanged(self._types)
        before = 0
        for batch in scan.rows(number):
            columns: list[Any] = list(batch.columns)
            if self._asked.changes == "feed":
                many = batch.num_rows
                columns.append(pa.array([NAMES[Kind.INSERT]] * many, pa.string()))
                columns.append(pa.array(np.full(many, version)))
                columns.append(pa.array(np.full(many, time)).cast(pa.timestamp("us", "UTC")))
                columns.append(pa.array(np.arange(before, before + many) + (number << PART_BITS)))
                before += many
            yield to_spark(pa.RecordBatch.from_arrays(columns, schema=self._types), types)

    def commit(self, end: Offset) -> None:
        """Nothing: the log keeps what was read for as long as its retention says."""

    def stop(self) -> None:
        """Let go of the lake."""
        _batch.clear()
        _kept(self._asked.reach).close()
        _kept.cache_clear()


_batch: list[object] = []
"""What keeps the rows of the batch that was planned last from being pruned, and whatever comes after it."""


@functools.lru_cache(maxsize=1)
def _kept(where: Reach) -> Lake:
    """The lake, open for as long as this process plans the batches of a query."""
    return where.open()


class BatchWrote(WriterCommitMessage):
    """What a task wrote, and for which query."""

    def __init__(self, piece: Piece | None, query: str | None) -> None:
        self.piece = piece
        self.query = query


class FeedWriter(DataSourceStreamArrowWriter):
    """Stages the rows of a batch in tasks, and commits them with the number of the batch."""

    def __init__(self, place: Place, mode: Mode, asked: Options) -> None:
        self._place, self._mode, self._asked = place, mode, asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """See `DataSourceStreamArrowWriter`; runs in a task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        return BatchWrote(stage(self._place, iterator), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """One entry for the rows and the number of the batch; nothing if it is there already."""
        wrote = [one for one in messages if isinstance(one, BatchWrote)]
        checkpoint = next((one.query for one in wrote if one.query), None)
        query = self._asked.query or checkpoint
        done = [one.piece for one in wrote if one.piece is not None]
        if query is None:
            if not done:
                return
            raise InvalidInputError("this query has no id: give it a name with the option query")
        with opened(self._asked) as lake:
            staged = gather(lake.core, newest(lake.core, self._place), self._place, self._mode, done)
            own = partial(checked, name=self._asked.query, checkpoint=checkpoint)
            land_once(lake.core, source_of(query), batchId, [staged], more=own, note=self._asked.note)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: what was staged is seen by nobody, and an entry may name it all the same."""
