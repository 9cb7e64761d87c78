"""Rule B9: one process brings another one's transaction into the log.

In plain words:

- A passenger P sends its transaction X to a carrier C, with the position above which X may come to stand. It sends it
  once, and only while it is certain that X is nowhere.
- C treats X as its own: judged on the newest state, put at the end, answered when settled.
- P may stop waiting at any time, and then brings X into the log by itself; C may still have X, and be slow.
- Nobody puts X before having looked for its id in every entry above that position. The log remembers the last ids only
  (here two), so whoever finds that position forgotten puts nothing, and the outcome is unknown.
- A transaction whose id is remembered is ignored by everybody who folds the log, so X takes effect once, even if both
  put it.
- What is in X's way now may be gone later. So while C may have X, P never says that X failed: neither because something
  objects to it, nor at its deadline. It is unknown.

Others commit N1, N2, N3, and D, which is in X's way while it is the last entry.

Left out: batches (group_commit.py), the floor (log_and_floor.py), the network between a writer and its store.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model

REMEMBERED = 2
OTHERS = ("N1", "N2", "N3", "D")


class Rules(NamedTuple):
    """The rules as specified; each flag plants one mistake."""

    fold_ignores_known_ids: bool = True
    carrier_checks_memory: bool = True
    passenger_checks_memory: bool = True
    carrier_looks_for_id: bool = True
    passenger_looks_for_id: bool = True
    late_is_unknown: bool = True
    refused_is_unknown: bool = True


class State(NamedTuple):
    """The log, and what each process knows of it: `passenger` and `carrier` have read so many entries."""

    log: tuple[str, ...] = ()
    others: tuple[str, ...] = OTHERS
    request: bool = False
    answer: str = ""
    passenger: int = 0
    fate: str = "certain"
    """certain -> waits -> alone -> acked, failed, unknown; or acked and failed by the carrier's answer."""
    carrier: int = 0
    holds: bool = False


Step = tuple[str, State]


def initial(_: Rules) -> State:
    """An empty log; X is with its own process, which knows that."""
    return State()


def broken(rules: Rules, state: State) -> str | None:
    """What must never be seen."""
    effects = _effects(rules, state.log)
    if effects > 1:
        return f"X takes effect {effects} times: {state.log}"
    if state.fate == "acked" and not effects:
        return f"X is acknowledged, and has no effect: {state.log}"
    if state.fate == "failed" and effects:
        return f"X is reported as not committed, and has an effect: {state.log}"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of the others, the passenger and the carrier; one that takes none is slow, or stopped."""
    for name in state.others:
        left = tuple(other for other in state.others if other != name)
        yield f"another writer commits {name}", state._replace(log=(*state.log, name), others=left)
    yield from _passenger(rules, state)
    yield from _carrier(rules, state)


def _passenger(rules: Rules, state: State) -> Iterator[Step]:
    if state.fate in {"acked", "failed", "unknown"}:
        return
    if state.fate == "certain":
        yield "P sends X to C", state._replace(fate="waits", request=True)
        return
    late = "unknown" if rules.late_is_unknown else "failed"
    yield f"P's deadline passes: {late}", state._replace(fate=late)
    if state.fate == "waits":
        yield "P waits no longer", state._replace(fate="alone")
        if state.answer:
            fate = {"landed": "acked", "refused": "alone", "unsure": "alone"}[state.answer]
            yield f"P is answered: {state.answer}", state._replace(fate=fate, answer="")
        return
    if state.passenger < len(state.log):
        yield "P reads on", state._replace(passenger=state.passenger + 1)
    verdict = _verdict(
        state.log[: state.passenger], looks=rules.passenger_looks_for_id, checks=rules.passenger_checks_memory
    )
    if verdict == "go":
        if state.passenger == len(state.log):
            yield "P puts X", state._replace(log=(*state.log, "X"), passenger=state.passenger + 1, fate="acked")
    else:
        refused = "unknown" if rules.refused_is_unknown else "failed"
        fate = {"landed": "acked", "refused": refused, "unsure": "unknown"}[verdict]
        yield f"P finds: {verdict}", state._replace(fate=fate)


def _carrier(rules: Rules, state: State) -> Iterator[Step]:
    if state.carrier < len(state.log):
        yield "C reads on", state._replace(carrier=state.carrier + 1)
    if state.request:
        yield "C takes X", state._replace(request=False, holds=True)
    if not state.holds:
        return
    verdict = _verdict(state.log[: state.carrier], looks=rules.carrier_looks_for_id, checks=rules.carrier_checks_memory)
    if verdict == "go":
        if state.carrier == len(state.log):
            landed = state._replace(log=(*state.log, "X"), carrier=state.carrier + 1, holds=False, answer="landed")
            yield "C puts X", landed
    else:
        yield f"C finds: {verdict}", state._replace(holds=False, answer=verdict)


def _verdict(known: tuple[str, ...], *, looks: bool, checks: bool) -> str:
    """What somebody who has read this much may do with X, which may stand anywhere from position 1 on."""
    memory, since = _memory(known)
    if looks and "X" in memory:
        return "landed"
    if checks and since > 1:
        return "unsure"
    return "refused" if known[-1:] == ("D",) else "go"


def _memory(known: tuple[str, ...]) -> tuple[list[str], int]:
    """The ids that are remembered, and the position from which on all are."""
    memory: dict[str, int] = {}
    since = 1
    for position, name in enumerate(known, 1):
        memory.setdefault(name, position)
        while len(memory) > REMEMBERED:
            since = memory.pop(next(iter(memory))) + 1
    return list(memory), since


def _effects(rules: Rules, log: tuple[str, ...]) -> int:
    return sum(
        name == "X" and not (rules.fold_ignores_known_ids and "X" in _memory(log[:position])[0])
        for position, name in enumerate(log)
    )


_HOLDS = {
    "the rules": Rules(),
    "relaxed: the fold takes every id, because whoever puts has looked": Rules(fold_ignores_known_ids=False),
}
_PLANTED = {
    "B9: the carrier does not look for the id": Rules(carrier_looks_for_id=False, fold_ignores_known_ids=False),
    "B9: the passenger does not look for the id": Rules(passenger_looks_for_id=False, fold_ignores_known_ids=False),
    "B9: the carrier puts what the log may have forgotten": Rules(carrier_checks_memory=False),
    "B9: the passenger puts what the log may have forgotten": Rules(passenger_checks_memory=False),
    "B9: a carried transaction is reported as failed at the deadline": Rules(late_is_unknown=False),
    "B9: reported as failed because of what is in its way now": Rules(refused_is_unknown=False),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "carried, and acknowledged by the carrier's answer": lambda state: (
        state.fate == "acked" and "X" in state.log and not state.passenger
    ),
    "given up, and found where the carrier put it": lambda state: (
        state.fate == "acked" and state.passenger > 0 and state.carrier >= state.passenger
    ),
    "given up, put by its own process, and found by the carrier": lambda state: (
        state.answer == "landed" and state.fate == "acked" and state.passenger > 0
    ),
    "refused by the carrier, and brought in by its own process": lambda state: (
        state.fate == "acked" and state.log[-1:] == ("X",) and "D" in state.log and state.passenger == len(state.log)
    ),
    "forgotten, and unknown": lambda state: state.fate == "unknown" and len(state.log) > REMEMBERED,
}

MODEL = model("carrying", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS)
