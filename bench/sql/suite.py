"""All sections of the suite `sql`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.report import Section
from bench.sql import statements


def suite(bench: Bench) -> Iterator[Section]:
    """What is flushed before what is pending: both ask the same two tables."""
    yield statements.flushed(bench)
    yield statements.pending(bench)
