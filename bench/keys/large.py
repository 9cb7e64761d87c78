"""The large keyed table that most sections ask: made once, and beside it the same rows in a dataset of plain Lance."""

from functools import partial
from typing import cast

import lance
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.frame import Bench
from bench.tables.rows import SCHEMA, batches
from bench.tails import quiet_lake

TABLE = "t"
KEY = "id"
OURS, KEPT = "Phalanx: lake[…].get", "Phalanx: a table that is kept"
SAME, PLAIN = "Lance, the same files", "Lance, a dataset of its own"

Keys = npt.NDArray[np.int64]


class Large(msgspec.Struct, frozen=True):
    """Where it is: the lake, the plain dataset (none on an object store), and how many rows both have."""

    uri: str
    plain: str | None
    rows: int


def large(bench: Bench) -> Large:
    """The table, written out and indexed, with ids from 0 on."""
    count = bench.pick(10_000_000, 20_000, "keyed_rows")
    return cast("Large", bench.once("large", partial(_made, bench, count)))


def _made(bench: Bench, count: int) -> Large:
    bench.step(f"loading {count:,} rows")
    uri = bench.place.new("keys")
    with quiet_lake(bench, uri) as lake:
        table = lake.create_table(TABLE, SCHEMA, key=KEY)
        table.append(_stream(count), stage=True, timeout=600)
        lake.optimize(TABLE, timeout=600)
        (index,) = table.indexes()
        assert index.fragments == index.of  # all rows are found by their key
    if not bench.place.local:
        return Large(uri, None, count)
    bench.step(f"loading {count:,} rows into Lance")
    plain = bench.place.new("keys")
    lance.write_dataset(_stream(count), plain).create_scalar_index(KEY, "BTREE")
    return Large(uri, plain, count)


def _stream(count: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count))


def chosen(rows: int, count: int, seed: int) -> Keys:
    """Keys of so many different rows, spread over all of them."""
    return np.random.default_rng(seed).choice(rows, count, replace=False)
