"""Rules E1 and A6 again: several pruners, and an old position that stays readable below the floor because it is needed.

In plain words:

- The entry of a prune says how far the floor rises, and which positions below it are *kept*: that list is the truth until
  the next one. An entry is void, and decided anew, if another has gone further meanwhile, if a tag names by then what it
  would let go, or if it keeps what another has let go. So what a pruner does afterwards it may do by its own decision,
  however long it sleeps.
- What is kept is stored before the floor passes it, and forgotten once it is not kept any more. It is let go by an entry,
  also where there is nothing else to decide.
- A table that was dropped is nobody's. Who brings it back looks up what is left of it, and names the last prune that they
  know of: if another has landed since, they look again. A pruner that finds a table back keeps what it lists.

The actors: two pruners, each of which chooses how far it goes, and may stop after any step for any time; a reader of the
old position; somebody who tags and untags it; somebody who brings back a table whose old version it is. Left out: staged
files (prune.py), and everything that is not the old position: it can be read from the log's entries while they are there,
from what was stored of it (the base), and with either only while its files are there.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model

BEGIN, PINS, BASES, DECIDE, PINS_AGAIN, LOOK, KEEP, FORGET, SWEEP, DELETE, DONE = range(11)
PASSED = 1
"""The lowest floor below which the old position lies."""


class Rules(NamedTuple):
    """The rules as specified; each flag plants a mistake."""

    floors: int = 2
    """How far a pruner may go: any floor up to this one."""
    forgets_what_is_there_now: bool = False
    keeps_what_another_let_go: bool = False
    lets_go_of_what_is_tagged: bool = False
    goes_less_far: bool = False
    reviver_names_no_prune: bool = False
    tables_that_came_back_are_not_looked_up: bool = False
    second: bool = True
    revivers: int = 1


class Known(NamedTuple):
    """The log, as far as somebody has read it."""

    floor: int = 0
    kept: bool = False
    tagged: bool = False
    listed: bool = False
    """A table that is there lists the old version."""

    def has(self) -> bool:
        """Whether the old position can be read, as the log says it."""
        return self.floor < PASSED or self.kept


class Pruner(NamedTuple):
    """How far it is, and what it has seen."""

    step: int = BEGIN
    known: Known = Known()
    pins: bool = False
    bases: bool = False
    floor: int = 0
    kept: bool = False
    late: bool = False
    again: Known = Known()


class State(NamedTuple):
    """The log and storage; what the actors are at."""

    log: Known = Known()
    entries: bool = True
    base: bool = False
    files: bool = True
    reader: str = "away"
    reviver: str = "away"
    """`looked`: and no prune has landed since; `overtaken`: one has."""
    found: bool = False
    """Whether it found the old version in the log."""
    untagged: bool = False
    pruners: tuple[Pruner, Pruner] = (Pruner(), Pruner())


Step = tuple[str, State]


def initial(rules: Rules) -> State:
    """An old position that nobody uses; a table that had a version there was dropped."""
    second = Pruner() if rules.second else Pruner(DONE)
    return State(pruners=(Pruner(), second), reviver="away" if rules.revivers else "done")


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen: the log says that it can be read, or somebody was let in, and it is gone."""
    readable = state.files and (state.entries or state.base)
    if state.log.kept and not readable:
        return "the log says that the old position is kept, and it is gone"
    if state.log.tagged and not readable:
        return "a tag names what is gone"
    if state.log.listed and not readable:
        return "a table that was brought back lists a version that is gone"
    if state.reader == "reads" and not readable:
        return "a reader that was let in reads what is gone"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    yield from _reads(state)
    yield from _tags(state)
    yield from _revives(rules, state)
    for which in (0, 1):
        yield from _prunes(rules, state, which)


def _reads(state: State) -> Iterator[Step]:
    if state.reader == "away":
        yield "the reader pins", state._replace(reader="pinned")
    elif state.reader == "pinned" and state.log.has():
        yield "the reader looks, and reads", state._replace(reader="reads")
    elif state.reader != "done":
        yield "the reader is refused, or done", state._replace(reader="done")


def _tags(state: State) -> Iterator[Step]:
    log = state.log
    if log.tagged:
        yield "the tag is removed", state._replace(log=log._replace(tagged=False), untagged=True)
    elif not state.untagged and log.has():
        yield "the old position is tagged", state._replace(log=log._replace(tagged=True))


def _revives(rules: Rules, state: State) -> Iterator[Step]:
    log = state.log
    if state.reviver == "away":
        found = log.floor < PASSED  # what was kept by itself was let go with the table
        yield "who brings the table back looks", state._replace(reviver="looked", found=found)
    elif state.reviver == "overtaken" and not rules.reviver_names_no_prune:
        yield "a prune has landed: who brings the table back looks again", state._replace(reviver="away")
    elif state.reviver != "done":
        back = state._replace(log=log._replace(listed=state.found), reviver="done")
        yield f"the table is back, {'with' if state.found else 'without'} the old version", back


