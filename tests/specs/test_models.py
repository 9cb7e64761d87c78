"""The models of the protocol's rules: the rules hold, every planted mistake is seen, and no model is empty."""

from collections.abc import Iterator

import pytest

from specs import MODELS
from specs.explore import Check, Violation, Walk, explore, walk

SEEDS = range(1, 101)


def _cases(kind: str) -> list[object]:
    return [
        pytest.param(check, id=f"{model.name}: {variant}")
        for model in MODELS
        for variant, check in getattr(model, kind).items()
    ]


@pytest.mark.parametrize("check", _cases("holds"))
def test_the_rules_hold_in_every_interleaving(check: Check) -> None:
    """No state that can be reached is broken."""
    verdict = check()
    assert isinstance(verdict, int), f"\n{verdict}"


@pytest.mark.parametrize("check", _cases("planted"))
def test_every_planted_violation_is_found(check: Check) -> None:
    """A model that cannot see a mistake proves nothing."""
    verdict = check()
    assert isinstance(verdict, Violation), f"{verdict} states, and nothing was found"
    assert verdict.trace


@pytest.mark.parametrize("check", _cases("goals"))
def test_the_models_reach_what_they_speak_of(check: Check) -> None:
    """The interesting states are reachable under the rules, so the rules do not hold for want of anything to do."""
    verdict = check()
    assert isinstance(verdict, Violation), f"not reached in {verdict} states"


@pytest.mark.parametrize("seed_walk", _cases("walks"))
def test_the_rules_hold_in_long_histories(seed_walk: Walk) -> None:
    """Histories that are too long to try all of them, by seed; a violation says how to repeat it."""
    for seed in SEEDS:
        verdict = seed_walk(seed)
        assert isinstance(verdict, int), f"seed {seed}\n{verdict}"


def _two_counters(state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Two actors that count to 3, in every order."""
    for actor in (0, 1):
        if state[actor] < 3:
            yield f"{actor} counts", (state[0] + (actor == 0), state[1] + (actor == 1))


def test_exploration_visits_every_interleaving_once() -> None:
    """Two counters up to 3 have 4 x 4 states, however many ways lead to each."""
    assert explore((0, 0), _two_counters, lambda _: None) == 16


def test_a_violation_comes_with_a_shortest_trace() -> None:
    """The trace has no step that is not needed, and the report tells it in order."""
    verdict = explore((0, 0), _two_counters, lambda state: "both moved" if min(state) == 1 else None)
    assert isinstance(verdict, Violation)
    assert sorted(verdict.trace) == ["0 counts", "1 counts"]
    assert str(verdict).splitlines()[-1].endswith("both moved")


def test_a_walk_is_one_history_and_its_seed_repeats_it() -> None:
    """It takes every step that is left, one at a time; a violation names the seed."""
    assert walk((0, 0), _two_counters, lambda _: None, 1) == 7
    found = [walk((0, 0), _two_counters, lambda state: "done" if state == (3, 3) else None, seed) for seed in (5, 5, 6)]
    assert all(isinstance(verdict, Violation) and len(verdict.trace) == 6 for verdict in found)
    assert found[0] == found[1]
    assert "--seed 5 --walks 1" in str(found[0])
