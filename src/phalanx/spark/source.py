"""The data source `phalanx` of Spark: `spark.read.format("phalanx")`, `df.write.format("phalanx")`, and streams.

Spark makes these objects in one process, plans in another, runs tasks in others and commits in yet another one: they are
values, and whoever needs the lake opens it. The version that is read is decided once, with the schema, and travels along.

`pushFilters` is not defined on purpose: Spark 4.1 to 4.3 applies a pushed filter to other uses of the same data frame, too,
and returns wrong rows. Columns and conditions are options instead.
"""

from collections.abc import Iterator, MutableMapping, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from phalanx.errors import InvalidInputError
from phalanx.feed import feed_schema
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.spark.columns import check_columns, spark_schema, to_arrow, without_null
from phalanx.spark.feed import Changes, plan_changes
from phalanx.spark.land import Mode, check_mode, gather, land, newest, stage_place
from phalanx.spark.lending import lend
from phalanx.spark.options import Options, opened, read_options
from phalanx.spark.parts import Scan, plan_scan
from phalanx.spark.reach import reach
from phalanx.spark.stage import Piece, Place, stage
from phalanx.spark.stream import FeedReader, FeedWriter, stream_schema

_READS = {
    False: ("version", "tag", "as_of", "columns", "filter", "tasks"),
    True: ("version", "tag", "as_of", "since", "until", "changes", "tasks"),
}
"""The options of a read, and of one of changes: what else is given would not be obeyed. With any of the first it is no stream."""


class PhalanxSource(DataSource):
    """A table of a lake, as Spark reads and writes it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.asked = read_options(dict(options))
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        """What it is called in `format`."""
        return "phalanx"

    def schema(self) -> StructType:
        """The columns of the table, at the version that will be read."""
        asked = self.asked
        with opened(asked) as lake:
            snapshot = asked.snapshot(lake)
            if asked.since is not None and asked.until is not None:  # changes have the columns of their end
                snapshot = lake.snapshot(version=asked.until)
            self._version = snapshot.version
            schema = snapshot.found(asked.table).shape.schema
            lake.core.require_columns(snapshot.found(asked.table).shape)
            if asked.since is None and asked.given & {*_READS[False]} and lake.core.store.probes:
                return _declared(_scan(lake, snapshot, asked))  # a stream goes on, and may have nulls later
        if asked.since is not None or asked.changes == "feed":  # Spark does not say whether it will be a stream
            return spark_schema(feed_schema(schema))
        names = schema.names if asked.columns is None else asked.columns
        unknown = [name for name in names if name not in schema.names]
        if unknown:
            raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(schema.names)}")
        return spark_schema(pa.schema([schema.field(name) for name in names]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """All rows of the table at one version, or its changes between two."""
        asked = self.asked
        if asked.since is None and asked.changes == "feed":
            raise InvalidInputError("changes are those after a version: give it with the option since, or readStream")
        asked.require("a read of changes" if asked.since is not None else "a read", *_READS[asked.since is not None])
        if self._version is None:  # Spark did not ask for the columns: somebody has told it
            require_columns(schema, self.schema())
        with opened(asked) as lake:
            snapshot = asked.snapshot(lake) if self._version is None else lake.snapshot(version=self._version)
            if asked.since is not None:
                until = snapshot.version if asked.until is None else asked.until
                job = lend(lake.core, since=asked.since, reads=True)
                planned = plan_changes(lake, asked.table, asked.since, until, asked.tasks)
                return ChangesReader(msgspec.structs.replace(planned, job=job))
            job = lend(lake.core, at=snapshot.version, reads=True)
            scan = _scan(lake, snapshot, asked)
            known = schema == _declared(scan)  # the columns may also be those that somebody gave
            return ScanReader(msgspec.structs.replace(scan, job=job), to_arrow(schema) if known else None)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Rows for the table, in one commit."""
        self.asked.require("a write", "mode", "rows_per_file", "note")
        with opened(self.asked) as lake:
            place, mode = writing(lake, self.asked, schema, overwrite=overwrite)
            return TableWriter(place, mode, self.asked, lake.core.ids.next())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The changes of the table, as they are committed."""
        self.asked.require("a stream that is read", "changes", "start", "max_versions")
        types = stream_schema(self.asked)
        require_columns(schema, spark_schema(types))
        return FeedReader(self.asked, types)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Batches for the table, each of which takes effect once."""
        if overwrite:
            raise InvalidInputError("a stream appends or upserts: use outputMode append, or update for upsert")
        self.asked.require("a stream that is written", "mode", "rows_per_file", "note", "query")
        with opened(self.asked) as lake:
            place, mode = writing(lake, self.asked, schema, overwrite=False)
            if mode == "overwrite":
                raise InvalidInputError("a stream appends or upserts: every batch would replace those before it")
            return FeedWriter(place, mode, self.asked)