def _prunes(rules: Rules, state: State, which: int) -> Iterator[Step]:
    pruner = state.pruners[which]
    on = pruner._replace(step=pruner.step + 1)

    def after(now: Pruner, changed: State = state) -> State:
        first, second = sorted((now, changed.pruners[1 - which]))  # they are alike: half as many states
        return changed._replace(pruners=(first, second))

    if pruner.step == BEGIN:
        yield "a pruner reads the log", after(on._replace(known=state.log))
    elif pruner.step == PINS:
        yield "a pruner lists pins", after(on._replace(pins=_pinned(state)))
    elif pruner.step == BASES:
        yield "a pruner lists what is kept", after(on._replace(bases=state.base))
    elif pruner.step == DECIDE:
        for floor in range(pruner.known.floor, rules.floors + 1):
            yield from ((f"a pruner: {what}", after(*then)) for what, then in _decides(rules, state, on, floor))
    elif pruner.step == PINS_AGAIN:
        yield "a pruner lists pins again", after(on._replace(late=_pinned(state)))
    elif pruner.step == LOOK:
        yield "a pruner reads the log again", after(on._replace(again=state.log))
    elif pruner.step < DONE:
        yield from ((f"a pruner {what}", after(*then)) for what, then in _carries_out(rules, state, on))


def _pinned(state: State) -> bool:
    return state.reader in {"pinned", "reads"}


def _decides(rules: Rules, state: State, on: Pruner, floor: int) -> Iterator[tuple[str, tuple[Pruner, State]]]:
    """It goes as far as `floor`; what it keeps is what it knows somebody to need."""
    log, known = state.log, on.known
    kept = floor >= PASSED and known.has() and (known.tagged or on.pins)
    decided = on._replace(floor=floor, kept=kept, known=Known(listed=known.listed))  # the rest does not matter any more
    if floor < PASSED:
        decided = Pruner(DONE)  # it has nothing to do with the old position
    if floor <= known.floor and (kept or not known.kept):
        yield "there is nothing to decide", (decided, state)
        return
    behind = floor < log.floor and not rules.goes_less_far
    lost = kept and not log.has() and not rules.keeps_what_another_let_go
    tagged = floor >= PASSED and not kept and log.tagged and log.has() and not rules.lets_go_of_what_is_tagged
    if behind or lost or tagged:
        yield "its entry is void", (Pruner(), state)
        return
    truth = kept if floor >= log.floor else log.kept
    landed = log._replace(floor=max(floor, log.floor), kept=truth)
    reviver = "overtaken" if state.reviver == "looked" else state.reviver
    said = f"its entry says floor {floor}{', and keeps the old position' if kept else ''}"
    yield said, (decided, state._replace(log=landed, reviver=reviver))


def _carries_out(rules: Rules, state: State, on: Pruner) -> Iterator[tuple[str, tuple[Pruner, State]]]:
    """What follows from the decision: the floor passes the old position."""
    step = on.step - 1
    looked_up = not rules.tables_that_came_back_are_not_looked_up or on.known.listed
    needed = on.kept or on.late or (on.again.listed and looked_up)
    if step == KEEP:
        if needed and not state.entries and not state.base:
            yield "finds the entries gone, and begins again", (Pruner(), state)
        else:
            yield "stores what is needed", (on, state._replace(base=state.base or needed))
    elif step == FORGET:
        there = state.base if rules.forgets_what_is_there_now else on.bases
        yield "forgets what is not", (on, state._replace(base=state.base and (needed or not there)))
    elif step == SWEEP:
        yield "removes entries", (on, state._replace(entries=False))
    elif step == DELETE:
        needed |= on.pins
        yield "deletes files", (Pruner(DONE), state._replace(files=state.files and needed))


_HOLDS = {
    "the rules": Rules(),
    "the rules, one pruner": Rules(second=False, floors=3),
    "the rules, nobody brings anything back": Rules(revivers=0, floors=3),
    "relaxed: what was stored since it began may be forgotten too": Rules(forgets_what_is_there_now=True, revivers=0),
}
_PLANTED = {
    "E1: an entry goes less far than another before it": Rules(goes_less_far=True, revivers=0),
    "E1: an entry keeps what another has let go": Rules(keeps_what_another_let_go=True, revivers=0),
    "E1: an entry lets go of what is tagged": Rules(lets_go_of_what_is_tagged=True, revivers=0, second=False),
    "E1: who brings a table back does not name the last prune": Rules(reviver_names_no_prune=True, second=False),
    "E1: what a table lists that came back is not looked up": Rules(
        tables_that_came_back_are_not_looked_up=True, second=False
    ),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "the old position is kept below the floor by what was stored": lambda state: (
        state.log.kept and state.log.tagged and state.base and not state.entries
    ),
    "it is let go again, and removed": lambda state: (
        state.untagged and not state.files and not state.base and not state.log.kept
    ),
    "a pruner carries out what does not go as far as the log says": lambda state: any(
        DECIDE < one.step < DONE and one.floor < state.log.floor for one in state.pruners
    ),
    "a table is brought back with the old version below the floor": lambda state: (
        state.log.listed and state.log.floor >= PASSED and not state.entries and state.base
    ),
    "a table is brought back without it": lambda state: state.reviver == "done" and not state.log.listed,
}

MODEL = model("kept", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, {})
