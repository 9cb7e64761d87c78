"""What the parts of one lake handle share: the log, the way into it, the datasets and the overlays."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from phalanx.catalog import Name, State, Table, is_lost
from phalanx.clock import Clock, Deadline
from phalanx.contents import Contents, is_deleted
from phalanx.errors import (
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    SnapshotExpiredError,
    StagingExpiredError,
    StateError,
    UnavailableError,
    VersionDeletedError,
)
from phalanx.ids import ID_BYTES, TransactionIds
from phalanx.log import action as do
from phalanx.log.cursor import View
from phalanx.log.log import Log
from phalanx.names import parse_name, suggestion
from phalanx.objects import Store
from phalanx.pins import AHEAD, LIFE, Hold, Pin, Pins
from phalanx.tables.dataset import Datasets
from phalanx.tail.cache import Overlays
from phalanx.tail.overlay import Shape, shape_of
from phalanx.tail.read import Reading
from phalanx.txn.commit import Committer
from phalanx.txn.intent import Guard, Intent, intend, staged_under

log = logging.getLogger("phalanx.txn")


class Found(msgspec.Struct, frozen=True):
    """A table at one moment."""

    name: Name
    table: Table
    contents: Contents
    shape: Shape
    position: int


class Core:
    """One process's handle on a lake, without the words that users see."""

    def __init__(
        self, store: Store, log: Log[State], clock: Clock, timeout: float, *, carry: bool, pin_life: float = LIFE
    ) -> None:
        self.store = store
        self.log = log
        self.clock = clock
        self.timeout = timeout
        self.ids = TransactionIds(clock.token)
        self.committer = Committer(store, log, clock, carry=carry)
        files = store.files()
        self.pins = Pins(files.store, clock, lambda: log.view.position, pin_life, store.now)
        self.datasets = Datasets(files, self.pins, lambda: log.view.state.properties)
        self.overlays = Overlays(self.datasets, log.folded)
        log.checkpointer.folds = self._folds
        self.pins.before_renewal = self._before_renewal
        self.pins.look, self.pins.lets, self.pins.gone = self._look, self._lets, self._gone

    def refresh(self) -> View[State]:
        """The newest state; what it names is pinned before it is looked at (rule E2)."""
        self.committer.require_open()
        pin = self.pins.ready()
        view = self.log.refresh()
        pin.checked = True
        return view

    def _folds(self, state: State) -> bytes:
        """Long tails as they were applied here, for whoever opens the lake at a checkpoint (rule C10)."""
        try:
            return self.overlays.folded(state.contents.items())
        except (PhalanxError, OSError) as error:  # the head may have been pruned meanwhile
            log.debug("a checkpoint is written without the tails applied: %s", error)
            return b""

    def _look(self) -> None:
        """See how far the log has got, as far as it can be seen."""
        with suppress(PhalanxError):
            self.log.refresh()

    def _lets(self, pin: Pin) -> bool:
        """Whether no prune, as far as is known, has taken a staging pin for expired."""
        return self.log.view.state.retained.lets((bytes.fromhex(pin.id), pin.position))

    def _gone(self, position: int, table: str) -> bool:
        """Whether a prune has let go of a position, or of the version that a table had there."""
        self._look()
        state = self.log.view.state
        contents = state.contents.get(table)
        version = None if contents is None else contents.versions.at(position)
        deleted = version is not None and is_lost(state, table, version.version)
        return deleted or not state.retained.has(position)

    def _before_renewal(self) -> bool:
        """Who does nothing for a while must not hold up others: it moves on with the log all the same.

        False if there is nothing left to pin: somebody has removed the lake.
        """
        self.overlays.forget_old()
        try:
            self.log.refresh()
        except UnavailableError as error:
            log.info("pins stay where they are: %s", error)
        except PhalanxError as error:
            log.info("nothing is pinned any more: %s", error)
            return False
        return True

    def hold(self, position: int, *, whole: bool = False, of: Found | None = None) -> Hold:
        """Keep a position readable for as long as this is held; refused if it was pruned (rule E2).

        A version of a table may be kept where the lake as a whole is not.
        """
        held = self.pins.hold(position, whole=whole)
        if not held.pin.checked:
            state = self.refresh().state
            retained = state.retained
            now = None if of is None else state.contents.get(of.table.id)
            kept = now is not None and of is not None and not is_deleted(now, of.contents.version)
            if not retained.has(position) and not kept:
                raise SnapshotExpiredError(
                    f"version {position} is no longer kept: the oldest version that is kept is {retained.floor - 1}; "
                    "choose a newer one"
                )
            held.pin.checked = True
        return held

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
        pins: Iterable[Pin] = (),
        oldest: int | None = None,
    ) -> Intent:
        """An intent for these actions; `pins` are those that files were staged under which it names."""
        if self.pins.ahead > AHEAD:
            raise StateError(
                f"the clock here is {self.pins.ahead:.0f} seconds ahead of that of {self.store.uri}, and entries would carry "
                "times that are yet to come: nothing was committed; set the clock"
            )
        who, extra = identity or self.ids.next(), staged_under(pins, oldest)
        return intend(actions, who, deadline, note=note, payloads=payloads, guard=guard, extra=extra)

    def commit(
        self,
        actions: Sequence[do.Action],
        timeout: float | None = None,
        *,
        note: str = "",
        payloads: Sequence[bytes] = (),
        pins: Iterable[Pin] = (),
    ) -> int:
        """Bring these actions into the log as one transaction; the position they landed on."""
        deadline = self.deadline(timeout)
        return self.committer.commit(self.intent(actions, deadline, note=note, payloads=payloads, pins=pins))

    @contextmanager
    def needing(self, pins: Iterable[Pin]) -> Iterator[None]:
        """Work with files that were staged under these pins: if some are gone because a pin expired, that is said."""
        try:
            yield
        except (CorruptionError, UnavailableError) as error:
            self.refresh()
            if all(self._lets(pin) for pin in pins):
                raise
            raise StagingExpiredError(
                "files that were written for this change were pruned, because its pin was not renewed in time: write it again"
            ) from error

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
        held = self.hold(found.position, of=found)
        if is_lost(self.log.view.state, found.table.id, found.contents.version):
            raise VersionDeletedError(
                f"version {found.contents.version} of table {'.'.join(found.name)!r} was deleted: choose another one"
            )
        return Reading(self.overlays.at(found.shape, found.contents), self.datasets, held)

    def require_columns(self, shape: Shape) -> None:
        """Refuse a table that was only declared: nobody knows yet what its rows are."""
        if not shape.schema.names:
            raise StateError(
                "the table was only declared: its first version has to be written by a client of the namespace"
            )

    def settled(self, found: Found) -> Reading:
        """As `reading`, where rows on disk must have the table's columns: written out for this if they do not."""
        reading = self.reading(found)
        return self.overlays.settled(reading) if reading.overlay.converts else reading


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
