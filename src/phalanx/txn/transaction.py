"""A transaction over any number of tables: it reads one snapshot and its own changes, and lands as a whole or not at all.

Snapshot isolation (rule D2): of two transactions that touch the same row the first to commit wins, the other gets a
`ConflictError`. The snapshot is taken when it first looks at something; one that only adds a few rows to tables that are
known takes none, reads nothing, and is ordered by the log like a statement (rule D1). Catalog changes are judged on the state they meet, like statements on their own. Nothing is written to
the log before `commit`; what was staged for a transaction that never commits is garbage that nobody can see.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, TypeVar, cast, get_args

import pyarrow as pa

from phalanx.catalog import State, apply
from phalanx.clock import Deadline
from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from phalanx.ids import ID_BYTES
from phalanx.log import action as do
from phalanx.log.cursor import View
from phalanx.log.entry import Landing
from phalanx.names import parse_name
from phalanx.pins import Hold, Pin
from phalanx.runs import Ids
from phalanx.schema import check_schema, encode_schema
from phalanx.txn.bulk import Cargo
from phalanx.txn.commit import refusal
from phalanx.txn.core import Core, Found, find, found, locate
from phalanx.txn.draft import Draft
from phalanx.txn.intent import Guard, Named, Rebased
from phalanx.txn.reads import Reads, Serial
from phalanx.txn.touched import Footprint, Touched
from phalanx.txn.verdict import Conflict, Kind, dotted

R = TypeVar("R")
Isolation = Literal["snapshot", "serializable"]

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5


class Work:
    """The changes of a transaction, gathered. Belongs to one thread at a time."""

    def __init__(
        self,
        core: Core,
        timeout: Deadline | float | None,
        note: str = "",
        token: str | None = None,
        isolation: Isolation = "snapshot",
    ) -> None:
        if isolation not in get_args(Isolation):
            raise InvalidInputError(f"isolation is one of {', '.join(get_args(Isolation))}: {isolation!r} is not")
        self.core = core
        self.reads = Reads() if isolation == "serializable" else None
        """What it has read, if that is to be checked."""
        self._timeout = timeout
        if not isinstance(timeout, Deadline):
            core.deadline(timeout)  # a bad one is refused before any work is done
        self.note = note
        self._identity = core.ids.next() if token is None else identity_of(core, token)
        self._token_since = None if token is None else since_of(token)
        core.committer.require_open()
        self._began: View[State] | None = None
        self._view: View[State] | None = None
        self._catalog: list[do.Action] = []
        self._drafts: dict[str, Draft] = {}
        self._dropped: list[Footprint] = []
        self._pins: list[Pin] = []
        self._held: Hold | None = None
        self._closed: str | None = None
        self.prunes: dict[str, Literal["eager", "background"]] = {}
        """Tables whose earlier versions go once it is committed, and how."""
        self.version: int | None = None

    @property
    def view(self) -> View[State]:
        """The lake as it sees it: its snapshot, with its own changes of the catalog."""
        self.look()
        return cast("View[State]", self._view)

    @property
    def began(self) -> View[State]:
        """Its snapshot."""
        self.look()
        return cast("View[State]", self._began)

    def look(self) -> None:
        """Take the snapshot, if there is none yet. What was named before must still be what the names mean."""
        if self._view is None:
            view = self.core.refresh()
            objection = self._named().check(view.state, view.position + 1, self.core.log.read)
            if objection is not None:
                raise refusal(objection)
            for draft in self._drafts.values():
                now = locate(view, draft.found.table.id)
                if draft.statements and now.shape.layout != draft.found.shape.layout:
                    raise refusal(Conflict(Kind.REPLAN, f"the columns of table {dotted(now.name)!r} have changed"))
                draft.found = now
            self._view = self._began = view
            self._held = self.core.hold(view.position, whole=True)

    def draft(self, name: str) -> Draft:
        """A table, to be read and changed."""
        parts = parse_name(name)
        if self.reads is not None:
            self.reads.names.add(parts)
        known = self.core.log.view if self._view is None else self._view
        table = known.state.tables.get(parts)
        return self.draft_of(find(self.view, name) if table is None else found(known, parts, table))

    def draft_of(self, here: Found) -> Draft:
        """A table that was found in this transaction."""
        self.require_open()
        if here.table.id not in self._drafts:
            self._drafts[here.table.id] = Draft(self.core, here, self.look, reads=self.reads)
        return self._drafts[here.table.id]

    def create(self, name: str, schema: pa.Schema, key: Sequence[str], properties: Mapping[str, str]) -> Draft:
        """A new table."""
        self.require_open()
        parts = parse_name(name)
        checked = check_schema(schema, key)
        if parts in self.view.state.tables:
            raise AlreadyExistsError(f"table {name!r} exists already: choose another name, or use what is there")
        table = self.core.new_table_id()
        self._pins.append(self.core.pins.staging())
        manifest = self.core.datasets.begin(table, checked)
        self.change(do.CreateTable(parts, table, dict(properties), encode_schema(checked), tuple(key), manifest))
        here = found(self.view, parts, self.view.state.tables[parts])
        self._drafts[table] = Draft(self.core, here, self.look, born=True)
        return self._drafts[table]

    def drop(self, name: str) -> None:
        """Drop a table; that counts as touching all of it."""
        self.require_open()
        here = find(self.view, name)
        draft = self._drafts.pop(here.table.id, None)
        if draft is not None:
            draft.dropped = True
        if here.table.id in self.began.state.contents:
            before = found(self.began, here.name, here.table)
            self._dropped.append(Footprint(before, lambda: self.core.reading(before), whole=True))
        self.change(do.DropTable(here.name, here.table.id))

    def change(self, action: do.Action) -> None:
        """One more change of the catalog, seen by what follows in this transaction."""
        self.require_open()
        state = apply(self.view.state, Landing(self.view.position), action)
        self._view = View(self.view.position, self.view.time, state)
        self._catalog.append(action)

    def changed(self) -> list[str]:
        """The tables whose rows it changes."""
        return [table for table, draft in self._drafts.items() if draft.statements]

    def deadline(self) -> Deadline:
        """When a commit that begins now has to be over."""
        return self._timeout if isinstance(self._timeout, Deadline) else self.core.deadline(self._timeout)

    def commit(self) -> int:
        """Land as a whole; the position."""
        self.require_open()
        self._closed = "committed"
        drafts = [draft for draft in self._drafts.values() if draft.statements or draft.born]
        with self.core.needing([*self._pins, *(pin for draft in drafts for pin in draft.pins())]):
            first = self._built(drafts, {})
        if not first.actions:  # it only read, or its changes came to nothing
            self.version = self.began.position
            return self.version
        looked = self._view is not None
        prints = [draft.footprint() for draft in drafts if looked and not draft.born] + self._dropped
        guard: Guard | None = Touched(prints, lambda moved: self._built(drafts, moved)) if prints else None
        if not looked:
            guard = self._named()
        elif self.reads is not None:
            guard = Serial(self.core, self.began.state, self.reads, guard)
        intent = self.core.intent(
            first.actions,
            self.deadline(),
            note=self.note,
            payloads=first.payloads,
            identity=self._identity,
            guard=guard,
            pins=first.pins,
        )
        intent.token_since = self._token_since
        try:
            self.version = self.core.committer.commit(intent)
        except (ConflictError, NotFoundError):
            if not looked:
                self.core.refresh()  # what was known was too old, and the next one would be stopped by the same
            raise
        finally:
            self._let_go()
        return self.version

    def _let_go(self) -> None:
        """Nothing that it has read or staged needs to be kept any longer."""
        self._held = None
        self._pins.clear()
        for draft in self._drafts.values():
            draft.let_go()

    def _named(self) -> Named:
        """What its tables must be called: it asked for them by name."""
        return Named({draft.found.table.id: draft.found.name for draft in self._drafts.values()})

    def rollback(self) -> None:
        """Forget everything."""
        self._closed = self._closed or "rolled back"
        self._let_go()

    def require_open(self) -> None:
        """Refuse a transaction that is over."""
        if self._closed is not None:
            raise StateError(f"this transaction was {self._closed}: begin another one")

    @property
    def over(self) -> bool:
        """Whether it was committed or rolled back."""
        return self._closed is not None

    def _built(self, drafts: Sequence[Draft], moved: Mapping[str, Ids]) -> Rebased:
        cargo = Cargo()
        actions = list(self._catalog)
        for draft in drafts:
            actions += draft.actions(cargo, moved.get(draft.found.table.id, draft.removed()))
        return Rebased(tuple(actions), tuple(cargo.payloads), (*self._pins, *cargo.pins))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None and not self.over:
            self.commit()
        else:
            self.rollback()


def identity_of(core: Core, token: str) -> bytes:
    """The transaction id of an idempotency token, while it is certain that a use of it would be known (rule B7)."""
    if not core.log.remembers(since_of(token)):
        raise CommitUnknownError(
            f"token {token!r} is too old: whether it was used is no longer known; look at the log before you repeat it"
        )
    return hashlib.blake2b(token.encode(), digest_size=ID_BYTES).digest()


def since_of(token: str) -> int:
    """The position from which on a token may have been used."""
    since, dash, rest = token.partition("-")
    if not dash or not since.isdigit() or not rest:
        raise InvalidInputError(f"{token!r} is not a token: make one with lake.token(), and use it for one transaction")
    return int(since)


def again(core: Core, deadline: Deadline, attempt: Callable[[], R]) -> R:
    """Attempt something that may conflict, on a newer snapshot each time, until the deadline."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except ConflictError:
            if deadline.left() <= pause:
                raise
        core.clock.sleep(pause * (0.5 + core.clock.token(1)[0] / 256))
        pause = min(2 * pause, _LONGEST_PAUSE)
