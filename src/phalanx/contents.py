"""What a table holds, as the log tells it: a head and the items that landed since. Pure; no storage, no clock.

Keeps C1, C2 and C4: a table's value is its items applied to its head, in the order of the log. Items are numbered
densely within a generation, so "these are still the prefix" is a comparison of numbers. A flush or a rewrite that was
staged on another head changes nothing here, and the judge keeps it from landing (`txn/conflict.py`). What items mean
for rows is left to `tail/`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.runs import Ids, decode_ids, encode_ids, renumbered
from phalanx.waiting import Items, Pending


class Head(msgspec.Struct, frozen=True, gc=False):
    """The Lance version a table stands on, and the row id that the next row written out gets."""

    manifest: int = 0
    next_row_id: int = 0


class Index(msgspec.Struct, frozen=True, gc=False):
    """An index that a table wants; `since` is the position that declared it."""

    name: str
    column: str
    kind: it.IndexKind
    options: dict[str, int | float | str | bool]
    since: int = 0

    @property
    def stored(self) -> str:
        """What Lance calls it: one that is dropped and declared anew under the same name is another one."""
        return f"{self.name}-{self.since}" if self.since else self.name


class Weight(msgspec.Struct, frozen=True, gc=False):
    """How heavy a tail is: what flushes are triggered by (rule C10)."""

    rows: int = 0
    size: int = 0
    predicates: int = 0

    def plus(self, other: "Weight", sign: int = 1) -> "Weight":
        """The sum, or the difference."""
        return Weight(
            self.rows + sign * other.rows, self.size + sign * other.size, self.predicates + sign * other.predicates
        )


class Contents(msgspec.Struct, frozen=True, gc=False):
    """A table's state: `items` by number, from `first` up to `until`.

    `version` counts commits that changed rows; `changed` is the position of the last of them, `place` its place there;
    `moved` is the position at which head or items last changed, maintenance included; `flushed` is the last one at which
    changes went into the head, by a flush or by themselves.
    """

    generation: int = 0
    version: int = 0
    head: Head = Head()
    first: int = 0
    until: int = 0
    items: Items = Items()
    serial: int = 0
    changed: int = 0
    place: int = -1
    moved: int = 0
    flushed: int = 0
    weight: Weight = Weight()
    indexes: tuple[Index, ...] = ()

    def pending(self, first: int | None = None) -> Iterator[Pending]:
        """The items of the tail in order, from number `first` on."""
        return (self.items[seq] for seq in range(self.first if first is None else first, self.until))


def created(position: int, place: int, manifest: int) -> Contents:
    """A table that was just created: it stands on an empty version, and has not moved."""
    return Contents(version=1, head=Head(manifest), changed=position, place=place, flushed=position)


def weigh(pending: Pending) -> Weight:
    """What an item adds to its tail: staged rows weigh nothing, they are on disk already."""
    item = pending.item
    size = sum(map(len, pending.payloads))
    if isinstance(item, it.DeleteWhere | it.UpdateWhere):
        return Weight(0, len(item.where or ""), 1)
    if isinstance(item, it.DeleteKeys | it.DeleteRows):
        return Weight(item.count, size, 0)
    if isinstance(item.rows, it.Inline):
        return Weight(item.rows.count, size, 0)
    return Weight(0, 0, 1)  # each one is a set of files of its own, which every read has to open


def land(contents: Contents, landing: Landing, item: it.Item) -> Contents:
    """The contents after one more item. Every process does this for every item: it is written to be quick."""
    position, place = landing.position, landing.place
    again = contents.changed == position and contents.place == place
    version = contents.version if again else contents.version + 1
    rows = getattr(item, "rows", None)
    if isinstance(rows, it.Staged):
        if becomes_head(contents, rows):
            head = Head(rows.manifest, rows.next_row_id)
            return msgspec.structs.replace(
                contents, head=head, version=version, changed=position, place=place, moved=position, flushed=position
            )
        if isinstance(item, it.Upsert) and rows.generation != contents.generation:
            item = msgspec.structs.replace(item, hidden=None)  # it was matched with rows of another branch (rule C6)
    seq = contents.until
    pending = Pending(seq, position, place, contents.serial, *taken(item, landing.payloads))
    return Contents(
        contents.generation,
        version,
        contents.head,
        contents.first,
        seq + 1,
        contents.items.insert(seq, pending),
        contents.serial if rows is None else contents.serial + rows.count,
        position,
        place,
        position,
        contents.flushed,
        contents.weight.plus(weigh(pending)),
        contents.indexes,
    )


def becomes_head(contents: Contents, rows: it.Staged) -> bool:
    """The fast path of rule C2: the table has not moved since the change was staged, and has no tail."""
    still = rows.base == contents.moved and rows.generation == contents.generation
    return rows.whole and still and contents.first == contents.until


def flush(contents: Contents, landing: Landing, action: it.Flush) -> Contents:
    """The contents after items were written out."""
    if flush_is_void(contents, action):
        return contents
    items, weight = contents.items, contents.weight
    for seq in range(action.first, action.until):
        weight = weight.plus(weigh(items[seq]), -1)
        items = items.remove(seq)
    if action.moved is not None:
        items, weight = _renumbered(items, weight, range(action.until, contents.until), action, landing)
    return msgspec.structs.replace(
        contents,
        head=Head(action.head, action.next_row_id),
        first=action.until,
        items=items,
        weight=weight,
        moved=landing.position,
        flushed=landing.position,
    )


def _renumbered(
    items: Items, weight: Weight, behind: range, action: it.Flush, landing: Landing
) -> tuple[Items, Weight]:
    """The items behind a flush that name rows by identity, with the identities that the flush gave them (rule D2)."""
    before: Ids | None = None
    for seq in behind:
        pending = items[seq]
        if isinstance(pending.item, it.DeleteRows) and action.moved is not None:
            before = decode_ids(landing.payloads[action.moved]) if before is None else before
            now = renumbered(decode_ids(pending.payloads[pending.item.identities]), before, action.limit)
            after = msgspec.structs.replace(pending, payloads=(encode_ids(now),))
            items, weight = items.insert(seq, after), weight.plus(weigh(pending), -1).plus(weigh(after))
    return items, weight


def flush_is_void(contents: Contents, action: it.Flush) -> bool:
    """Whether what a flush was staged on is no longer there (rule C4)."""
    same = contents.generation == action.generation and contents.head.manifest == action.base
    return not (same and contents.first == action.first < action.until <= contents.until)


def rewrite(contents: Contents, landing: Landing, action: it.Rewrite) -> Contents:
    """The contents after fragments of the head were written anew."""
    if rewrite_is_void(contents, action):
        return contents
    head = Head(action.head, contents.head.next_row_id)
    return msgspec.structs.replace(contents, head=head, moved=landing.position)


def rewrite_is_void(contents: Contents, action: it.Rewrite) -> bool:
    """Whether what a rewrite was staged on is no longer the head (rule C5)."""
    return contents.generation != action.generation or contents.head.manifest != action.base


def cover(contents: Contents, landing: Landing, action: it.Cover) -> Contents:
    """The contents after indexes were built."""
    if cover_is_void(contents, action):
        return contents
    head = Head(action.head, contents.head.next_row_id)
    return msgspec.structs.replace(contents, head=head, moved=landing.position)


def cover_is_void(contents: Contents, action: it.Cover) -> bool:
    """Whether the head that indexes were announced on is no longer the table's."""
    return contents.generation != action.generation or contents.head.manifest != action.base


