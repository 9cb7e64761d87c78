"""Histories of a store that is simulated: processes in turns, one list for each key, snapshot isolation or better.

With a lapse, the store is wrong in one way every now and then, and the history is what a client would have seen.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from phalanx.testing.histories import Append, Isolation, Operation, Outcome, Read, Scan, Transaction
from phalanx.testing.histories.model import Values, group_of

LAPSES = ("no check", "late reads", "old snapshot", "kept writes", "missed rows", "early writes")
_WIDTH = 8


@dataclass
class Running:
    """A transaction under way."""

    name: str
    begin: int
    snapshot: int
    length: int
    lapse: str = ""
    operations: list[Operation] = field(default_factory=list)
    own: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    read: set[str] = field(default_factory=set)


class Simulation:
    """Everything follows from the seed."""

    def __init__(self, seed: int, isolation: Isolation = "snapshot", lapse: str = "", every: int = 170) -> None:
        self._chance = random.Random(seed)
        self._isolation = isolation
        self._lapse = lapse
        self._every = every
        self._lists: defaultdict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._changed: defaultdict[str, int] = defaultdict(int)
        self._now = self._end = self._begun = 0
        self.history: list[Transaction] = []

    def run(self, count: int, processes: int = 8) -> list[Transaction]:
        """A history of so many transactions."""
        running: dict[int, Running] = {}
        while len(self.history) < count:
            process = self._chance.randrange(processes)
            self._now += 1
            if process not in running:
                running[process] = self._begin()
            elif len(running[process].operations) < running[process].length:
                self._operate(running[process])
            else:
                self._commit(running.pop(process), process)
        return self.history

    def _begin(self) -> Running:
        self._begun += 1
        lapse = self._lapse if self._begun > 50 and self._begun % self._every == 0 else ""
        snapshot = self._end - 25 if lapse == "old snapshot" else self._end
        return Running(f"t{self._begun}", self._now, snapshot, self._chance.randint(3, 8), lapse)

    def _key(self) -> str:
        group = f"lists/{self._begun // 100}"
        return f"{group}/{self._chance.randrange(_WIDTH)}"

    def _see(self, one: Running, key: str) -> Values:
        positions, values = self._lists[key]
        late = one.lapse == "late reads"
        seen = values if late else values[: bisect_right(positions, one.snapshot)]
        return (*seen, *one.own.get(key, ()))

    def _operate(self, one: Running) -> None:
        draw, key = self._chance.random(), self._key()
        if draw < 0.15:
            group = group_of(key)
            one.read |= {f"{group}/{at}" for at in range(_WIDTH)}
            members = self._groups[group] | {member for member in one.own if group_of(member) == group}
            found = {member: self._see(one, member) for member in sorted(members)}
            if one.lapse == "missed rows" and found:
                del found[min(found)]
            one.operations.append(Scan(group, {member: values for member, values in found.items() if values}))
            return
        one.operations.append(Read(key, self._see(one, key)))
        one.read.add(key)
        if draw < 0.55:
            value = 10 * self._now
            one.own[key].append(value)
            one.operations.append(Append(key, value))
            if one.lapse == "early writes":
                self._apply(key, value)

    def _commit(self, one: Running, process: int) -> None:
        watched = one.own.keys() if self._isolation == "snapshot" else {*one.own, *one.read} if one.own else set()
        clash = any(self._changed[key] > one.snapshot for key in watched) and one.lapse not in {
            "no check",
            "early writes",
        }
        outcome: Outcome = "aborted" if clash or self._chance.random() < 0.02 else "committed"
        if outcome == "committed" and one.own:
            self._end += 1
        if outcome == "committed" or one.lapse == "kept writes":
            for key, values in one.own.items() if one.lapse != "early writes" else ():
                for value in values:
                    self._apply(key, value)
        position = self._end if one.own else one.snapshot
        if outcome == "committed" and self._chance.random() < 0.05:
            outcome = "unknown"
        known = outcome == "committed"
        self.history.append(
            Transaction(
                one.name,
                str(process),
                one.begin,
                None if outcome == "unknown" else self._now,
                tuple(one.operations),
                outcome,
                position if known else None,
                one.snapshot if self._chance.random() < 0.5 else None,
            )
        )

    def _apply(self, key: str, value: int) -> None:
        positions, values = self._lists[key]
        positions.append(self._end)
        values.append(value)
        self._groups[group_of(key)].add(key)
        self._changed[key] = self._end


def serial(seed: int, count: int) -> list[Transaction]:
    """One transaction after the other."""
    return Simulation(seed, "serializable").run(count, processes=1)
