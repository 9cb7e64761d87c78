"""The check of a history: single lists first, then circles, from the plainest reasons to the log's order.

Each circle is told once, by its plainest name: one that takes in all of an earlier one says nothing new. Of a large
tangle a few circles are told, not all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Literal

from phalanx.testing.histories.dependencies import depend
from phalanx.testing.histories.graph import Because, Graph, Step, components, shortest
from phalanx.testing.histories.model import Anomaly, Finding, Transaction
from phalanx.testing.histories.versions import Versions
from phalanx.testing.histories.views import look

Isolation = Literal["snapshot", "serializable"]

_LADDER = (Because.WW, Because.WR, Because.RW, Because.TIME, Because.LOG)
_MOST = 20
"""Circles looked for in one tangle."""


def check(transactions: Sequence[Transaction], isolation: Isolation = "snapshot") -> list[Finding]:
    """Every anomaly that this isolation excludes; none, if the history is as it should be.

    With "snapshot", write skew is fine, and nothing else. With "serializable", the log must be a serial order of all
    that committed. In both, whoever begins after another has ended sees what that one did.
    """
    sights = list(look(transactions))
    versions = Versions(transactions, sights)
    lists = list(versions)
    findings = [finding for sight in sights for finding in sight.findings] + versions.findings
    told = _Told()
    for finding in findings:
        if len(finding.transactions) > 1:
            told.note(finding)
    for split in (True, False) if isolation == "serializable" else (True,):
        graph = depend(transactions, versions.effective, lists, split=split)
        for steps in _circles(graph):
            finding = _finding(steps, transactions)
            if not told.covers(finding):
                told.note(finding)
                findings.append(finding)
    return findings


class _Told:
    """Who took part in what was told."""

    def __init__(self) -> None:
        self._by_one: defaultdict[str, set[frozenset[str]]] = defaultdict(set)

    def note(self, finding: Finding) -> None:
        self._by_one[min(finding.transactions)].add(frozenset(finding.transactions))

    def covers(self, finding: Finding) -> bool:
        who = frozenset(finding.transactions)
        return any(earlier <= who for one in who for earlier in self._by_one.get(one, ()))


def _circles(graph: Graph) -> Iterator[list[Step]]:
    """Circles that need no more than the first reasons of the ladder, then those that need one more, and so on."""
    if not any(components(graph.adjacency(_LADDER))):
        return
    fewer = graph.adjacency(())
    for rung, newest in enumerate(_LADDER):
        after = graph.adjacency(_LADDER[: rung + 1])
        for component in components(after):
            inside = set(component)
            pivots = (
                (one, two)
                for one in component
                for two in after[one]
                if two in inside and graph.is_transaction(one) and graph.edges[one, two].because is newest
            )
            for one, two in islice(pivots, _MOST):
                way = shortest(fewer, inside, two, one) or shortest(after, inside, two, one)
                if way is not None:
                    yield graph.steps([one, *way[:-1]])
        fewer = after


def _finding(steps: Sequence[Step], transactions: Sequence[Transaction]) -> Finding:
    told = []
    for one, edge, two in steps:
        names = [_described(transactions[number], edge.because) for number in (one, two)]
        missed = " (its scan did not find it)" if edge.missed else ""
        told.append(edge.because.value.format(*names, key=edge.key) + missed)
    who = dict.fromkeys(transactions[one].name for one, _, _ in steps)
    return Finding(_anomaly(steps), tuple(who), tuple(told))


def _described(transaction: Transaction, because: Because) -> str:
    if because is not Because.LOG:
        return transaction.name
    facts = {"at": transaction.position, "snapshot": transaction.snapshot}
    known = ", ".join(f"{fact} {number}" for fact, number in facts.items() if number is not None)
    return f"{transaction.name} ({known})"


class _Circle:
    """What names a circle: its reasons, and how often somebody did not see somebody."""

    def __init__(self, steps: Sequence[Step]) -> None:
        edges = [edge for _, edge, _ in steps]
        self.reasons = [edge.because for edge in edges]
        self.unseen = self.reasons.count(Because.RW)
        self.adjacent = self.unseen > 1 and (Because.RW, Because.RW) in pairwise([*self.reasons, self.reasons[0]])
        self.missed = any(edge.missed for edge in edges)
        self.pair = len(edges) == 2
        self.keys = len({edge.key for edge in edges})


_NAMES: tuple[tuple[Anomaly, Callable[[_Circle], bool]], ...] = (
    (Anomaly.COMMIT_ORDER, lambda circle: Because.LOG in circle.reasons),
    (Anomaly.REAL_TIME, lambda circle: Because.TIME in circle.reasons),
    (Anomaly.WRITE_CYCLE, lambda circle: set(circle.reasons) == {Because.WW}),
    (Anomaly.CIRCULAR_FLOW, lambda circle: circle.unseen == 0),
    (Anomaly.WRITE_SKEW, lambda circle: circle.adjacent),
    (Anomaly.LONG_FORK, lambda circle: circle.unseen > 1),
    (Anomaly.PHANTOM, lambda circle: circle.missed),
    (Anomaly.FRACTURED_READ, lambda circle: circle.pair and Because.WR in circle.reasons),
    (Anomaly.LOST_UPDATE, lambda circle: circle.pair and circle.keys == 1),
    (Anomaly.READ_SKEW, lambda _: True),
)
"""The first that fits."""


def _anomaly(steps: Sequence[Step]) -> Anomaly:
    circle = _Circle(steps)
    return next(anomaly for anomaly, fits in _NAMES if fits(circle))
