"""Tables as data frames: rows go from Lance to Spark as Arrow batches, from as many tasks as there are groups.

A data frame is made of `mapInArrow` over the numbers of the groups rather than of the data source: Spark cannot tell a
Python data source which columns are wanted, and this way nothing but them is read.
"""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from phalanx.errors import InvalidInputError
from phalanx.feed import changes, feed_schema
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.spark.columns import exchanged, spark_schema, to_spark
from phalanx.spark.parts import Scan, plan_scan
from phalanx.spark.reach import Reach, reach
from phalanx.spark.session import BATCH

_scans: "weakref.WeakKeyDictionary[DataFrame, Scan]" = weakref.WeakKeyDictionary()
"""The data frames that are a table as it is: what is made of them can do without the JVM."""


def table_frame(
    lake: Lake, spark: SparkSession, snapshot: Snapshot, name: str, columns: Sequence[str] | None, where: str | None
) -> DataFrame:
    """A table at a snapshot."""
    scan = plan_scan(lake.core, reach(lake), snapshot.found(name), columns, where, parallelism(spark))
    return scan_frame(spark, scan)


def scan_frame(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of a scan, a task for each group."""
    types = spark_schema(scan.wanted)
    if not scan.groups:
        frame = spark.createDataFrame([], types)
    else:
        frame = numbered(spark, len(scan.groups)).mapInArrow(_reading(scan), types)
    _scans[frame] = scan
    return frame


def scan_of(frame: DataFrame) -> Scan | None:
    """What a data frame reads, if it is a table as it is."""
    return _scans.get(frame)


def numbered(spark: SparkSession, count: int) -> DataFrame:
    """One row for each task: its number."""
    return spark.range(0, count, 1, max(1, count))


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers that a task was given."""
    for batch in batches:
        yield from map(int, batch.column(0).to_numpy())


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark says."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - a session of Spark Connect has no context, and says so in its own way
        return int(spark.conf.get("spark.default.parallelism", "8") or 8)


_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _reading(scan: Scan) -> _Task:
    def phalanx_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            yield from scan.for_spark(scan.groups[number])

    return phalanx_read


class Changes(msgspec.Struct, frozen=True):
    """The changes of a table after one version of the lake up to another, in pieces that follow each other."""

    reach: Reach
    name: str
    until: int
    schema: pa.Schema
    pieces: tuple[tuple[int, int], ...]

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """The changes of one piece, as Spark takes them. Runs in a task."""
        above, upto = self.pieces[number]
        types = exchanged(self.schema)
        with self.reach.open() as lake:
            found = lake.snapshot(version=self.until).found(self.name)  # all pieces have the columns of the end
            for batch in changes(lake.core, found, above, upto):
                for at in range(0, batch.num_rows, BATCH):
                    yield to_spark(batch.slice(at, BATCH), types)


def plan_changes(lake: Lake, name: str, since: int, until: int | None, tasks: int) -> Changes:
    """Decide what is read of a feed; whether it is still there is checked here."""
    upto = lake.snapshot(version=until)
    found = upto.found(name)
    if since > upto.version:
        raise InvalidInputError(
            f"changes are those after one version up to a later one: {since} and {upto.version} are not"
        )
    lake.changes(name, since, upto.version)  # refuses what is no longer there, and reads nothing yet
    newer = itertools.takewhile(lambda one: one.position > since, found.contents.versions.newest_first())
    landed = sorted({one.position for one in newer})
    ends = [landed[len(landed) * (at + 1) // tasks - 1] for at in range(tasks)] if len(landed) >= tasks > 1 else []
    bounds = [since, *ends[:-1], upto.version] if landed else []
    pieces = tuple(itertools.pairwise(bounds))
    return Changes(reach(lake), name, upto.version, feed_schema(found.shape.schema), pieces)


def changes_frame(lake: Lake, spark: SparkSession, name: str, since: int, until: int | None) -> DataFrame:
    """The changes of a table, with what happened to each row, and when."""
    planned = plan_changes(lake, name, since, until, parallelism(spark))
    types = spark_schema(planned.schema)
    if not planned.pieces:
        return spark.createDataFrame([], types)

    def phalanx_changes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            yield from planned.rows(number)

    return numbered(spark, len(planned.pieces)).mapInArrow(phalanx_changes, types)
