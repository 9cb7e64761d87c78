"""Breadth-first exploration of every interleaving of a small model.

A model is an initial state, a function that gives every step possible in a state, and a function that says what is
broken in it. Steps of all actors are mixed in every order, so a stall of any length anywhere is covered: the other
actors simply go first. Breadth-first order makes the trace of a violation one of the shortest there are.

Where histories must be long to be interesting, `walk` goes one way through them at random, by seed.

What is left out: liveness. The models show that nothing wrong happens, not that something good ever does; that a model
is not empty is shown by looking for states that must be reachable (`goals`).
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from random import Random
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
R = TypeVar("R")


class Violation(NamedTuple):
    """What is broken, and the labels of the steps that lead there."""

    what: str
    trace: tuple[str, ...]
    states: int

    def __str__(self) -> str:
        lines = [f"  {number:2}. {label}" for number, label in enumerate(self.trace, start=1)]
        return "\n".join([*lines, f"   => {self.what}"])


Verdict = int | Violation
"""The number of states if all of them are sound."""

Check = Callable[[], Verdict]
Walk = Callable[[int], Verdict]
"""One history, by seed."""


class Model(NamedTuple):
    """What one module of specs/ has to show; each value explores one variant."""

    name: str
    holds: Mapping[str, Check]
    """The rules, and simpler forms of them that are just as safe: no violation may be found."""
    planted: Mapping[str, Check]
    """The rules with one mistake: a violation must be found."""
    goals: Mapping[str, Check]
    """States that the rules must be able to reach, reported as a violation: the model is not empty."""
    walks: Mapping[str, Walk]
    """The rules on more work than can be tried in every order: long histories, each chosen by a seed."""


def explore(
    initial: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    broken: Callable[[S], str | None],
) -> Verdict:
    """Visit every state that can be reached; stop at the first broken one."""
    came_from: dict[S, tuple[S, str] | None] = {initial: None}
    waiting = deque([initial])
    while waiting:
        state = waiting.popleft()
        what = broken(state)
        if what is not None:
            return Violation(what, _trace(state, came_from), len(came_from))
        for label, following in steps(state):
            if following not in came_from:
                came_from[following] = (state, label)
                waiting.append(following)
    return len(came_from)


def walk(
    initial: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    broken: Callable[[S], str | None],
    seed: int,
) -> Verdict:
    """Go from state to state, each time to one of the next ones at random, until there is none; the same for a seed."""
    chance = Random(seed)  # noqa: S311 - a history is chosen, not a secret
    state, labels = initial, list[str]()
    while True:
        what = broken(state)
        if what is not None:
            told = f"{what} (again: python -m specs --seed {seed} --walks 1)"
            return Violation(told, tuple(labels), len(labels) + 1)
        following = list(steps(state))
        if not following:
            return len(labels) + 1
        label, state = chance.choice(following)
        labels.append(label)


def model(
    name: str,
    actors: tuple[Callable[[R], S], Callable[[R, S], Iterable[tuple[str, S]]], Callable[[R, S], str | None]],
    holds: Mapping[str, R],
    planted: Mapping[str, R],
    goals: Mapping[str, Callable[[S], bool]],
    walks: Mapping[str, R] | None = None,
) -> Model:
    """Put a model together: `actors` is (initial, steps, broken); goals are looked for under the first of `holds`."""
    initial, steps, broken = actors

    def check(rules: R) -> Verdict:
        return explore(initial(rules), partial(steps, rules), partial(broken, rules))

    def go(rules: R, seed: int) -> Verdict:
        return walk(initial(rules), partial(steps, rules), partial(broken, rules), seed)

    def reach(goal: Callable[[S], bool]) -> Verdict:
        rules = next(iter(holds.values()))
        return explore(initial(rules), partial(steps, rules), lambda state: "reached" if goal(state) else None)

    return Model(
        name,
        {variant: partial(check, rules) for variant, rules in holds.items()},
        {variant: partial(check, rules) for variant, rules in planted.items()},
        {what: partial(reach, goal) for what, goal in goals.items()},
        {variant: partial(go, rules) for variant, rules in (walks or {}).items()},
    )


def _trace(state: S, came_from: Mapping[S, tuple[S, str] | None]) -> tuple[str, ...]:
    labels: list[str] = []
    step = came_from[state]
    while step is not None:
        before, label = step
        labels.append(label)
        step = came_from[before]
    return tuple(reversed(labels))
