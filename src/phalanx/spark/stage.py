"""Staging in tasks: each writes its rows as Lance files, syncs them, and says what it wrote; nobody sees them yet.

A task that is repeated, or run twice at once, writes files of its own: only what the driver is told of by the task that
counts is ever named by an entry, and the rest are files without a name (known bug 28 cannot happen: Spark computes the
rows of a repeated task anew). Few rows are not worth a file: they are handed to the driver as they are, which writes those
of many tasks together.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from phalanx.data import Source, conform
from phalanx.errors import CorruptionError
from phalanx.objects import Sum
from phalanx.schema import require_keys
from phalanx.spark.lending import Job, Lent
from phalanx.spark.reach import Reach
from phalanx.spark.read import Pieces, Task, numbers
from phalanx.tables.dataset import Version
from phalanx.tables.stage import ROWS_PER_FILE, Written, heard, write
from phalanx.tail.payload import decode_rows, encode_rows
from phalanx.txn.core import locate

_HANDED = 256 << 10
"""Bytes that a task hands over at the most: a file of its own would hardly be worth it."""
_HANDING = 256
"""So many tasks do that, and those behind them hand over a quarter: all of it has its place in the driver."""


class Place(msgspec.Struct, frozen=True):
    """Where tasks stage rows: on a version of a table, with the columns and the key that it has."""

    reach: Reach
    name: str
    position: int
    table: str
    layout: int
    manifest: int
    schema: pa.Schema
    key: tuple[str, ...]
    fields: bytes
    rows_per_file: int = ROWS_PER_FILE
    job: Job | None = None
    """What pins its files and the version, because the process that began does not last."""


class Piece(msgspec.Struct, frozen=True):
    """What a task wrote: fragments in Lance's own words, or the few rows themselves."""

    rows: int
    size: int
    fragments: tuple[str, ...] = ()
    inline: bytes = b""
    lent: Lent | None = None
    """What pins the files, until an entry names them."""
    sums: dict[str, Sum] = {}
    """What is to be noted of the files: whoever has written them has them at hand."""

    def written(self) -> Written:
        """The fragments."""
        return heard(self.fragments, self.sums)

    def table(self) -> pa.Table:
        """The rows."""
        return decode_rows(self.inline)


_ANSWER = pa.schema({"piece": pa.binary()})
SPARK_ANSWER = "piece binary"


def staging(place: Place) -> Task:
    """A task that stages the rows it is given."""

    def phalanx_stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from said(stage(place, batches))

    return phalanx_stage


def copying(place: Place, given: Pieces) -> Task:
    """A task that stages pieces of another table: from Lance to Lance, without a row entering the JVM."""

    def phalanx_copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            yield from said(stage(place, given.rows(number)))

    return phalanx_copy


def said(piece: Piece | None) -> Iterator[pa.RecordBatch]:
    """A piece as a row."""
    if piece is not None:
        yield pa.RecordBatch.from_pydict({"piece": [msgspec.msgpack.encode(piece)]}, schema=_ANSWER)


def pieces(answer: Iterable[Any]) -> list[Piece]:
    """The pieces that tasks told, in the order of their rows."""
    return [msgspec.msgpack.decode(bytes(row[0]), type=Piece) for row in answer]


def stage(place: Place, batches: Iterable[pa.RecordBatch]) -> Piece | None:
    """Write rows as files of a table; None if there are none."""
    rows = _checked(place, batches)
    few, size, held = 0, 0, []
    context = TaskContext.get()
    most = _HANDED if context is None or context.partitionId() < _HANDING else _HANDED // 4
    for batch in rows:
        held.append(batch)
        few += batch.num_rows
        size += batch.nbytes
        if size > most:
            return _written(place, itertools.chain(held, rows))
    if not few:
        return None
    table = pa.Table.from_batches(held, place.schema).combine_chunks()
    return Piece(few, size, inline=encode_rows(table))


def _checked(place: Place, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with exactly the columns of the table; one that does not fit is refused with its column."""
    for batch in batches:
        for fitting in conform(Source(batch.schema, iter([batch])), place.schema).batches:
            require_keys(fitting, place.key)
            if fitting.num_rows:
                yield fitting


def _written(place: Place, rows: Iterator[pa.RecordBatch]) -> Piece:
    if place.job is None:
        return _filed(place, rows, None)
    with place.job.kept(place.reach):
        return _filed(place, rows, place.job.staging(place.reach))


def _filed(place: Place, rows: Iterator[pa.RecordBatch], lent: Lent | None) -> Piece:
    reader = pa.RecordBatchReader.from_batches(place.schema, rows)
    written = write(_base(place), reader, rows_per_file=place.rows_per_file)
    sums = place.reach.secure(place.table, written.files)
    return Piece(written.rows, written.size, written.told(), lent=lent, sums=sums)


def _base(place: Place) -> Version:
    """The version that files are written for; a newer one of the same columns if that was pruned before this task began."""
    datasets = place.reach.datasets()
    try:
        return datasets.open(place.table, place.manifest)
    except CorruptionError:
        with place.reach.open() as lake:
            head = locate(lake.core.refresh(), place.table).contents.head
            newer = datasets.open(place.table, head.manifest)
        if newer.fields != place.fields:
            raise
        return newer
