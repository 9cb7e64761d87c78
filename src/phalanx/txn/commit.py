"""The commit loop: the only way into the log.

Blind first: a batch is judged on what this process knows, and put at the next position without reading anything. If
the slot was free, what the process knew was everything, and the judgement stands. If it was not, the winner and what
came after it are read, everything is judged again, and the batch goes to the new end. Reading first costs a request on
every commit to save a put on those that lose, and may still lose. Measured at 30 ms a request (`make bench`): the only
writer takes 31 ms against 61; four writers make 21 commits/s against 13; only a writer that is behind pays, 122 ms
against 92 for one entry. On a local disk, where looking is nearly free, the two differ by a tenth.

The loop never asks which kind of action it carries, and has no options. Keeps B1-B5: bytes at a position are frozen
until settled; a transaction is acknowledged only where its own id stands; losing drops nobody; one that conflicts
with a settled winner fails alone, one that conflicts with a neighbour of its own batch waits for the next; readers see
a commit before its caller is told.
"""

import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from operator import is_not
from typing import Any, Protocol, Self

import msgspec

from phalanx.catalog import State
from phalanx.clock import Clock, Deadline, writer_identity
from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    DeadlineError,
    InternalError,
    NotFoundError,
    PhalanxError,
    SchemaChangedError,
    StagingExpiredError,
    StateError,
)
from phalanx.ids import ID_BYTES, NO_LAKE, AttemptId, LakeId
from phalanx.log import ack, entry
from phalanx.log.attempt import Attempt, Committed, Lost
from phalanx.log.entry import MAX_TRANSACTIONS, Entry, Landing, Sealed
from phalanx.log.frame import MAX_FRAME
from phalanx.log.group import Group
from phalanx.log.log import Log
from phalanx.log.watch import Watch
from phalanx.objects import Store
from phalanx.txn.carrier import Carrier
from phalanx.txn.carrying import UNSURE, can_ride
from phalanx.txn.conflict import judge
from phalanx.txn.intent import Intent
from phalanx.txn.passenger import Passenger
from phalanx.txn.verdict import GO, Already, Conflict, Kind, Verdict

log = logging.getLogger("phalanx.txn")


class Batch(msgspec.Struct, frozen=True):
    """Intents that go into one entry, in this order, and the state after them."""

    position: int
    chosen: list[Intent]
    state: State


class Upkeep(Protocol):
    """What looks after the tables that are changed here for other processes."""

    def wrote(self, table: str, position: int) -> None:
        """A table was changed there."""
        ...

    def has_room(self, table: str) -> bool:
        """Whether a table's tail may grow."""
        ...


