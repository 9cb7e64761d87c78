"""A transaction as users hold it: `with lake.transaction("note") as txn: txn["turns"].append(rows)`."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from phalanx.data import source
from phalanx.errors import InvalidInputError
from phalanx.log import action as do
from phalanx.names import parse_name, parse_word
from phalanx.table import TransactionTable
from phalanx.txn.transaction import Work
from phalanx.upkeep.background import Background
from phalanx.upkeep.due import check_habit
from phalanx.upkeep.limits import check_property


class Transaction:
    """Changes of any number of tables that land together, or not at all. Belongs to one thread at a time."""

    def __init__(self, work: Work, background: Background) -> None:
        self._work = work
        self._background = background

    @property
    def snapshot_version(self) -> int:
        """The version of the lake that it reads; taken now if it has not looked at anything yet."""
        return self._work.began.position

    @property
    def version(self) -> int | None:
        """The version of the lake that it became; None until it is committed."""
        return self._work.version

    def __getitem__(self, name: str) -> TransactionTable:
        """A table, to be read and changed."""
        return TransactionTable(self._work, self._work.draft(name))

    def tables(self) -> list[str]:
        """The names of all tables, as this transaction sees them."""
        if self._work.reads is not None:
            self._work.reads.catalog = True
        return sorted(".".join(name) for name in self._work.view.state.tables)

    def create_table(
        self,
        name: str,
        data: object,
        *,
        key: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TransactionTable:
        """Create a table from a schema, or from rows."""
        return create_table(self._work, name, data, key, properties)

    def drop_table(self, name: str) -> None:
        """Drop a table."""
        self._work.drop(name)

    def rename_table(self, name: str, to: str) -> None:
        """Give a table another name."""
        self._work.look()
        here = self._work.draft(name).found
        current = self._work.view.state.names[here.table.id]
        self._work.change(do.RenameTable(current, here.table.id, parse_name(to)))

    def create_namespace(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace."""
        self._work.change(do.CreateNamespace(parse_name(name, "namespace"), dict(properties or {})))

    def set_property(self, key: str, value: str | None) -> None:
        """Set a property of the lake, or remove it with None."""
        check_property(key, value)
        check_habit(key, value)
        self._work.change(do.SetProperty(parse_word(key, "property"), value))

    def record_progress(self, source: str, new: int, *, expected: int | None) -> None:
        """Move a source from `expected` to `new`, together with everything else in here."""
        self._work.change(do.Progress(source, expected, new))

    def commit(self) -> int:
        """Land as a whole; the version of the lake."""
        self._work.require_open()
        tables = self._work.changed()
        for table in tables:
            self._background.make_room(table, self._work.deadline())
        version = self._work.commit()
        for table in tables:
            self._background.wrote(table, version)
            if table in self._work.prunes:
                self._background.prune_previous(table, self._work.prunes[table])
        return version

    def rollback(self) -> None:
        """Forget everything."""
        self._work.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None and not self._work.over:
                self.commit()
        finally:
            self._work.rollback()


def create_table(
    work: Work, name: str, data: object, key: str | Sequence[str], properties: Mapping[str, str] | None
) -> TransactionTable:
    """A new table in a transaction, from a schema or from rows."""
    columns = (key,) if isinstance(key, str) else tuple(key or ())
    if isinstance(data, pa.Schema):
        return TransactionTable(work, work.create(name, data, columns, properties or {}))
    rows = source(data)
    if not len(rows.schema):
        raise InvalidInputError("there is neither a schema nor a row to make a table from: give one of them")
    draft = work.create(name, rows.schema, columns, properties or {})
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.batches)
    draft.fill(reader)
    return TransactionTable(work, draft)
