"""Rules B1-B5: many transactions in one entry, and what each of them may be told.

In plain words:

- B1 A batch is one attempt: a byte string with an id, frozen until its put is settled. A transaction is acknowledged
  only if its own id is in the slot.
- B2 The outcome is what the slot says, never what the error says. Absent = put the same again. At the deadline, while
  the put is unsettled, the outcome is unknown.
- B3 Losing a position drops nobody. The newer entries are read and each transaction is judged again, in order, on the
  new state and the survivors before it; one that conflicts with a settled winner fails alone.
- B4 A transaction never fails against one that is not settled; it is deferred to the next batch, and so is
  everything after it of the same producer.
- B5 What was committed is made readable before anybody is told.

One process commits four transactions, of which T3 and T4 arrive late. Two transactions conflict if they share a key:

    T1 of P: x    T2 of Q: w, y    T3 of R: y    T4 of R: z    another writer's X: w    another writer's N: n

So X beats T2 only, and T3 must not fail because of a T2 that X has beaten. T1's deadline may pass at any time.

Left out: the floor (log_and_floor.py), fork, cancelled acknowledgements (they change nothing that the model could
see), bad rows (like a conflict: the transaction fails alone), staging again.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

from specs.explore import model

KEYS = {"T1": "x", "T2": "wy", "T3": "y", "T4": "z", "X": "w", "N": "n"}
PRODUCER = {"T1": "P", "T2": "Q", "T3": "R", "T4": "R"}
OURS = tuple(PRODUCER)
OTHERS = ("X", "N")
UNSETTLED = ("sent", "created", "exists", "slot")


class Rules(NamedTuple):
    """The rules as specified; each flag plants one mistake or relaxes one rule."""

    rebuilds_unsettled: str = "never"
    """Or "same id", "new id": what the batch is called when T1's deadline takes it out of a batch under way."""
    acks_by_attempt: bool = False
    exists_is_lost: bool = False
    absent_is_lost: bool = False
    deadline_is_failed: bool = False
    loser_fails: bool = False
    one_conflict_fails_all: bool = False
    puts_again_unjudged: bool = False
    fails_against_unsettled: bool = False
    passes_the_deferred: bool = False
    acks_before_readable: bool = False


class Entry(NamedTuple):
    """The bytes of one attempt."""

    attempt: int
    transactions: tuple[str, ...]


class State(NamedTuple):
    """The log, puts nobody waits for any more, and the committer; `known` is how far its overlay has come."""

    log: tuple[Entry, ...] = ()
    under_way: frozenset[tuple[int, Entry]] = frozenset()
    others: tuple[str, ...] = OTHERS
    arrived: int = 2
    queue: tuple[str, ...] = OURS[:2]
    phase: str = "idle"
    known: int = 0
    batch: Entry = Entry(0, ())
    fates: tuple[str, ...] = ("waits",) * len(OURS)


Step = tuple[str, State]


def initial(_: Rules) -> State:
    """An empty log; T1 and T2 wait."""
    return State()


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen."""
    log, readable = _committed(state), _committed(state, state.known)
    for name, other in combinations(log, 2):
        if name == other:
            return f"{name} is in the log twice: {log}"
        if _conflict(name, other):
            return f"{name} and {other} conflict, and both are in the log"
        if PRODUCER.get(name, name) == PRODUCER.get(other, other) and name > other:
            return f"{other} is in the log after {name}, which its producer sent later"
    for name, fate in zip(OURS, state.fates, strict=True):
        if fate == "acked" and name not in log:
            return f"{name} is acknowledged, but the log is {log}"
        if fate == "acked" and name not in readable:
            return f"{name} is acknowledged, but its producer cannot read it yet"
        if fate in ("failed", "conflict") and name in log:
            return f"{name} is reported as not committed, but the log is {log}"
        if fate == "conflict" and not any(_conflict(name, winner) for winner in log):
            return f"{name} failed, but nothing in the log conflicts with it: {log}"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of the committer, of the others, and of the network."""
    if state.arrived < len(OURS):
        name = OURS[state.arrived]
        yield f"{name} arrives", state._replace(arrived=state.arrived + 1, queue=(*state.queue, name))
    for name in state.others:
        if not any(_conflict(name, winner) for winner in _committed(state)):
            left = tuple(other for other in state.others if other != name)
            log = (*state.log, Entry(0, (name,)))
            yield f"another writer commits {name}", state._replace(log=log, others=left)
    for position, entry in sorted(state.under_way):
        landed, outcome = _land(state, position, entry)
        rest = state.under_way - {(position, entry)}
        yield f"the late put of {_show(entry)} at {position} arrives: {outcome}", landed._replace(under_way=rest)
    yield from _committer(rules, state)
    yield from _deadline(rules, state)