class Committer:
    """Brings intents into the log. Safe to use from many threads and event loops."""

    def __init__(self, store: Store, book: Log[State], clock: Clock, *, carry: bool = True) -> None:
        self._store = store
        self._log = book
        self._clock = clock
        self._writer = writer_identity()
        self._group: Group[Intent] = Group(self._commit, MAX_TRANSACTIONS, inline=store.probes)
        self._watch = Watch(self._give_up_overdue)
        place = store.place if carry else _nowhere
        self._passenger = Passenger(place, clock, self._writer, self._become_carrier)
        self._answered = 0
        self.upkeep: Upkeep | None = None

    @property
    def writer(self) -> str:
        """Who writes, as the log names it."""
        return self._writer

    def commit(self, intent: Intent) -> int:
        """The position the intent landed on, once it is durable and readable here; or its error."""
        self._group.run(intent)
        if not intent.ack.wait(intent.deadline.left()):
            self._give_up(intent)
        return intent.ack.result()

    def submit(self, intent: Intent) -> ack.Ack:
        """As `commit`, without waiting: the acknowledgement can be awaited."""
        self._group.submit(intent)
        self._watch.begin()
        return intent.ack

    def require_open(self) -> None:
        """Refuse a handle that was closed, or that came here by a fork."""
        self._group.require_open()

    def close(self) -> None:
        """Finish what was submitted."""
        self._passenger.stop()
        self._group.close()
        self._passenger.hang_up()

    def _give_up(self, intent: Intent) -> None:
        """The caller's deadline came first. What is on its way cannot be called back, so it is unknown."""
        if self._group.withdraw(intent):
            ack.settle([(intent.ack, _too_late())])
        else:
            ack.settle([(intent.ack, _unknown("the deadline passed while it was being written"))])

    def _give_up_overdue(self) -> bool:
        """Whether anything is left that may become overdue."""
        pending = self._group.pending()
        for intent in pending:
            if intent.deadline.passed():
                self._give_up(intent)
        return bool(pending)

    def _commit(self, waiting: list[Intent]) -> None:
        """Bring a batch into the log, or fail its members one by one; returns when all of them are told."""
        try:
            while waiting:
                waiting = self._commit_some(waiting)
        except PhalanxError as error:
            ack.settle((intent.ack, _failed(intent, error)) for intent in waiting)
        except BaseException as error:
            if isinstance(error, Exception):
                log.exception("the commit loop failed")
            ack.settle((intent.ack, _unknown(f"the commit was broken off by {error!r}")) for intent in waiting)
            raise

    def _commit_some(self, waiting: list[Intent]) -> list[Intent]:
        """One entry; returns those that have to wait for the next."""
        losses = 0
        waiting = self._have_carried(waiting)
        if not waiting:
            return []
        self._log.take_turns(_latest(waiting))
        with _Draft(self._store, self._encode) as draft:
            while True:
                batch, deferred = self._choose(waiting)
                if not batch.chosen:
                    return deferred
                outcome = self._log.append(draft.attempt(batch), _latest(batch.chosen))
                if isinstance(outcome, Lost):
                    for intent in batch.chosen:
                        intent.unsure_at = batch.position if outcome.unsure else None
                    self._passenger.lost()
                    waiting = self._have_carried(batch.chosen + deferred)
                    if not waiting:
                        return []
                    losses += 1
                    self._log.give_way(losses, len(waiting), _latest(waiting))
                    continue
                result = outcome.position if isinstance(outcome, Committed) else outcome
                ack.settle(
                    (intent.ack, result if isinstance(result, int) else _unknown(result.cause))
                    for intent in batch.chosen
                )
                if isinstance(result, int) and self.upkeep is not None:
                    for table in {table for intent in batch.chosen if intent.by for table in intent.tables()}:
                        self.upkeep.wrote(table, result)
                return deferred

    def _have_carried(self, waiting: list[Intent]) -> list[Intent]:
        """Let another process bring what it can into the log (rule B9); returns those that this one has to bring."""
        if not self._passenger.asks():
            return waiting
        riding = [intent for intent in waiting if intent.certain and can_ride(intent)]
        if not riding:
            return waiting
        # What was never sent is nowhere yet, so it can only land above what is known to exist. Who is carried reads
        # nothing, and knows the end by what it was answered.
        since = max(self._log.next.position, self._answered) + 1
        found = self._passenger.carried(self._log.lake, riding, since, self._log.put_time)
        if found is None:
            return waiting
        for intent, answer in zip(riding, found, strict=True):
            if answer == UNSURE:
                intent.lent_at = since
        landed = {id(intent): answer for intent, answer in zip(riding, found, strict=True) if answer > 0}
        self._answered = max([self._answered, *landed.values()])
        ack.settle((intent.ack, landed[id(intent)]) for intent in riding if id(intent) in landed)
        return [intent for intent in waiting if id(intent) not in landed]

    def _become_carrier(self, listener: socket.socket) -> Carrier:
        return Carrier(listener, self._clock, self._take_over, self._takes)

    def _takes(self, intent: Intent) -> bool:
        """Whether to carry it: not if its table's tail is full, or if it may stand where the log has forgotten it."""
        if intent.lent_at is None or not self._log.remembers(intent.lent_at):
            return False
        return self.upkeep is None or all(map(self.upkeep.has_room, intent.tables()))

    def _take_over(self, intents: list[Intent]) -> None:
        try:
            self._group.submit_all(intents)
        except StateError as error:  # the handle is being closed
            ack.settle((intent.ack, error) for intent in intents)
        else:
            self._watch.begin()

    def _choose(self, waiting: Sequence[Intent]) -> tuple[Batch, list[Intent]]:
        """Judge each intent on the newest state plus the survivors before it, and tell those that are settled."""
        settled = self._log.next
        position, state = settled.position + 1, settled.state
        chosen: list[Intent] = []
        deferred: list[Intent] = []
        told: list[tuple[ack.Ack, int | PhalanxError]] = []
        ids: set[bytes] = set()
        held_up: set[object] = set()
        size = 0
        now = self._clock.steady()
        for intent in waiting:
            if (known := self._known(intent, now)) is not None:
                told.append((intent.ack, known))
                continue
            verdict: Verdict | PhalanxError | None = None
            if intent.producer not in held_up and intent.id not in ids and size < MAX_FRAME // 2:
                verdict, after = self._try(intent, state, Landing(position, len(chosen)), settled.state)
                if verdict is GO:
                    chosen.append(intent)
                    ids.add(intent.id)
                    size += intent.sealed.size
                    state = after
                    continue
            if verdict is None:
                deferred.append(intent)
                held_up |= {intent.producer} - {None}
            else:
                told.append((intent.ack, _told(intent, verdict)))
        ack.settle(told)
        return Batch(position, chosen, state), deferred

    def _try(
        self, intent: Intent, state: State, landing: Landing, settled: State
    ) -> tuple[Verdict | PhalanxError | None, State]:
        """The verdict on an intent and the state after it; None if only neighbours stand in its way.

        It may object to a neighbour that never lands: only the settled state may refuse it (rule B4). And if what it has
        to compare with cannot be read, that is nobody else's business (rule B5).
        """
        try:
            verdict, after = self._judge(intent, state, landing)
            if verdict is GO or not landing.place:
                return verdict, after
            verdict = self._judge(intent, settled, Landing(landing.position))[0]
        except PhalanxError as error:
            return _failed(intent, error), state
        return (None if verdict is GO else verdict), state

    def _judge(self, intent: Intent, state: State, landing: Landing) -> tuple[Verdict, State]:
        objection = intent.object(state, landing.position, self._log.read)
        if objection is not None:
            return objection, state
        full = Landing(landing.position, landing.place, intent.sealed.payloads)
        return judge(intent.transaction, state, full)

    def _known(self, intent: Intent, now: float) -> int | PhalanxError | None:
        """What is known of an intent before it is judged: it landed before, it is too late, or nothing."""
        landed = self._log.landed(intent.id)
        if landed is not None:
            return landed
        for possible in (intent.unsure_at, intent.lent_at, intent.token_since):
            if possible is not None and not self._log.remembers(possible):
                return _unknown("the log was pruned past the place where it may stand")
        if now < intent.deadline.at:
            return None
        return _too_late() if intent.lent_at is None else _unknown("another process has it, and did not answer in time")

    def _encode(self, batch: Batch) -> tuple[Entry, bytes]:
        lake = self._log.lake
        if lake == NO_LAKE:
            lake = LakeId(self._clock.token(ID_BYTES))
        attempt = AttemptId(self._clock.token(ID_BYTES))
        sealed = [intent.sealed for intent in batch.chosen]
        now = self._clock.now()
        by: dict[str, list[int]] = {}
        for place, intent in enumerate(batch.chosen):
            if intent.by is not None:
                by.setdefault(intent.by, []).append(place)
        extra: dict[str, Any] = {"from": batch.position} | ({"by": by} if by else {})
        data, digest = entry.encode(lake, attempt, now, self._writer, sealed, extra)
        transactions = tuple(one.transaction for one in sealed)
        payloads = tuple(memoryview(payload) for one in sealed for payload in one.payloads)
        return Entry(lake, attempt, digest, now, self._writer, transactions, payloads, extra), data


