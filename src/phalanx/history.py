"""The log as people read it: one `Commit` for each transaction, with what it did in words."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Entry


class Commit(msgspec.Struct, frozen=True):
    """One transaction of the log: `version` is its position, `place` its index in the entry there."""

    version: int
    place: int
    time: datetime
    writer: str
    note: str
    changes: tuple[str, ...]
    transaction: str


Names = Mapping[str, tuple[str, ...]]
"""The names that tables have by now, by incarnation."""


def commits(position: int, entry: Entry, names: Names) -> list[Commit]:
    """The transactions of an entry, in the order of their places."""
    time = datetime.fromtimestamp(entry.time / 1e6, tz=UTC)
    return [
        Commit(
            position,
            place,
            time,
            entry.writer_of(place),
            transaction.note,
            tuple(describe(action, names) for action in transaction.actions),
            transaction.id.hex(),
        )
        for place, transaction in enumerate(entry.transactions)
    ]


def describe(action: do.Action, names: Names) -> str:
    """An action in a few words."""
    if isinstance(action, it.Item | it.Upkeep | it.Indexing):
        name = names.get(action.table)
        return f"{_ITEM_WORDS[type(action)](action)} {'a dropped table' if name is None else _dotted(name)}"
    return _WORDS[type(action)](action)


class Change(msgspec.Struct, frozen=True):
    """One version of a table: what made it, and the lake's version (with the place in it) at which that happened."""

    version: int
    lake_version: int
    place: int
    time: datetime
    writer: str
    note: str
    operation: str
    transaction: str


def changes(table: str, version: int, entries: Iterable[tuple[int, Entry]]) -> Iterator[Change]:
    """A table's versions, newest first, from `version` down; `entries` are those that may hold them, newest first."""
    for position, entry in entries:
        for place, transaction in reversed(list(enumerate(entry.transactions))):
            words = [_operation(action) for action in transaction.actions if _concerns(action, table)]
            if words:
                time = datetime.fromtimestamp(entry.time / 1e6, tz=UTC)
                said = ", ".join(words)
                writer = entry.writer_of(place)
                yield Change(version, position, place, time, writer, transaction.note, said, transaction.id.hex())
                version -= 1


def _concerns(action: do.Action, table: str) -> bool:
    return isinstance(action, it.Item | do.CreateTable) and action.table == table


def _operation(action: do.Action) -> str:
    return "create" if isinstance(action, do.CreateTable) else _ITEM_WORDS[type(action)](action).rpartition(" ")[0]


def _rows(action: it.Put | it.Upsert | it.Overwrite) -> str:
    count = action.rows.count
    return f"{count} row{'s' if count != 1 else ''}" + (" in bulk" if isinstance(action.rows, it.Staged) else "")


def _set(action: it.UpdateWhere) -> str:
    changed = ", ".join(f"{name} = {sql}" for name, sql in action.changes)
    return f"update set {changed}" + ("" if action.where is None else f" where {action.where}")


_ITEM_WORDS: Mapping[type, Callable[[Any], str]] = {
    it.Put: lambda a: f"append {_rows(a)} to",
    it.Upsert: lambda a: f"{'insert' if a.fresh else 'upsert'} {_rows(a)} into",
    it.Overwrite: lambda a: f"overwrite with {_rows(a)} in",
    it.DeleteKeys: lambda a: f"delete {a.count} keys from",
    it.DeleteRows: lambda a: f"delete {a.count} rows from",
    it.DeleteWhere: lambda a: f"delete where {a.where} from",
    it.UpdateWhere: lambda a: f"{_set(a)} in",
    it.Flush: lambda a: f"flush {a.until - a.first} items of",
    it.Rewrite: lambda a: f"rewrite {len(a.removed)} fragments as {a.added} of",
    it.Cover: lambda a: f"build {', '.join(a.names)} for",
    it.DeclareIndex: lambda a: f"create index {a.name} ({a.kind} of {a.column}) on",
    it.DropIndex: lambda a: f"drop index {a.name} of",
}


def _dotted(name: tuple[str, ...]) -> str:
    return ".".join(name)


_WORDS: Mapping[type, Callable[[Any], str]] = {
    do.Found: lambda a: f"create the lake (durability {a.settings.durability})",
    do.CreateNamespace: lambda a: f"create namespace {_dotted(a.name)}",
    do.AlterNamespace: lambda a: f"set properties of namespace {_dotted(a.name)}",
    do.DropNamespace: lambda a: f"drop namespace {_dotted(a.name)}",
    do.CreateTable: lambda a: f"create table {_dotted(a.name)}",
    do.DropTable: lambda a: f"drop table {_dotted(a.name)}",
    do.RenameTable: lambda a: f"rename table {_dotted(a.name)} to {_dotted(a.to)}",
    do.PutTag: lambda a: f"tag version {a.position} as {a.name}",
    do.Untag: lambda a: f"remove tag {a.name}",
    do.SetProperty: lambda a: f"remove property {a.key}" if a.value is None else f"set property {a.key}",
    do.Progress: lambda a: f"source {a.source} reaches {a.new}",
}
