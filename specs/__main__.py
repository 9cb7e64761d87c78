"""Run every model: a table of verdicts, then the shortest trace of every planted violation."""

import sys

from specs import MODELS
from specs.explore import Verdict, Violation


def main() -> int:
    """Print the table and the traces; 1 if a rule is broken or a planted mistake is not seen."""
    wrong = 0
    traces: list[str] = []
    print(f"{'model':<14} {'variant':<70} {'states':>7}  verdict")
    for model in MODELS:
        for variants, planted in ((model.holds, False), (model.planted, True)):
            for variant, check in variants.items():
                verdict = check()
                right = isinstance(verdict, Violation) == planted
                wrong += not right
                print(f"{model.name:<14} {variant:<70} {_states(verdict):>7}  {_word(verdict, right=right)}")
                if isinstance(verdict, Violation):
                    traces.append(f"\n{model.name}: {variant}\n{verdict}")
    print("\n".join(traces))
    return 1 if wrong else 0


def _states(verdict: Verdict) -> int:
    return verdict.states if isinstance(verdict, Violation) else verdict


def _word(verdict: Verdict, *, right: bool) -> str:
    word = "violated" if isinstance(verdict, Violation) else "holds"
    return word if right else f"{word}: WRONG"


if __name__ == "__main__":
    sys.exit(main())