class _Draft:
    """The bytes of a batch, ready to be put: made anew only when the batch changes (rule B3)."""

    def __init__(self, store: Store, encode: Callable[[Batch], tuple[Entry, bytes]]) -> None:
        self._store = store
        self._encode = encode
        self._sealed: list[Sealed] | None = None

    def attempt(self, batch: Batch) -> Attempt[State]:
        sealed = [intent.sealed for intent in batch.chosen]
        if self._sealed is None or len(sealed) != len(self._sealed) or any(map(is_not, sealed, self._sealed)):
            self.__exit__()
            self._entry, self._data = self._encode(batch)
            self._blob = self._store.prepare([self._data])
            self._sealed = sealed
        return Attempt(batch.position, batch.state, self._entry, self._data, self._blob)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sealed is not None:
            self._blob.__exit__(None, None, None)
            self._sealed = None


def _nowhere() -> None:
    return None


def _latest(intents: Iterable[Intent]) -> Deadline:
    return max((intent.deadline for intent in intents), key=lambda deadline: deadline.at)


def _answer(verdict: Verdict) -> int | PhalanxError:
    if isinstance(verdict, Already):
        return verdict.position
    if not isinstance(verdict, Conflict):
        raise InternalError("asked for the error of a transaction that may go ahead")
    return refusal(verdict)


def refusal(conflict: Conflict) -> PhalanxError:
    """A conflict as the error that its caller sees."""
    errors: dict[Kind, type[PhalanxError]] = {
        Kind.EXISTS: AlreadyExistsError,
        Kind.MISSING: NotFoundError,
        Kind.NOT_EMPTY: StateError,
        Kind.IN_USE: StateError,
    }
    if conflict.kind in errors:
        return errors[conflict.kind](conflict.message)
    again: dict[Kind, type[ConflictError]] = {Kind.REPLAN: SchemaChangedError, Kind.RESTAGE: StagingExpiredError}
    error = again.get(conflict.kind, ConflictError)
    return error(f"{conflict.message}: {conflict.kind.value}", position=conflict.position)


def _told(intent: Intent, verdict: Verdict | PhalanxError) -> int | PhalanxError:
    """What is said of an intent that may not land. Another process that has it may find that it may, later (rule B9)."""
    answer = verdict if isinstance(verdict, PhalanxError) else _answer(verdict)
    if intent.lent_at is not None and intent.by is None and isinstance(answer, PhalanxError):
        return _unknown(str(answer))
    return answer


def _too_late() -> DeadlineError:
    return DeadlineError("the deadline passed before the change could be written; it is not committed: try again")


def _unknown(cause: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"cannot say whether the change was committed ({cause}): look at the log before you repeat it"
    )


def _failed(intent: Intent, error: PhalanxError) -> PhalanxError:
    """An error as one intent's answer: not more certain than is known of it (rule A5)."""
    return _copy(error) if intent.certain else _unknown(str(error))


def _copy(error: PhalanxError) -> PhalanxError:
    """One instance for each caller: an exception that is raised in several threads mixes up their tracebacks."""
    twin = type(error)(*error.args)
    twin.__cause__ = error.__cause__
    return twin
