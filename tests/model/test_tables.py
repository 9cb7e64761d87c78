"""Tables beside a model that is too plain to be wrong: steps drawn from seeds, the same rows after each of them.

Two handles on one lake append, upsert, insert, overwrite, delete and update, small and staged, alone and in transactions
over several tables; begin work early and land it late, alone or many in one entry; flush, rewrite and index; create,
rename and drop; are closed, left behind and lied to by their store; look keys up and search, now, inside transactions and
in old versions. `python -m tests.model SEED` plays a run again, and shortens it.
"""

import itertools
from collections import Counter
from unittest.mock import patch

import pytest

from tests.model.mistakes import MET_BY, MISTAKES
from tests.model.play import STEPS, fails_after, play, play_seed, shortened
from tests.model.steps import steps

GROUPS, LEAST_STEPS = 5, 2000


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_is_done_the_rows_are_those_of_the_model_at_every_version(group: int) -> None:
    """At least 10,000 steps in all: the same rows through both handles after each, and in the end at every version."""
    taken: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    seeds = itertools.count(group * 1000)
    while taken.total() < LEAST_STEPS:
        machine = play_seed(next(seeds))
        taken += machine.taken
        refused += machine.refused
        asked += machine.asked
    print(f"seeds {group * 1000} to {next(seeds) - 1}, replay one: python -m tests.model SEED {STEPS}")
    print(f"{taken.total()} steps: {dict(taken)}; refused: {dict(refused)}; asked: {dict(asked)}")
    assert {"ConflictError", "AlreadyExistsError", "InvalidInputError"} <= set(refused), "nothing was in the way"
    assert {"get", "get_many", "near", "words", "both", "words refused"} <= set(asked), "something was never asked"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_and_the_run_shortened(mistake: str) -> None:
    """The answers differ, or something lands that must not; with fewer steps as well, and not without the mistake."""
    module, name, instead = MISTAKES[mistake]
    with patch.object(module, name, instead):
        seeds = (MET_BY.get(mistake, 0), *range(100))
        seed = next(seed for seed in seeds if fails_after(seed, steps(seed, STEPS)) is not None)
        least = shortened(seed, steps(seed, STEPS), patience=2)
    print(f"seed {seed}: {len(least)} steps are enough")
    assert len(least) < STEPS
    play(seed, least)
