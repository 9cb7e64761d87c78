"""Changes of a table between two versions, as work for tasks: the feed in pieces, or only the rows that were added.

Whoever follows a table that is only added to wants its new rows, as the table has them. What else happened there cannot be
told by rows alone: then the read fails, and says at which version.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from phalanx.errors import InvalidInputError, StateError
from phalanx.expr import plan_predicate
from phalanx.feed import CHANGE, NAMES, TIME, VERSION, changes, feed_schema
from phalanx.lake import Lake
from phalanx.names import parse_name
from phalanx.snapshot import Snapshot
from phalanx.spark.columns import exchanged, to_spark
from phalanx.spark.lending import Job
from phalanx.spark.reach import Reach, reach
from phalanx.spark.session import BATCH
from phalanx.tail.effects import Kind
from phalanx.txn.core import Found

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
    job: Job | None = None
    """What pins it, if the process that planned it does not last."""

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

    @property
    def full(self) -> tuple[str, ...]:
        """Nothing is known of nulls."""
        return ()

    @property
    def size(self) -> int | None:
        """Nor of the bytes, before they are read."""
        return None

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """One piece, as the table has it. Runs in a task."""
        above, upto = self.pieces[number]
        kept = contextlib.nullcontext() if self.job is None else self.job.kept(self.reach)
        with kept, self.reach.open() as lake:
            found = lake.snapshot(version=self.until).found(self.name)  # all pieces have the columns of the end
            for batch in changes(lake.core, found, above, upto):
                for at in range(0, batch.num_rows, BATCH):
                    part = batch.slice(at, BATCH)
                    rows = self._new(part) if self.added else part
                    if rows.num_rows:
                        yield rows

    def for_spark(self, number: int) -> Iterator[pa.RecordBatch]:
        """One piece, as Spark takes it. Runs in a task."""
        types = exchanged(self.wanted)
        for batch in self.rows(number):
            yield to_spark(batch, types)

    def _new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that were added, without what the feed says of them; refused if there is anything else."""
        _require_inserts(batch, self.name)
        columns = batch.select(self.schema.names).columns
        _require_values(columns, self.schema, self.name)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if self.where is not None:
            rows = rows.filter(plan_predicate(self.where, self.schema).mask(rows))
        return rows.select(list(self.columns))


def _require_inserts(batch: pa.RecordBatch, table: str) -> None:
    insert: Any = pa.scalar(_INSERT)
    other = int(pc.index(pc.not_equal(batch.column(CHANGE), insert), value=True).as_py())
    if other >= 0:
        what, where = batch.column(CHANGE)[other].as_py(), batch.column(VERSION)[other].as_py()
        raise StateError(
            f"table {table!r} was not only added to: there is a {what} at version {where}; follow its changes as a feed"
        )


def _require_values(columns: Sequence[Any], schema: pa.Schema, table: str) -> None:
    """Rows of a time when a column could be null: Spark was told that it cannot, and would take nulls for zeros."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise StateError(
                f"column {field.name!r} of table {table!r} may not be null by now, and was, in rows that are read: begin "
                "with a newer version, or follow its changes as a feed"
            )


def require_same(lake: Lake, name: str, since: int, until: int) -> None:
    """Refuse to go on with a table that is another one of the same name: what became of the first would be left out."""
    if since < 1 or not lake.core.log.view.state.retained.has(since):
        return  # nobody knows any more; whoever needs the log is refused for that
    old, new = (lake.core.log.at(one).state.tables.get(parse_name(name)) for one in (since, until))
    if old is not None and new is not None and old.id != new.id:
        raise StateError(
            f"table {name!r} was dropped and created anew at version {new.created}: what is new in it cannot be told from "
            f"version {since} on; begin again with the whole table"
        )


def compared(lake: Lake, name: str, since: int, until: int) -> pa.Table:
    """What differs between two versions of a table, as a feed has it: for who comes too late for the log.

    The rows that changed are found by comparing, so how they came to be is not known: all of it is told of the last version.
    """
    snapshot = lake.snapshot(version=until)
    schema = feed_schema(snapshot.found(name).shape.schema)
    rows = lake.diff(name, since, until)
    many = rows.num_rows
    said = [np.full(many, snapshot.version), np.full(many, snapshot.view.time)]
    when = pa.array(said[1]).cast(schema.field(TIME).type)
    columns: list[Any] = [*rows.columns, pa.array(said[0]), when, pa.array(np.arange(many))]
    return pa.table(columns, schema=schema)


def compared_added(
    lake: Lake, name: str, since: int, until: int, columns: Sequence[str] | None, where: str | None
) -> pa.Table:
    """As `compared`, of a table that is only added to: the new rows, or some."""
    found = lake.snapshot(version=until).found(name)
    schema = found.shape.schema
    names = tuple(columns or schema.names)
    changes_of = Changes(reach(lake), name, until, schema, (), added=True, columns=names, where=where)
    parts = [changes_of._new(batch) for batch in compared(lake, name, since, until).to_batches()]  # noqa: SLF001 - its own
    return pa.Table.from_batches(parts, changes_of.wanted)


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
    found = upto.found(name)
    begin = quiet_until(found, since, upto.version)
    lake.changes(name, begin, upto.version)  # refuses what is no longer there, and reads nothing yet
    newer = itertools.takewhile(lambda one: one.position > begin, found.contents.versions.newest_first())
    pieces = shared_out(begin, sorted({one.position for one in newer}), upto.version, tasks)
    schema = found.shape.schema
    names = tuple(schema.names if columns is None else columns)
    exchanged(pa.schema([schema.field(one) for one in names]))
    return Changes(reach(lake), name, upto.version, schema, pieces, added, names, where)


def quiet_until(found: Found, since: int, upto: int) -> int:
    """The last version, up to `upto`, before which nothing happened to a table after version `since`.

    The fold knows that for ever. So the log of the others' changes may be pruned, and whoever follows a quiet table goes on.
    """
    if found.table.created > since:
        return since  # what became of another one of that name is not known
    held = found.contents.versions.at(since)
    following = next(found.contents.versions.oldest_first(0 if held is None else held.version), None)
    return max(since, upto if following is None else min(following.position - 1, upto))


def shown_at(planned: Changes, snapshot: Snapshot) -> Changes:
    """The same changes, with all the columns that the table has at another version."""
    schema = snapshot.found(planned.name).shape.schema
    columns = tuple(schema.names)
    return msgspec.structs.replace(planned, until=snapshot.version, schema=schema, columns=columns)


def shared_out(since: int, landed: Sequence[int], until: int, tasks: int) -> tuple[tuple[int, int], ...]:
    """Ranges of versions for as many tasks, with as many commits of the table in each."""
    if not landed:
        return ()
    count = max(1, min(tasks, len(landed)))
    ends = [landed[len(landed) * (at + 1) // count - 1] for at in range(count - 1)]
    return tuple(itertools.pairwise([since, *ends, until]))
