"""From lists, times and positions to the graph of what came before what.

Whoever was aborted still read a snapshot: it takes part as one that only reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from phalanx.testing.histories.graph import LOG, TIME, Because, Edge, Graph
from phalanx.testing.histories.model import Transaction
from phalanx.testing.histories.versions import Version


def depend(
    transactions: Sequence[Transaction], effective: Sequence[bool], versions: Iterable[Version], *, split: bool
) -> Graph:
    """The graph of a history."""
    graph = Graph(len(transactions), split=split)
    for version in versions:
        _by_values(graph, version)
    _by_time(graph, transactions)
    _by_log(graph, transactions, effective)
    return graph


def _by_values(graph: Graph, version: Version) -> None:
    """Who continued whose list, who read from whom, and who did not see whom."""
    ww, wr = Edge(Because.WW, version.key), Edge(Because.WR, version.key)
    last: list[int | None] = [None]
    for writer in version.writers:
        if writer is not None and last[-1] is not None and writer != last[-1]:
            graph.link(graph.commit(last[-1]), graph.start(writer), ww)
        last.append(last[-1] if writer is None else writer)
    following: list[int | None] = [None]
    for writer in reversed(version.writers):
        following.append(following[-1] if writer is None else writer)
    later = graph.moment()
    for reading in version.readings:
        reader = reading.reader
        rw = Edge(Because.RW, version.key, reading.missed)
        source, target = last[reading.length], following[len(version.writers) - reading.length]
        if source is not None and source != reader:
            graph.link(graph.commit(source), graph.start(reader), wr)
        if target is not None and target != reader:
            graph.link(graph.start(reader), graph.commit(target), rw)
        if target is None and reader not in version.unread:
            graph.link(graph.start(reader), later, rw)
    for writer in version.unread:
        graph.link(later, graph.commit(writer), Edge(Because.RW, version.key))
        if last[-1] is not None and last[-1] != writer:
            graph.link(graph.commit(last[-1]), graph.start(writer), ww)


def _by_time(graph: Graph, transactions: Sequence[Transaction]) -> None:
    """What had ended came before what began after it."""
    begins = ((one.begin, False, number) for number, one in enumerate(transactions))
    ends = ((one.end, True, number) for number, one in enumerate(transactions) if one.end is not None)
    now: int | None = None
    for _, ended, number in sorted([*begins, *ends]):
        if ended:
            moment = graph.moment()
            graph.link(graph.commit(number), moment, TIME)
            if now is not None:
                graph.link(now, moment, TIME)
            now = moment
        elif now is not None:
            graph.link(now, graph.start(number), TIME)


def _by_log(graph: Graph, transactions: Sequence[Transaction], effective: Sequence[bool]) -> None:
    """Lower positions came before higher ones, and a snapshot lies between two."""
    landed: defaultdict[int, list[int]] = defaultdict(list)
    views: list[tuple[int, int]] = []
    for number, one in enumerate(transactions):
        writes = effective[number] and one.writes
        if writes and one.position is not None:
            landed[one.position].append(number)
        snapshot = one.position if one.snapshot is None and not writes else one.snapshot
        if snapshot is not None:
            views.append((snapshot, number))
    views.sort(reverse=True)
    before, after = graph.moment(), graph.moment()
    for position in [*sorted(landed), max([*landed, 0, *(view[0] for view in views)]) + 1]:
        while views and views[-1][0] < position:
            number = views.pop()[1]
            graph.link(after, graph.start(number), LOG)
            if graph.split or not (effective[number] and transactions[number].writes):
                graph.link(graph.start(number), before, LOG)
        for number in landed[position]:
            graph.link(before, graph.commit(number), LOG)
        earlier, after = after, graph.moment()
        graph.link(earlier, after, LOG)
        for number in landed[position]:
            graph.link(graph.commit(number), after, LOG)
        before = graph.moment()
        graph.link(after, before, LOG)
