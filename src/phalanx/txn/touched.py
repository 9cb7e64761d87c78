"""What a transaction touched, and whether anybody else touched it since (rules D2, D3).

First committer wins: a transaction that read at S may land only if no item that landed since touched one of its rows.
Items say exactly what they touch: keys, identities, a predicate. A predicate is asked about the rows as they were at S,
which is exact: up to the first item that touches one of them, that is what they are. Maintenance touches nothing; but
a flush gives rows new row ids, so identities that were resolved before it are looked up in what it recorded.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.catalog import State
from phalanx.contents import Contents
from phalanx.expr import plan_predicate
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.runs import NO_IDS, Ids, decode_ids, renumbered
from phalanx.tail.keys import NEVER, KeySet, shown_key
from phalanx.tail.payload import decode_rows
from phalanx.tail.read import Reading
from phalanx.txn.core import Found
from phalanx.txn.intent import Read, Rebased
from phalanx.txn.verdict import Conflict, Kind, dotted
from phalanx.waiting import Pending, taken

_REMEMBERED = 256
"""Predicates whose answer is kept: streams of changes repeat them."""

Rebuild = Callable[[Mapping[str, Ids]], Rebased]
"""The transaction's actions anew, with other identities of the rows it deletes, by table."""


class Footprint(msgspec.Struct, frozen=True):
    """What was touched in one table: `keys` of a keyed one, `identities` of one without; or all of it."""

    found: Found
    read: Callable[[], Reading]
    """The table as it was at the snapshot: most transactions never have to look."""
    keys: pa.Table | None = None
    identities: Ids = NO_IDS
    whole: bool = False


class Touched:
    """A transaction's guard: see `phalanx.txn.intent.Guard`.

    What was compared is not compared again: a transaction that loses its position to others looks only at what is new,
    or it would never catch up with them.
    """

    def __init__(self, footprints: Sequence[Footprint], rebuild: Rebuild) -> None:
        self._looked = [_Looked(footprint) for footprint in footprints]
        self._rebuild = rebuild

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        """See `Guard`."""
        moved: dict[str, Ids] = {}
        for looked_for in self._looked:
            table = looked_for.found.table.id
            objection = _check(looked_for, state.contents.get(table), position, read)
            if isinstance(objection, Conflict):
                return objection
            if objection is not None:
                moved[table] = objection
        return self._rebuild(moved) if moved else None


def _check(looked_for: "_Looked", contents: Contents | None, position: int, read: Read) -> Conflict | Ids | None:
    """A conflict, or the new identities of what was touched, or nothing."""
    found = looked_for.found
    name = dotted(found.name)
    if contents is None:
        return Conflict(Kind.CHANGED, f"table {name!r} was dropped since version {found.position}")
    if contents.generation != found.contents.generation or contents.layout.id != found.shape.layout:
        restored = contents.generation != found.contents.generation
        what = f"table {name!r} was replaced as a whole" if restored else f"the columns of table {name!r} were changed"
        kind = Kind.CHANGED if restored else Kind.REPLAN
        return Conflict(kind, f"{what} since version {found.position}", contents.moved)
    if looked_for.beaten is not None:
        return looked_for.beaten
    if looked_for and contents.moved > looked_for.seen:
        if contents.flushed >= position:
            return Conflict(Kind.VOID, "a flush is on its way")
        objection = _compared(looked_for, contents, position, read)
        if objection is not None:
            return objection
    return looked_for.identities if looked_for.moved else None


def _compared(looked_for: "_Looked", contents: Contents, position: int, read: Read) -> Conflict | None:
    """Compare with what has landed below `position`, once, and with the neighbours there, each time."""
    if contents.flushed > looked_for.seen:  # some of the items are no longer in the tail: by the entries, in order
        for at in range(looked_for.seen + 1, position):
            for landing, transaction in read(at).landings(at):
                hit = looked_for.hit_by(landing, transaction)
                if hit is not None:
                    looked_for.beaten = _changed(looked_for.found, hit, at)
                    return looked_for.beaten
            looked_for.seen = at
        settled = sum(pending.position < position for pending in contents.pending())
        looked_for.until = contents.first + settled
    for pending in contents.pending(looked_for.until):
        hit = looked_for.hit(pending)
        if hit is not None:
            return _changed(looked_for.found, hit, pending.position)
        if pending.position < position:
            looked_for.until = pending.seq + 1
    looked_for.seen = position - 1
    return None


