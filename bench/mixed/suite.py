"""All sections of the suite `mixed`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.mixed import contest, readers
from bench.report import Section
from bench.workers import Crew


def suite(bench: Bench) -> Iterator[Section]:
    """The processes are started once, for all mixes."""
    mixes = contest.mixes(bench)
    with Crew(max(len(mix.kinds()) for mix in mixes.values())) as crew:
        crew.ready()
        for key, mix in mixes.items():
            yield contest.measure(bench, crew, key, mix)
    yield readers.measure(bench)
