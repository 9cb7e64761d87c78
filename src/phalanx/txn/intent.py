"""An intent: one transaction that somebody wants in the log, on its way there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from phalanx.catalog import Name, State
from phalanx.clock import Deadline
from phalanx.errors import PhalanxError
from phalanx.ids import ID_BYTES, TransactionId
from phalanx.log.ack import Ack
from phalanx.log.action import Action
from phalanx.log.entry import Entry, Sealed, Transaction, seal
from phalanx.log.item import Item
from phalanx.pins import Pin
from phalanx.txn.kept import OLDEST, STAGED
from phalanx.txn.verdict import Conflict, Kind, dotted

Read = Callable[[int], Entry]
"""The entry at a position."""


class Rebased(msgspec.Struct, frozen=True):
    """What an intent has to say instead, because the table's rows have moved since it was planned."""

    actions: tuple[Action, ...]
    payloads: tuple[bytes, ...]
    pins: tuple[Pin, ...] = ()
    """Under which its files were staged."""


class Guard(Protocol):
    """What a transaction saw and touched: asked again whenever the log has moved on (rule D2)."""

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        """What stands in the way of landing on this state, at `position`; or what to say there instead."""
        ...


class Named(msgspec.Struct, frozen=True, array_like=True):
    """A guard that reads nothing: the tables, by incarnation, must have the names by which they were asked for."""

    names: dict[str, Name]

    def check(self, state: State, position: int, read: Read) -> Conflict | None:
        """See `Guard`."""
        for table, name in self.names.items():
            if state.names.get(table) != name:
                shown = dotted(name)
                if name not in state.tables:
                    return Conflict(Kind.MISSING, f"table {shown!r} does no longer exist: it was dropped or renamed")
                return Conflict(Kind.CHANGED, f"table {shown!r} is another one by now", state.tables[name].created)
        return None


class Intent:
    """A sealed transaction with the acknowledgement its caller waits for, and until when."""

    __slots__ = (
        "_planned",
        "ack",
        "by",
        "deadline",
        "guard",
        "id",
        "lent_at",
        "producer",
        "sealed",
        "token_since",
        "unsure_at",
    )

    def __init__(
        self,
        sealed: Sealed,
        deadline: Deadline,
        producer: object | None = None,
        guard: Guard | None = None,
        *,
        ack: Ack | None = None,
        lent_at: int | None = None,
        by: str | None = None,
    ) -> None:
        self.sealed = sealed
        self._planned = sealed
        self.guard = guard
        self.id = TransactionId(sealed.transaction.id)
        self.deadline = deadline
        self.ack = Ack() if ack is None else ack
        self.producer = producer
        """Intents of one producer land in the order in which they were submitted."""
        self.unsure_at: int | None = None
        """A position below the floor at which it may have landed: only the remembered ids can tell (rule A5)."""

        self.token_since: int | None = None
        """The position from which on its id may have been used, if a token stands for it (rule B7)."""
        self.lent_at = lent_at
        """The position from which on another process may put it too, now or later (rule B9)."""
        self.by = by
        """Who asked for it, if it was another process."""

    @property
    def certain(self) -> bool:
        """Whether it is known to be nowhere in the log, unless this process puts it there."""
        return self.unsure_at is None and self.lent_at is None

    @property
    def transaction(self) -> Transaction:
        """What is wanted."""
        return self.sealed.transaction

    def tables(self) -> list[str]:
        """The tables whose rows it changes."""
        return [action.table for action in self.transaction.actions if isinstance(action, Item)]

    def object(self, state: State, position: int, read: Read) -> Conflict | None:
        """What its guard says; the intent is changed to what it has to say on this state."""
        if self.guard is None:
            return None
        found = self.guard.check(state, position, read)
        if isinstance(found, Rebased):
            old = self._planned.transaction
            said = Transaction(old.id, old.note, found.actions, len(found.payloads), staged_under(found.pins))
            self.sealed = seal(said, found.payloads)
            return None
        self.sealed = self._planned
        return found

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.ack.done()


Outcome = tuple[Ack, int | PhalanxError]


def staged_under(pins: Iterable[Pin], oldest: int | None = None) -> dict[str, Any]:
    """What a transaction says of the pins that its files were staged under: the judge asks whether they held.

    `oldest` is the stamp of the oldest of those that nobody had pinned, in microseconds.
    """
    said = sorted({(bytes.fromhex(pin.id), pin.position) for pin in pins})
    return ({STAGED: said} if said else {}) | ({} if oldest is None else {OLDEST: oldest})


def intend(
    actions: Sequence[Action],
    identity: bytes,
    deadline: Deadline,
    *,
    note: str = "",
    payloads: Sequence[bytes] = (),
    producer: object | None = None,
    guard: Guard | None = None,
    extra: dict[str, Any] | None = None,
) -> Intent:
    """An intent for these actions; an `InvalidInputError` here concerns nobody else's."""
    transaction = Transaction(identity[:ID_BYTES], note, tuple(actions), len(payloads), extra or {})
    return Intent(seal(transaction, payloads), deadline, producer, guard)