def declare(contents: Contents, landing: Landing, action: it.DeclareIndex) -> Contents:
    """The contents of a table that wants one more index."""
    wanted = Index(action.name, action.column, action.kind, action.options, landing.position)
    return msgspec.structs.replace(contents, indexes=(*contents.indexes, wanted))


def forget(contents: Contents, action: it.DropIndex) -> Contents:
    """The contents of a table that wants one index less."""
    kept = tuple(index for index in contents.indexes if index.name != action.name)
    return msgspec.structs.replace(contents, indexes=kept)


def taken(item: it.Item, payloads: Sequence[bytes | memoryview]) -> tuple[it.Item, tuple[bytes, ...]]:
    """The item with only its own payloads, so that a tail does not keep whole entries alive."""
    if not payloads:
        return item, ()
    rows = getattr(item, "rows", None)
    if len(payloads) == 1 and isinstance(rows, it.Inline) and not rows.payload:
        return item, (bytes(payloads[0]),)  # by far the most frequent case
    own: list[bytes] = []

    def take(index: int | None) -> int | None:
        if index is None:
            return None
        own.append(bytes(payloads[index]))
        return len(own) - 1

    changes: dict[str, Any] = {}
    if isinstance(item, it.DeleteKeys):
        changes["keys"] = take(item.keys)
    elif isinstance(item, it.DeleteRows):
        changes["identities"] = take(item.identities)
    elif isinstance(item, it.Put | it.Upsert | it.Overwrite):
        rows = item.rows
        field = "payload" if isinstance(rows, it.Inline) else "dead"
        changes["rows"] = msgspec.structs.replace(rows, **{field: take(getattr(rows, field))})
        if isinstance(item, it.Upsert):
            changes["hidden"] = take(item.hidden)
    return msgspec.structs.replace(item, **changes) if changes else item, tuple(own)
