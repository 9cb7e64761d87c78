"""What the parts of one lake handle share: the log, the way into it, the datasets and the overlays."""

from collections.abc import Sequence

import msgspec

from phalanx.catalog import Name, State, Table
from phalanx.clock import Clock, Deadline
from phalanx.contents import Contents, is_deleted
from phalanx.errors import InvalidInputError, NotFoundError, StateError, VersionDeletedError
from phalanx.ids import ID_BYTES, TransactionIds
from phalanx.log import action as do
from phalanx.log.cursor import View
from phalanx.log.log import Log
from phalanx.names import parse_name, suggestion
from phalanx.objects import Store
from phalanx.tables.dataset import Datasets
from phalanx.tail.cache import Overlays
from phalanx.tail.overlay import Shape, shape_of
from phalanx.tail.read import Reading
from phalanx.txn.commit import Committer
from phalanx.txn.intent import Guard, Intent, intend


class Found(msgspec.Struct, frozen=True):
    """A table at one moment."""

    name: Name
    table: Table
    contents: Contents
    shape: Shape
    position: int


class Core:
    """One process's handle on a lake, without the words that users see."""

    def __init__(self, store: Store, log: Log[State], clock: Clock, timeout: float, *, carry: bool) -> None:
        self.store = store
        self.log = log
        self.clock = clock
        self.timeout = timeout
        self.ids = TransactionIds(clock.token)
        self.committer = Committer(store, log, clock, carry=carry)
        self.datasets = Datasets(store.files())
        self.overlays = Overlays(self.datasets)

    def refresh(self) -> View[State]:
        """The newest state."""
        self.committer.require_open()
        return self.log.refresh()

    def deadline(self, timeout: float | None) -> Deadline:
        """When a commit that begins now has to be over."""
        seconds = self.timeout if timeout is None else timeout
        if not seconds >= 0:
            raise InvalidInputError(f"timeout is the number of seconds a commit may take: {timeout!r} is not")
        return Deadline.after(self.clock, seconds)

    def intent(
        self,
        actions: Sequence[do.Action],
        deadline: Deadline,
        *,
        note: str = "",
        payloads: Sequence[bytes] = (),
        identity: bytes | None = None,
        guard: Guard | None = None,
    ) -> Intent:
        """An intent for these actions."""
        return intend(actions, identity or self.ids.next(), deadline, note=note, payloads=payloads, guard=guard)

    def commit(
        self,
        actions: Sequence[do.Action],
        timeout: float | None = None,
        *,
        note: str = "",
        payloads: Sequence[bytes] = (),
    ) -> int:
        """Bring these actions into the log as one transaction; the position they landed on."""
        return self.committer.commit(self.intent(actions, self.deadline(timeout), note=note, payloads=payloads))

    def new_table_id(self) -> str:
        """The name of an incarnation that never was."""
        return self.clock.token(ID_BYTES).hex()

    def new_layout_id(self) -> int:
        """A number that no layout has yet."""
        return int.from_bytes(self.clock.token(8)) >> 1 or 1

    def shape(self, known: Shape) -> Shape:
        """A table's columns as they are known here; nothing is read."""
        contents = self.log.view.state.contents.get(known.table)
        return (
            known if contents is None or contents.layout.id == known.layout else shape_of(known.table, contents.layout)
        )

    def reading(self, found: Found) -> Reading:
        """A table, ready to be read."""
        if not found.contents.head.manifest:
            raise StateError(
                f"table {'.'.join(found.name)!r} was only declared: nobody has written its first version yet"
            )
        now = self.log.view.state.contents.get(found.table.id)
        if now is not None and now.deleted and is_deleted(now, found.contents.version):
            raise VersionDeletedError(
                f"version {found.contents.version} of table {'.'.join(found.name)!r} was deleted: choose another one"
            )
        return Reading(self.overlays.at(found.shape, found.contents), self.datasets)

    def require_columns(self, shape: Shape) -> None:
        """Refuse a table that was only declared: nobody knows yet what its rows are."""
        if not shape.schema.names:
            raise StateError(
                "the table was only declared: its first version has to be written by a client of the namespace"
            )

    def settled(self, found: Found) -> Reading:
        """As `reading`, where rows on disk must have the table's columns: written out for this if they do not."""
        reading = self.reading(found)
        return self.overlays.settled(reading.overlay) if reading.overlay.converts else reading


def find(view: View[State], name: str) -> Found:
    """A table by its name."""
    parts = parse_name(name)
    table = view.state.tables.get(parts)
    if table is None:
        near = suggestion(name, map(".".join, view.state.tables))
        raise NotFoundError(f"there is no table {name!r} at version {view.position}; {near}")
    return found(view, parts, table)


def locate(view: View[State], table: str) -> Found:
    """A table by its incarnation."""
    name = view.state.names.get(table)
    if name is None:
        raise NotFoundError("the table does no longer exist: it was dropped; open it again if it was created anew")
    return found(view, name, view.state.tables[name])


def found(view: View[State], name: Name, table: Table) -> Found:
    """A table that is known to be there."""
    contents = view.state.contents[table.id]
    shape = shape_of(table.id, contents.layout)
    return Found(name, table, contents, shape, view.position)
