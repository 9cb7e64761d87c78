"""Rules E1 and E2: what is pruned, while others read, tag and stage, and which order of the pruner's steps is safe.

In plain words:

- E1 The decision to prune is an entry of the log: up to which position, and whose staged files are let go. The order is:
  read the end of the log, list files, list pins, commit the entry, list pins again, read the end again, delete. What was
  not in the first list is not deleted; what a pin of either list or the end of the log needs is not either: a writer that
  the entry has exempted stays exempt, however old its pin looks when pins are listed again.
- E2 Readers and taggers pin first and look at the log afterwards: if it was decided that theirs goes, they are refused. A
  staged file is named by an entry only if no prune entry has let it go: its writer finds that entry when it catches up,
  and is refused if the pruner began after it, by the log, and has not exempted it. A pruner may take the pin of a
  sleeping writer for expired, unless the writer began after it: then the writer must stage again, and nothing is lost.
  No clock decides who is refused. A writer looks at the log once more after it has pinned, and pins anew if it has grown:
  otherwise a pruner that began in between, and listed pins before, would refuse it although it never slept.

The actors: a reader of an old version; somebody who tags it; a writer that stages a file and commits it; somebody who
commits other things; the pruner, who may stop after any step for any time. Left out: windows, anchors and counts of
versions, which only keep more; several pruners, of which each does what one alone may do.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model

BEGIN, FILES, PINS, ENTRY = "read where the log ends", "list files", "list pins", "commit the entry"
PINS_AGAIN, END = "list pins again", "read the end"
ORDER = (BEGIN, FILES, PINS, ENTRY, PINS_AGAIN, END)
OLD, STAGED = "the old version", "the staged file"


class Rules(NamedTuple):
    """The rules as specified; each flag plants a mistake. Counts say who takes part."""

    order: tuple[str, ...] = ORDER
    readers: int = 1
    taggers: int = 1
    stagers: int = 1
    others: int = 1
    pins_expire: bool = True
    only_the_second_list_counts: bool = False
    reader_does_not_look: bool = False
    tagger_does_not_pin: bool = False
    decision_is_not_in_the_log: bool = False
    any_pin_may_expire: bool = False
    writer_does_not_look_again: bool = False


class Pruner(NamedTuple):
    """How far it is, and what it has seen."""

    step: int = 0
    began: int = 0
    files: frozenset[str] = frozenset()
    pins: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


class State(NamedTuple):
    """Storage and the log; `end` counts entries. A writer or tagger knows the end that it has seen last."""

    end: int = 0
    floor: bool = False
    fence: int = 0
    """Who began before this position, and was not exempt, has to stage again."""
    tagged: bool = False
    named: bool = False
    pins: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset({OLD})
    reader: str = "away"
    tagger: str = "away"
    tagger_knows: int = 0
    stager: str = "away"
    stager_knows: int = 0
    stager_since: int = 0
    refused: bool = False
    pruner: Pruner = Pruner()
    others: int = 0


Step = tuple[str, State]


def initial(rules: Rules) -> State:
    """An old version that nobody uses, and nothing else."""
    return State(
        reader="away" if rules.readers else "done",
        tagger="away" if rules.taggers else "done",
        stager="away" if rules.stagers else "done",
        others=rules.others,
    )


def broken(rules: Rules, state: State) -> str | None:
    """What must never be seen: somebody needs what is gone, or has to stage again for nothing."""
    if state.refused and not rules.pins_expire:
        return "a writer whose pin has not expired has to stage again"
    if state.reader == "reads" and OLD not in state.files:
        return "a reader that was let in reads a version whose files are gone"
    if state.tagged and OLD not in state.files:
        return "a tag names a version whose files are gone"
    if state.named and STAGED not in state.files:
        return "an entry names a file that is gone"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    yield from _reads(rules, state)
    yield from _tags(rules, state)
    yield from _stages(rules, state)
    if state.others:
        yield "something else is committed", state._replace(end=state.end + 1, others=state.others - 1)
    yield from _prunes(rules, state)


def _reads(rules: Rules, state: State) -> Iterator[Step]:
    if state.reader == "away":
        yield "the reader pins", state._replace(pins=state.pins | {"reader"}, reader="pinned")
    elif state.reader == "pinned":
        if state.floor and not rules.reader_does_not_look:
            yield "the reader looks, and is refused", state._replace(pins=state.pins - {"reader"}, reader="done")
        else:
            yield "the reader looks, and reads", state._replace(reader="reads")
    elif state.reader == "reads":
        yield "the reader is done", state._replace(pins=state.pins - {"reader"}, reader="done")


def _tags(rules: Rules, state: State) -> Iterator[Step]:
    if state.tagger == "away":
        pins = state.pins if rules.tagger_does_not_pin else state.pins | {"tagger"}
        yield "the tagger pins", state._replace(pins=pins, tagger="pinned")
    elif state.tagger == "pinned":
        if state.floor:
            yield "the tagger looks, and is refused", state._replace(pins=state.pins - {"tagger"}, tagger="done")
        else:
            yield "the tagger looks", state._replace(tagger="looked", tagger_knows=state.end)
    elif state.tagger == "looked":
        if state.tagger_knows == state.end:
            tagged = state._replace(end=state.end + 1, tagged=True, pins=state.pins - {"tagger"}, tagger="done")
            yield "the tag is committed", tagged
        else:
            yield "the tagger lost its position, and looks again", state._replace(tagger="pinned")


def _stages(rules: Rules, state: State) -> Iterator[Step]:
    if state.stager == "away":
        for since in range(state.end + 1):  # what it knew of the log when it pinned may be old
            pinned = state._replace(pins=state.pins | {"writer"}, stager="pinned", stager_since=since)
            yield f"the writer, who knows {since} entries, pins", pinned
    elif state.stager == "pinned" and state.stager_since < state.end and not rules.writer_does_not_look_again:
        yield "the writer looks again, and pins anew", state._replace(stager_since=state.end)
    elif state.stager == "pinned":
        yield "the writer has seen the end of the log", state._replace(stager="ready")
    elif state.stager == "ready":
        staged = state._replace(files=state.files | {STAGED}, stager="staged", stager_knows=state.end)
        yield "the writer stages a file", staged
    elif state.stager == "staged":
        done = state._replace(pins=state.pins - {"writer"}, stager="done")
        if state.stager_knows == state.end:
            yield "the entry that names the file is put", done._replace(end=state.end + 1, named=True)
        elif state.stager_since < state.fence and not rules.decision_is_not_in_the_log:
            yield "the writer catches up, and has to stage again", done._replace(refused=True)
        else:
            yield "the writer lost its position, and catches up", state._replace(stager_knows=state.end)


def _prunes(rules: Rules, state: State) -> Iterator[Step]:
    pruner = state.pruner
    if pruner.step > len(rules.order):
        return
    if pruner.step == len(rules.order):
        kept = pruner.needed | ({OLD} if pruner.pins & {"reader", "tagger"} else set())
        kept |= {STAGED} if "writer" in pruner.pins else set()
        gone = pruner.files - kept
        after = state._replace(files=state.files - gone, pruner=pruner._replace(step=pruner.step + 1))
        yield f"the pruner deletes {', '.join(sorted(gone)) or 'nothing'}", after
        return
    what = rules.order[pruner.step]
    on = pruner._replace(step=pruner.step + 1)
    if what == BEGIN:
        yield "the pruner reads where the log ends", state._replace(pruner=on._replace(began=state.end))
    elif what == FILES:
        yield "the pruner lists files", state._replace(pruner=on._replace(files=state.files))
    elif what in (PINS, PINS_AGAIN):
        before = frozenset() if rules.only_the_second_list_counts else pruner.pins
        yield f"the pruner: {what}", state._replace(pruner=on._replace(pins=before | state.pins))
        old = rules.any_pin_may_expire or state.stager_since < pruner.began
        if rules.pins_expire and "writer" in state.pins and old:
            expired = on._replace(pins=before | state.pins - {"writer"})
            yield f"the pruner: {what}, and takes the writer's for expired", state._replace(pruner=expired)
    elif what == END:
        needed = ({OLD} if state.tagged else set()) | ({STAGED} if state.named else set())
        yield "the pruner reads the end", state._replace(pruner=on._replace(needed=frozenset(needed)))
    elif what == ENTRY:
        exempt = "writer" in pruner.pins
        end = state.end if rules.decision_is_not_in_the_log else state.end + 1
        yield (
            "the pruner commits its entry, and raises the floor",
            state._replace(end=end, floor=True, fence=0 if exempt else pruner.began, pruner=on),
        )


_HOLDS = {
    "the rules": Rules(),
    "the rules, nobody's pin expires": Rules(pins_expire=False, others=2),
    "relaxed: the end is read before pins are listed again": Rules(order=(BEGIN, FILES, PINS, ENTRY, END, PINS_AGAIN)),
    "relaxed: where the log ends is read after files were listed": Rules(
        order=(FILES, BEGIN, PINS, ENTRY, PINS_AGAIN, END)
    ),
    "relaxed: a tagger does not pin, the entry is in its way": Rules(tagger_does_not_pin=True),
}
_PLANTED = {
    "E1: pins are listed before the floor is raised only": Rules(order=(BEGIN, FILES, PINS, ENTRY, END)),
    "E1: pins are listed after the entry only": Rules(order=(BEGIN, FILES, ENTRY, PINS_AGAIN, END), pins_expire=False),
    "E1: who was exempt is forgotten when pins are listed again": Rules(only_the_second_list_counts=True),
    "E1: files are listed last": Rules(order=(BEGIN, PINS, ENTRY, PINS_AGAIN, END, FILES)),
    "E1: the decision is not in the log": Rules(decision_is_not_in_the_log=True),
    "E2: a reader does not look at the floor": Rules(reader_does_not_look=True),
    "E1: the decision is not in the log, and nobody's pin expires": Rules(
        decision_is_not_in_the_log=True, pins_expire=False, order=(BEGIN, FILES, PINS, ENTRY, END, PINS_AGAIN)
    ),
    "E2: the pin of a writer that began later is taken for expired": Rules(any_pin_may_expire=True),
    "E2: a writer does not look again after it has pinned": Rules(pins_expire=False, writer_does_not_look_again=True),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "the old version is deleted": lambda state: OLD not in state.files,
    "a file that was never named is deleted": lambda state: state.stager == "done" and STAGED not in state.files,
    "a tag is committed after the floor was raised": lambda state: (
        state.tagged and state.floor and state.reader == "away"
    ),
    "a writer is refused because its file was let go": lambda state: (
        state.fence > state.stager_since and state.stager == "done" and not state.named
    ),
}

MODEL = model("prune", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, {})
