"""Lakes whose tails grow as long as a measurement wants: nothing is flushed behind its back, and no writer has to wait."""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from bench.frame import Bench
from phalanx import Lake
from phalanx.table import Table

STATEMENT = 1000
"""Rows that one statement logs, where many are logged."""


def quiet_lake(bench: Bench, uri: str, durability: str = "disk") -> Lake:
    """A new lake that flushes when it is told to, and only then."""
    lake = bench.place.lake(uri, durability=durability)
    lake.set_property("flush.background", "off")
    lake.set_property("flush.hard", "1000")
    return lake


def upserts(table: Table, rows: pa.Table, size: int = STATEMENT) -> Iterator[Callable[[], object]]:
    """The statements that log these rows, to be run one after the other."""
    for first in range(0, rows.num_rows, size):
        yield partial(table.upsert, rows.slice(first, size), stage=False)
