"""Changes of a table between two versions, as work for tasks: the feed in pieces, or only the rows that were added.

Whoever follows a table that is only added to wants its new rows, as the table has them. What else happened there cannot be
told by rows alone: then the read fails, and says at which version.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute as pc

from phalanx.errors import InvalidInputError, StateError
from phalanx.expr import plan_predicate
from phalanx.feed import CHANGE, NAMES, VERSION, changes, feed_schema
from phalanx.lake import Lake
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.reach import Reach, reach
from phalanx.spark.session import BATCH
from phalanx.tail.effects import Kind

_INSERT = NAMES[Kind.INSERT]


class Changes(msgspec.Struct, frozen=True):
    """The changes of a table after one version of the lake up to another, in pieces that follow each other.

    With `added`, its new rows, or some columns of those that match a condition.
    """

    reach: Reach
    name: str
    until: int
    schema: pa.Schema
    pieces: tuple[tuple[int, int], ...]
    added: bool = False
    columns: tuple[str, ...] = ()
    where: str | None = None

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return len(self.pieces)

    @property
    def wanted(self) -> pa.Schema:
        """The columns that are read."""
        if not self.added:
            return feed_schema(self.schema)
        return pa.schema([self.schema.field(name) for name in self.columns])

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """One piece, as the table has it. Runs in a task."""
        above, upto = self.pieces[number]
        with self.reach.open() as lake:
            found = lake.snapshot(version=self.until).found(self.name)  # all pieces have the columns of the end
            for batch in changes(lake.core, found, above, upto):
                for at in range(0, batch.num_rows, BATCH):
                    part = batch.slice(at, BATCH)
                    yield self._new(part) if self.added else part

    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]:
        """One piece, as Spark takes it. Runs in a task."""
        types = exchanged(self.wanted)
        for batch in self.rows(number):
            yield to_spark(batch, types)

    def _new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that were added, without what the feed says of them; refused if there is anything else."""
        insert: Any = pa.scalar(_INSERT)
        other = int(pc.index(pc.not_equal(batch.column(CHANGE), insert), value=True).as_py())
        if other >= 0:
            what, where = batch.column(CHANGE)[other].as_py(), batch.column(VERSION)[other].as_py()
            raise StateError(
                f"table {self.name!r} was not only added to: there is a {what} at version {where}; follow its changes as "
                "a feed"
            )
        rows = pa.RecordBatch.from_arrays(batch.select(self.schema.names).columns, schema=self.schema)
        if self.where is not None:
            rows = rows.filter(plan_predicate(self.where, self.schema).mask(rows))
        return rows.select(list(self.columns))


def plan_changes(
    lake: Lake,
    name: str,
    since: int,
    until: int | None,
    tasks: int,
    *,
    added: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> Changes:
    """Decide what is read of a feed; whether it is still there is checked here."""
    upto = lake.snapshot(version=until)
    if since > upto.version:
        raise InvalidInputError(
            f"changes are those after one version up to a later one: {since} and {upto.version} are not"
        )
    lake.changes(name, since, upto.version)  # refuses what is no longer there, and reads nothing yet
    found = upto.found(name)
    newer = itertools.takewhile(lambda one: one.position > since, found.contents.versions.newest_first())
    pieces = shared_out(since, sorted({one.position for one in newer}), upto.version, tasks)
    schema = found.shape.schema
    names = tuple(schema.names if columns is None else columns)
    exchanged(pa.schema([schema.field(one) for one in names]))
    return Changes(reach(lake), name, upto.version, schema, pieces, added, names, where)


def shared_out(since: int, landed: Sequence[int], until: int, tasks: int) -> tuple[tuple[int, int], ...]:
    """Ranges of versions for as many tasks, with as many commits of the table in each."""
    if not landed:
        return ()
    count = max(1, min(tasks, len(landed)))
    ends = [landed[len(landed) * (at + 1) // count - 1] for at in range(count - 1)]
    return tuple(itertools.pairwise([since, *ends, until]))
