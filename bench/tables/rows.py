"""Rows to fill tables with: six columns of the usual kinds, made quickly and always the same."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64()),
    pa.field("x", pa.float64()),
    pa.field("name", pa.string()),
    pa.field("at", pa.timestamp("us")),
    pa.field("flag", pa.bool_()),
    pa.field("n", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
BATCH = 100_000
_NAMES = 100_000
_SINCE = 1_700_000_000_000_000
FILTER = "n = 7 and x > 0.5"
"""Half a percent of the rows."""


def made(count: int, first: int = 0) -> pa.Table:
    """So many rows, with ids from `first` on."""
    return pa.Table.from_batches(batches(count, first), SCHEMA)


def batches(count: int, first: int = 0) -> Iterator[pa.RecordBatch]:
    """The same as a stream."""
    names = pa.array([f"the name of number {number}" for number in range(_NAMES)])
    random = np.random.default_rng(first)
    for begin in range(first, first + count, BATCH):
        size = min(BATCH, first + count - begin)
        ids = np.arange(begin, begin + size, dtype=np.int64)
        columns: list[pa.Array[Any]] = [
            pa.array(ids),
            pa.array(random.random(size)),
            names.take(random.integers(0, _NAMES, size)),
            pa.array(_SINCE + ids * 1_000, pa.timestamp("us")),
            pa.array(random.random(size) < 0.5),
            pa.array(random.integers(0, 100, size).astype(np.int32)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def stream(rows: pa.Table) -> pa.RecordBatchReader:
    """A table's rows, to be read once: what every writer is given, so that none of them can look at the whole."""
    return rows.to_reader(BATCH)
