"""Items: the logical changes of a table, and the maintenance that writes them out, as they stand in an entry.

An item names the incarnation it changes (I10), never a name. Its rows travel inside the entry (`Inline`) or were staged
as Lance files before (`Staged`); both mean the same. A number called `payload` is an index into the payloads of the
item's transaction. What an item does to a table's state is left to `contents.py`, what it means for rows to `tail/`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MAX_SQL = 1 << 16

TableId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
Payload = Annotated[int, Meta(ge=0, le=1 << 20)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Manifest = Annotated[int, Meta(ge=0)]
"""Lance's number of a detached version."""
Sql = Annotated[str, Meta(max_length=MAX_SQL)]
IndexKind = Literal[
    "btree",
    "bitmap",
    "inverted",
    "ivf_flat",
    "ivf_pq",
    "ivf_sq",
    "ivf_rq",
    "ivf_hnsw_flat",
    "ivf_hnsw_pq",
    "ivf_hnsw_sq",
]
Column = Annotated[str, Meta(min_length=1, max_length=1 << 10)]
Claimant = Annotated[str, Meta(min_length=1, max_length=1 << 8)]
"""Who rewrites: one run of one process."""
LayoutId = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number drawn by whoever alters a table; the columns it was created with are 0."""
Schema = Annotated[bytes, Meta(max_length=1 << 24)]
"""An Arrow schema, as an IPC message."""


class _Struct(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag_field="do", gc=False):
    pass


class Inline(_Struct, frozen=True, tag="inline"):
    """Rows inside the entry: an Arrow IPC stream."""

    payload: Payload
    count: Count


class Staged(_Struct, frozen=True, tag="staged"):
    """Rows written as Lance fragments: in version `manifest` of the table's dataset, from fragment `first` on.

    `dead` lists rows among them, counted from 0, that never count. `base` is the position at which the table had last
    moved when this was staged, `generation` its restore counter, and `limit` the first row id that was not given out
    then: what was precomputed speaks of rows below it only (rule C2). With `whole`, the version is the table as it was,
    with this change: if the table has not moved since, it is the new head, whose next row id is `next_row_id`.
    """

    manifest: Manifest
    first: Count
    fragments: Count
    count: Count
    base: Count
    generation: Count
    limit: Count
    next_row_id: Count
    whole: bool
    dead: Payload | None = None


Rows = Inline | Staged


class Put(_Struct, frozen=True, tag="put"):
    """Rows are added; the table has no key. `layout` names the columns that they have, here and below (rule C7)."""

    table: TableId
    rows: Rows
    layout: LayoutId = 0


class Upsert(_Struct, frozen=True, tag="upsert"):
    """Rows are added, and replace those of the same key. `hidden`: the staged rows' matches below the limit.

    `fresh` says that none of the keys existed, which was checked: it only tells history what was asked for.
    """

    table: TableId
    rows: Rows
    hidden: Payload | None = None
    fresh: bool = False
    layout: LayoutId = 0


class Overwrite(_Struct, frozen=True, tag="overwrite"):
    """All rows go, then these are added."""

    table: TableId
    rows: Rows
    layout: LayoutId = 0


class DeleteKeys(_Struct, frozen=True, tag="delete_keys"):
    """The rows of these keys go: an Arrow IPC stream of the key's columns."""

    table: TableId
    keys: Payload
    count: Count
    layout: LayoutId = 0


class DeleteRows(_Struct, frozen=True, tag="delete_rows"):
    """The rows of these identities go: head rows by their row id, rows of the tail by -(serial + 1)."""

    table: TableId
    identities: Payload
    count: Count


class DeleteWhere(_Struct, frozen=True, tag="delete_where"):
    """The rows that match a predicate go."""

    table: TableId
    where: Sql
    layout: LayoutId = 0


class UpdateWhere(_Struct, frozen=True, tag="update_where"):
    """Columns of the rows that match a predicate (all rows without one) get new values."""

    table: TableId
    changes: tuple[tuple[Column, Sql], ...]
    where: Sql | None
    layout: LayoutId = 0


class AddColumn(_Struct, frozen=True, tag="add"):
    """A column is new, the last one: a schema of that one field. Rows that are there get the value, or null."""

    field: Schema
    value: Sql | None


class DropColumn(_Struct, frozen=True, tag="drop"):
    """A column goes."""

    name: Column


class RenameColumn(_Struct, frozen=True, tag="rename"):
    """A column gets another name."""

    name: Column
    to: Column


class WidenColumn(_Struct, frozen=True, tag="widen"):
    """A column gets a type that holds every value it can have now: a schema of that one field."""

    name: Column
    field: Schema


class OrderColumns(_Struct, frozen=True, tag="order"):
    """The columns come in another order."""

    names: tuple[Column, ...]


class SetNullable(_Struct, frozen=True, tag="nullable"):
    """A column may be null from now on, or no longer."""

    name: Column
    nullable: bool


Step = AddColumn | DropColumn | RenameColumn | WidenColumn | OrderColumns | SetNullable
"""One change of a table's columns."""


