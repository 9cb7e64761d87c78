"""A cursor: what is known of the log up to one position, and how it gets to the next.

Keeps I1 (the state is the fold of the entries, in order, each once) and A5 (a transaction id that was seen is ignored).
A cursor moves and belongs to one owner; a `View` of it is immutable and may be handed to anybody.
"""

from typing import Generic, TypeVar

import msgspec

from phalanx.errors import CorruptionError, InternalError
from phalanx.ids import NO_LAKE, AttemptId, LakeId, TransactionId
from phalanx.log.base import NOBODY, Base, Fold, chained
from phalanx.log.entry import Entry, Landing, Transaction
from phalanx.objects import layout

S = TypeVar("S")


class View(msgspec.Struct, Generic[S], frozen=True):
    """The lake at a position: `time` is in microseconds and never goes back (rule J3)."""

    position: int
    time: int
    state: S


class Cursor(Generic[S]):
    """The fold at a position, ready to move on."""

    def __init__(self, base: Base[S], fold: Fold[S]) -> None:
        self._fold = fold
        self.lake = base.lake
        self.position = base.position - 1
        self.chain = base.chain
        self.time = base.time
        self.recent = base.recent.copy()
        self.state = base.state
        self.folded = base.folded
        self._awaited = base.next

    def view(self) -> View[S]:
        """What is known now, as a value."""
        return View(self.position, self.time, self.state)

    def accepts(self, entry: Entry) -> bool:
        """Whether the first entry above a base is the one that the base was made for (rule F1)."""
        return self._awaited in (NOBODY, entry.attempt)

    def advance(self, position: int, entry: Entry, state: S | None = None) -> None:
        """Move on by one entry; `state` is its result, where the caller has folded it already."""
        self._check(position, entry)
        fold = self._fold
        if state is None:
            state = self.state
            for landing, transaction in self.fresh(position, entry):
                state = fold.step(state, landing, transaction)
        self.lake = entry.lake
        self.position = position
        self.chain = chained(self.chain, entry.digest)
        self.time = max(self.time, entry.time)
        self.state = state
        self._awaited = NOBODY
        if position == 1:
            self.recent.resize(fold.settings(state).remembered)
        self.recent.add(position, entry.ids())

    def fresh(self, position: int, entry: Entry) -> list[tuple[Landing, Transaction]]:
        """The transactions of the next entry that take effect: those whose ids were not seen before (rule A5)."""
        find = self.recent.find
        applied: set[bytes] = set()
        found = []
        for landing, transaction in entry.landings(position):
            if find(TransactionId(transaction.id)) is None and transaction.id not in applied:
                applied.add(transaction.id)
                found.append((landing, transaction))
        return found

    def base(self, following: AttemptId) -> Base[S]:
        """All that is known, as the base at the next position, whose entry is `following`."""
        return Base(self.lake, self.position + 1, following, self.chain, self.time, self.recent.copy(), self.state)

    def _check(self, position: int, entry: Entry) -> None:
        if position != self.position + 1:
            msg = f"entry {position} cannot follow entry {self.position}"
            raise InternalError(msg)
        if self.lake not in {NO_LAKE, entry.lake}:
            raise CorruptionError(_foreign(position, entry.lake, self.lake))
        if entry.earliest > position:
            msg = f"{layout.entry(position)} was made for position {entry.earliest} or later: somebody has put it here"
            raise CorruptionError(f"{msg}; restore the right one from a copy, then run `phalanx check`")
        if not self.accepts(entry):
            msg = f"entry {position} is not the one that the fold below it was made for: run `phalanx check`"
            raise CorruptionError(msg)


def _foreign(position: int, found: LakeId, own: LakeId) -> str:
    return (
        f"{layout.entry(position)} belongs to another lake ({found.hex()}, and this one is {own.hex()}): "
        "remove what was copied here, or restore this lake from a copy"
    )
