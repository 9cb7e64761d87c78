"""All sections of the suite `spark`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.report import Section
from bench.spark import sections
from bench.spark.ground import ground
from bench.spark.others import others


def suite(bench: Bench) -> Iterator[Section]:
    """Reading before writing: what is written makes the disk busy."""
    try:
        yield sections.reading(bench)
        yield sections.writing(bench)
        yield sections.pipelines(bench)
        yield others(bench)
    finally:
        here = ground(bench)
        here.lake.close()
        here.spark.stop()
