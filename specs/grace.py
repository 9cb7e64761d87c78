"""Rule A7: when a writer on object storage may skip the floor check, so that a commit is one request.

In plain words:

- Entries below F are deleted only once `floor/<F>` is at least GRACE old, by the store's clock.
- A writer may believe what a put or a slot says without a floor read if less than half of GRACE passed, on its own
  clock, since the beginning of the last operation that showed the floor to be at or below that position. That is a
  floor read, or the put that created the position before (the floor never passes the end).
- Why: at that moment no floor object above the position existed, so the position cannot be deleted, and created a
  second time, before GRACE is over. Half is the margin for a writer's clock that runs slow, down to half speed.
- An absent slot on its own shows nothing: the entry may have been there and be deleted already.

The writer commits two transactions, `a` and then `A`; other writers begin puts at the next free position and go
silent; a trimmer puts floor objects and deletes. Time passes in ticks, between any two steps. The writer's clock
misses a tick now and then, never two in a row.

Left out: the reader, forgotten ids, several trimmers (log_and_floor.py). A floor read is one step.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from specs.explore import Model, Verdict, explore

FREE = ""
OURS = ("a", "A")
POSITIONS = 4
GRACE = 4
NEVER = GRACE + 1
"""The stopwatch stops here: longer is all the same."""


class Rules(NamedTuple):
    """The rules as specified; each flag plants one mistake."""

    others: int = 2
    skips_within: int = GRACE // 2
    slow_clock: bool = True
    own_put_counts: bool = True
    absence_counts: bool = False
    counts_from_the_answer: bool = False
    deletes_at_once: bool = False


class Writer(NamedTuple):
    """`since` measures from the last operation that showed the floor, `put_age` from its first put at this position."""

    phase: str = "ready"
    done: int = 0
    known: tuple[str, ...] = ()
    winner: str = ""
    since: int = 0
    put_age: int = 0
    missed: bool = False


class State(NamedTuple):
    """`floors` holds (F, age); `truth` is a ghost: what each position held when it was first created."""

    slots: tuple[str, ...] = (FREE,) * POSITIONS
    truth: tuple[str, ...] = ()
    floors: tuple[tuple[int, int], ...] = ((1, GRACE),)
    under_way: frozenset[tuple[int, str]] = frozenset()
    begun: int = 0
    writer: Writer = Writer()
    acked: tuple[int, ...] = ()


Step = tuple[str, State]


def broken(state: State) -> str | None:
    """What must never be seen."""
    for name, position in zip(OURS, state.acked, strict=False):
        if state.truth[position - 1] != name:
            return f"{name} is acknowledged at {position}, but the log is {state.truth}"
    for name in OURS:
        if state.truth.count(name) > 1:
            return f"{name} is in the log twice: {state.truth}"
    if state.writer.known != state.truth[: len(state.writer.known)]:
        return f"the writer folded {state.writer.known}, but the log is {state.truth}"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor, and the passing of time."""
    yield from _time(rules, state)
    position = len(state.truth) + 1
    if state.begun < rules.others and position <= POSITIONS:
        name = "bc"[state.begun]
        under_way = state.under_way | {(position, name)}
        yield f"another writer begins a put of {name} at {position}", state._replace(
            under_way=under_way, begun=state.begun + 1
        )
    for position, name in sorted(state.under_way):
        landed, outcome = _land(state, position, name)
        yield f"the put of {name} at {position} arrives: {outcome}", landed._replace(
            under_way=state.under_way - {(position, name)}
        )
    yield from _trimmer(rules, state)
    if state.writer.done < len(OURS):
        yield from _writer(rules, state)


def _time(rules: Rules, state: State) -> Iterator[Step]:
    floors = tuple((floor, min(age + 1, GRACE)) for floor, age in state.floors)
    me = state.writer
    ticked = me._replace(since=min(me.since + 1, NEVER), put_age=min(me.put_age + 1, NEVER), missed=False)
    yield "a tick", state._replace(floors=floors, writer=ticked)
    if rules.slow_clock and not me.missed:
        yield "a tick that W's clock misses", state._replace(floors=floors, writer=me._replace(missed=True))


