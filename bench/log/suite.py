"""All sections of the suite `log`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.log import contended, history, order, processes, requests, sharing, single
from bench.report import Section


def suite(bench: Bench) -> Iterator[Section]:
    """One client first, while the disk is quiet; the long history last, and opened before it grows further."""
    yield single.measure(bench)
    yield sharing.measure(bench)
    yield processes.measure(bench)
    yield order.measure(bench)
    yield contended.measure(bench)
    if bench.place.local:
        yield requests.measure(bench)
        yield history.measure(bench)