class Layout(_Struct, frozen=True, tag="layout"):
    """The columns and the key that a table has from one alteration to the next, and how they came from those before."""

    id: LayoutId
    schema: Schema
    key: tuple[Column, ...]
    steps: tuple[Step, ...] = ()


class Alter(_Struct, frozen=True, tag="alter"):
    """The columns of a table change from those of layout `base` to others; its rows are converted (rule C7)."""

    table: TableId
    base: LayoutId
    layout: Layout


class Index(_Struct, frozen=True, tag="index"):
    """An index that a table wants; `since` is the position that declared it."""

    name: Column
    column: Column
    kind: IndexKind
    options: dict[str, int | float | str | bool]
    since: Count = 0

    @property
    def stored(self) -> str:
        """What Lance calls it: one that is dropped and declared anew under the same name is another one."""
        return f"{self.name}-{self.since}" if self.since else self.name


class Restore(_Struct, frozen=True, tag="restore"):
    """The table holds again what it held at position `source`: `head` is that, written out (rule C6)."""

    table: TableId
    source: Count
    head: Manifest
    next_row_id: Count
    layouts: Annotated[tuple[Layout, ...], Meta(min_length=1)]
    indexes: tuple[Index, ...]


class Advance(_Struct, frozen=True, tag="advance"):
    """Version `version` of a table, as a client of the namespace made it of the one before (rule G3).

    `layout` is there if the client changed the columns, and `columns` are their names then.
    """

    table: TableId
    version: Count
    head: Manifest
    next_row_id: Count
    layout: Layout | None = None
    columns: tuple[Column, ...] = ()


class Flush(_Struct, frozen=True, tag="flush"):
    """The items from `first` up to `until` are written out: `head` is `base` with them applied. No row changes.

    `moved` lists the identities that the rows had which were given fresh row ids, in the order of these ids, from
    `limit` on; a keyed table needs none, its rows are known by their keys.
    """

    table: TableId
    generation: Count
    base: Manifest
    first: Count
    until: Count
    head: Manifest
    limit: Count
    next_row_id: Count
    moved: Payload | None = None


class Rewrite(_Struct, frozen=True, tag="rewrite"):
    """Fragments of `base` are written anew, as fewer: `head` has the same rows under the same row ids."""

    table: TableId
    generation: Count
    base: Manifest
    head: Manifest
    removed: tuple[Count, ...]
    added: Count


class DeclareIndex(_Struct, frozen=True, tag="declare_index"):
    """An index is wanted, and kept covering from now on; until it is built, readers do without."""

    table: TableId
    name: Column
    column: Column
    kind: IndexKind
    options: dict[str, int | float | str | bool]


class DropIndex(_Struct, frozen=True, tag="drop_index"):
    """An index is no longer wanted."""

    table: TableId
    name: Column


class Cover(_Struct, frozen=True, tag="cover"):
    """Indexes were built for fragments of `base` that had none: `head` has the same rows, found faster."""

    table: TableId
    generation: Count
    base: Manifest
    head: Manifest
    names: tuple[Column, ...]


class Claim(_Struct, frozen=True, tag="claim"):
    """Somebody is about to rewrite fragments, until then: others that would do the same do something else meanwhile.

    It holds up nobody who writes, and nothing depends on it: `since` and `until` are microseconds of whatever clock the
    claimant has. One that ends when it begins gives up what `by` had claimed of these fragments.
    """

    table: TableId
    generation: Count
    fragments: Annotated[tuple[Count, ...], Meta(min_length=1)]
    by: Claimant
    since: Count
    until: Count


class DeleteVersions(_Struct, frozen=True, tag="delete_versions"):
    """Versions of a table go, from the first to the last of each range: they can no longer be read (rule G5)."""

    table: TableId
    ranges: tuple[tuple[Count, Count], ...]


Rowwise = Put | Upsert | Overwrite | DeleteKeys | DeleteRows | DeleteWhere | UpdateWhere
"""What changes rows."""
Waiting = Rowwise | Alter
"""What waits in the tail."""
Item = Waiting | Restore | Advance
"""What changes a table."""
Upkeep = Flush | Rewrite | Cover | Claim
"""What changes where rows are, and how they are found; or says who is about to."""
Indexing = DeclareIndex | DropIndex
"""What changes which indexes a table wants."""
Other = DeleteVersions
"""What is said of a table and changes nothing that it holds."""


def payloads_of(action: object) -> list[int]:
    """The indices of the payloads that an action speaks of."""
    found: list[int | None] = []
    if isinstance(action, Put | Upsert | Overwrite):
        found.append(action.rows.payload if isinstance(action.rows, Inline) else action.rows.dead)
        found.append(action.hidden if isinstance(action, Upsert) else None)
    elif isinstance(action, DeleteKeys):
        found.append(action.keys)
    elif isinstance(action, DeleteRows):
        found.append(action.identities)
    elif isinstance(action, Flush):
        found.append(action.moved)
    return [index for index in found if index is not None]