def _trimmer(rules: Rules, state: State) -> Iterator[Step]:
    for floor in range(_floor(state) + 1, len(state.truth) + 1):
        yield f"floor {floor} is put", state._replace(floors=(*state.floors, (floor, 0)))
    old_enough = 0 if rules.deletes_at_once else GRACE
    for position in range(1, max(floor for floor, age in state.floors if age >= old_enough)):
        if state.slots[position - 1] != FREE:
            yield f"the trimmer deletes {position}", state._replace(slots=_set(state.slots, position, FREE))


def _writer(rules: Rules, state: State) -> Iterator[Step]:
    me = state.writer
    at, name = len(me.known) + 1, OURS[me.done]
    trusts = me.since < rules.skips_within
    if me.phase == "ready" and at <= POSITIONS:
        yield f"W begins a put of {name} at {at}", _write(state, phase="sent", put_age=0)
    elif me.phase == "sent":
        landed, outcome = _land(state, at, name)
        yield f"W's put of {name} at {at} arrives: {outcome}", _write(landed, phase=outcome)
        stray = state._replace(under_way=state.under_way | {(at, name)})
        yield f"W stops waiting for its put at {at}", _write(stray, phase="slot")
    elif me.phase in ("created", "ours") and trusts:
        yield f"W reads: {me.phase}; acknowledges {name} at {at} without a check", _ack(rules, state, at)
    elif me.phase in ("created", "ours", "lost") and not trusts:
        yield _reads_floor(rules, state)
    elif me.phase == "lost":
        yield f"W has lost {at}, without a check", _write(state, phase="ready", known=(*me.known, me.winner), winner="")
    elif me.phase in ("exists", "slot"):
        yield _reads_slot(rules, state)
    if me.phase == "created":
        yield "the answer to W is lost", _write(state, phase="slot")


def _reads_slot(rules: Rules, state: State) -> Step:
    me = state.writer
    at = len(me.known) + 1
    found = state.slots[at - 1]
    if found == FREE:
        since = 0 if rules.absence_counts else me.since
        return f"W reads slot {at}: absent, puts the same again", _write(state, phase="sent", since=since)
    if found == OURS[me.done]:
        return f"W reads slot {at}: its own", _write(state, phase="ours")
    return f"W reads slot {at}: {found}", _write(state, phase="lost", winner=found)


def _reads_floor(rules: Rules, state: State) -> Step:
    me = state.writer
    at, name, floor = len(me.known) + 1, OURS[me.done], _floor(state)
    label = f"W reads the floor: {floor}"
    fresh = _write(state, since=0)
    if floor <= at:
        if me.phase == "lost":
            return f"{label}, has lost {at}", _write(fresh, phase="ready", known=(*me.known, me.winner), winner="")
        return f"{label}, acknowledges {name} at {at}", _ack(rules, fresh, at)
    base = state.truth[: floor - 1]
    if name in base:
        return f"{label}, finds its id in the base", _ack(rules, _write(fresh, known=base), base.index(name) + 1)
    return f"{label}, its id is not in the base, goes on", _write(fresh, phase="ready", known=base, winner="")


def _ack(rules: Rules, state: State, position: int) -> State:
    me = state.writer
    since = me.since
    if rules.own_put_counts and position > len(me.known):
        since = min(since, 0 if rules.counts_from_the_answer else me.put_age)
    known = me.known if position <= len(me.known) else (*me.known, OURS[me.done])
    following = _write(state, phase="ready", done=me.done + 1, known=known, since=since, put_age=0, winner="")
    return following._replace(acked=(*state.acked, position))


def _land(state: State, position: int, name: str) -> tuple[State, str]:
    if state.slots[position - 1] != FREE:
        return state, "exists"
    truth = state.truth if position <= len(state.truth) else (*state.truth, name)
    return state._replace(slots=_set(state.slots, position, name), truth=truth), "created"


def _floor(state: State) -> int:
    return state.floors[-1][0]


def _set(slots: tuple[str, ...], position: int, name: str) -> tuple[str, ...]:
    return (*slots[: position - 1], name, *slots[position:])


def _write(state: State, **changes: object) -> State:
    return state._replace(writer=state.writer._replace(**changes))


def check(rules: Rules) -> Verdict:
    """Explore one variant."""
    return explore(State(), partial(steps, rules), broken)
