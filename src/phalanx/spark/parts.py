"""A table at one snapshot as work for many tasks: balanced groups of fragments of one Lance version, or parts of large ones.

The driver decides what is read; tasks only open what they are told: the tail is part of it, written out as a version that
nobody else sees. So all tasks of a job, and their repetitions, read the same rows, whatever is committed meanwhile (I5).
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa

from phalanx.errors import CorruptionError, InvalidInputError, SnapshotExpiredError
from phalanx.expr import Predicate, plan_predicate
from phalanx.objects import layout
from phalanx.spark import shares as shares_of
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.lending import Job
from phalanx.spark.reach import Reach
from phalanx.spark.selective import by_lance
from phalanx.spark.session import BATCH
from phalanx.spark.shares import Share, balanced, bytes_of, shared, sizes, tasks_for
from phalanx.tables.dataset import Version, manifest_name
from phalanx.tables.nulls import full_columns, null_in
from phalanx.tail.read import Reading
from phalanx.txn.core import Core, Found


class Scan(msgspec.Struct, frozen=True):
    """Which rows and columns of which version are read, in which shares."""

    reach: Reach
    name: str
    table: str
    manifest: int
    schema: pa.Schema
    columns: tuple[str, ...]
    where: str | None
    shares: tuple[Share, ...]
    pushed: str | None = None
    """The condition in Lance's words, if Lance finds the rows: then shares have whole fragments only."""
    job: Job | None = None
    """What pins it, if the process that planned it does not last."""
    full: tuple[str, ...] = ()
    """Columns that have no null, as the files say."""
    size: int = 0
    """The bytes of all rows, about."""

    @property
    def wanted(self) -> pa.Schema:
        """The columns that are read, as the table has them."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def count(self) -> int:
        """How many shares there are."""
        return len(self.shares)

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a share, as the table has them. Runs in a task."""
        try:
            with contextlib.nullcontext() if self.job is None else self.job.kept(self.reach):
                yield from self._rows(number)
        except CorruptionError as error:
            if self._is_there():
                raise
            raise SnapshotExpiredError(
                f"the version of table {self.name!r} that is read here was pruned, because this stage began so long after it "
                "was planned, or the frame was made: read the table again"
            ) from error

    def _is_there(self) -> bool:
        """Whether the version is: if it is, what is missing is damaged, and was not pruned."""
        name = layout.table(self.table, manifest_name(self.manifest))
        return self.reach.datasets().files.store.get(name, limit=1) is not None

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        version = self.reach.datasets().open(self.table, self.manifest)
        wanted = self.wanted
        predicate = None if self.where is None else plan_predicate(self.where, self.schema)
        for batch in self._kept(version, self.shares[number], predicate):
            if batch.num_rows:
                chosen = batch.select(wanted.names)
                yield chosen if chosen.schema.equals(wanted) else chosen.cast(wanted)

    def _kept(self, version: Version, share: Share, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """The rows that the condition holds for, and perhaps more columns than are wanted."""
        whole = partial(version.scan, fragments=share.fragments, batch_size=BATCH)
        if self.pushed is not None:
            yield from whole(self.columns, where=self.pushed)
            return
        more = () if predicate is None else predicate.columns
        names = [*self.columns, *(name for name in more if name not in self.columns)]
        readers = [whole(names)] if share.fragments else []
        readers += [version.part(names, one.fragment, range(one.begin, one.end), BATCH) for one in share.parts]
        for batch in itertools.chain.from_iterable(readers):
            yield batch if predicate is None else batch.filter(predicate.mask(batch))

    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a share, as Spark takes them. Runs in a task."""
        wanted = exchanged(self.wanted)
        for batch in self.rows(number):
            wrong = null_in(batch, self.full)
            if wrong is not None:
                raise CorruptionError(
                    f"column {wrong!r} of table {self.name!r} has a null, and its file says that it has none"
                )
            yield to_spark(batch, wanted)


class Planned(NamedTuple):
    """A scan, and what has to be held for as long as it may run: nothing that it reads is pruned meanwhile."""

    scan: Scan
    held: tuple[object, ...]


def plan_scan(
    core: Core, reach: Reach, found: Found, columns: Sequence[str] | None, where: str | None, slots: int
) -> Planned:
    """Decide what is read of a table, by `slots` tasks at once; what is asked for is checked before a job is started."""
    return plan_scan_of(core, reach, found, core.reading(found), columns, where, slots)


def plan_scan_of(
    core: Core,
    reach: Reach,
    found: Found,
    reading: Reading,
    columns: Sequence[str] | None,
    where: str | None,
    slots: int,
) -> Planned:
    """As `plan_scan`, of a table with changes that nobody else sees."""
    schema = found.shape.schema
    if isinstance(columns, str):
        raise InvalidInputError(f"columns are a list of names: [{columns!r}]")
    names = tuple(schema.names if columns is None else columns)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(schema.names)}")
    if len(set(names)) < len(names) or not names:
        raise InvalidInputError("name the columns to be read, each once")
    predicate = None if where is None else plan_predicate(where, schema)
    wanted = pa.schema([schema.field(name) for name in names])
    exchanged(wanted)
    version = core.overlays.written_out(reading.overlay)
    name = ".".join(found.name)
    rows = {number: many for number, many in sizes(version).items() if many}
    size = bytes_of(sum(rows.values()), wanted)
    tasks = tasks_for(size, slots)
    pushed = None if predicate is None else by_lance(version, predicate)
    shares = shared(rows, tasks) if pushed is None else tuple(map(Share, balanced(rows, tasks)))
    full = full_columns(version, names) if size > shares_of.SMALL and core.store.probes else ()
    scan = Scan(
        reach, name, version.table, version.manifest, schema, names, where, shares, pushed, full=full, size=size
    )
    return Planned(scan, (reading, version))
