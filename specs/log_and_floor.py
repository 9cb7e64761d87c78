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

The actors: a writer with the transaction `a`; others, each of which begins one put at what was the next free position
and goes silent, so that it lands at any later time or never; trimmers; a reader with a cached fold. The ghost `truth`
(slots.py) is seen by nobody, except as the contents of `floor/<F>`: the fold of everything below F.

Left out: torn objects (A3), kept objects (A6), time (A7, see grace.py), buckets (A8), group commit (group_commit.py).
A floor read is one step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model
from specs.slots import FREE, Slots, changed, created_again, end, land, show

OURS = "a"
AGAIN = "A"  # the same change under a new transaction id


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

    slots: Slots
    truth: Slots
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


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen."""
    truth, writer, reader = state.truth, state.writer, state.reader
    if truth.count(OURS) + truth.count(AGAIN) > 1:
        return f"the change is in the log twice: {show(truth)}"
    if FREE in truth[: end(truth)]:
        return f"a gap in the log: {show(truth)}"
    for position, entry in enumerate(truth, start=1):
        if entry != FREE and position >= state.floor and state.slots[position - 1] != entry:
            return f"entry {position} is lost: deleted, and the floor is {state.floor}"
    if writer.phase == "acked" and truth[writer.at - 1] != writer.name:
        return f"acknowledged at {writer.at}, but the log is {show(truth)}"
    if writer.phase == "failed" and OURS in truth:
        return f"reported as not committed, but the log is {show(truth)}"
    for who, known in (("writer", writer.known), ("reader", reader.known)):
        if known != truth[: len(known)]:
            return f"the {who} folded {show(known)}, but the log is {show(truth)}"
    if reader.phase == "idle" and len(reader.known) < reader.owed:
        return f"the reader ends at {len(reader.known)} and misses {reader.owed}, acknowledged before it began"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    position = end(state.truth) + 1
    if state.begun < rules.others:
        name = "bcd"[state.begun]
        begun = state._replace(under_way=state.under_way | {(position, name)}, begun=state.begun + 1)
        yield f"another writer begins a put of {name} at {position}", begun
    for position, name in sorted(state.under_way):
        landed, outcome = _land(state, position, name)
        rest = state.under_way - {(position, name)}
        yield f"the put of {name} at {position} arrives: {outcome}", landed._replace(under_way=rest)
    for label, writer in _writer(rules, state):
        yield label, state._replace(writer=writer)
    if state.writer.phase == "sent":
        yield from _writer_waits(state)
    for index in range(rules.trimmers):
        yield from _trimmer(rules, state, index)
    if rules.reader:
        for label, reader in _reader(rules, state):
            yield label, state._replace(reader=reader)


def _writer_waits(state: State) -> Iterator[Step]:
    me = state.writer
    landed, outcome = _land(state, me.at, me.name)
    yield f"W's put at {me.at} arrives: {outcome}", landed._replace(writer=me._replace(phase=outcome))
    stray = state._replace(under_way=state.under_way | {(me.at, me.name)})
    yield f"W stops waiting for its put at {me.at}", stray._replace(writer=me._replace(phase="slot"))


def _writer(rules: Rules, state: State) -> Iterator[tuple[str, Writer]]:
    me = state.writer
    match me.phase:
        case "ready":
            at = len(me.known) + (2 if rules.puts_past_the_end else 1)
            yield f"W begins a put at {at}", me._replace(phase="sent", at=at)
        case "created":
            yield "W is told: created", me._replace(phase="acked" if rules.created_needs_no_floor else "check")
            yield "the answer to W is lost", me._replace(phase="slot")
        case "exists":
            yield "W is told: exists", me._replace(phase="slot")
        case "slot":
            yield from _writer_reads_slot(rules, state)
        case "follow":
            position, found = _probe(state, me.known + me.ahead)
            if found == FREE:
                yield f"W probes {position}: absent", me._replace(phase="validate")
            else:
                yield f"W probes {position}: {found}", me._replace(ahead=(*me.ahead, found))
        case "check" | "validate":
            for floor in _floor_reads(rules, state):
                outcome, after = _writer_reads_floor(rules, state, floor)
                yield f"W reads the floor: {floor}, {outcome}", after


def _writer_reads_slot(rules: Rules, state: State) -> Iterator[tuple[str, Writer]]:
    me, found = state.writer, state.slots[state.writer.at - 1]
    label = f"W reads slot {me.at}: {found or 'absent'}"
    if found == me.name:
        yield label, me._replace(phase="check")
    elif found == FREE:
        yield f"{label}, puts the same again", me._replace(phase="sent")
        phase = "failed" if rules.deadline_is_failed else "unknown"
        yield f"{label}, deadline: {phase}", me._replace(phase=phase)
        if rules.moves_on_unsettled:
            yield f"{label}, runs again under a new id", Writer("ready", AGAIN, me.known)
    elif rules.lost_needs_no_floor:
        yield f"{label}, lost", Writer("ready", me.name, (*me.known, found))
    else:
        yield f"{label}, follows the log", me._replace(phase="follow")


def _writer_reads_floor(rules: Rules, state: State, floor: int) -> tuple[str, Writer]:
    me = state.writer
    if floor <= len(me.known) + 1:
        if me.phase == "check":
            return f"acknowledges {me.at}", me._replace(phase="acked")
        if me.name in me.ahead:
            at = len(me.known) + me.ahead.index(me.name) + 1
            return f"finds itself at {at}", me._replace(phase="acked", at=at)
        return f"has lost {me.at}", Writer("ready", me.name, me.known + me.ahead)
    base = state.truth[: floor - 1]
    horizon = max(1, floor - rules.remembered)
    if rules.below_floor_is_failed:
        return "fails", me._replace(phase="failed")
    if me.name in base[horizon - 1 :] and not rules.below_floor_is_absent:
        return "finds its id in the base", me._replace(phase="acked", at=base.index(me.name) + 1)
    if me.at < horizon and not (rules.forgotten_is_absent or rules.below_floor_is_absent):
        return "too old to know: unknown", me._replace(phase="unknown")
    return "its id is not in the base, goes on", Writer("ready", me.name, base)


def _trimmer(rules: Rules, state: State, index: int) -> Iterator[Step]:
    me, who = state.trimmers[index], f"trimmer {index + 1}"
    if me.phase == "idle":
        for floor in range(state.floor + 1, end(state.truth) + 1 + rules.floor_may_pass_end):
            yield f"{who} plans floor {floor}", _trim(state, index, Trimmer("planned", floor))
    if me.phase == "planned":
        floor = me.floor if rules.floor_is_one_object else max(me.floor, state.floor)
        put = _trim(state, index, me._replace(phase="deleting"))
        yield f"{who} puts floor {me.floor}", put._replace(floor=floor)
    if me.phase == "deleting" or (me.phase == "planned" and rules.deletes_before_floor):
        for position in range(1, me.floor):
            if state.slots[position - 1] != FREE:
                yield f"{who} deletes {position}", state._replace(slots=changed(state.slots, position, FREE))


def _reader(rules: Rules, state: State) -> Iterator[tuple[str, Reader]]:
    me = state.reader
    if me.phase == "idle":
        owed = state.writer.at if state.writer.phase == "acked" else 0
        phase = "floor" if rules.reader_reads_floor_first else "probe"
        yield "R begins to look for the end", Reader(phase, me.known, (), owed)
    elif me.phase == "probe":
        position, found = _probe(state, me.known + me.ahead)
        if found != FREE:
            yield f"R probes {position}: {found}", me._replace(ahead=(*me.ahead, found))
        elif rules.reader_reads_floor_first:
            yield f"R probes {position}: absent, the end", Reader("idle", me.known + me.ahead, (), me.owed)
        else:
            yield f"R probes {position}: absent", me._replace(phase="floor")
    else:
        for floor in _floor_reads(rules, state):
            if floor > len(me.known) + 1:
                yield f"R reads the floor: {floor}, reloads", Reader("probe", state.truth[: floor - 1], (), me.owed)
            else:
                phase = "probe" if rules.reader_reads_floor_first else "idle"
                yield f"R reads the floor: {floor}, valid", Reader(phase, me.known + me.ahead, (), me.owed)


def _floor_reads(rules: Rules, state: State) -> tuple[int, ...]:
    return (state.floor, 1) if rules.empty_listing_is_no_floor else (state.floor,)


def _land(state: State, position: int, name: str) -> tuple[State, str]:
    slots, truth, outcome = land(state.slots, state.truth, position, name)
    return state._replace(slots=slots, truth=truth), outcome


def _probe(state: State, fold: tuple[str, ...]) -> tuple[int, str]:
    return len(fold) + 1, state.slots[len(fold)]


def _trim(state: State, index: int, trimmer: Trimmer) -> State:
    return state._replace(trimmers=(*state.trimmers[:index], trimmer, *state.trimmers[index + 1 :]))


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
    "acknowledged, and deleted": lambda state: state.writer.phase == "acked" and state.slots[0] == FREE,
    "acknowledged after two losses": lambda state: state.writer.phase == "acked" and state.writer.at == 3,
    "unknown, and committed": lambda state: state.writer.phase == "unknown" and OURS in state.truth,
    "a deleted position is created again": lambda state: created_again(state.slots, state.truth),
    "the reader knows an entry that is deleted": lambda state: state.reader.owed == 1 and state.slots[0] == FREE,
}

MODEL = model("log and floor", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS)
