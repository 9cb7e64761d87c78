"""Whether a table holds what was acknowledged, and nothing else: row by row, and count by count.

An operation that failed may have happened or not, once; one that was acknowledged happened exactly once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from bench.mixed.work import ROWS, Outcome


class Verdict(msgspec.Struct, frozen=True):
    """What is wrong: effects that are not there though acknowledged, and rows or increments that are there too often."""

    lost: int = 0
    doubled: int = 0

    @property
    def wrong(self) -> int:
        """All of it."""
        return self.lost + self.doubled


class _Bounds:
    """How often each id may be there, and how high its `v` may be."""

    def __init__(self, rows: int) -> None:
        self.least: Counter[int] = Counter(dict.fromkeys(range(rows), 1))
        self.most: Counter[int] = Counter(self.least)
        self.low: Counter[int] = Counter()
        self.high: Counter[int] = Counter()

    def happened(self, outcome: Outcome) -> None:
        """One operation, acknowledged or not."""
        sure = outcome.error is None
        number, kind = outcome.operation.number, outcome.operation.kind
        if kind == "append":
            for one in range(number, number + ROWS):
                self.least[one] += sure
                self.most[one] += 1
        elif kind == "delete":
            self.least[number] = 0
            self.most[number] -= sure
        else:
            self.low[number] += sure
            self.high[number] += 1


def verify(found: pa.Table, rows: int, outcomes: Iterable[Outcome]) -> Verdict:
    """Compare what is found with what began as so many rows and was changed so."""
    bounds = _Bounds(rows)
    for outcome in outcomes:
        bounds.happened(outcome)
    ids, values = (found.column(name).to_numpy().tolist() for name in ("id", "v"))
    return _compare(ids, values, bounds)


def _compare(ids: Sequence[int], values: Sequence[int], bounds: _Bounds) -> Verdict:
    seen = Counter(ids)
    numbers = bounds.most.keys() | seen.keys()
    missing = sum(max(0, bounds.least[one] - seen[one]) for one in numbers)
    # A deleted row that is still there is a deletion that was lost, not a row too many.
    undeleted = sum(seen[one] for one in numbers if one in bounds.least and bounds.most[one] == 0)
    doubled = sum(max(0, seen[one] - bounds.most[one]) for one in numbers) - undeleted
    under = sum(max(0, bounds.low[one] - v) for one, v in zip(ids, values, strict=True))
    over = sum(max(0, v - bounds.high[one]) for one, v in zip(ids, values, strict=True))
    return Verdict(missing + undeleted + under, doubled + over)