def _committer(rules: Rules, state: State) -> Iterator[Step]:
    at = state.known + 1
    match state.phase:
        case "idle" if state.queue:
            yield _gather(rules, state)
        case "sent":
            landed, outcome = _land(state, at, state.batch)
            yield f"the put of {_show(state.batch)} at {at} arrives: {outcome}", landed._replace(phase=outcome)
            stray = state._replace(phase="slot", under_way=state.under_way | {(at, state.batch)})
            yield f"no answer to the put of {_show(state.batch)} at {at}", stray
        case "created":
            yield "the answer is: created", state._replace(phase="settled")
            yield "the answer is lost, and a retry below us is told: exists", state._replace(phase="exists")
        case "exists":
            if rules.exists_is_lost:
                yield "exists, taken for lost", _lose(rules, state, state.batch.transactions)
            else:
                yield "exists, so the slot is read", state._replace(phase="slot")
        case "slot":
            yield from _read_slot(rules, state)
        case "settled":
            yield from _settle(rules, state)
        case "acked early":
            yield f"the overlay advances to {at}", state._replace(phase="idle", known=at)


def _gather(rules: Rules, state: State) -> Step:
    """Judge the queue in order, on what is settled and on the survivors before each."""
    settled = _committed(state, state.known)
    batch: list[str] = []
    deferred: list[str] = []
    failed: list[str] = []
    for name in state.queue:
        behind = any(PRODUCER[name] == PRODUCER[other] for other in deferred)
        if any(_conflict(name, winner) for winner in settled):
            failed.append(name)
        elif behind and not rules.passes_the_deferred:
            deferred.append(name)
        elif any(_conflict(name, other) for other in batch):
            (failed if rules.fails_against_unsettled else deferred).append(name)
        else:
            batch.append(name)
    if failed and rules.one_conflict_fails_all:
        failed, batch = failed + batch, []
    fates = _tell(state, failed, "conflict")
    told = f"; failed: {' '.join(failed)}" if failed else ""
    if not batch:
        return f"nothing to put{told}", state._replace(queue=tuple(deferred), fates=fates)
    entry = Entry(state.batch.attempt + 1, tuple(batch))
    after = state._replace(phase="sent", batch=entry, queue=tuple(deferred), fates=fates)
    return f"the batch is {_show(entry)}{told}", after


def _read_slot(rules: Rules, state: State) -> Iterator[Step]:
    at = state.known + 1
    if len(state.log) < at:
        if rules.absent_is_lost:
            yield f"slot {at} is absent, taken for lost", _lose(rules, state, state.batch.transactions)
        else:
            yield f"slot {at} is absent: the same again", state._replace(phase="sent")
    else:
        yield f"slot {at} is read: {_show(state.log[at - 1])}", state._replace(phase="settled")


def _settle(rules: Rules, state: State) -> Iterator[Step]:
    at, batch = state.known + 1, state.batch
    slot = state.log[at - 1]
    if rules.acks_by_attempt:
        won = batch.transactions if slot.attempt == batch.attempt else ()
    else:
        won = tuple(name for name in batch.transactions if name in slot.transactions)
    lost = tuple(name for name in batch.transactions if name not in won)
    if not won:
        yield f"lost {at}", _lose(rules, state, lost)
        return
    kept = tuple(name for name in lost if _fate(state, name) == "waits")
    acked = state._replace(fates=_tell(state, won, "acked"), queue=kept + state.queue)
    label = f"{' '.join(won)} acknowledged at {at}"
    if rules.acks_before_readable:
        yield label, acked._replace(phase="acked early")
    else:
        yield f"the overlay advances to {at}, {label}", acked._replace(phase="idle", known=at)


