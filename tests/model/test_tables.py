"""Tables beside a model that is too plain to be wrong: steps drawn from seeds, the same rows after each of them.

Two handles on one lake append, upsert, insert, overwrite, delete and update, small and staged, alone and in transactions
over several tables; begin work early and land it late, alone or many in one entry; flush and rewrite; create, rename and
drop; are closed, left behind and lied to by their store. `python -m tests.model SEED` plays a run again, and shortens it.
"""

from collections import Counter
from unittest.mock import patch

import pytest

from phalanx import contents
from phalanx.txn import touched
from tests.model.play import STEPS, play, play_seed
from tests.model.shrink import shrink
from tests.model.steps import steps

GROUPS, RUNS = 5, 15
LEAST_STEPS = 2000


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_is_done_the_rows_are_those_of_the_model_at_every_version(group: int) -> None:
    """At least 10,000 steps in all: the same rows through both handles after each, and in the end at every version."""
    taken: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for seed in range(group * RUNS, (group + 1) * RUNS):
        machine = play_seed(seed)
        taken += machine.taken
        refused += machine.refused
    print(f"seeds {group * RUNS} to {(group + 1) * RUNS - 1}, replay one: python -m tests.model SEED {STEPS}")
    print(f"{taken.total()} steps: {dict(taken)}; refused: {dict(refused)}")
    assert taken.total() >= LEAST_STEPS
    assert {"ConflictError", "AlreadyExistsError", "InvalidInputError"} <= set(refused), "nothing was in the way"


@pytest.mark.parametrize(
    ("module", "name", "instead", "seed"),
    [
        (contents, "_renumbered", lambda items, *_: items, 0),
        (touched, "_check", lambda *_: None, 0),
        (contents, "becomes_head", lambda _, rows: rows.whole, 0),
    ],
    ids=["a delete forgets its row at a flush", "nobody looks for conflicts", "what moved since is forgotten"],
)
def test_a_planted_mistake_is_found_and_the_run_shortened(
    module: object, name: str, instead: object, seed: int
) -> None:
    """The rows differ, or something lands that must not; a few steps are enough to show it."""
    with patch.object(module, name, instead):
        todo = steps(seed, STEPS)
        assert _fails(seed, todo)
        least = shrink(todo, lambda tried: _fails(seed, tried), seconds=10)
    assert len(least) < STEPS / 2
    play(seed, least)


def _fails(seed: int, todo: list) -> bool:  # type: ignore[type-arg]
    try:
        play(seed, todo)
    except Exception:  # noqa: BLE001 - whatever it is
        return True
    return False
