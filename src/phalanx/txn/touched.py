"""What a transaction touched, and whether anybody else touched it since (rules D2, D3).

First committer wins: a transaction that read at S may land only if no item that landed since touched one of its rows.
Items say exactly what they touch: keys, identities, a predicate. A predicate is asked about the rows as they were at S,
which is exact: up to the first item that touches one of them, that is what they are. Maintenance touches nothing; but
a flush gives rows new row ids, so identities that were resolved before it are looked up in what it recorded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.catalog import State
from phalanx.contents import Contents, Pending, taken
from phalanx.expr import plan_predicate
from phalanx.log import item as it
from phalanx.tail.keys import NEVER, KeySet, shown_key
from phalanx.tail.payload import NO_IDS, Ids, decode_ids, decode_rows
from phalanx.tail.read import Reading
from phalanx.txn.conflict import Conflict, Kind, dotted
from phalanx.txn.core import Found
from phalanx.txn.intent import Read, Rebased

Rebuild = Callable[[Mapping[str, Ids]], Rebased]
"""The transaction's actions anew, with other identities of the rows it deletes, by table."""


class Footprint(msgspec.Struct, frozen=True):
    """What was touched in one table: `keys` of a keyed one, `identities` of one without; or all of it."""

    found: Found
    reading: Reading
    keys: pa.Table | None = None
    identities: Ids = NO_IDS
    whole: bool = False


class Touched:
    """A transaction's guard: see `phalanx.txn.intent.Guard`."""

    def __init__(self, footprints: Sequence[Footprint], rebuild: Rebuild) -> None:
        self._footprints = footprints
        self._rebuild = rebuild

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        """See `Guard`."""
        moved: dict[str, Ids] = {}
        for footprint in self._footprints:
            contents = state.contents.get(footprint.found.table.id)
            objection = _check(footprint, contents, position, read)
            if isinstance(objection, Conflict):
                return objection
            if objection is not None:
                moved[footprint.found.table.id] = objection
        return self._rebuild(moved) if moved else None


def _check(footprint: Footprint, contents: Contents | None, position: int, read: Read) -> Conflict | Ids | None:
    """A conflict, or the new identities of what was touched, or nothing."""
    found = footprint.found
    name, then = dotted(found.name), found.contents
    if contents is None:
        return Conflict(Kind.CHANGED, f"table {name!r} was dropped since version {found.position}")
    if contents.generation != then.generation:
        text = f"table {name!r} was restored since version {found.position}"
        return Conflict(Kind.CHANGED, text, contents.moved)
    if contents.changed > found.position and (
        footprint.whole or footprint.keys is not None or len(footprint.identities)
    ):
        looked_for = _Looked(footprint)
        for pending in _since(found, contents, position, read):
            hit = looked_for.hit(pending)
            if hit is not None:
                text = f"table {name!r}: {hit} since version {found.position}, at version {pending.position}"
                return Conflict(Kind.CHANGED, text, pending.position)
    if len(footprint.identities) and contents.flushed > found.position:
        if contents.flushed >= position:
            return Conflict(Kind.VOID, "a flush is on its way")
        return _translated(footprint.identities, found, contents, read)
    return None


def _since(found: Found, contents: Contents, position: int, read: Read) -> Iterator[Pending]:
    """The items that landed since a table was found: those of the tail, and from the log those flushed already."""
    if contents.flushed <= found.position:
        yield from contents.pending(found.contents.until)
        return
    for at in range(found.position + 1, min(contents.changed + 1, position)):
        yield from _items(found.table.id, at, read)
    yield from (pending for pending in contents.pending() if pending.position >= position)  # neighbours in its batch


def _items(table: str, position: int, read: Read) -> Iterator[Pending]:
    for landing, transaction in read(position).landings(position):
        for action in transaction.actions:
            if isinstance(action, it.Item) and action.table == table:
                yield Pending(0, position, landing.place, 0, *taken(action, landing.payloads))


