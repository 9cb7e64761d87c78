"""What a transaction saw of the others: each list as it was before its own appends, and whether it saw it steadily."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from phalanx.testing.histories.model import Anomaly, Append, Finding, Read, Transaction, Values, group_of

Groups = Mapping[str, Sequence[str]]
"""The keys of each group."""


class Seen(msgspec.Struct, frozen=True):
    """A list as a transaction first saw it, without what it appended itself; `missed` if a scan did not find it."""

    values: Values
    missed: bool = False


class Sight:
    """All that one transaction saw."""

    def __init__(self, transaction: Transaction, groups: Groups) -> None:
        self.seen: dict[str, Seen] = {}
        self.appended: dict[str, list[int]] = {}
        self.findings: list[Finding] = []
        self._name = transaction.name
        for operation in transaction.operations:
            if isinstance(operation, Append):
                self.appended.setdefault(operation.key, []).append(operation.value)
            elif isinstance(operation, Read):
                self._look(operation.key, operation.values, scanned=False)
            else:
                for key in groups[operation.group]:
                    self._look(key, operation.found.get(key, ()), scanned=True)

    def _look(self, key: str, values: Values, *, scanned: bool) -> None:
        own = tuple(self.appended.get(key, ()))
        before = values[: len(values) - len(own)]
        if own and values[len(before) :] != own:
            said = f"{self._name} appended {_told(own)} to {key}, and then read {_told(values)}"
            self.findings.append(Finding(Anomaly.OWN_WRITE, (self._name,), (said,)))
            return
        first = self.seen.setdefault(key, Seen(before, missed=scanned and not values))
        if first.values != before:
            anomaly = Anomaly.PHANTOM if scanned and not (first.values and before) else Anomaly.NON_REPEATABLE_READ
            said = f"{self._name} read {key} as {_told(first.values)}, and later as {_told(before)}"
            self.findings.append(Finding(anomaly, (self._name,), (said,)))


def look(transactions: Sequence[Transaction]) -> Iterator[Sight]:
    """What each of them saw."""
    groups: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for transaction in transactions:
        for operation in transaction.operations:
            if isinstance(operation, Append | Read):
                groups[group_of(operation.key)][operation.key] = None
            else:
                groups[operation.group].update(dict.fromkeys(operation.found))
    known = {group: tuple(keys) for group, keys in groups.items()}
    return (Sight(transaction, known) for transaction in transactions)


def _told(values: Values) -> str:
    shown = ", ".join(map(str, values[-5:]))
    return f"[… {len(values) - 5} more …, {shown}]" if len(values) > 5 else f"[{shown}]"
