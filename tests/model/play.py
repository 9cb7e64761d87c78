"""Playing a run: the steps of a seed, on a lake of its own, with limits so tight that small tables meet them."""

import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from phalanx.tail import cache, keys, lookup, memory
from phalanx.txn import bulk
from tests.model.machine import Machine
from tests.model.questions import Diverged
from tests.model.shrink import shrink
from tests.model.steps import Step, steps

STEPS = 120


@contextmanager
def _tight(seed: int) -> Iterator[None]:
    """Half of the runs: keys are looked up in indexes, memory is tidied up, rows are staged and tails shared from a few rows on."""
    few = random.Random(seed).random() < 0.5
    with ExitStack() as stack:
        for module, name, value in (
            (keys, "_FEW", 2),
            (lookup, "_SCANNED", 1),
            (lookup, "_MANY", 1),
            (memory, "_SLACK", 2),
            (memory, "_MOST_CHUNKS", 2),
            (bulk, "INLINE_ROWS", 4),
            (cache, "LONG", 1),
        ):
            if few:
                stack.enter_context(patch.object(module, name, value))
        yield


def play(seed: int, todo: Iterable[Step]) -> Machine:
    """Take these steps; a run that fails raises."""
    folder = Path(tempfile.mkdtemp(prefix="phalanx-model-"))
    try:
        with _tight(seed):
            machine = Machine(folder / "lake", seed)
            for step in todo:
                machine.take(step)
            machine.close()
        return machine
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play_seed(seed: int, count: int = STEPS, patience: float = 60.0) -> Machine:
    """Play a seed's run; if it fails, say what to do, with a run that is as short as can be found in time."""
    todo = steps(seed, count)
    try:
        return play(seed, todo)
    except Exception as error:
        least = shortened(seed, todo, patience)
        shown = "\n".join(f"  {step}" for step in least)
        raise Diverged(f"{error!r}\nreplay: python -m tests.model {seed} {count}\nshortest run:\n{shown}") from error


def shortened(seed: int, todo: Sequence[Step], patience: float) -> Sequence[Step]:
    """A run that fails, without what comes after its failure, and without most of what does not matter to it."""
    return shrink(todo[: fails_after(seed, todo)], lambda tried: fails_after(seed, tried) is not None, patience)


def fails_after(seed: int, todo: Iterable[Step]) -> int | None:
    """After how many steps a run fails, if it does."""
    taken = 0

    def counted() -> Iterator[Step]:
        nonlocal taken
        for step in todo:
            taken += 1
            yield step

    try:
        play(seed, counted())
    except Exception:  # noqa: BLE001 - whatever it is
        return taken
    return None
