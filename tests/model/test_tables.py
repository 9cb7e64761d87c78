"""Tables beside a model that is too plain to be wrong: steps drawn from seeds, the same rows after each of them.

Two handles on one lake append, upsert, insert, overwrite, delete and update, small and staged, alone and in transactions
over several tables; begin work early and land it late, alone or many in one entry; flush and rewrite; create, rename and
drop; are closed, left behind and lied to by their store. `python -m tests.model SEED` plays a run again, and shortens it.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from phalanx import contents
from phalanx.tail import apply
from phalanx.txn import touched
from tests.model.play import STEPS, play, play_seed
from tests.model.shrink import shrink
from tests.model.steps import Step, steps

GROUPS, LEAST_STEPS = 5, 2000


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_is_done_the_rows_are_those_of_the_model_at_every_version(group: int) -> None:
    """At least 10,000 steps in all: the same rows through both handles after each, and in the end at every version."""
    taken: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    seeds = itertools.count(group * 1000)
    while taken.total() < LEAST_STEPS:
        machine = play_seed(next(seeds))
        taken += machine.taken
        refused += machine.refused
    print(f"seeds {group * 1000} to {next(seeds) - 1}, replay one: python -m tests.model SEED {STEPS}")
    print(f"{taken.total()} steps: {dict(taken)}; refused: {dict(refused)}")
    assert {"ConflictError", "AlreadyExistsError", "InvalidInputError"} <= set(refused), "nothing was in the way"


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        (contents, "_renumbered", lambda items, weight, *_: (items, weight)),
        (contents, "becomes_head", lambda _, rows: rows.whole),
        (touched, "_check", lambda *_: None),
        (apply._Work, "_still_there", lambda *given: given[-1]),
    ],
    ids=[
        "a delete forgets its rows at a flush",
        "what moved since is forgotten",
        "nobody looks for conflicts",
        "rows are hidden that are gone",
    ],
)
def test_a_planted_mistake_is_found_and_the_run_shortened(module: Any, name: str, instead: object) -> None:
    """The rows differ, or something lands that must not; with fewer steps as well, and not without the mistake."""
    with patch.object(module, name, instead):
        seed = next(seed for seed in range(40) if _fails(seed, steps(seed, STEPS)))
        least = shrink(steps(seed, STEPS), lambda tried: _fails(seed, tried), seconds=4)
    print(f"seed {seed}: {len(least)} steps are enough")
    assert len(least) < STEPS
    play(seed, least)


def _fails(seed: int, todo: Sequence[Step]) -> bool:
    try:
        play(seed, todo)
    except Exception:  # noqa: BLE001 - whatever it is
        return True
    return False
