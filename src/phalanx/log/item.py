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
IndexKind = Literal["btree", "bitmap", "inverted", "ivf_flat", "ivf_pq", "ivf_sq", "ivf_hnsw_pq", "ivf_hnsw_sq"]
Column = Annotated[str, Meta(min_length=1, max_length=1 << 10)]


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
    """Rows are added; the table has no key."""

    table: TableId
    rows: Rows


class Upsert(_Struct, frozen=True, tag="upsert"):
    """Rows are added, and replace those of the same key. `hidden`: the staged rows' matches below the limit.

    `fresh` says that none of the keys existed, which was checked: it only tells history what was asked for.
    """

    table: TableId
    rows: Rows
    hidden: Payload | None = None
    fresh: bool = False


class Overwrite(_Struct, frozen=True, tag="overwrite"):
    """All rows go, then these are added."""

    table: TableId
    rows: Rows


class DeleteKeys(_Struct, frozen=True, tag="delete_keys"):
    """The rows of these keys go: an Arrow IPC stream of the key's columns."""

    table: TableId
    keys: Payload
    count: Count


class DeleteRows(_Struct, frozen=True, tag="delete_rows"):
    """The rows of these identities go: head rows by their row id, rows of the tail by -(serial + 1)."""

    table: TableId
    identities: Payload
    count: Count


class DeleteWhere(_Struct, frozen=True, tag="delete_where"):
    """The rows that match a predicate go."""

    table: TableId
    where: Sql


class UpdateWhere(_Struct, frozen=True, tag="update_where"):
    """Columns of the rows that match a predicate (all rows without one) get new values."""

    table: TableId
    changes: tuple[tuple[Column, Sql], ...]
    where: Sql | None


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


Item = Put | Upsert | Overwrite | DeleteKeys | DeleteRows | DeleteWhere | UpdateWhere
"""What changes rows."""
Upkeep = Flush | Rewrite | Cover
"""What changes where rows are, and how they are found."""
Indexing = DeclareIndex | DropIndex
"""What changes which indexes a table wants."""


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
