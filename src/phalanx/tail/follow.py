"""Following one table through the log: which rows each commit changed, exactly, whatever upkeep did in between.

Small changes are gathered and evaluated together; whatever replaces the head (a flush, a restore, a version made by a
client of the namespace) ends such a run, because rows are known by other numbers afterwards.
"""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from phalanx import contents as held
from phalanx.contents import Contents
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.tail.cache import Overlays
from phalanx.tail.difference import Difference, difference
from phalanx.tail.effects import Changed, Kind, effects, pairs
from phalanx.tail.overlay import Overlay, shape_of
from phalanx.tail.read import Reading
from phalanx.waiting import Pending, taken

_ITEMS = 2048
"""Small changes that are looked at together."""


class Follower:
    """One table, from a position on. Transactions must come in the order of the log, each once."""

    def __init__(self, overlays: Overlays, table: str, contents: Contents | None) -> None:
        self._overlays = overlays
        self._table = table
        self.contents = contents
        self._last = contents
        """What it held when it was last there: a table that was dropped may come back."""
        self._base = contents
        self._gathered: list[Pending] = []

    def take(self, landing: Landing, transaction: Transaction) -> Iterator[Changed]:
        """What a transaction changed, or some that came before it; `rest` gives what is left."""
        for action in transaction.actions:
            if getattr(action, "table", None) == self._table:
                yield from self._one(landing, action)

    def rest(self) -> Iterator[Changed]:
        """What was gathered and not given yet."""
        if self._gathered and self._base is not None:
            items, self._gathered = self._gathered, []
            yield from _in(self._base, effects(self._at(self._base), items, self._overlays.datasets))
        self._base = self.contents

    def _one(self, landing: Landing, action: do.Action) -> Iterator[Changed]:
        before = self.contents
        if isinstance(action, do.CreateTable):
            layout = it.Layout(0, action.schema, action.key)
            self.contents = self._base = held.created(landing, action.manifest, layout)
        elif isinstance(action, do.ReviveTable):
            self.contents = held.revived(action.version, action.versions, action.deleted)
        elif isinstance(action, do.DropTable | do.DeregisterTable):
            yield from self.rest()
            self._last, self.contents = self.contents, None
        elif before is not None and isinstance(action, held.TableAction):
            self.contents = after = held.step(before, landing, action)
            if isinstance(action, it.Waiting) and after.until > before.until:
                self._gathered.append(after.items[before.until])
                if len(self._gathered) >= _ITEMS or isinstance(action, it.Alter):
                    yield from self.rest()
            else:
                yield from self._replaced(landing, action, before, after)

    def _replaced(
        self, landing: Landing, action: held.TableAction, before: Contents, after: Contents
    ) -> Iterator[Changed]:
        if after.head == before.head and not isinstance(action, it.Restore | it.Advance):
            return
        self.contents = before
        yield from self.rest()
        if isinstance(action, it.Restore | it.Advance):
            standing = before if before.head.manifest else self._last
            yield from _in(after, self._compared(landing, standing, after))
        elif isinstance(
            action, it.Waiting
        ):  # a bulk change that became the head at once: its meaning is that of an item
            seq = before.until
            pending = Pending(seq, landing.position, landing.place, before.serial, *taken(action, landing.payloads))
            yield from _in(before, effects(self._at(before), [pending], self._overlays.datasets))
        self.contents = self._base = after

    def _compared(self, landing: Landing, before: Contents | None, after: Contents) -> Iterator[Changed]:
        now = Reading(self._at(after), self._overlays.datasets)
        if before is None or not before.head.manifest:
            for batch in now.scan():
                yield Changed.all(pa.Table.from_batches([batch]), Kind.INSERT, landing.position, landing.place)
            return
        found = difference(Reading(self._at(before), self._overlays.datasets), now)
        yield from told(found, landing.position, landing.place)

    def _at(self, contents: Contents) -> Overlay:
        return self._overlays.at(shape_of(self._table, contents.layout), contents)


def _in(contents: Contents, changes: Iterator[Changed]) -> Iterator[Changed]:
    """Changes of rows that have the columns of this state."""
    return (msgspec.structs.replace(one, layout=contents.layout.id) for one in changes)


def told(found: Difference, position: int, place: int) -> Iterator[Changed]:
    """A difference as the changes that would make it."""
    yield Changed.all(found.deleted, Kind.DELETE, position, place)
    if found.before.num_rows:
        yield pairs(found.before, found.after, position, place)
    yield Changed.all(found.inserted, Kind.INSERT, position, place)
