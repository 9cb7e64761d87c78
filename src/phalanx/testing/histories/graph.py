"""A graph of what must have come before what, and the circles in it.

A transaction is two nodes, its start and its commit, if it may read an older state than it lands on (snapshot
isolation), and one node otherwise (serializable). With two nodes a circle is just what snapshot isolation excludes:
of two transactions that did not see each other both may start before either commits. Nodes that are no transaction
stand for a moment, or a place in the log, so that "everything before" is a chain and not a square.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple


class Because(Enum):
    """Why one thing came before another."""

    SELF = "a transaction starts before it commits"
    WW = "{0} appended to {key} before {1} did"
    WR = "{1} read what {0} appended to {key}"
    RW = "{0} read {key} without what {1} appended to it"
    TIME = "{0} had ended when {1} began"
    LOG = "{0} comes before {1} in the log"


class Edge(NamedTuple):
    """One reason; `missed` if a scan did not find the key."""

    because: Because
    key: str = ""
    missed: bool = False


SELF, TIME, LOG = Edge(Because.SELF), Edge(Because.TIME), Edge(Because.LOG)
Adjacency = Sequence[Sequence[int]]
Step = tuple[int, Edge, int]
"""From a transaction, why, to a transaction."""


class Graph:
    """Edges between the starts and commits of transactions that have numbers from 0 on."""

    def __init__(self, count: int, *, split: bool) -> None:
        self.split = split
        self._count = count
        self._size = 2 * count
        self.edges: dict[tuple[int, int], Edge] = {}
        if split:
            for number in range(count):
                self.link(2 * number, 2 * number + 1, SELF)

    def start(self, number: int) -> int:
        """Where a transaction starts."""
        return 2 * number

    def commit(self, number: int) -> int:
        """Where a transaction commits."""
        return 2 * number + self.split

    def moment(self) -> int:
        """A new node that is no transaction."""
        self._size += 1
        return self._size - 1

    def link(self, before: int, after: int, edge: Edge) -> None:
        """`before` came before `after`; the first reason that is given counts."""
        if before != after:
            self.edges.setdefault((before, after), edge)

    def adjacency(self, reasons: Iterable[Because]) -> Adjacency:
        """For each node those that came after it, for these reasons."""
        wanted = {*reasons, Because.SELF}
        after: list[list[int]] = [[] for _ in range(self._size)]
        for (one, two), edge in self.edges.items():
            if edge.because in wanted:
                after[one].append(two)
        return after

    def is_transaction(self, node: int) -> bool:
        """Whether it is the start or the commit of one."""
        return node < 2 * self._count

    def steps(self, circle: Sequence[int]) -> list[Step]:
        """A circle of nodes, that begins with a transaction's, as steps from transaction to transaction."""
        found: list[Step] = []
        at, why = circle[0], SELF
        for one, two in zip(circle, [*circle[1:], circle[0]], strict=True):
            if self.is_transaction(one):
                at, why = one, self.edges[one, two]
            if self.is_transaction(two) and why is not SELF:
                found.append((at // 2, why, two // 2))
        return found


def components(after: Adjacency) -> Iterator[list[int]]:
    """The sets of several nodes that all reach each other (Tarjan), without recursion."""
    search = _Search(len(after))
    for root in range(len(after)):
        if search.index[root]:
            continue
        search.enter(root)
        path = [(root, iter(after[root]))]
        while path:
            node, rest = path[-1]
            other = search.step(node, rest)
            if other is not None:
                path.append((other, iter(after[other])))
                continue
            path.pop()
            if path:
                search.lift(path[-1][0], search.low[node])
            found = search.leave(node)
            if len(found) > 1:
                yield found


class _Search:
    """Where a search stands: when each node was entered, the earliest that it reaches, and those not told yet."""

    def __init__(self, size: int) -> None:
        self.index = [0] * size
        self.low = [0] * size
        self._done = [False] * size
        self._stack: list[int] = []
        self._count = 0

    def enter(self, node: int) -> None:
        self._count += 1
        self.index[node] = self.low[node] = self._count
        self._stack.append(node)

    def step(self, node: int, rest: Iterator[int]) -> int | None:
        """The next node that was not entered yet, now entered."""
        for other in rest:
            if not self.index[other]:
                self.enter(other)
                return other
            if not self._done[other]:
                self.lift(node, self.index[other])
        return None

    def lift(self, node: int, earlier: int) -> None:
        self.low[node] = min(self.low[node], earlier)

    def leave(self, node: int) -> list[int]:
        """The component that is complete with this node, if one is."""
        if self.low[node] < self.index[node]:
            return []
        found = [self._stack.pop()]
        while found[-1] != node:
            found.append(self._stack.pop())
        for one in found:
            self._done[one] = True
        return found


def shortest(after: Adjacency, inside: set[int], source: int, target: int) -> list[int] | None:
    """The nodes of a shortest way, both ends included, that stays inside."""
    came: dict[int, int] = {source: source}
    ahead = deque([source])
    while ahead:
        node = ahead.popleft()
        if node == target:
            way = [node]
            while way[-1] != source:
                way.append(came[way[-1]])
            return way[::-1]
        for other in after[node]:
            if other in inside and other not in came:
                came[other] = node
                ahead.append(other)
    return None
