"""All sections of the suite `upkeep`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.report import Section
from bench.upkeep import compaction, pruning, writers


def suite(bench: Bench) -> Iterator[Section]:
    """The longest last."""
    yield compaction.section(bench)
    yield writers.section(bench)
    yield pruning.section(bench)
