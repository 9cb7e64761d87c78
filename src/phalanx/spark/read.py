"""Tables as data frames: rows go from Lance to Spark as Arrow batches, from as many tasks as there are pieces of work.

A data frame is made of `mapInArrow` over the numbers of the pieces rather than of the data source: Spark cannot tell a
Python data source which columns are wanted, and this way nothing but them is read.
"""

import collections
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from phalanx.clock import SYSTEM
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.spark import shares
from phalanx.spark.columns import spark_schema, without_null
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
    @property
    def full(self) -> tuple[str, ...]: ...  # noqa: D102 - columns without a null
    @property
    def size(self) -> int | None: ...  # noqa: D102 - bytes, about; None if that is not known
    def rows(self, number: int) -> Iterator[pa.RecordBatch]: ...  # noqa: D102
    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]: ...  # noqa: D102


HOLD_SECONDS = 3600.0
"""For so long after a data frame was made, what it reads is not pruned, even if only frames made of it are left."""

_made: "weakref.WeakKeyDictionary[DataFrame, tuple[Pieces, object]]" = weakref.WeakKeyDictionary()
"""What data frames are made of, as they are: rows of theirs that are written elsewhere need not go through the JVM."""
_held: "collections.deque[tuple[float, object]]" = collections.deque()
"""What frames read, and until when that is held here: Spark's plans do not tell when they are gone."""
_holding = threading.Lock()
_views: "weakref.WeakKeyDictionary[SparkSession, dict[str, object]]" = weakref.WeakKeyDictionary()
"""What the views of sessions read: they are asked by name, whenever that is."""


def pieces_frame(spark: SparkSession, pieces: Pieces, held: object = None) -> DataFrame:
    """The rows of all pieces, a task for each; `held` is what keeps them from being pruned."""
    types = spark_schema(pieces.wanted)
    frame = _read(spark, pieces, types)
    _made[frame] = pieces, held
    _hold(held)
    return frame


def _hold(held: object) -> None:
    """Hold it for its time, and let go of what had its own."""
    now = SYSTEM.steady()
    with _holding:
        _held.append((now + HOLD_SECONDS, held))
        while _held[0][0] < now:
            _held.popleft()


def make_view(frame: DataFrame, name: str) -> None:
    """A temporary view of a frame; what it reads is held until another one has its name, or its session is gone."""
    frame.createOrReplaceTempView(name)
    _views.setdefault(frame.sparkSession, {})[name.casefold()] = _made.get(frame)


def _read(spark: SparkSession, pieces: Pieces, types: StructType) -> DataFrame:
    """The rows of pieces. Many of them are put together with rows of which Spark knows nothing, and of which there are none.

    Spark takes the size of what `mapInArrow` makes for that of what it is given, the numbers of some pieces, and would send
    all rows to every task of a join: together, they are too many for that. And the rows here need not be asked, value by
    value, whether they are null where it is known that they are not: whoever uses them finds that they may be.
    """
    large = pieces.size is None or pieces.size > shares.SMALL
    none = _nothing(spark, types) if large or not pieces.count else None
    if not pieces.count:
        return spark.createDataFrame([], types) if none is None else none
    rows = numbered(spark, pieces.count)
    if none is None:
        return rows.mapInArrow(_reading(pieces), types)
    return rows.mapInArrow(_reading(pieces), without_null(types, pieces.full)).union(none)


def _nothing(spark: SparkSession, types: StructType) -> DataFrame | None:
    """No rows, which Spark cannot know before it has run; None if there is no such thing.

    Made by Java: `createDataFrame` of Python would make this session the active one, for whoever asks for that later.
    """
    there: Any = spark
    try:
        java, rows = there._jsparkSession, there.sparkContext._jsc.emptyRDD()  # noqa: SLF001 - Spark has it for itself only
    except Exception:  # noqa: BLE001 - a session of Spark Connect has no Java beside it, and says so in its own way
        return None
    frame: DataFrame = type(spark.range(0))(java.createDataFrame(rows, java.parseDataType(types.json())), spark)
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


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark says."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - a session of Spark Connect has no context, and says so in its own way
        return int(spark.conf.get("spark.default.parallelism", None) or shares.cores())


def _reading(pieces: Pieces) -> Task:
    def phalanx_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            yield from pieces.for_spark(number)

    return phalanx_read


def table_frame(
    lake: Lake, spark: SparkSession, snapshot: Snapshot, name: str, columns: Sequence[str] | None, where: str | None
) -> DataFrame:
    """A table at a snapshot."""
    planned = plan_scan(lake.core, reach(lake), snapshot.found(name), columns, where, parallelism(spark))
    return pieces_frame(spark, planned.scan, (snapshot, planned.held))


def changes_frame(lake: Lake, spark: SparkSession, name: str, since: int, until: int | None) -> DataFrame:
    """The changes of a table, with what happened to each row, and when."""
    planned = plan_changes(lake, name, since, until, parallelism(spark))
    held = [lake.core.hold(begin, whole=True) for begin, _ in planned.pieces[:1]]
    return pieces_frame(spark, planned, held)


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
