"""Rule A7: when a writer on object storage may skip the floor check, so that a commit is one request.

In plain words:

- Entries below F are deleted only once `floor/<F>` is at least GRACE old, by the store's clock.
- A writer may believe what a put or a slot says about a position, without a floor read, if less than half of GRACE
  passed on its own clock since the beginning of an operation that showed the floor to be at or below that position.
  Such an operation is a floor read, or its own put of the position before (the floor never passes the end).
- Why: at that moment no floor object above the position existed, so the position cannot be deleted, and created a
  second time, before GRACE is over. Half is the margin for a writer's clock that runs slow, down to half speed.
- An absent slot on its own shows nothing: the entry may have been there and be deleted already.
- What was shown for one position says nothing about a lower one: another thread that has read a newer floor has
  not made this thread's old position safe.

The writer commits `a`, and in some variants `A` after it; another thread of its process reads the floor at any time;
two other writers begin puts at the next free position and go silent; a trimmer puts floor objects and deletes. Time
passes in ticks, between any two steps. The writer's clock misses a tick now and then, never two in a row. With an
exact clock the whole grace may be used; that variant shows it.

Left out: the reader, forgotten ids, deadlines (log_and_floor.py). A floor read is one step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model
from specs.slots import FREE, Slots, changed, created_again, end, land, show

OURS = ("a", "A")
OTHERS = ("b", "c")
POSITIONS = 3
GRACE = 2
NEVER = GRACE + 1
"""The stopwatch stops here: longer is all the same."""


class Rules(NamedTuple):
    """The rules as specified; each flag plants one mistake."""

    transactions: int = 1
    skips_within: int = GRACE // 2
    slow_clock: bool = True
    other_thread: bool = True
    absence_counts: bool = False
    counts_from_the_answer: bool = False
    any_position_counts: bool = False
    deletes_at_once: bool = False


class Writer(NamedTuple):
    """`since` measures from what last showed the floor, `put_age` from its first put at the position it is at."""

    phase: str = "ready"
    done: int = 0
    known: tuple[str, ...] = ()
    winner: str = ""
    since: int = 0
    put_age: int = 0
    missed: bool = False

    def at(self) -> int:
        """The position it puts at."""
        return len(self.known) + 1

    def next(self, entries: tuple[str, ...]) -> "Writer":
        """Ready for the position after `entries`."""
        return self._replace(phase="ready", known=entries, winner="", put_age=0)


class State(NamedTuple):
    """`floors` holds (F, age), in order; `truth` is a ghost (slots.py)."""

    slots: Slots = (FREE,) * POSITIONS
    truth: Slots = (FREE,) * POSITIONS
    floors: tuple[tuple[int, int], ...] = ((1, GRACE),)
    under_way: frozenset[tuple[int, str]] = frozenset()
    begun: int = 0
    writer: Writer = Writer()
    acked: tuple[int, ...] = ()


Step = tuple[str, State]


def initial(_: Rules) -> State:
    """An empty lake, whose floor 1 is old."""
    return State()


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen."""
    for name, position in zip(OURS, state.acked, strict=False):
        if state.truth[position - 1] != name:
            return f"{name} is acknowledged at {position}, but the log is {show(state.truth)}"
    for name in OURS:
        if state.truth.count(name) > 1:
            return f"{name} is in the log twice: {show(state.truth)}"
    known = state.writer.known
    if known != state.truth[: len(known)]:
        return f"the writer folded {show(known)}, but the log is {show(state.truth)}"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor, and the passing of time; once the writer is done, only puts under way matter."""
    for position, name in sorted(state.under_way):
        landed, outcome = _land(state, position, name)
        rest = state.under_way - {(position, name)}
        yield f"the put of {name} at {position} arrives: {outcome}", landed._replace(under_way=rest)
    if state.writer.done == rules.transactions:
        return
    position = end(state.truth) + 1
    if state.begun < len(OTHERS) and position <= POSITIONS:
        name = OTHERS[state.begun]
        begun = state._replace(under_way=state.under_way | {(position, name)}, begun=state.begun + 1)
        yield f"another writer begins a put of {name} at {position}", begun
    yield from _time(rules, state)
    yield from _trimmer(rules, state)
    yield from _writer(rules, state)


def _time(rules: Rules, state: State) -> Iterator[Step]:
    aged = [(floor, min(age + 1, GRACE)) for floor, age in state.floors]
    settled = max(floor for floor, age in aged if age == GRACE)
    later = state._replace(floors=tuple((floor, age) for floor, age in aged if floor >= settled))
    me = state.writer
    put_age = 0 if me.phase == "ready" else min(me.put_age + 1, NEVER)
    ticked = me._replace(since=min(me.since + 1, NEVER), put_age=put_age, missed=False)
    yield "a tick", later._replace(writer=ticked)
    if rules.slow_clock and not me.missed:
        yield "a tick that W's clock misses", later._replace(writer=me._replace(missed=True))


def _trimmer(rules: Rules, state: State) -> Iterator[Step]:
    for floor in range(_floor(state) + 1, end(state.truth) + 1):
        yield f"floor {floor} is put", state._replace(floors=(*state.floors, (floor, 0)))
    old_enough = 0 if rules.deletes_at_once else GRACE
    for position in range(1, max(floor for floor, age in state.floors if age >= old_enough)):
        if state.slots[position - 1] != FREE:
            yield f"the trimmer deletes {position}", state._replace(slots=changed(state.slots, position, FREE))


def _writer(rules: Rules, state: State) -> Iterator[Step]:
    me = state.writer
    at, name = me.at(), OURS[me.done]
    trusts = me.since < rules.skips_within
    if me.phase == "ready" and at <= POSITIONS:
        yield f"W begins a put of {name} at {at}", state._replace(writer=me._replace(phase="sent"))
    elif me.phase == "sent":
        landed, outcome = _land(state, at, name)
        yield f"W's put of {name} at {at} arrives: {outcome}", landed._replace(writer=me._replace(phase=outcome))
        stray = state._replace(under_way=state.under_way | {(at, name)})
        yield f"W stops waiting for its put at {at}", stray._replace(writer=me._replace(phase="slot"))
    elif me.phase in ("exists", "slot"):
        yield _reads_slot(rules, state)
    elif me.phase in ("created", "ours", "lost"):
        yield _concludes(rules, state, "W does not ask") if trusts else _reads_floor(rules, state)
    if me.phase == "created":
        yield "the answer to W is lost", state._replace(writer=me._replace(phase="slot"))
    if rules.other_thread and me.phase != "ready" and (_floor(state) <= at or rules.any_position_counts):
        fresh = me._replace(since=0)
        yield f"another thread of W reads the floor: {_floor(state)}", state._replace(writer=fresh)


def _reads_slot(rules: Rules, state: State) -> Step:
    me = state.writer
    at, found = me.at(), state.slots[me.at() - 1]
    if found == FREE:
        again = me._replace(phase="sent", since=0 if rules.absence_counts else me.since)
        return f"W reads slot {at}: absent, puts the same again", state._replace(writer=again)
    if found == OURS[me.done]:
        return f"W reads slot {at}: its own", state._replace(writer=me._replace(phase="ours"))
    return f"W reads slot {at}: {found}", state._replace(writer=me._replace(phase="lost", winner=found))


def _reads_floor(rules: Rules, state: State) -> Step:
    me, floor = state.writer, _floor(state)
    label = f"W reads the floor: {floor}"
    fresh = me._replace(since=0)
    if floor <= me.at():
        return _concludes(rules, state._replace(writer=fresh), label)
    base = state.truth[: floor - 1]
    if OURS[me.done] in base:
        done = fresh.next(base)._replace(done=me.done + 1)
        acked = (*state.acked, base.index(OURS[me.done]) + 1)
        return f"{label}, finds its id in the base", state._replace(writer=done, acked=acked)
    return f"{label}, its id is not in the base, goes on", state._replace(writer=fresh.next(base))


def _concludes(rules: Rules, state: State, label: str) -> Step:
    me, name = state.writer, OURS[state.writer.done]
    if me.phase == "lost":
        return f"{label}, has lost {me.at()}", state._replace(writer=me.next((*me.known, me.winner)))
    since = 0 if rules.counts_from_the_answer else min(me.since, me.put_age)
    done = me.next((*me.known, name))._replace(done=me.done + 1, since=since)
    return f"{label}, acknowledges {name} at {me.at()}", state._replace(writer=done, acked=(*state.acked, me.at()))


def _land(state: State, position: int, name: str) -> tuple[State, str]:
    slots, truth, outcome = land(state.slots, state.truth, position, name)
    return state._replace(slots=slots, truth=truth), outcome


def _floor(state: State) -> int:
    return state.floors[-1][0]


_EXACT = Rules(slow_clock=False, other_thread=False, skips_within=GRACE)
_HOLDS = {
    "the rules, a clock at half speed": Rules(),
    "relaxed: an exact clock, the whole grace, two commits": _EXACT._replace(transactions=2),
}
_PLANTED = {
    "A7: skips the check when the grace is over": _EXACT._replace(skips_within=GRACE + 1),
    "A7: skips within the whole grace on a clock at half speed": Rules(skips_within=GRACE),
    "A7: an absent slot is taken for one that was never used": Rules(absence_counts=True),
    "A7: what was shown for a higher position is believed of a lower one": Rules(any_position_counts=True),
    "A7: counts from the answer of its put, not from its beginning": _EXACT._replace(
        transactions=2, counts_from_the_answer=True
    ),
    "A7: deletes as soon as the floor is put": Rules(deletes_at_once=True),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "acknowledged at the first position": lambda state: state.acked == (1,),
    "acknowledged after a loss": lambda state: state.acked == (2,),
    "acknowledged although its entry is deleted": lambda state: state.acked == (1,) and state.slots[0] == FREE,
    "a deleted position is created again": lambda state: created_again(state.slots, state.truth),
}

MODEL = model("grace", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS)
