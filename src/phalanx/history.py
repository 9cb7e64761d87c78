"""The log as people read it: one `Commit` for each transaction, with what it did in words."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Entry
from phalanx.schema import decode_schema
from phalanx.tail.effects import Counted
from phalanx.versions import Landed


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
    if isinstance(action, it.Item | it.Upkeep | it.Indexing | it.Other):
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
    rows: Counted | None = None
    """How many rows it inserted, updated and deleted, if that was asked for."""


def versions_of(table: str, landed: Iterable[Landed], read: Callable[[int], Entry]) -> Iterator[Change]:
    """Versions of a table, and what made each."""
    for one in landed:
        entry = read(one.position)
        transaction = entry.transactions[one.place]
        words = [_operation(action) for action in transaction.actions if _concerns(action, table)]
        yield Change(
            one.version,
            one.position,
            one.place,
            datetime.fromtimestamp(entry.time / 1e6, tz=UTC),
            entry.writer_of(one.place),
            transaction.note,
            ", ".join(words),
            transaction.id.hex(),
        )


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
    it.Alter: lambda a: f"alter {_steps(a.layout.steps)} of",
    it.Restore: lambda a: f"restore version {a.source} of",
    it.Advance: lambda a: f"advance to version {a.version} of",
    it.DeleteVersions: lambda a: f"delete versions {_ranges(a.ranges)} of",
    it.Flush: lambda a: f"flush {a.until - a.first} items of",
    it.Rewrite: lambda a: f"rewrite {len(a.removed)} fragments as {a.added} of",
    it.Cover: lambda a: f"build {', '.join(a.names)} for",
    it.Claim: lambda a: f"{'claim' if a.until > a.since else 'release'} {len(a.fragments)} fragments of",
    it.DeclareIndex: lambda a: f"create index {a.name} ({a.kind} of {a.column}) on",
    it.DropIndex: lambda a: f"drop index {a.name} of",
}


def _steps(steps: tuple[it.Step, ...]) -> str:
    return ", ".join(_STEP_WORDS[type(step)](step) for step in steps) or "the columns"


_STEP_WORDS: Mapping[type, Callable[[Any], str]] = {
    it.AddColumn: lambda s: f"add column {decode_schema(s.field).names[0]}",
    it.DropColumn: lambda s: f"drop column {s.name}",
    it.RenameColumn: lambda s: f"rename column {s.name} to {s.to}",
    it.WidenColumn: lambda s: f"widen column {s.name}",
    it.OrderColumns: lambda _: "order columns",
    it.SetNullable: lambda s: f"column {s.name} {'may' if s.nullable else 'may not'} be null",
}


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)


def _versions(tables: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]) -> str:
    many = sum(last - first + 1 for _, ranges in tables for first, last in ranges)
    return f", {many} version{'' if many == 1 else 's'} of tables" if many else ""


def _dotted(name: tuple[str, ...]) -> str:
    return ".".join(name)


_WORDS: Mapping[type, Callable[[Any], str]] = {
    do.Found: lambda a: f"create the lake (durability {a.settings.durability})",
    do.CreateNamespace: lambda a: f"create namespace {_dotted(a.name)}",
    do.AlterNamespace: lambda a: f"set properties of namespace {_dotted(a.name)}",
    do.DropNamespace: lambda a: f"drop namespace {_dotted(a.name)}",
    do.CreateTable: lambda a: f"create table {_dotted(a.name)}",
    do.DropTable: lambda a: f"drop table {_dotted(a.name)}",
    do.DeregisterTable: lambda a: f"deregister table {_dotted(a.name)}",
    do.ReviveTable: lambda a: f"bring back table {_dotted(a.name)}",
    do.RenameTable: lambda a: f"rename table {_dotted(a.name)} to {_dotted(a.to)}",
    do.PutTag: lambda a: f"tag version {a.position} as {a.name}",
    do.Untag: lambda a: f"remove tag {a.name}",
    do.SetProperty: lambda a: f"remove property {a.key}" if a.value is None else f"set property {a.key}",
    do.Progress: lambda a: f"source {a.source} reaches {a.new}",
    do.Prune: lambda a: f"prune below {a.floor}" + _versions(a.versions),
}
