"""All sections of the suite `tables`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.report import Section
from bench.tables import bulk, commits, many, scan, small, upsert


def suite(bench: Bench) -> Iterator[Section]:
    """What waits for the disk first, while it is quiet; what fills it last."""
    yield commits.measure(bench)
    yield small.measure(bench)
    yield many.measure(bench)
    yield scan.measure(bench)
    yield upsert.measure(bench)
    yield bulk.measure(bench)
