"""All sections of the suite `search`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.report import Section
from bench.search import changed, flushed


def suite(bench: Bench) -> Iterator[Section]:
    """The table as it was indexed before the table that has changed."""
    yield flushed.measure(bench)
    yield changed.measure(bench)
