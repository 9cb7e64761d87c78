"""All sections of the suite `ingest`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.ingest import client, distant, producers
from bench.report import Section


def suite(bench: Bench) -> Iterator[Section]:
    """One client first, while the disk is quiet."""
    yield client.measure(bench)
    yield producers.measure(bench, "threads")
    yield producers.measure(bench, "asyncio")
    yield distant.measure(bench)
