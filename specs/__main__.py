"""Run every model: a table of verdicts, then the shortest trace of every planted violation.

Long histories are chosen by seeds: `--walks N` says how many, `--seed S` walks from seed S on and does nothing else.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from specs import MODELS
from specs.explore import Verdict, Violation, Walk

Line = tuple[str, str, Verdict, bool]
"""Model, variant, verdict, and whether a violation is what it should be."""


def main() -> int:
    """Print the table and the traces; 1 if a rule is broken or a planted mistake is not seen."""
    parser = argparse.ArgumentParser(prog="python -m specs", description=__doc__)
    parser.add_argument("--walks", type=int, default=100, help="long histories of each model (100)")
    parser.add_argument("--seed", type=int, help="the first seed; only long histories are walked")
    asked = parser.parse_args()
    explored = _explored() if asked.seed is None else ()
    return 1 if _report(chain(explored, _walked(asked.seed or 1, asked.walks))) else 0


def _explored() -> Iterator[Line]:
    for model in MODELS:
        for variants, planted in ((model.holds, False), (model.planted, True)):
            for variant, check in variants.items():
                yield model.name, variant, check(), planted


def _walked(first: int, count: int) -> Iterator[Line]:
    seeds = range(first, first + count)
    for model in MODELS:
        for variant, walk in model.walks.items():
            yield model.name, f"{variant}, seeds {seeds[0]} to {seeds[-1]}", _all(walk, seeds), False


def _all(walk: Walk, seeds: Iterable[int]) -> Verdict:
    states = 0
    for seed in seeds:
        verdict = walk(seed)
        if isinstance(verdict, Violation):
            return verdict
        states += verdict
    return states


def _report(lines: Iterable[Line]) -> int:
    """Print them as they come, then the traces; how many are wrong."""
    print(f"{'model':<14} {'variant':<70} {'states':>7}  verdict")
    wrong = 0
    traces: list[str] = []
    for name, variant, verdict, planted in lines:
        right = isinstance(verdict, Violation) == planted
        wrong += not right
        print(f"{name:<14} {variant:<70} {_states(verdict):>7}  {_word(verdict, right=right)}", flush=True)
        if isinstance(verdict, Violation):
            traces.append(f"\n{name}: {variant}\n{verdict}")
    print("\n".join(traces))
    return wrong


def _states(verdict: Verdict) -> int:
    return verdict.states if isinstance(verdict, Violation) else verdict


def _word(verdict: Verdict, *, right: bool) -> str:
    word = "violated" if isinstance(verdict, Violation) else "holds"
    return word if right else f"{word}: WRONG"


if __name__ == "__main__":
    sys.exit(main())
