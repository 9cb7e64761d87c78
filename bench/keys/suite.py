"""All sections of the suite `keys`, in their order."""

from collections.abc import Iterator

from bench.frame import Bench
from bench.keys import flush, fresh, get, opening, scan
from bench.report import Section


def suite(bench: Bench) -> Iterator[Section]:
    """What asks the large table before what changes it."""
    yield get.one(bench)
    yield get.many(bench)
    yield fresh.measure(bench)
    yield flush.measure(bench)
    yield scan.measure(bench)
    yield opening.measure(bench)
