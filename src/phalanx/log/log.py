"""The log of a lake, as one process sees it.

Owns the process's knowledge of the log (a cursor that only moves forward) and the three things done with it: `append`
an attempt at the next position, `refresh` from what others appended, `trim` below a floor. Keeps I1 and I2; of I3 the
part that concerns entries. Judging what may be appended is left to `txn/`, and comes back as an `Attempt`.

Two views of the log are told apart. The cursor may be ahead of what is safe to show: entries just read whose folder is
not synced yet (rule H2) or that no floor read has confirmed (rule A4). `view` is what was confirmed and is durable;
readers and acknowledgements get only that.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from phalanx.clock import Clock, Deadline
from phalanx.errors import (
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    SnapshotExpiredError,
    UnavailableError,
    UnsupportedError,
)
from phalanx.ids import LakeId, TransactionId
from phalanx.log import base as bases
from phalanx.log import entry, replay, slot
from phalanx.log.action import Settings
from phalanx.log.attempt import Attempt, Committed, Lost, Outcome
from phalanx.log.base import Fold
from phalanx.log.checkpoint import Checkpointer
from phalanx.log.crowd import Crowd
from phalanx.log.cursor import Cursor, View
from phalanx.log.entry import Entry, Landing, Transaction
from phalanx.log.floor import Freshness, Trimmed, dead_below, put_base, read_floor, settled_soon, sweep
from phalanx.objects import Listed, Store, layout

S = TypeVar("S")
R = TypeVar("R")

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 1.0


class Walked(msgspec.Struct, Generic[S], frozen=True):
    """An entry on the way through the log: the state before it, and those of its transactions that took effect."""

    before: View[S]
    position: int
    time: int
    entry: Entry
    landings: list[tuple[Landing, Transaction]]


class Log(Generic[S]):
    """One process's handle on a lake's log. Safe to use from many threads."""

    def __init__(self, store: Store, fold: Fold[S], clock: Clock, cursor: Cursor[S], began: float) -> None:
        self._store = store
        self._fold = fold
        self._clock = clock
        self._cursor = cursor
        self._lock = threading.RLock()
        self._confirmed = cursor.position
        self._durable = 0
        self._freshness = Freshness(clock, always_ask=store.probes)
        self.checkpointer = Checkpointer(store, fold)
        self._stopped: UnsupportedError | None = None
        self._crowd = Crowd(clock)
        self._put_time = 0.0
        self._obeyed = False
        self._freshness.mark(cursor.position + 1, began)
        self._publish()

    @classmethod
    def open(cls, store: Store, fold: Fold[S], clock: Clock) -> "Log[S]":
        """The log of the lake at `store`; `NotFoundError` if there is none."""
        began = clock.steady()
        return cls(store, fold, clock, replay.restore(store, fold, clock), began)

    @classmethod
    def begin(cls, store: Store, fold: Fold[S], clock: Clock, deadline: Deadline) -> "Log[S]":
        """An empty log; whoever puts entry 1 creates the lake, and everybody else joins it (rule F2)."""
        began = clock.steady()
        first = bases.empty(fold)
        put_base(store, layout.floor(1), first, fold, deadline, clock)
        slot.require_put_if_absent(store)
        return cls(store, fold, clock, Cursor(first, fold), began)

    @property
    def view(self) -> View[S]:
        """The newest state this process knows that is confirmed and durable. No storage is touched."""
        return self._view

    @property
    def next(self) -> View[S]:
        """The state that the next attempt is judged on: it may be newer than `view`, and is not for readers."""
        with self._lock:
            return self._cursor.view()

    @property
    def lake(self) -> LakeId:
        """Which lake this is."""
        return self._cursor.lake

    @property
    def settings(self) -> Settings:
        """What was decided when the lake was created."""
        return self._fold.settings(self._cursor.state)

    @property
    def folded(self) -> bytes:
        """What the base that this handle began with has beside its state: see `Base.folded`."""
        return self._cursor.folded

    def landed(self, transaction: TransactionId) -> int | None:
        """Where a transaction landed, if that is remembered."""
        return self._cursor.recent.find(transaction)

    def remembers(self, position: int) -> bool:
        """Whether a transaction that landed at or above `position` would still be known (rule A5)."""
        return self._cursor.recent.since <= position

    @property
    def put_time(self) -> float:
        """Seconds that the last put took."""
        return self._put_time

    def append(self, attempt: Attempt[S], deadline: Deadline) -> Outcome:
        """Put the attempt at its position, with no read before it, and settle the outcome."""
        if self._stopped is not None:
            raise self._stopped
        position, name = attempt.position, layout.entry(attempt.position)
        if self._confirmed < position - 1:  # a refresh failed halfway: what it read may never have been committed
            self._patiently(self._catch_up, deadline)
            return Lost()
        began = self._clock.steady()
        self._make_durable(position - 1)
        outcome = slot.put(self._store, attempt.blob, name, attempt.data, deadline, self._clock)
        if isinstance(outcome, slot.Unsettled):
            return outcome
        self._put_time = self._clock.steady() - began
        try:
            return self._patiently(lambda: self._conclude(attempt, outcome, began), deadline)
        except PhalanxError as error:
            if isinstance(outcome, slot.Taken) and not outcome.doubt:
                raise
            return slot.Unsettled(str(error))  # it stood in its slot, or may have; whether that counts is not known

    def take_turns(self, deadline: Deadline) -> None:
        """Before a new batch: where puts take long, stand back a little for those who lost the last one."""
        if not self._store.probes:
            wait = min(self._crowd.courtesy(self._put_time), deadline.left() / 2)
            if wait:
                self._clock.sleep(wait)

    def give_way(self, losses: int, waiting: int, deadline: Deadline) -> None:
        """After losing: wait a little if the log is crowded, and know its end again before the next try.

        Who has several transactions waiting has as many shares as one process with each of them would have.
        """
        wait = min(self._crowd.patience(losses, self._put_time) / max(1, waiting), deadline.left())
        if wait:
            self._clock.sleep(wait)
            self._patiently(self._catch_up, deadline)

    def refresh(self) -> View[S]:
        """Read what others have appended."""
        if self._stopped is not None:
            raise self._stopped
        with self._lock:
            self._catch_up()
            self._publish()
            return self._view

    def read(self, position: int) -> Entry:
        """The entry at a position."""
        found = replay.read(self._store, position) if position > 0 else None
        if found is not None:
            return found
        if position > self.view.position or position < 1:
            msg = f"there is no entry {position}: the log ends at {self.view.position}"
            raise NotFoundError(msg)
        raise self._gone(position)

    def at(self, position: int) -> View[S]:
        """The state at a position of the past."""
        view = self.view
        if position == view.position:
            return view
        if not 0 < position < view.position:
            msg = f"there is no version {position}: the lake is at version {view.position}"
            raise NotFoundError(msg)
        return replay.restore(self._store, self._fold, self._clock, position).view()

    def walk(self, since: int, until: int) -> Iterator[Walked[S]]:
        """The entries above `since`, in order, with the state before each and what it brought that was new."""
        if until > since:
            cursor = replay.restore(self._store, self._fold, self._clock, since)
            for position, found in replay.entries_after(self._store, since, until):
                before, fresh = cursor.view(), cursor.fresh(position, found)
                cursor.advance(position, found)
                yield Walked(before, position, cursor.time, found, fresh)
            replay.require_reached(self._store, self._clock, cursor.position, until)

    def as_of(self, time: int) -> View[S]:
        """The last state whose time is not after `time` (rule J3)."""
        view = self.view
        if view.time > time:
            view = replay.at_time(self._store, self._fold, self._clock, max(time, 0)).view()
        if view.position == 0:
            msg = "the lake did not exist at that time: choose a later one"
            raise NotFoundError(msg)
        return view

    def oldest(self) -> int:
        """The lowest position whose entry is kept."""
        return self._floor()

    def trim(self, floor: int, deadline: Deadline, keep: Iterable[int] = ()) -> Trimmed:
        """Raise the floor and delete what lies below it; positions in `keep` stay readable (rules A2, A3, A6, A8)."""
        self.raise_floor(floor, deadline, keep)
        return self.sweep()

    def raise_floor(self, floor: int, deadline: Deadline, keep: Iterable[int] = ()) -> None:
        """Put the fold of everything below a position, and of the positions in `keep`; nothing is deleted yet."""
        end = self.refresh().position
        if not 1 <= floor <= end:
            msg = f"the floor must lie between 1 and {end}, the end of the log: {floor} does not"
            raise InvalidInputError(msg)
        lowest = self._floor()
        for position in sorted(set(keep)):
            if lowest <= position + 1 < floor:
                self._put_base(layout.kept(position + 1), position, deadline)
        if floor > lowest:
            self._put_base(layout.floor(floor), floor - 1, deadline)

    def clearable(self, floor: int) -> list[Listed]:
        """The entries that a sweep could delete if the floor was raised so far now."""
        return dead_below(self._store, settled_soon(self._store, self.settings.grace, floor))

    def sweep(self, below: int | None = None) -> Trimmed:
        """Delete entries and checkpoints that lie below the floor, or only those below a position."""
        return sweep(self._store, self.settings.grace, below)

    def close(self) -> None:
        """Wait for a checkpoint that is being written."""
        self.checkpointer.wait()

    def _conclude(self, attempt: Attempt[S], outcome: slot.Won | slot.Taken, began: float) -> Outcome:
        """What a settled slot means; may be called again if storage fails in the middle of it."""
        position = attempt.position
        if isinstance(outcome, slot.Taken):
            return self._lost(position, outcome)
        if self._passed_by(position):
            self._reload()
            return Lost(unsure=True)
        self._confirm(position, attempt, began)
        return Committed(position)

    def _patiently(self, what: Callable[[], R], deadline: Deadline) -> R:
        """Do something that reads storage, again until the deadline if storage does not answer."""
        pause = _FIRST_PAUSE
        reached = self._cursor.position
        while True:
            try:
                with self._lock:
                    return what()
            except UnavailableError:
                if deadline.left() <= pause:
                    raise
            if self._cursor.position > reached:  # it got further: the store answers most of the time
                reached, pause = self._cursor.position, _FIRST_PAUSE
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _confirm(self, position: int, attempt: Attempt[S], began: float) -> None:
        """Our own attempt landed: adopt it, unless a refresh in another thread has read it already."""
        if self._cursor.position < position:
            due = position > 1 and position % self.settings.checkpoint_every == 0
            before = self._cursor.base(attempt.entry.attempt) if due else None
            self._cursor.advance(position, attempt.entry, attempt.state)
            if before is not None:
                self.checkpointer.offer(before)
        self._confirmed = max(self._confirmed, position)
        self._durable = max(self._durable, position)
        self._freshness.mark(self._confirmed + 1, began)
        self._publish()

    def _lost(self, position: int, outcome: slot.Taken) -> Lost:
        """Adopt the winner, and read on. Like every conclusion, "not ours" holds only if no floor has passed it."""
        try:
            winner = entry.decode(outcome.data, layout.entry(position))
        except UnsupportedError as error:
            self._stopped = error
            raise
        if self._cursor.position == position - 1:
            self._cursor.advance(position, winner)
            self._crowd.saw(winner.writer)
        reloaded = self._catch_up()
        return Lost(unsure=reloaded and outcome.doubt)

    def _catch_up(self) -> bool:
        """Read on to the end, then make sure that no floor has passed what was known before (rule A4).

        True if one had, so that everything was loaded again.
        """
        began = self._clock.steady()
        try:
            for position, found in replay.entries_after(self._store, self._cursor.position):
                self._cursor.advance(position, found)
                self._crowd.saw(found.writer)
        except UnsupportedError as error:
            self._stopped = error
            raise
        except replay.MissingEntryError:
            if self._floor() <= self._confirmed + 1:
                raise
            return self._reload()
        if self._passed_by(self._confirmed + 1):
            return self._reload()
        self._confirmed = self._cursor.position
        self._freshness.mark(self._confirmed + 1, began)
        return False

    def _reload(self) -> bool:
        """The floor went past what this process knew: begin again from storage."""
        began = self._clock.steady()
        self._cursor = replay.restore(self._store, self._fold, self._clock)
        self._confirmed = self._cursor.position
        self._freshness.mark(self._confirmed + 1, began)
        return True

    def _publish(self) -> None:
        """Show the cursor to readers, once all of it is confirmed and durable (rules A4, H2)."""
        if self._cursor.position > self._confirmed:
            return
        if not self._obeyed and self._cursor.position:
            self._obey(self.settings)
        self._make_durable(self._cursor.position)
        self._view = self._cursor.view()

    def _make_durable(self, position: int) -> None:
        """Nothing is shown or built on before it would survive a power loss, whoever wrote it (rules H1, H2).

        Without it a later entry could outlive an earlier one: a gap, or history that was judged on something else.
        """
        if position > self._durable:
            self._store.sync([layout.entry(position)])
            self._durable = max(self._durable, position)

    def _obey(self, settings: Settings) -> None:
        """Do what was decided when the lake was created, as soon as entry 1 is known, whoever put it."""
        self._freshness.grace = settings.grace
        if settings.durability == "os":
            self._store.relax()
        self._obeyed = True

    def _put_base(self, name: str, position: int, deadline: Deadline) -> None:
        cursor = replay.restore(self._store, self._fold, self._clock, position)
        base = cursor.base(self.read(position + 1).attempt)
        put_base(self._store, name, base, self._fold, deadline, self._clock)

    def _floor(self) -> int:
        floor = read_floor(self._store, self._clock)
        if floor is None:
            raise CorruptionError(f"{self._store.uri} shows no floor and no entries any more: was the lake removed?")
        return floor

    def _passed_by(self, position: int) -> bool:
        """Whether a floor has gone past `position`: asked only when it can have (rules A4, A7)."""
        return not self._freshness.covers(position) and self._floor() > position

    def _gone(self, position: int) -> SnapshotExpiredError | CorruptionError:
        floor = self._floor()
        if position < floor:
            return SnapshotExpiredError(f"entry {position} is no longer kept: the oldest is {floor}")
        return CorruptionError(f"entry {position} is missing: run `phalanx check`, and restore it from a copy")
