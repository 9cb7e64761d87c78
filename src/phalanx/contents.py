"""What a table holds, as the log tells it: a head and the items that landed since. Pure; no storage, no clock.

Keeps C1, C2 and C4: a table's value is its items applied to its head, in the order of the log. Items are numbered
densely within a generation, so "these are still the prefix" is a comparison of numbers. A flush or a rewrite that was
staged on another head changes nothing here, and the judge keeps it from landing (`txn/conflict.py`). What items mean
for rows is left to `tail/`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from phalanx.claims import Claims, claimed, rewritten, rival
from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.runs import Ids, decode_ids, encode_ids, renumbered
from phalanx.versions import Versions, unpack_versions
from phalanx.waiting import Items, Pending, Weight, taken, weigh


class Head(msgspec.Struct, frozen=True, gc=False):
    """The Lance version a table stands on, the row id that the next row written out gets, and the columns it has."""

    manifest: int = 0
    next_row_id: int = 0
    layout: int = 0


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
    indexes: tuple[it.Index, ...] = ()
    layouts: tuple[it.Layout, ...] = (it.Layout(0, b"", ()),)
    """The columns that the table has had, oldest first; the last ones are those it has."""
    versions: Versions = Versions()
    deleted: tuple[tuple[int, int], ...] = ()
    """Ranges of versions that were deleted, ascending and apart."""
    claims: Claims = ()
    """Who is about to rewrite what."""

    @property
    def layout(self) -> it.Layout:
        """The columns that the table has."""
        return self.layouts[-1]

    def pending(self, first: int | None = None) -> Iterator[Pending]:
        """The items of the tail in order, from number `first` on."""
        return (self.items[seq] for seq in range(self.first if first is None else first, self.until))


def created(landing: Landing, manifest: int, layout: it.Layout) -> Contents:
    """A table that was just created: it stands on an empty version, and has not moved.

    One that was only declared has no version yet.
    """
    position, place = landing.position, landing.place
    version = 1 if manifest else 0
    versions = Versions().add(1, position, place) if manifest else Versions()
    return Contents(
        version=version,
        head=Head(manifest),
        changed=position,
        place=place,
        flushed=position,
        layouts=(layout,),
        versions=versions,
    )


def revived(version: int, versions: bytes, deleted: tuple[tuple[int, int], ...]) -> Contents:
    """A table that was dropped and is there again, as yet without rows."""
    return Contents(version=version, versions=unpack_versions(versions), deleted=deleted)


def since(contents: Contents, layout: int) -> tuple[it.Layout, ...] | None:
    """The layouts that followed one; None if the table never had it, or has been restored to before it."""
    for at in range(len(contents.layouts) - 1, -1, -1):
        if contents.layouts[at].id == layout:
            return contents.layouts[at + 1 :]
    return None


def _counted(contents: Contents, landing: Landing) -> tuple[int, Versions]:
    """The version that a change makes, which is one for all changes of a transaction, and where each landed."""
    position, place = landing.position, landing.place
    if contents.changed == position and contents.place == place and contents.version:
        return contents.version, contents.versions
    version = contents.version + 1
    return version, contents.versions.add(version, position, place)


def land(contents: Contents, landing: Landing, item: it.Waiting) -> Contents:
    """The contents after one more item. Every process does this for every item: it is written to be quick."""
    position, place = landing.position, landing.place
    version, versions = _counted(contents, landing)
    rows = getattr(item, "rows", None)
    if isinstance(rows, it.Staged):
        if becomes_head(contents, rows):
            head = Head(rows.manifest, rows.next_row_id, contents.head.layout)
            return msgspec.structs.replace(
                contents,
                head=head,
                version=version,
                changed=position,
                place=place,
                moved=position,
                flushed=position,
                versions=versions,
            )
        if isinstance(item, it.Upsert) and rows.generation != contents.generation:
            item = msgspec.structs.replace(item, hidden=None)  # it was matched with rows of another branch (rule C6)
    seq = contents.until
    pending = Pending(seq, position, place, contents.serial, *taken(item, landing.payloads))
    if isinstance(item, it.Alter):
        contents = _altered(contents, landing, item)
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
        contents.layouts,
        versions,
        contents.deleted,
        contents.claims,
    )


def _altered(contents: Contents, landing: Landing, action: it.Alter) -> Contents:
    """With other columns: an index follows its column's name, goes with it, and is built anew for another type."""
    indexes = list(contents.indexes)
    for step in action.layout.steps:
        if isinstance(step, it.RenameColumn):
            indexes = [
                msgspec.structs.replace(one, column=step.to) if one.column == step.name else one for one in indexes
            ]
        elif isinstance(step, it.DropColumn):
            indexes = [one for one in indexes if one.column != step.name]
        elif isinstance(step, it.WidenColumn):
            name = step.name
            indexes = [
                msgspec.structs.replace(one, since=landing.position) if one.column == name else one for one in indexes
            ]
    return msgspec.structs.replace(contents, layouts=(*contents.layouts, action.layout), indexes=tuple(indexes))


def restore(contents: Contents, landing: Landing, action: it.Restore) -> Contents:
    """The contents after a table became again what it was: another generation, so that nothing staged before fits."""
    head = Head(action.head, action.next_row_id, action.layouts[-1].id)
    return _replaced(contents, landing, head, landing.position, action.layouts, action.indexes)


def advance(contents: Contents, landing: Landing, action: it.Advance) -> Contents:
    """The contents after a client of the namespace made the next version.

    Another generation, as after a restore: row ids need not mean the rows that they meant before.
    """
    layouts = contents.layouts if action.layout is None else (*contents.layouts, action.layout)
    if contents.version == 0 and action.layout is not None:
        layouts = (action.layout,)  # it was only declared until now
    names = frozenset(action.columns) if action.layout is not None else None
    indexes = tuple(one for one in contents.indexes if names is None or one.column in names)
    head = Head(action.head, action.next_row_id, layouts[-1].id)
    return _replaced(contents, landing, head, landing.position, layouts, indexes)


