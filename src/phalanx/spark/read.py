"""Tables as data frames: rows go from Lance to Spark as Arrow batches, from as many tasks as there are pieces of work.

A data frame is made of `mapInArrow` over the numbers of the pieces rather than of the data source: Spark cannot tell a
Python data source which columns are wanted, and this way nothing but them is read.
"""

import collections
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from phalanx.clock import SYSTEM
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.spark.columns import spark_schema
from phalanx.spark.feed import plan_changes
from phalanx.spark.parts import plan_scan
from phalanx.spark.reach import reach

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Pieces(Protocol):
    """Work that tasks share: so many pieces, each a stream of rows, as a table has them or as Spark takes them."""

    @property
    def count(self) -> int: ...  # noqa: D102 - said above
    @property
    def wanted(self) -> pa.Schema: ...  # noqa: D102
    def rows(self, number: int) -> Iterator[pa.RecordBatch]: ...  # noqa: D102
    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]: ...  # noqa: D102


HOLD_SECONDS = 3600.0
"""For so long after a data frame was made, what it reads is not pruned, even if only frames made of it are left."""

_made: "weakref.WeakKeyDictionary[DataFrame, tuple[Pieces, object]]" = weakref.WeakKeyDictionary()
"""What data frames are made of, as they are: rows of theirs that are written elsewhere need not go through the JVM."""
_held: "collections.deque[tuple[float, object]]" = collections.deque()
"""What frames read, and until when that is held here: Spark's plans do not tell when they are gone."""


def pieces_frame(spark: SparkSession, pieces: Pieces, held: object = None) -> DataFrame:
    """The rows of all pieces, a task for each; `held` is what keeps them from being pruned."""
    types = spark_schema(pieces.wanted)
    if not pieces.count:
        frame = spark.createDataFrame([], types)
    else:
        frame = numbered(spark, pieces.count).mapInArrow(_reading(pieces), types)
    _made[frame] = pieces, held
    now = SYSTEM.steady()
    _held.append((now + HOLD_SECONDS, held))
    while _held[0][0] < now:
        _held.popleft()
    return frame


def pieces_of(frame: DataFrame) -> Pieces | None:
    """What a data frame is made of, if nothing was done with it since."""
    found = _made.get(frame)
    return None if found is None else found[0]


def numbered(spark: SparkSession, count: int) -> DataFrame:
    """One row for each task: its number."""
    return spark.range(0, count, 1, max(1, count))


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers that a task was given."""
    for batch in batches:
        yield from map(int, batch.column(0).to_numpy())


_WAVES = 4
"""Tasks of a read for each that runs at once, if there are fragments for them: the last ones end at about the same time."""


def read_tasks(spark: SparkSession) -> int:
    """How many tasks share a read."""
    return _WAVES * parallelism(spark)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark says."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - a session of Spark Connect has no context, and says so in its own way
        return int(spark.conf.get("spark.default.parallelism", "8") or 8)


def _reading(pieces: Pieces) -> Task:
    def phalanx_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            yield from pieces.for_spark(number)

    return phalanx_read


def table_frame(
    lake: Lake, spark: SparkSession, snapshot: Snapshot, name: str, columns: Sequence[str] | None, where: str | None
) -> DataFrame:
    """A table at a snapshot."""
    planned = plan_scan(lake.core, reach(lake), snapshot.found(name), columns, where, read_tasks(spark))
    return pieces_frame(spark, planned.scan, (snapshot, planned.held))


def changes_frame(lake: Lake, spark: SparkSession, name: str, since: int, until: int | None) -> DataFrame:
    """The changes of a table, with what happened to each row, and when."""
    planned = plan_changes(lake, name, since, until, parallelism(spark))
    return pieces_frame(spark, planned, lake.core.hold(since, whole=True))


def added_frame(
    lake: Lake,
    spark: SparkSession,
    name: str,
    since: int,
    until: int | None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> DataFrame:
    """The rows that were added to a table that nothing else happened to."""
    tasks = parallelism(spark)
    return pieces_frame(spark, plan_changes(lake, name, since, until, tasks, added=True, columns=columns, where=where))
