"""Shortening a run that fails: steps are left out, in halves, quarters and one by one, as long as it still fails."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(steps: Sequence[T], fails: Callable[[Sequence[T]], bool], seconds: float) -> list[T]:
    """A shorter run that still fails; the time is a bound, not a promise."""
    end = time.monotonic() + seconds
    best = list(steps)
    size = max(1, len(best) // 2)
    while True:
        shorter = _without_some(best, size, fails, end)
        if time.monotonic() > end:
            return shorter
        if size == 1 and len(shorter) == len(best):
            return best
        best, size = shorter, max(1, min(size // 2, len(shorter) // 2))


def _without_some(steps: list[T], size: int, fails: Callable[[Sequence[T]], bool], end: float) -> list[T]:
    at = len(steps)
    while at > 0 and time.monotonic() < end:
        first = max(0, at - size)
        tried = steps[:first] + steps[at:]
        if tried and fails(tried):
            steps = tried
        at = first
    return steps
