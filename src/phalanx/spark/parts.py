"""A table at one snapshot as work for many tasks: balanced groups of fragments of one Lance version, or parts of large ones.

The driver decides what is read; tasks only open what they are told: the tail is part of it, written out as a version that
nobody else sees. So all tasks of a job, and their repetitions, read the same rows, whatever is committed meanwhile (I5).
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from phalanx.errors import CorruptionError, InvalidInputError, SnapshotExpiredError
from phalanx.expr import plan_predicate
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.lending import Job
from phalanx.spark.reach import Reach
from phalanx.spark.session import BATCH
from phalanx.tables.dataset import Version
from phalanx.tail.read import Reading
from phalanx.txn.core import Core, Found

ROWS_PER_TASK = 4 << 20
"""A task reads a few fragments of full size: starting one costs as much as reading some ten thousand rows."""

LEAST_ROWS = 1 << 18
"""A fragment is cut into parts that have at least so many rows."""

Group = tuple[int, ...]


class Share(msgspec.Struct, frozen=True):
    """What one task reads: some fragments, or one of them from a row to another, of those that live."""

    fragments: Group
    bounds: tuple[int, int] | None = None

    @property
    def rows(self) -> range | None:
        """The places of the rows; None if it is all of them."""
        return None if self.bounds is None else range(*self.bounds)


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
    job: Job | None = None
    """What pins it, if the process that planned it does not last."""

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
        if self.job is None:
            yield from self._rows(number)
            return
        try:
            with self.job.kept(self.reach):
                yield from self._rows(number)
        except CorruptionError as error:
            raise SnapshotExpiredError(
                f"{error} If nothing is damaged, the version was pruned because this stage began so long after it was planned: "
                "read the table again"
            ) from error

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        version = self.reach.datasets().open(self.table, self.manifest)
        wanted = self.wanted
        predicate = None if self.where is None else plan_predicate(self.where, self.schema)
        pushed = None if predicate is None else predicate.lance
        if pushed is not None and not version.plans(pushed):
            pushed = None
        later = predicate if pushed is None else None
        names = [*self.columns, *(name for name in (later.columns if later else ()) if name not in self.columns)]
        for batch in self._batches(version, self.shares[number], names, pushed):
            kept = batch if later is None else batch.filter(later.mask(batch))
            if kept.num_rows:
                chosen = kept.select(wanted.names)
                yield chosen if chosen.schema.equals(wanted) else chosen.cast(wanted)

    def _batches(
        self, version: Version, share: Share, names: Sequence[str], where: str | None
    ) -> Iterable[pa.RecordBatch]:
        if share.rows is None:
            return version.scan(names, where=where, fragments=share.fragments, batch_size=BATCH)
        return version.part(names, share.fragments[0], share.rows, BATCH)

    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a share, as Spark takes them. Runs in a task."""
        types = exchanged(self.wanted)
        for batch in self.rows(number):
            yield to_spark(batch, types)


class Planned(NamedTuple):
    """A scan, and what has to be held for as long as it may run: nothing that it reads is pruned meanwhile."""

    scan: Scan
    held: tuple[object, ...]


def plan_scan(
    core: Core, reach: Reach, found: Found, columns: Sequence[str] | None, where: str | None, tasks: int
) -> Planned:
    """Decide what is read of a table; what is asked for is checked here, before a job is started."""
    return plan_scan_of(core, reach, found, core.reading(found), columns, where, tasks)


def plan_scan_of(
    core: Core,
    reach: Reach,
    found: Found,
    reading: Reading,
    columns: Sequence[str] | None,
    where: str | None,
    tasks: int,
) -> Planned:
    """As `plan_scan`, of a table with changes that nobody else sees."""
    schema = found.shape.schema
    names = tuple(schema.names if columns is None else columns)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]!r}; there is: {', '.join(schema.names)}")
    if len(set(names)) < len(names) or not names:
        raise InvalidInputError("name the columns to be read, each once")
    if where is not None:
        plan_predicate(where, schema)
    exchanged(pa.schema([schema.field(name) for name in names]))
    version = core.overlays.written_out(reading.overlay)
    name, rows = ".".join(found.name), sizes(version)
    shares = shared(rows, tasks) if where is None else tuple(map(Share, balanced(rows, tasks)))
    scan = Scan(reach, name, version.table, version.manifest, schema, names, where, shares)
    return Planned(scan, (reading, version))


def sizes(version: Version) -> dict[int, int]:
    """The rows of each fragment."""
    return {number: int(version.fragment(number).metadata.num_rows) for number in version.fragments}


def shared(rows: dict[int, int], tasks: int) -> tuple[Share, ...]:
    """Shares of about as many rows each. A fragment that is larger than that is cut; a filter would not allow it."""
    most = max(LEAST_ROWS, -(-sum(rows.values()) // max(1, tasks)))
    cut = [_cut(number, many, -(-many // most)) for number, many in sorted(rows.items()) if many > most]
    whole = {number: many for number, many in rows.items() if many <= most}
    left = max(1, tasks - sum(map(len, cut)))
    groups = balanced(whole, left) if whole else ()
    return (*(share for shares in cut for share in shares), *map(Share, groups))


def _cut(fragment: int, rows: int, parts: int) -> list[Share]:
    bounds = [rows * at // parts for at in range(parts + 1)]
    return [Share((fragment,), both) for both in itertools.pairwise(bounds)]


def balanced(rows: dict[int, int], tasks: int) -> tuple[Group, ...]:
    """Fragments in groups of about as many rows each: the largest first, each to the group that has least."""
    count = min(len(rows), max(1, tasks, -(-sum(rows.values()) // ROWS_PER_TASK)))
    groups: list[list[int]] = [[] for _ in range(count)]
    least = [(0, at) for at in range(count)]
    for number, many in sorted(rows.items(), key=lambda one: (-one[1], one[0])):
        held, at = heapq.heappop(least)
        groups[at].append(number)
        heapq.heappush(least, (held + many, at))
    return tuple(tuple(sorted(group)) for group in groups)
