"""Rules A1-A5: the log, its floor, and puts that stall, arrive late or lose their answer.

In plain words:

- A1 Positions are contiguous: nobody puts p+1 before p was seen.
- A2 The floor is a set of immutable numbered objects; the floor is the largest. It is put before anything below it is
  deleted, it never passes the end, and an empty listing is an error, not "no floor".
- A4 What is concluded about a position (present, absent, created by me, another's) counts only if a floor read
  begun afterwards still shows a floor at or below it. Otherwise: reload from the floor.
- A5 Below the floor does not mean not committed. The base at the floor remembers recent transaction ids: found =
  committed; known to be absent = not committed; too old to know = unknown.
- B2 An unsettled put is put again, same bytes, same position; at the deadline the outcome is unknown.

The actors: one writer with the transaction `a`; other writers, each of which begins one put at what was the next free
position and goes silent, so that it lands at any later time or never; trimmers; one reader with a cached fold.
`truth` is a ghost: what each position held when it was first created. No actor sees it, except as the contents of
`floor/<F>`, which is the fold of everything below F.

Left out: torn or unreadable objects (A3), kept objects (A6), time (A7, see grace.py), buckets (A8), and several
transactions in one entry (group_commit.py). A floor read is one step.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from specs.explore import Model, Verdict, explore

FREE = ""
OURS = "a"
AGAIN = "A"
"""The same change under a new transaction id."""


class Rules(NamedTuple):
    """The rules as specified; each flag plants one mistake. Sizes keep a variant small."""

    others: int = 2
    trimmers: int = 1
    reader: bool = True
    remembered: int = 1
    floor_is_one_object: bool = False
    deletes_before_floor: bool = False
    floor_may_pass_end: bool = False
    empty_listing_is_no_floor: bool = False
    puts_past_the_end: bool = False
    created_needs_no_floor: bool = False
    lost_needs_no_floor: bool = False
    below_floor_is_failed: bool = False
    below_floor_is_absent: bool = False
    forgotten_is_absent: bool = False
    deadline_is_failed: bool = False
    moves_on_unsettled: bool = False
    reader_reads_floor_first: bool = False


class Writer(NamedTuple):
    """`known` is its cached fold, `ahead` was probed but is not valid yet, `at` is the position of its put."""

    phase: str = "ready"
    name: str = OURS
    known: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    at: int = 0


class Reader(NamedTuple):
    """`ahead` was probed but is not valid yet; `owed` is the position acknowledged before the round began."""

    phase: str = "idle"
    known: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    owed: int = 0


class Trimmer(NamedTuple):
    """Plans a floor, puts it, then deletes below it, each entry at any time."""

    phase: str = "idle"
    floor: int = 0


class State(NamedTuple):
    """Storage (slots, floor, puts under way), the ghost, the actors."""

    slots: tuple[str, ...]
    truth: tuple[str, ...]
    floor: int
    under_way: frozenset[tuple[int, str]]
    begun: int
    writer: Writer
    reader: Reader
    trimmers: tuple[Trimmer, ...]


Step = tuple[str, State]


def initial(rules: Rules) -> State:
    """An empty lake: its floor is 1."""
    free = (FREE,) * (rules.others + 2)
    return State(free, free, 1, frozenset(), 0, Writer(), Reader(), (Trimmer(),) * rules.trimmers)


def broken(state: State) -> str | None:
    """What must never be seen."""
    truth, writer, reader = state.truth, state.writer, state.reader
    if truth.count(OURS) + truth.count(AGAIN) > 1:
        return f"the change is in the log twice: {_show(truth)}"
    if FREE in truth[: _last(truth)]:
        return f"a gap in the log: {_show(truth)}"
    for position, entry in enumerate(truth, start=1):
        if entry != FREE and position >= state.floor and state.slots[position - 1] != entry:
            return f"entry {position} is lost: deleted, and the floor is {state.floor}"
    if writer.phase == "acked" and truth[writer.at - 1] != writer.name:
        return f"acknowledged at {writer.at}, but the log is {_show(truth)}"
    if writer.phase == "failed" and OURS in truth:
        return f"reported as not committed, but the log is {_show(truth)}"
    for who, known in (("writer", writer.known), ("reader", reader.known)):
        if known != truth[: len(known)]:
            return f"the {who} folded {_show(known)}, but the log is {_show(truth)}"
    if reader.phase == "idle" and len(reader.known) < reader.owed:
        return f"the reader ends at {len(reader.known)} and misses {reader.owed}, acknowledged before it began"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    yield from _others(rules, state)
    for position, name in sorted(state.under_way):
        landed, outcome = _land(state, position, name)
        yield f"the put of {name} at {position} arrives: {outcome}", landed._replace(
            under_way=state.under_way - {(position, name)}
        )
    yield from _writer(rules, state)
    for index in range(rules.trimmers):
        yield from _trimmer(rules, state, index)
    if rules.reader:
        yield from _reader(rules, state)


def _others(rules: Rules, state: State) -> Iterator[Step]:
    position = _last(state.truth) + 1
    if state.begun < rules.others and position <= len(state.slots):
        name = "bcd"[state.begun]
        under_way = state.under_way | {(position, name)}
        yield f"another writer begins a put of {name} at {position}", state._replace(
            under_way=under_way, begun=state.begun + 1
        )


def _writer(rules: Rules, state: State) -> Iterator[Step]:
    me = state.writer
    match me.phase:
        case "ready":
            at = len(me.known) + (2 if rules.puts_past_the_end else 1)
            if at <= len(state.slots):
                yield f"W begins a put at {at}", state._replace(writer=me._replace(phase="sent", at=at))
        case "sent":
            landed, outcome = _land(state, me.at, me.name)
            yield f"W's put at {me.at} arrives: {outcome}", landed._replace(writer=me._replace(phase=outcome))
            yield f"W stops waiting for its put at {me.at}", state._replace(
                writer=me._replace(phase="slot"), under_way=state.under_way | {(me.at, me.name)}
            )
        case "created":
            after = "acked" if rules.created_needs_no_floor else "check"
            yield "W is told: created", state._replace(writer=me._replace(phase=after))
            yield "the answer to W is lost", state._replace(writer=me._replace(phase="slot"))
        case "exists":
            yield "W is told: exists", state._replace(writer=me._replace(phase="slot"))
        case "slot":
            yield from _writer_reads_slot(rules, state)
        case "follow":
            yield from _writer_follows(state)
        case "check" | "validate":
            for floor in _floor_reads(rules, state):
                yield _writer_reads_floor(rules, state, floor)


def _writer_reads_slot(rules: Rules, state: State) -> Iterator[Step]:
    me, found = state.writer, state.slots[state.writer.at - 1]
    if found == me.name:
        yield f"W reads slot {me.at}: its own", state._replace(writer=me._replace(phase="check"))
    elif found == FREE:
        yield f"W reads slot {me.at}: absent, puts the same again", state._replace(writer=me._replace(phase="sent"))
        phase = "failed" if rules.deadline_is_failed else "unknown"
        yield f"W reads slot {me.at}: absent, deadline: {phase}", state._replace(writer=me._replace(phase=phase))
        if rules.moves_on_unsettled:
            again = Writer("ready", AGAIN, me.known)
            yield f"W reads slot {me.at}: absent, runs again under a new id", state._replace(writer=again)
    elif rules.lost_needs_no_floor:
        lost = Writer("ready", me.name, (*me.known, found))
        yield f"W reads slot {me.at}: {found}, lost", state._replace(writer=lost)
    else:
        yield f"W reads slot {me.at}: {found}, follows the log", state._replace(writer=me._replace(phase="follow"))


def _writer_follows(state: State) -> Iterator[Step]:
    me = state.writer
    position, found = _probe(state, me.known + me.ahead)
    if found == FREE:
        yield f"W probes {position}: absent", state._replace(writer=me._replace(phase="validate"))
    else:
        yield f"W probes {position}: {found}", state._replace(writer=me._replace(ahead=(*me.ahead, found)))


def _writer_reads_floor(rules: Rules, state: State, floor: int) -> Step:
    me, label = state.writer, f"W reads the floor: {floor}"
    if floor <= len(me.known) + 1:
        if me.phase == "check":
            return f"{label}, acknowledges {me.at}", state._replace(writer=me._replace(phase="acked"))
        if me.name in me.ahead:
            at = len(me.known) + me.ahead.index(me.name) + 1
            return f"{label}, finds itself at {at}", state._replace(writer=me._replace(phase="acked", at=at))
        return f"{label}, has lost {me.at}", state._replace(writer=Writer("ready", me.name, me.known + me.ahead))
    base = state.truth[: floor - 1]
    horizon = max(1, floor - rules.remembered)
    if rules.below_floor_is_failed:
        return f"{label}, fails", state._replace(writer=me._replace(phase="failed"))
    if me.name in base[horizon - 1 :] and not rules.below_floor_is_absent:
        acked = me._replace(phase="acked", at=base.index(me.name) + 1)
        return f"{label}, finds its id in the base", state._replace(writer=acked)
    if me.at < horizon and not (rules.forgotten_is_absent or rules.below_floor_is_absent):
        return f"{label}, too old to know: unknown", state._replace(writer=me._replace(phase="unknown"))
    return f"{label}, its id is not in the base, goes on", state._replace(writer=Writer("ready", me.name, base))


def _trimmer(rules: Rules, state: State, index: int) -> Iterator[Step]:
    me = state.trimmers[index]
    who = f"trimmer {index + 1}"
    if me.phase == "idle":
        top = _last(state.truth) + (1 if rules.floor_may_pass_end else 0)
        for floor in range(state.floor + 1, top + 1):
            yield f"{who} plans floor {floor}", _trim(state, index, Trimmer("planned", floor))
    if me.phase == "planned":
        floor = me.floor if rules.floor_is_one_object else max(me.floor, state.floor)
        put = _trim(state, index, me._replace(phase="deleting"))
        yield f"{who} puts floor {me.floor}", put._replace(floor=floor)
    if me.phase == "deleting" or (me.phase == "planned" and rules.deletes_before_floor):
        for position in range(1, me.floor):
            if state.slots[position - 1] != FREE:
                yield f"{who} deletes {position}", state._replace(slots=_set(state.slots, position, FREE))


def _reader(rules: Rules, state: State) -> Iterator[Step]:
    me = state.reader
    if me.phase == "idle":
        owed = state.writer.at if state.writer.phase == "acked" else 0
        phase = "floor" if rules.reader_reads_floor_first else "probe"
        yield "R begins to look for the end", state._replace(reader=Reader(phase, me.known, (), owed))
    elif me.phase == "probe":
        position, found = _probe(state, me.known + me.ahead)
        if found != FREE:
            yield f"R probes {position}: {found}", state._replace(reader=me._replace(ahead=(*me.ahead, found)))
        elif rules.reader_reads_floor_first:
            done = Reader("idle", me.known + me.ahead, (), me.owed)
            yield f"R probes {position}: absent, the end", state._replace(reader=done)
        else:
            yield f"R probes {position}: absent", state._replace(reader=me._replace(phase="floor"))
    else:
        for floor in _floor_reads(rules, state):
            label = f"R reads the floor: {floor}"
            if floor > len(me.known) + 1:
                base = Reader("probe", state.truth[: floor - 1], (), me.owed)
                yield f"{label}, reloads", state._replace(reader=base)
            else:
                phase = "probe" if rules.reader_reads_floor_first else "idle"
                valid = Reader(phase, me.known + me.ahead, (), me.owed)
                yield f"{label}, valid", state._replace(reader=valid)


def _floor_reads(rules: Rules, state: State) -> Iterator[int]:
    yield state.floor
    if rules.empty_listing_is_no_floor and state.floor != 1:
        yield 1


def _land(state: State, position: int, name: str) -> tuple[State, str]:
    if state.slots[position - 1] != FREE:
        return state, "exists"
    truth = state.truth if state.truth[position - 1] != FREE else _set(state.truth, position, name)
    return state._replace(slots=_set(state.slots, position, name), truth=truth), "created"


def _probe(state: State, fold: tuple[str, ...]) -> tuple[int, str]:
    position = len(fold) + 1
    return position, state.slots[position - 1] if position <= len(state.slots) else FREE


def _trim(state: State, index: int, trimmer: Trimmer) -> State:
    return state._replace(trimmers=state.trimmers[:index] + (trimmer,) + state.trimmers[index + 1 :])


def _set(slots: tuple[str, ...], position: int, name: str) -> tuple[str, ...]:
    return (*slots[: position - 1], name, *slots[position:])


def _last(truth: tuple[str, ...]) -> int:
    return max((position for position, entry in enumerate(truth, start=1) if entry != FREE), default=0)


def _show(entries: tuple[str, ...]) -> str:
    return "[" + " ".join(entry or "-" for entry in entries) + "]"


def check(rules: Rules) -> Verdict:
    """Explore one variant."""
    return explore(initial(rules), partial(steps, rules), broken)


def reach(goal: Callable[[State], bool]) -> Verdict:
    """Find the shortest way to a state, under the rules."""
    rules = Rules()
    return explore(initial(rules), partial(steps, rules), lambda state: "reached" if goal(state) else None)


_SMALL = Rules(reader=False)
_HOLDS = {
    "the rules": Rules(),
    "the rules, two trimmers": _SMALL._replace(trimmers=2),
    "the rules, three other writers": _SMALL._replace(others=3),
    "relaxed: the last entry may be deleted": _SMALL._replace(floor_may_pass_end=True),
}
_PLANTED = {
    "A1: puts a position before the one below it was seen": _SMALL._replace(puts_past_the_end=True),
    "A2: the floor is one overwritten object": _SMALL._replace(trimmers=2, floor_is_one_object=True),
    "A2: an empty listing is taken for no floor": _SMALL._replace(empty_listing_is_no_floor=True),
    "A3: deletes before the floor is put": _SMALL._replace(deletes_before_floor=True),
    "A4: created is believed without a floor read": _SMALL._replace(created_needs_no_floor=True),
    "A4: lost is believed without a floor read": _SMALL._replace(lost_needs_no_floor=True),
    "A4: the reader reads the floor before it probes, not after": Rules(reader_reads_floor_first=True),
    "A5: below the floor is reported as failed": _SMALL._replace(below_floor_is_failed=True),
    "A5: below the floor is taken for not committed, and run again": _SMALL._replace(below_floor_is_absent=True),
    "A5: a forgotten id is taken for an absent one": _SMALL._replace(forgotten_is_absent=True),
    "B2: an unsettled put is reported as failed at the deadline": _SMALL._replace(deadline_is_failed=True),
    "B2: an unsettled put is run again under a new id": _SMALL._replace(moves_on_unsettled=True),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "acknowledged although its entry is deleted": lambda state: (
        state.writer.phase == "acked" and state.slots[state.writer.at - 1] == FREE
    ),
    "acknowledged after it lost two positions": lambda state: state.writer.phase == "acked" and state.writer.at == 3,
    "unknown, and committed": lambda state: state.writer.phase == "unknown" and OURS in state.truth,
    "a deleted position is created again": lambda state: any(
        FREE not in (slot, entry) and slot != entry for slot, entry in zip(state.slots, state.truth, strict=True)
    ),
    "the reader knows an entry that was deleted before it began": lambda state: (
        state.reader.owed == 1 and state.reader.phase == "idle" and state.slots[0] == FREE and state.floor == 3
    ),
}

MODEL = Model(
    "log and floor",
    {name: partial(check, rules) for name, rules in _HOLDS.items()},
    {name: partial(check, rules) for name, rules in _PLANTED.items()},
    {name: partial(reach, goal) for name, goal in _GOALS.items()},
)