def _replaced(
    contents: Contents,
    landing: Landing,
    head: Head,
    generation: int,
    layouts: tuple[it.Layout, ...],
    indexes: tuple[it.Index, ...],
) -> Contents:
    """All that was there, tail included, has become another head."""
    version, versions = _counted(contents, landing)
    position = landing.position
    return Contents(
        generation,
        version,
        head,
        contents.until,
        contents.until,
        Items(),
        contents.serial,
        position,
        landing.place,
        position,
        position,
        Weight(),
        indexes,
        layouts,
        versions,
        contents.deleted,
    )


def delete_versions(contents: Contents, ranges: tuple[tuple[int, int], ...]) -> Contents:
    """The contents of a table some of whose versions can no longer be read."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((*contents.deleted, *ranges)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return msgspec.structs.replace(contents, deleted=tuple(merged))


def is_deleted(contents: Contents, version: int) -> bool:
    """Whether a version was deleted."""
    return any(first <= version <= last for first, last in contents.deleted)


def becomes_head(contents: Contents, rows: it.Staged) -> bool:
    """The fast path of rule C2: the table has not moved since the change was staged, and has no tail."""
    still = rows.base == contents.moved and rows.generation == contents.generation
    return rows.whole and still and contents.first == contents.until


def flush(contents: Contents, landing: Landing, action: it.Flush) -> Contents:
    """The contents after items were written out."""
    if flush_is_void(contents, action):
        return contents
    items, weight, layout = _written_out(contents, action.until)
    if action.moved is not None:
        items, weight = _renumbered(items, weight, range(action.until, contents.until), action, landing)
    return msgspec.structs.replace(
        contents,
        head=Head(action.head, action.next_row_id, layout),
        first=action.until,
        items=items,
        weight=weight,
        moved=landing.position,
        flushed=landing.position,
    )


def _written_out(contents: Contents, until: int) -> tuple[Items, Weight, int]:
    """The items behind a flush, their weight, and the layout in front of them; looks at whichever are fewer, these or the others."""
    items, weight, layout = contents.items, contents.weight, contents.head.layout
    behind = range(until, contents.until)
    if len(behind) < until - contents.first:
        left = [items[seq] for seq in behind]
        if not any(isinstance(one.item, it.Alter) for one in left):
            items, weight = Items(), Weight()
            for one in left:
                items, weight = items.insert(one.seq, one), weight.plus(weigh(one))
            return items, weight, contents.layout.id
    for seq in range(contents.first, until):
        item = items[seq].item
        layout = item.layout.id if isinstance(item, it.Alter) else layout
        weight = weight.plus(weigh(items[seq]), -1)
        items = items.remove(seq)
    return items, weight, layout


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
    head = Head(action.head, contents.head.next_row_id, contents.head.layout)
    claims = rewritten(contents.claims, action.removed)
    return msgspec.structs.replace(contents, head=head, moved=landing.position, claims=claims)


def rewrite_is_void(contents: Contents, action: it.Rewrite) -> bool:
    """Whether what a rewrite was staged on is no longer the head (rule C5)."""
    return contents.generation != action.generation or contents.head.manifest != action.base


def cover(contents: Contents, landing: Landing, action: it.Cover) -> Contents:
    """The contents after indexes were built."""
    if cover_is_void(contents, action):
        return contents
    head = Head(action.head, contents.head.next_row_id, contents.head.layout)
    return msgspec.structs.replace(contents, head=head, moved=landing.position)


def cover_is_void(contents: Contents, action: it.Cover) -> bool:
    """Whether the head that indexes were announced on is no longer the table's."""
    return contents.generation != action.generation or contents.head.manifest != action.base


def claim(contents: Contents, landing: Landing, action: it.Claim) -> Contents:
    """The contents after somebody said what is about to be rewritten: nothing has moved."""
    if claim_is_void(contents, action):
        return contents
    return msgspec.structs.replace(contents, claims=claimed(contents.claims, landing.position, action))


def claim_is_void(contents: Contents, action: it.Claim) -> bool:
    """Whether the fragments are of another generation, or somebody else's for now."""
    return contents.generation != action.generation or rival(contents.claims, action) is not None


def declare(contents: Contents, landing: Landing, action: it.DeclareIndex) -> Contents:
    """The contents of a table that wants one more index."""
    wanted = it.Index(action.name, action.column, action.kind, action.options, landing.position)
    return msgspec.structs.replace(contents, indexes=(*contents.indexes, wanted))


def forget(contents: Contents, action: it.DropIndex) -> Contents:
    """The contents of a table that wants one index less."""
    kept = tuple(index for index in contents.indexes if index.name != action.name)
    return msgspec.structs.replace(contents, indexes=kept)


TableAction = it.Item | it.Upkeep | it.Indexing | it.Other
"""What happens to one table."""


def step(contents: Contents, landing: Landing, action: TableAction) -> Contents:
    """The contents after one more action."""
    return _STEPS[type(action)](contents, landing, action)


_STEPS: Mapping[type, Callable[[Contents, Landing, Any], Contents]] = {
    it.Flush: flush,
    it.Rewrite: rewrite,
    it.Cover: cover,
    it.Claim: claim,
    it.DeclareIndex: declare,
    it.DropIndex: lambda contents, _, action: forget(contents, action),
    it.Restore: restore,
    it.Advance: advance,
    it.DeleteVersions: lambda contents, _, action: delete_versions(contents, action.ranges),
    **dict.fromkeys(get_args(it.Waiting), land),
}
