"""What a serializable transaction read, and whether anybody changed it since (rule D2).

A transaction that writes may land only if everything it read would read the same there. Keys that were asked for, rows
that matched a condition: what landed since is followed through the log, and every row it changed is looked at as it was
before and as it is after. Whoever read without a condition, with a limit or by a search has read the whole table.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from phalanx.catalog import Name, State
from phalanx.contents import Contents
from phalanx.expr import plan_predicate
from phalanx.ids import TransactionId
from phalanx.tail.cache import Overlays
from phalanx.tail.effects import Changed
from phalanx.tail.follow import Follower
from phalanx.tail.keys import NEVER, KeySet, shown_key
from phalanx.txn.core import Core, Found
from phalanx.txn.intent import Guard, Read, Rebased
from phalanx.txn.verdict import Conflict, Kind, dotted

Landed = Callable[[TransactionId], int | None]


class Reads:
    """What one transaction has read so far."""

    def __init__(self) -> None:
        self.catalog = False
        self.names: set[Name] = set()
        """The names that it has asked for, whether there was a table or not."""
        self.tables: dict[str, TableReads] = {}

    def of(self, found: Found) -> "TableReads":
        """What it has read of one table, which it found like this."""
        return self.tables.setdefault(found.table.id, TableReads(found))


class TableReads:
    """What was read of one table."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.whole = False
        self._conditions: set[str] = set()
        self._keys = KeySet(found.shape.key)
        self._seen = found.position
        self._follower: Follower | None = None
        self._beaten: Conflict | None = None

    def rows(self, where: str | None, limit: int | None = None) -> None:
        """Rows were read: those that match, or all."""
        # What may fail on a row, or is another thing each time, cannot be asked of rows that come later.
        if where is None or limit is not None or not plan_predicate(where, self.found.shape.schema).loggable:
            self.whole = True
        else:
            self._conditions.add(where)

    def keys(self, keys: pa.Table) -> None:
        """The rows of these keys were asked for, whether they are there or not."""
        self._keys.add(keys)

    def check(self, contents: Contents | None, position: int, read: Read, core: Core) -> Conflict | None:
        """Who changed what was read, if anybody did."""
        name = dotted(self.found.name)
        if contents is None:
            return Conflict(Kind.CHANGED, f"table {name!r}, which was read, was dropped")
        if (contents.changed, contents.version) == (self.found.contents.changed, self.found.contents.version):
            return None
        moved = contents.generation != self.found.contents.generation or contents.layout.id != self.found.shape.layout
        if (
            self.whole or moved or contents.changed >= position
        ):  # a neighbour that is not settled: looked at again later
            return self._changed("it was read, and changed", contents.changed)
        if self._beaten is None:
            self._follow(position, read, core)
        return self._beaten

    def _follow(self, position: int, read: Read, core: Core) -> None:
        follower = self._follower or self._following(core.overlays)
        for at in range(self._seen + 1, position):
            for landing, transaction in read(at).landings(at):
                first = core.log.landed(TransactionId(transaction.id))
                if first is None or first == at:
                    for changed in follower.take(landing, transaction):
                        self._look_at(changed)
            self._seen = at
        for changed in follower.rest():
            self._look_at(changed)

    def _following(self, overlays: Overlays) -> Follower:
        self._follower = Follower(overlays, self.found.table.id, self.found.contents)
        return self._follower

    def _look_at(self, changed: Changed) -> None:
        if self._beaten is not None or not changed.rows.num_rows:
            return
        key = self.found.shape.key
        for where in sorted(self._conditions):
            hits = plan_predicate(where, self.found.shape.schema).mask(changed.rows).to_numpy(zero_copy_only=False)
            if hits.any():
                at = int(changed.positions[np.flatnonzero(hits)[0]])
                self._beaten = self._changed(f"rows where {where} were read, and changed", at)
                return
        hits = self._keys.first(changed.rows) < NEVER if self._keys else np.zeros(1, dtype=np.bool_)
        if hits.any():
            first = int(np.flatnonzero(hits)[0])
            what = f"key {shown_key(changed.rows, key, first)} was read, and changed"
            self._beaten = self._changed(what, int(changed.positions[first]))

    def _changed(self, what: str, position: int) -> Conflict:
        name = dotted(self.found.name)
        text = f"table {name!r}: {what} since version {self.found.position}, at version {position}"
        return Conflict(Kind.CHANGED, text, position)


class Serial:
    """A guard of what was read, on top of the one of what was changed: see `phalanx.txn.intent.Guard`."""

    def __init__(self, core: Core, began: State, reads: Reads, below: Guard | None) -> None:
        self._core = core
        self._began = began
        self._reads = reads
        self._below = below

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        """See `Guard`."""
        found = None if self._below is None else self._below.check(state, position, read)
        if isinstance(found, Conflict):
            return found
        if self._reads.catalog and not (state.names == self._began.names):  # noqa: SIM201 - rpds has == right, and not !=
            return Conflict(Kind.CHANGED, "the list of tables was read, and changed")
        for name in sorted(self._reads.names):
            if _id(state, name) != _id(self._began, name):
                return Conflict(Kind.CHANGED, f"table {dotted(name)!r} was asked for, and is another one now")
        for table, reads in self._reads.tables.items():
            objection = reads.check(state.contents.get(table), position, read, self._core)
            if objection is not None:
                return objection
        return found


def _id(state: State, name: Name) -> str | None:
    table = state.tables.get(name)
    return None if table is None else table.id
