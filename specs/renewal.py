"""Rule E3: a process that was taken for dead goes on, and renews its pin: what the pin then protects.

In plain words:

- A staging pin protects every file that is newer than itself. Renewed, it gets another name, and the first one stays: since
  when it was there is the age of the first.
- A prune takes a pin that was not renewed for long for dead: the files of its writer go, and the entry says so (rule E2). A
  day later its names go as well, by a prune that may have had nothing else to do, and then has told nobody.
- The writer may only have slept, between two steps of whatever it was doing, a renewal for example. It finds out when it
  commits, if its files were let go. If they were not, the pin that it puts again seems to be younger than its files. So a
  pin without its first name protects all files, however old.

The actors: a writer that pins, stages a file, renews as often as it likes, and commits; prunes of other tables, which
remove what they take for dead; prunes of everything. The order inside of a prune is another model's (prune.py).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model

TIME = 6
"""Nothing happens later: no interleaving needs more."""


class Rules(NamedTuple):
    """The rules as specified; each flag changes one."""

    what_is_left_counts: bool = False
    removing_tells: bool = False
    """Who removes the names of a dead pin says in the log that its files are let go."""


class State(NamedTuple):
    """When names and files were put; None for what is not there."""

    time: int = 0
    first: int | None = None
    renewed: int | None = None
    file: int | None = None
    staged: bool = False
    told: bool = False
    """The log says that this writer's files are let go."""
    phase: str = "away"
    removed: bool = False


Step = tuple[str, State]


def initial(_: Rules) -> State:
    """Nobody has begun."""
    return State()


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen."""
    if state.phase == "committed" and state.file is None:
        return "an entry names a file that is gone"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    if state.time < TIME:
        now = state._replace(time=state.time + 1)
        yield from _writes(now)
        yield from _prunes(rules, now)


def _writes(state: State) -> Iterator[Step]:
    if state.phase == "away":
        yield "the writer pins", state._replace(first=state.time, phase="pinned")
    elif state.phase == "pinned":
        if not state.staged:
            yield "the writer stages a file", state._replace(file=state.time, staged=True)
        yield "the writer renews its pin", state._replace(renewed=state.time)
        if state.staged:
            end = "refused" if state.told else "committed"
            yield f"the writer is {end}", state._replace(first=None, renewed=None, phase=end)


def _prunes(rules: Rules, state: State) -> Iterator[Step]:
    if state.phase != "pinned":
        return
    if state.first is not None or state.renewed is not None:
        gone = state._replace(first=None, renewed=None, removed=True, told=state.told or rules.removing_tells)
        yield "a prune of another table takes the pin for dead, and removes its names", gone
        since = state.first if state.first is not None else 0
        if rules.what_is_left_counts and state.first is None:
            since = state.renewed or 0
        kept = state.file is not None and state.file >= since
        yield "a prune sees the pin", state if kept else state._replace(file=None)
    yield "a prune takes the pin for dead, says so, and deletes the file", state._replace(file=None, told=True)


_HOLDS = {
    "the rules": Rules(),
    "as safe: who removes the names of the dead says so": Rules(what_is_left_counts=True, removing_tells=True),
}
_PLANTED = {"E3: a pin is as old as what is left of it": Rules(what_is_left_counts=True)}
_GOALS: dict[str, Callable[[State], bool]] = {
    "a pin is renewed whose first name is gone": lambda state: (
        state.first is None and state.renewed is not None and state.removed
    ),
    "a writer lands whose pin was removed": lambda state: state.removed and state.phase == "committed",
    "a writer is told that its files are gone": lambda state: state.phase == "refused",
}

MODEL = model("renewal", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, {})