def _lose(rules: Rules, state: State, lost: tuple[str, ...]) -> State:
    """Read the newer entries and queue the losers again, in front; who was told "unknown" is not run again."""
    read = state._replace(phase="idle", known=len(state.log))
    if rules.loser_fails:
        return read._replace(fates=_tell(state, lost, "conflict"))
    if rules.puts_again_unjudged:
        return read._replace(phase="sent")
    again = tuple(name for name in lost if _fate(state, name) == "waits")
    return read._replace(queue=again + state.queue)


def _deadline(rules: Rules, state: State) -> Iterator[Step]:
    name = "T1"
    if _fate(state, name) != "waits":
        return
    if name in state.queue:
        queue = tuple(other for other in state.queue if other != name)
        gone = state._replace(queue=queue, fates=_tell(state, [name], "failed"))
        yield "T1's deadline passes, known not to be committed", gone
    elif state.phase in UNSETTLED:
        fate = "failed" if rules.deadline_is_failed else "unknown"
        told = state._replace(fates=_tell(state, [name], fate))
        yield f"T1's deadline passes, reported as {fate}", told
        if rules.rebuilds_unsettled != "never" and state.phase == "slot":
            attempt = state.batch.attempt + (1 if rules.rebuilds_unsettled == "new id" else 0)
            rest = tuple(other for other in state.batch.transactions if other != name)
            joins = () if any(_conflict(other, mine) for other in state.queue for mine in rest) else state.queue
            entry = Entry(attempt, rest + joins)
            queue = tuple(other for other in state.queue if other not in joins)
            rebuilt = told._replace(phase="sent", batch=entry, queue=queue)
            yield f"T1's deadline passes, the batch becomes {_show(entry)}", rebuilt


def _land(state: State, position: int, entry: Entry) -> tuple[State, str]:
    if position <= len(state.log):
        return state, "exists"
    return state._replace(log=(*state.log, entry)), "created"


def _committed(state: State, upto: int | None = None) -> list[str]:
    return [name for entry in state.log[:upto] for name in entry.transactions]


def _conflict(name: str, other: str) -> bool:
    return name != other and bool(set(KEYS[name]) & set(KEYS[other]))


def _fate(state: State, name: str) -> str:
    return state.fates[OURS.index(name)]


def _tell(state: State, names: list[str] | tuple[str, ...], fate: str) -> tuple[str, ...]:
    """The first thing a producer is told is final."""
    told = zip(OURS, state.fates, strict=True)
    return tuple(fate if name in names and before == "waits" else before for name, before in told)


def _show(entry: Entry) -> str:
    return "+".join(entry.transactions)


_HOLDS = {
    "the rules": Rules(),
    "relaxed: the attempt id decides, batches are frozen": Rules(acks_by_attempt=True),
    "relaxed: a batch is rebuilt, each transaction looks for its own id": Rules(rebuilds_unsettled="new id"),
}
_PLANTED = {
    "B1: rebuilt under the same id, and the attempt id decides": Rules(
        rebuilds_unsettled="same id", acks_by_attempt=True
    ),
    "B1: rebuilt under a new id, and the attempt id decides": Rules(rebuilds_unsettled="new id", acks_by_attempt=True),
    "B2: exists is taken for lost": Rules(exists_is_lost=True),
    "B2: an absent slot is taken for lost": Rules(absent_is_lost=True),
    "B2: an unsettled put is reported as failed at the deadline": Rules(deadline_is_failed=True),
    "B3: a lost position fails the batch": Rules(loser_fails=True),
    "B3: one conflict fails the whole batch": Rules(one_conflict_fails_all=True),
    "B3: a lost batch is put again without judging it": Rules(puts_again_unjudged=True),
    "B4: fails against a transaction that is not settled": Rules(fails_against_unsettled=True),
    "B4: a producer's next transaction passes its deferred one": Rules(passes_the_deferred=True),
    "B5: acknowledged before it can be read": Rules(acks_before_readable=True),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "everything that can be acknowledged is, around a conflict": lambda state: (
        state.fates == ("acked", "conflict", "acked", "acked")
    ),
    "T3 fails against a settled T2": lambda state: state.fates == ("acked", "acked", "conflict", "acked"),
    "unknown, and committed": lambda state: state.fates[0] == "unknown" and "T1" in _committed(state),
    "unknown, and never committed": lambda state: (
        state.fates == ("unknown", "acked", "conflict", "acked") and "T1" not in _committed(state)
    ),
}

MODEL = model("group commit", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS)