def require_columns(given: StructType, own: StructType) -> None:
    """Refuse columns that somebody has told Spark, unless they are those that there are: rows have no others."""
    told, there = (f"({', '.join(f'{one.name} {one.dataType.simpleString()}' for one in of)})" for of in (given, own))
    if told != there:
        raise InvalidInputError(f"the columns are {there}, and not {told}: leave .schema(…) out, and select from them")
    surely = [one.name for one, other in zip(given, own, strict=True) if other.nullable and not one.nullable]
    if surely:
        raise InvalidInputError(f"column {surely[0]!r} may be null, and .schema(…) says that it is not: leave that out")


def _scan(lake: Lake, snapshot: Snapshot, asked: Options) -> Scan:
    return plan_scan(lake.core, reach(lake), snapshot.found(asked.table), asked.columns, asked.where, asked.tasks).scan


def _declared(scan: Scan) -> StructType:
    """The columns of a scan, and which have no null: it is of one version."""
    return without_null(spark_schema(scan.wanted), scan.full)


def writing(lake: Lake, asked: Options, schema: StructType, *, overwrite: bool) -> tuple[Place, Mode]:
    """Where and how rows of these columns are written, checked before any task begins."""
    found = lake.refresh().found(asked.table)
    mode = check_mode(asked.mode or ("overwrite" if overwrite else "append"), found)
    if overwrite and mode != "overwrite":
        raise InvalidInputError(f'the option mode is {mode}, and Spark was told to overwrite: use .mode("append")')
    check_columns(schema, found.shape.schema, asked.table)
    job = lend(lake.core, at=found.position)
    place = msgspec.structs.replace(stage_place(lake, found, asked.rows_per_file), job=job)
    return place, mode


class ScanReader(DataSourceReader):
    """Reads a table; a partition is a group of fragments. `types` is what Spark was told of the columns, if they are so."""

    def __init__(self, scan: Scan, types: pa.Schema | None = None) -> None:
        self._scan, self._types = scan, types

    def partitions(self) -> Sequence[InputPartition]:
        """See `DataSourceReader`."""
        return [InputPartition(at) for at in range(self._scan.count)] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`; runs in a task."""
        for batch in () if partition.value is None else self._scan.for_spark(partition.value):
            yield batch if self._types is None else batch.cast(self._types)


class ChangesReader(DataSourceReader):
    """Reads the changes of a table; a partition is a range of versions."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def partitions(self) -> Sequence[InputPartition]:
        """See `DataSourceReader`."""
        return [InputPartition(at) for at in range(self._changes.count)] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`; runs in a task."""
        return iter(()) if partition.value is None else self._changes.for_spark(partition.value)


class Wrote(WriterCommitMessage):
    """What a task wrote, told to whoever commits."""

    def __init__(self, piece: Piece | None) -> None:
        self.piece = piece


class TableWriter(DataSourceArrowWriter):
    """Stages rows in tasks, and commits what the tasks that count have written."""

    def __init__(self, place: Place, mode: Mode, asked: Options, identity: bytes) -> None:
        self._place, self._mode, self._asked, self._identity = place, mode, asked, identity

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """See `DataSourceArrowWriter`; runs in a task."""
        return Wrote(stage(self._place, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One entry. Asked for again, it is the same transaction, which takes effect once."""
        done = [one.piece for one in messages if isinstance(one, Wrote) and one.piece is not None]
        with opened(self._asked) as lake:
            found = newest(lake.core, self._place)
            staged = gather(lake.core, found, self._place, self._mode, done)
            land(lake.core, [staged], note=self._asked.note, identity=self._identity)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: Spark aborts also when a commit that took effect did not say so, and an entry may name the files."""