def _changed(found: Found, what: str, position: int) -> Conflict:
    text = f"table {dotted(found.name)!r}: {what} since version {found.position}, at version {position}"
    return Conflict(Kind.CHANGED, text, position)


class _Looked:
    """What is looked for among the items that landed since, and how far: through position `seen`, below item `until`."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint
        self.found = footprint.found
        self.seen = footprint.found.position
        self.until = footprint.found.contents.until
        self.identities = footprint.identities
        self.moved = False
        self.beaten: Conflict | None = None
        """What landed before it and is in its way, for good."""
        self._key = footprint.found.shape.key
        self._keys = KeySet(self._key)
        if footprint.keys is not None and footprint.keys.num_rows:
            self._keys.add(footprint.keys)
        self._rows: dict[tuple[str, ...], pa.Table] = {}
        self._matched: dict[str | None, pa.Table] = {}

    def __bool__(self) -> bool:
        return self._footprint.whole or bool(self._keys) or bool(len(self.identities))

    def hit_by(self, landing: Landing, transaction: Transaction) -> str | None:
        """What a transaction touched of it; its flushes are followed."""
        for action in transaction.actions:
            if getattr(action, "table", None) != self.found.table.id:
                continue
            if isinstance(action, it.Flush):
                self._renumber(action, landing)
            elif isinstance(action, it.Restore | it.Advance):
                return "it was replaced as a whole"
            elif isinstance(action, it.Waiting):
                pending = Pending(0, landing.position, landing.place, 0, *taken(action, landing.payloads))
                hit = self.hit(pending)
                if hit is not None:
                    return hit
        return None

    def _renumber(self, action: it.Flush, landing: Landing) -> None:
        """Follow the rows to the row ids that a flush gave them."""
        if action.moved is not None and len(self.identities):
            before = decode_ids(landing.payloads[action.moved])
            self.identities = renumbered(self.identities, before, action.limit)
            self.moved = True

    def hit(self, pending: Pending) -> str | None:
        """What an item touched of it, in words."""
        item = pending.item
        if self._footprint.whole or isinstance(item, it.Alter):
            return "it was changed"
        if isinstance(item, it.DeleteWhere | it.UpdateWhere):
            return self._by_predicate(item.where, "deleted" if isinstance(item, it.DeleteWhere) else "updated")
        if isinstance(item, it.DeleteKeys):
            return self._by_keys(decode_rows(pending.payloads[item.keys]), "deleted")
        if isinstance(item, it.DeleteRows):
            shared = np.intersect1d(decode_ids(pending.payloads[item.identities]), self.identities)
            return f"{len(shared)} of the rows it changes were deleted" if len(shared) else None
        if isinstance(item, it.Overwrite) and self._existed():
            return "it was overwritten"
        return self._by_rows(pending, item.rows) if self._keys else None

    def _existed(self) -> bool:
        """Whether any of the rows was there at the snapshot."""
        if self._footprint.keys is None:
            return bool(len(self._footprint.identities))
        return self._before(self._key).num_rows > 0

    def _before(self, columns: Sequence[str]) -> pa.Table:
        """The rows as they were at the snapshot; read once."""
        wanted, footprint = tuple(columns), self._footprint
        if wanted not in self._rows:
            if footprint.keys is not None:
                self._rows[wanted] = footprint.read().rows_of(footprint.keys, wanted)
            else:
                self._rows[wanted] = footprint.read().rows_at(footprint.identities, wanted)[1]
        return self._rows[wanted]

    def _by_rows(self, pending: Pending, rows: it.Rows) -> str | None:
        if isinstance(rows, it.Inline):
            return self._by_keys(decode_rows(pending.payloads[rows.payload]), "written")
        version = self._footprint.read().version(rows.manifest)
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
        if where not in self._matched:
            schema = self.found.shape.schema
            predicate = None if where is None else plan_predicate(where, schema)
            needed = {*self._key, *(() if predicate is None else predicate.columns)} or {schema.names[0]}
            before = self._before([name for name in schema.names if name in needed])
            if predicate is not None and before.num_rows:
                before = before.filter(predicate.mask(before))
            if len(self._matched) >= _REMEMBERED:
                self._matched.clear()
            self._matched[where] = before
        hits = self._matched[where]
        if not hits.num_rows:
            return None
        if self._key:
            return self._by_keys(hits, verb)
        return f"{hits.num_rows} of the rows it changes were {verb} where {where}"
