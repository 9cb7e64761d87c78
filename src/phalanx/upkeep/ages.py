"""How old things are: the store's stamps by the store's clock, as far as that can be believed (rule E4).

A clock that jumps ahead makes everything old at once, also what running processes have pinned a moment ago. So no gap of
more than `JUMP` between neighbouring stamps counts: what lies before it is no older than what came first behind it. By
the time that this is old enough, whoever lives has renewed its pins. A gap that reaches to the present is an error.
"""

import itertools
from collections.abc import Iterable

from phalanx.objects import Store, layout

JUMP = 30 * 86_400.0
"""Seconds between two stamps that are not believed unless somebody says so: the clock may have jumped."""
_BACK = 60.0


class Ages:
    """What time it is for one decision, and what has passed since. The log is looked at only where that matters."""

    def __init__(self, store: Store, now: float, log: tuple[int, int], others: Iterable[float], *, trust: bool) -> None:
        self._store, self.now, self._trust = store, now, trust
        self._first, self._last = log
        self._others = tuple(others)
        self._known: dict[float, list[tuple[int, float]]] = {}

    def passed(self, stamp: float, seconds: float) -> bool:
        """Whether more than so many seconds have passed since a stamp."""
        return self.now - stamp > seconds and stamp <= self.bound(seconds)

    def bound(self, seconds: float) -> float:
        """What was stamped later than this is younger than that."""
        bound, before = self.now - seconds, float("-inf")
        for begin, end in self._gaps(self._stamps(bound)):
            if end > bound:
                return min(bound, before)
            before = begin
        return bound

    def due(self, seconds: float) -> int:
        """The last position of the log with which all before it are so old."""
        stamps = self._stamps(self.now - seconds)
        bound, newest = self.bound(seconds), float("-inf")
        due = (stamps[0][0] if stamps else self._first) - 1
        for position, stamp in stamps:
            newest = max(newest, stamp)
            if newest > bound or position > self._last:
                break
            due = position
        return due

    def doubt(self) -> str:
        """Why the time since the last commit is not to be believed, and what to do; nothing if it is (known bug 16)."""
        last = max((stamp for _, stamp in self._stamps(self.now)), default=self.now)
        told = f"the clock of {self._store.uri} says that"
        if self.now - last > JUMP and not self._trust:
            days = int((self.now - last) / 86_400)
            return f"{told} {days} days have passed since the last commit: if that is so, say trust_clock=True (--trust-clock)"
        if last - self.now > _BACK and not self._trust:
            ahead = int(last - self.now)
            return f"{told} the last commit is {ahead} seconds ahead: set it, or say trust_clock=True (--trust-clock)"
        return ""

    def _gaps(self, stamps: list[tuple[int, float]]) -> list[tuple[float, float]]:
        if self._trust:
            return []
        known = sorted({*(stamp for _, stamp in stamps), *self._others, self.now})
        return [(begin, end) for begin, end in itertools.pairwise(known) if end - begin > JUMP]

    def _stamps(self, bound: float) -> list[tuple[int, float]]:
        """Positions with their stamps, from a folder of the log on that is older than the bound as a whole."""
        if bound not in self._known:
            found: list[tuple[int, float]] = []
            for bucket in range(self._last // layout.BUCKET, self._first // layout.BUCKET - 1, -1):
                listed = self._store.list(layout.bucket(bucket * layout.BUCKET))
                places = [(layout.entry_position(one.name), one.modified) for one in listed]
                some = [(at, stamp) for at, stamp in places if at is not None and at >= self._first]
                found = some + found
                if some and max(stamp for _, stamp in some) <= bound:
                    break
            self._known[bound] = self._sane(found)
        return self._known[bound]

    def _sane(self, stamps: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """With `trust`, an entry that seems to be of the future is as old as the one that came after it."""
        if not self._trust:
            return stamps
        later, told = self.now, list[tuple[int, float]]()
        for at, stamp in reversed(stamps):
            later = stamp if stamp <= self.now else later
            told.append((at, later))
        return told[::-1]
