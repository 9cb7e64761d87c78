"""Tables as users hold them: read at the newest version, at a snapshot, or inside a transaction; and changed.

A handle is bound to an incarnation (I10): it goes on working after a rename, and never writes to another table that
was created under its name. Every change is one statement, committed when the call returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phalanx import indexing
from phalanx.altering import Alterable
from phalanx.clock import environment
from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.indexing import IndexInfo
from phalanx.readable import Readable, SnapshotTable
from phalanx.tail.search import Vector
from phalanx.txn.core import Core, Found, locate
from phalanx.txn.dated import at_version, landed
from phalanx.txn.statement import Statements
from phalanx.upkeep.window import Previous, previous_mode

if TYPE_CHECKING:
    import pyarrow as pa

    from phalanx.log.item import Index, Step
    from phalanx.tail.overlay import Shape
    from phalanx.tail.read import Reading
    from phalanx.txn.draft import Draft
    from phalanx.txn.transaction import Work
    from phalanx.upkeep.background import Background

Progress = Callable[[int], None]


__all__ = ["Readable", "SnapshotTable", "Table", "TransactionTable"]


class Table(Readable, Alterable):
    """A table at the newest version. Safe to use from many threads."""

    def __init__(self, core: Core, background: Background, found: Found) -> None:
        self._core = core
        self._background = background
        self._known = found.shape

    @property
    def _shape(self) -> Shape:
        return self._core.shape(self._known)

    def append(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        note: str = "",
        prune_previous: Previous = False,
        timeout: float | None = None,
    ) -> int:
        """Add rows; on a table with a key, they replace those of the same key. The version it landed on.

        `stage` decides whether rows are written as files first (True) or travel in the log (False); by size otherwise.
        `progress` is called with the number of rows written so far. With `prune_previous` (True, "eager" or "background"),
        earlier versions are pruned afterwards, under the lake's window.
        """
        return self._write(
            timeout, note, lambda statements: statements.put(rows, progress, stage, "append"), prune_previous
        )

    def upsert(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        note: str = "",
        prune_previous: Previous = False,
        timeout: float | None = None,
    ) -> int:
        """Add rows, or replace those of the same key; the last of equal keys counts."""
        if not self.key:
            raise InvalidInputError("upsert needs a key, and this table has none: use append")
        return self._write(
            timeout, note, lambda statements: statements.put(rows, progress, stage, "upsert"), prune_previous
        )

    def insert(self, rows: object, *, note: str = "", timeout: float | None = None) -> int:
        """Add rows whose keys must not exist; otherwise nothing changes, and the error names one."""
        return self._write(timeout, note, lambda statements: statements.insert(rows))

    def overwrite(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        note: str = "",
        prune_previous: Previous = False,
        timeout: float | None = None,
    ) -> int:
        """Replace all rows by these."""
        return self._write(
            timeout,
            note,
            lambda statements: statements.put(rows, progress, stage, "overwrite", replace=True),
            prune_previous,
        )

    def delete(self, where: str, *, note: str = "", timeout: float | None = None) -> int:
        """Remove the rows that match a condition; "true" removes all."""
        return self._write(timeout, note, lambda statements: statements.delete(where))

    def update(
        self, changes: Mapping[str, object], where: str | None = None, *, note: str = "", timeout: float | None = None
    ) -> int:
        """Set columns, by SQL expressions over the old row, in the rows that match (in all without a condition)."""
        return self._write(timeout, note, lambda statements: statements.update(changes, where))

    def _alter(self, steps: Sequence[Step], timeout: float | None) -> int:
        landed = self._write(timeout, "", lambda statements: statements.alter(steps))
        self._background.start(self.id)  # readers convert rows until they are written out
        return landed

    def at(self, version: int) -> SnapshotTable:
        """The table at one of its own versions, which count the changes of its rows and columns."""
        here = self._found()
        return SnapshotTable(self._core, at_version(self._core, here, landed(here, version)))

    def create_index(self, column: str, kind: str = "btree", *, name: str | None = None, **options: Any) -> int:  # noqa: ANN401 - Lance's own
        """Declare an index (btree, bitmap, inverted, ivf_pq, …) and build it; it is kept covering from now on.

        Options are those of Lance, for example `num_partitions=256, num_sub_vectors=16, metric="cosine"`.
        """
        return indexing.create(self._core, self.id, column, kind, name, options)

    def drop_index(self, name: str) -> int:
        """An index is no longer wanted."""
        return indexing.drop(self._core, self.id, name)

    def indexes(self) -> list[IndexInfo]:
        """The indexes of this table, the one that its key keeps included, and how much they cover."""
        return indexing.listed(self._core, self.id)

    def _write(
        self,
        timeout: float | None,
        note: str,
        run: Callable[[Statements], int],
        prune_previous: Previous | None = None,
    ) -> int:
        mode = previous_mode(prune_previous or False, environment(), self._core.log.view.state.properties)
        table = self._known.table
        statements = Statements(self._core, self._shape, timeout, note)
        self._background.make_room(table, self._core.deadline(timeout))
        landed = run(statements)
        self._background.wrote(table, landed)
        if mode is not None:
            self._background.prune_previous(table, mode)
        return landed

    def _found(self) -> Found:
        return locate(self._core.refresh(), self.id)

    def _indexes(self) -> tuple[Index, ...]:
        return locate(self._core.log.view, self.id).contents.indexes  # who reads has just asked for what is new

    def _reading(self) -> Reading:
        reading = self._core.reading(self._found())
        self._background.read(self.id, reading.overlay.hidden())
        return reading

    def __repr__(self) -> str:
        return f"<Table {self.name}>"


class TransactionTable(Readable, Alterable):
    """A table inside a transaction: at its snapshot, with the transaction's own changes."""

    def __init__(self, work: Work, draft: Draft) -> None:
        self._work = work
        self._core = work.core
        self._draft = draft

    @property
    def _shape(self) -> Shape:
        return self._draft.found.shape

    def append(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        prune_previous: Previous = False,
    ) -> None:
        """Add rows; on a table with a key, they replace those of the same key.

        With `prune_previous`, its earlier versions are pruned once the transaction is committed.
        """
        self._pruning(prune_previous, lambda draft: draft.put(rows, progress, stage))

    def upsert(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        prune_previous: Previous = False,
    ) -> None:
        """Add rows, or replace those of the same key."""
        if not self.key:
            raise InvalidInputError("upsert needs a key, and this table has none: use append")
        self._pruning(prune_previous, lambda draft: draft.put(rows, progress, stage, "upsert"))

    def insert(self, rows: object) -> None:
        """Add rows whose keys must not exist."""
        self._open().insert(rows)

    def overwrite(
        self,
        rows: object,
        *,
        stage: bool | None = None,
        progress: Progress | None = None,
        prune_previous: Previous = False,
    ) -> None:
        """Replace all rows by these."""
        self._pruning(prune_previous, lambda draft: draft.overwrite(rows, progress, stage))

    def delete(self, where: str) -> int:
        """Remove the rows that match a condition; their number."""
        return self._open().delete(where)

    def delete_many(self, keys: Iterable[Any]) -> int:
        """Remove the rows of these keys (of tuples, if the key has several columns), if they are there; their number."""
        return self._open().delete_keys(self.get_many(keys, self.key))

    def update(self, changes: Mapping[str, object], where: str | None = None) -> int:
        """Set columns of the rows that match; their number."""
        return self._open().update(changes, where)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, with bounded memory."""
        self._open().read_rows(where, limit)
        return super().scan(columns, where, limit, batch_size=batch_size)

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Rows as an Arrow table."""
        self._open().read_rows(where, limit)
        return super().to_arrow(columns, where, limit)

    def count(self, where: str | None = None) -> int:
        """The number of rows, or of those that match."""
        self._open().read_rows(where)
        return super().count(where)

    def get(self, key: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a key's value
        """The row of a key (of a tuple, if the key has several columns), or None."""
        self._open().read_keys([key])
        return super().get(key)

    def get_many(self, keys: Iterable[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these keys."""
        wanted = keys if isinstance(keys, str | bytes) else list(keys)
        found = super().get_many(wanted, columns)
        self._open().read_keys(wanted)
        return found

    def search(self, vector: Vector | None = None, **question: Any) -> pa.Table:  # noqa: ANN401 - as of any table
        """The k rows nearest to a vector, or whose text matches best: see `Table.search`."""
        self._open().read_rows(None)
        return super().search(vector, **question)

    def _alter(self, steps: Sequence[Step], timeout: float | None) -> None:
        self._open().alter(steps)

    def _pruning(self, previous: Previous, run: Callable[[Draft], object]) -> None:
        """Do something; what came before this transaction goes after its commit, if that is asked for (rule E6)."""
        draft = self._open()
        mode = previous_mode(previous, environment(), self._core.log.view.state.properties)
        run(draft)
        if mode is not None:
            self._work.prunes[draft.found.table.id] = mode

    def _open(self) -> Draft:
        self._work.require_open()
        if self._draft.dropped:
            raise NotFoundError(f"table {self.name!r} was dropped in this transaction: nothing can be done with it")
        return self._draft

    def _found(self) -> Found:
        self._work.look()
        return self._draft.found

    def _reading(self) -> Reading:
        return self._open().reading

    def __repr__(self) -> str:
        return f"<Table {self.name} in a transaction>"
