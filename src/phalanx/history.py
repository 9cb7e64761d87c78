"""The log as people read it: one `Commit` for each transaction, with what it did in words."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from phalanx.log import action as do
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


def commits(position: int, entry: Entry) -> list[Commit]:
    """The transactions of an entry, in the order of their places."""
    time = datetime.fromtimestamp(entry.time / 1e6, tz=UTC)
    return [
        Commit(
            position,
            place,
            time,
            entry.writer,
            transaction.note,
            tuple(describe(action) for action in transaction.actions),
            transaction.id.hex(),
        )
        for place, transaction in enumerate(entry.transactions)
    ]


def describe(action: do.Action) -> str:
    """An action in a few words."""
    return _WORDS[type(action)](action)


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