def _translated(identities: Ids, found: Found, contents: Contents, read: Read) -> Ids:
    """The identities that rows have now: each flush since says which rows it gave new row ids."""
    now = identities
    for position in range(found.position + 1, contents.flushed + 1):
        for landing, transaction in read(position).landings(position):
            for action in transaction.actions:
                if isinstance(action, it.Flush) and action.table == found.table.id and action.moved is not None:
                    before = decode_ids(bytes(landing.payloads[action.moved]))
                    order = np.argsort(before, kind="stable")
                    at = np.searchsorted(before, now, sorter=order).clip(max=max(len(before) - 1, 0))
                    if len(before):
                        hit = before[order[at]] == now
                        now = np.where(hit, action.limit + order[at], now)
    return now


class _Looked:
    """What is looked for among the items that landed since."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint
        self._key = footprint.found.shape.key
        self._keys = KeySet(self._key)
        if footprint.keys is not None and footprint.keys.num_rows:
            self._keys.add(footprint.keys, 0)

    def hit(self, pending: Pending) -> str | None:
        """What an item touched of it, in words."""
        item = pending.item
        if self._footprint.whole:
            return "it was changed"
        if isinstance(item, it.DeleteWhere | it.UpdateWhere):
            return self._by_predicate(item.where, "deleted" if isinstance(item, it.DeleteWhere) else "updated")
        if isinstance(item, it.DeleteKeys):
            return self._by_keys(decode_rows(pending.payloads[item.keys]), "deleted")
        if isinstance(item, it.DeleteRows):
            shared = np.intersect1d(decode_ids(pending.payloads[item.identities]), self._footprint.identities)
            return f"{len(shared)} of the rows it changes were deleted" if len(shared) else None
        if isinstance(item, it.Overwrite) and self._existed():
            return "it was overwritten"
        return self._by_rows(pending, item.rows) if self._keys else None

    def _existed(self) -> bool:
        footprint = self._footprint
        if footprint.keys is None:
            return bool(len(footprint.identities))
        return footprint.reading.rows_of(footprint.keys, self._key).num_rows > 0

    def _by_rows(self, pending: Pending, rows: it.Rows) -> str | None:
        if isinstance(rows, it.Inline):
            return self._by_keys(decode_rows(pending.payloads[rows.payload]), "written")
        version = self._footprint.reading.version(rows.manifest)
        for batch in version.scan(self._key, fragments=range(rows.first, rows.first + rows.fragments)):
            hit = self._by_keys(pa.Table.from_batches([batch]), "written")
            if hit is not None:
                return hit
        return None

    def _by_keys(self, rows: pa.Table, verb: str) -> str | None:
        if not self._keys:
            return None
        hits = np.flatnonzero(self._keys.first(rows) < NEVER)
        if not len(hits):
            return None
        shown = ", ".join(shown_key(rows, self._key, at) for at in hits[:5].tolist())
        more = f" and {len(hits) - 5} more" if len(hits) > 5 else ""
        return f"key {shown}{more} was {verb}"

    def _by_predicate(self, where: str | None, verb: str) -> str | None:
        footprint = self._footprint
        schema = footprint.found.shape.schema
        predicate = None if where is None else plan_predicate(where, schema)
        needed = {*self._key, *(() if predicate is None else predicate.columns)} or {schema.names[0]}
        columns = [name for name in schema.names if name in needed]
        if footprint.keys is not None:
            before = footprint.reading.rows_of(footprint.keys, columns)
        else:
            before = footprint.reading.rows_at(footprint.identities, columns)[1]
        hits = before if predicate is None or not before.num_rows else before.filter(predicate.mask(before))
        if not hits.num_rows:
            return None
        if self._key:
            return self._by_keys(hits, verb)
        return f"{hits.num_rows} of the rows it changes were {verb} where {where}"
