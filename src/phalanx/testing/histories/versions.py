"""The order in which each list grew, from the lists that were read; and what is wrong with single lists.

The longest list that anybody read is the order. Every other one must be a beginning of it. What was appended and never
read comes after all that was, in no known order. Whoever was told nothing counts as committed if something it appended
was read.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from phalanx.testing.histories.model import Anomaly, Finding, Transaction, Values
from phalanx.testing.histories.views import Seen, Sight


class Reading(msgspec.Struct, frozen=True):
    """Transaction number `reader` saw the first `length` values of a list."""

    reader: int
    length: int
    missed: bool


class Version(msgspec.Struct, frozen=True):
    """How one list grew: who appended each value (None: nobody who counts), who read how much, and who was never read."""

    key: str
    writers: Sequence[int | None]
    readings: Sequence[Reading]
    unread: frozenset[int]


class Versions:
    """The lists of a history; `findings` fills up while they are gone through."""

    def __init__(self, transactions: Sequence[Transaction], sights: Sequence[Sight]) -> None:
        self._transactions = transactions
        self._sights = sights
        self._appended: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._read: defaultdict[str, list[tuple[int, Seen]]] = defaultdict(list)
        self.findings: list[Finding] = []
        for number, sight in enumerate(sights):
            for key, values in sight.appended.items():
                for value in values:
                    if self._appended[key].setdefault(value, number) != number or values.count(value) > 1:
                        raise ValueError(f"{value} is appended to {key} twice: each value of a key must be unique")
            for key, seen in sight.seen.items():
                self._read[key].append((number, seen))
        self.effective = self._took_effect()

    def __iter__(self) -> Iterator[Version]:
        for key in self._appended.keys() | self._read.keys():
            yield self._version(key)

    def _took_effect(self) -> list[bool]:
        effective = [one.outcome == "committed" for one in self._transactions]
        for key, readings in self._read.items():
            appended = self._appended[key]
            longest = max((seen.values for _, seen in readings), key=len)
            others = [seen.values for _, seen in readings if seen.values != longest[: len(seen.values)]]
            for values in (longest, *others):
                for value in values:
                    writer = appended.get(value)
                    if writer is not None and self._transactions[writer].outcome == "unknown":
                        effective[writer] = True
        return effective

    def _version(self, key: str) -> Version:
        readings = self._read[key]
        top, longest = max(readings, key=lambda one: len(one[1].values), default=(0, Seen(())))
        self._judge_updates(key)
        if readings:
            self._judge(key, top, longest.values)
        fitting = []
        for reader, seen in readings:
            if seen.values == longest.values[: len(seen.values)]:
                self._judge_end(key, reader, seen.values)
                fitting.append(Reading(reader, len(seen.values), seen.missed))
            else:
                self._judge(key, reader, seen.values)
                self._judge_end(key, reader, seen.values)
                one = f"{self._name(top)} read {key} with {_fork(longest.values, seen.values)}"
                two = f"{self._name(reader)} read it with {_fork(seen.values, longest.values)}"
                self._found(Anomaly.INCOMPATIBLE, (top, reader), one, two)
        appended = self._appended[key]
        writers = [appended.get(value) for value in longest.values]
        known = set(longest.values)
        unread = (writer for value, writer in appended.items() if value not in known and self.effective[writer])
        counted = [writer if writer is not None and self.effective[writer] else None for writer in writers]
        return Version(key, counted, fitting, frozenset(unread))

    def _judge(self, key: str, reader: int, values: Values) -> None:
        """Whether each value of a list may be there."""
        appended = self._appended[key]
        if len(set(values)) < len(values):
            twice = next(value for at, value in enumerate(values) if value in values[:at])
            self._found(Anomaly.DUPLICATE, (reader,), f"{self._name(reader)} read {key} with {twice} in it twice")
        for value in values:
            writer = appended.get(value)
            if writer is None:
                self._found(Anomaly.GARBAGE, (reader,), f"{self._name(reader)} read {value} in {key}")
            elif self._transactions[writer].outcome == "aborted":
                said = f"{self._name(writer)} appended {value} to {key} and was aborted"
                self._found(Anomaly.ABORTED_READ, (writer, reader), said, f"{self._name(reader)} read {value} in {key}")

    def _judge_end(self, key: str, reader: int, values: Values) -> None:
        """Whether a list ends where a transaction ended."""
        writer = self._appended[key].get(values[-1]) if values else None
        if writer is None or writer == reader:
            return
        meant = self._sights[writer].appended[key]
        if meant[-1] != values[-1]:
            rest = ", ".join(map(str, meant[meant.index(values[-1]) + 1 :]))
            said = f"{self._name(reader)} read {key} up to {values[-1]}, without {rest}"
            self._found(Anomaly.INTERMEDIATE_READ, (writer, reader), f"{self._name(writer)} appended all of them", said)

    def _judge_updates(self, key: str) -> None:
        """Whether each version of a list was continued once."""
        first: dict[tuple[int, int], int] = {}
        for reader, seen in self._read[key]:
            if self.effective[reader] and key in self._sights[reader].appended:
                version = (len(seen.values), seen.values[-1] if seen.values else 0)
                other = first.setdefault(version, reader)
                if other != reader:
                    told = f"up to {version[1]}" if version[0] else "empty"
                    steps = (f"{self._name(one)} read {key} {told}, and appended to it" for one in (other, reader))
                    self._found(Anomaly.LOST_UPDATE, (other, reader), *steps)

    def _found(self, anomaly: Anomaly, who: Sequence[int], *steps: str) -> None:
        self.findings.append(Finding(anomaly, tuple(self._name(one) for one in who), steps))

    def _name(self, number: int) -> str:
        return self._transactions[number].name


def _fork(values: Values, other: Values) -> str:
    """The first value that is not the other's."""
    at = next((at for at, (one, two) in enumerate(zip(values, other, strict=False)) if one != two), len(other))
    return f"{values[at]} at place {at}" if at < len(values) else f"nothing at place {at}"
