"""Rows of the kind that agents write: numbers, a moment, a text, and the embedding of it. 190 bytes each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64()),
    pa.field("x", pa.float64()),
    pa.field("n", pa.int32()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("text", pa.string()),
    pa.field("embedding", pa.list_(pa.float32(), 32)),
]
SCHEMA = pa.schema(_FIELDS)
_BATCH = 100_000
_SIZE = 32
_SINCE = 1_700_000_000_000_000


def batches(count: int, first: int = 0) -> Iterator[pa.RecordBatch]:
    """So many rows, with ids from `first` on; always the same."""
    random = np.random.default_rng(first)
    pool = pa.array([f"the phrase of number {number}" for number in range(_BATCH)])
    for begin in range(first, first + count, _BATCH):
        size = min(_BATCH, first + count - begin)
        ids = np.arange(begin, begin + size, dtype=np.int64)
        numbers: Any = pa.array(random.random(size * _SIZE, dtype=np.float32))
        columns: list[Any] = [
            pa.array(ids),
            pa.array(random.random(size)),
            pa.array(random.integers(0, 100, size).astype(np.int32)),
            pa.array(_SINCE + ids * 1_000).cast(SCHEMA.field("at").type),
            pool.take(random.integers(0, _BATCH, size)),
            pa.FixedSizeListArray.from_arrays(numbers, _SIZE),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def made(count: int, first: int = 0) -> pa.Table:
    """The same at once."""
    return pa.Table.from_batches(batches(count, first), SCHEMA)
