"""What a table is and how it stands, as plain values: for people, for programs and for the command line.

Nothing is scanned: rows are counted from what the head says of itself and from its tail. A summary needs the fold alone.
"""

from collections.abc import Iterable

import msgspec

from phalanx.catalog import State
from phalanx.contents import Contents
from phalanx.indexing import IndexInfo, listed_at
from phalanx.log import item as it
from phalanx.txn.core import Core, Found


class ColumnInfo(msgspec.Struct, frozen=True):
    """A column: its type as Arrow writes it."""

    name: str
    type: str
    nullable: bool


class HeadInfo(msgspec.Struct, frozen=True):
    """The version on disk that a table stands on: Lance's number for it, its fragments, and the live rows in it."""

    manifest: int
    fragments: int
    rows: int


class TailInfo(msgspec.Struct, frozen=True):
    """What is pending, in the log and not yet written out.

    `rows` and `bytes` travel in the log; `predicates` are deletes and updates by condition, `bulk` changes whose rows
    are on disk already.
    """

    items: int
    rows: int
    bytes: int
    predicates: int
    bulk: int


class TableInfo(msgspec.Struct, frozen=True):
    """A table at one version of the lake.

    `version` counts the changes of its rows; `created` and `changed` are the versions of the lake at which it was
    created and its rows were last changed.
    """

    name: str
    id: str
    lake_version: int
    version: int
    created: int
    changed: int
    rows: int
    key: tuple[str, ...]
    columns: tuple[ColumnInfo, ...]
    head: HeadInfo
    tail: TailInfo
    indexes: tuple[IndexInfo, ...]
    properties: dict[str, str]


class TableSummary(msgspec.Struct, frozen=True):
    """What the fold knows of a table; `pending` is the number of changes that are not written out."""

    name: str
    id: str
    created: int
    version: int
    changed: int
    pending: int


def describe(core: Core, found: Found) -> TableInfo:
    """Everything about a table that can be had without a scan."""
    contents = found.contents
    rows = core.reading(found).count()  # says so if there is nothing to open yet
    head = core.datasets.open(found.table.id, contents.head.manifest)
    return TableInfo(
        ".".join(found.name),
        found.table.id,
        found.position,
        contents.version,
        found.table.created,
        contents.changed,
        rows,
        found.shape.key,
        tuple(ColumnInfo(field.name, str(field.type), field.nullable) for field in found.shape.schema),
        HeadInfo(contents.head.manifest, len(head.fragments), head.rows),
        _tail(contents),
        tuple(listed_at(core, found)),
        dict(sorted(found.table.properties.items())),
    )


def summarize(state: State, names: Iterable[str]) -> list[TableSummary]:
    """A few words on each of these tables."""
    found = []
    for name in names:
        table = state.tables[tuple(name.split("."))]
        contents = state.contents[table.id]
        pending = contents.until - contents.first
        found.append(TableSummary(name, table.id, table.created, contents.version, contents.changed, pending))
    return found


def _tail(contents: Contents) -> TailInfo:
    items = [pending.item for pending in contents.pending()]
    by_condition = sum(isinstance(item, it.DeleteWhere | it.UpdateWhere) for item in items)
    bulk = sum(isinstance(getattr(item, "rows", None), it.Staged) for item in items)
    return TailInfo(len(items), contents.weight.rows, contents.weight.size, by_condition, bulk)
