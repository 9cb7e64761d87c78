"""Vectors to search: in clusters, as embeddings are, so that an index has something to find; and the truth about them."""

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.frame import Bench

SIZE = 128
K = 10
BATCH = 50_000
_FIELDS: "list[pa.Field[Any]]" = [pa.field("id", pa.int64()), pa.field("vec", pa.list_(pa.float32(), SIZE))]
SCHEMA = pa.schema(_FIELDS)
_IN_A_CLUSTER = 200
_SPREAD = 0.5
"""How far rows lie from the centre of their cluster, where centres lie 1 apart from nothing."""

Vectors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


class Collection(msgspec.Struct, frozen=True):
    """All vectors, by id, and the centres they lie around."""

    centres: Vectors
    vectors: Vectors


def collection(bench: Bench) -> Collection:
    """The vectors of this run; the same in every section."""
    count = bench.pick(1_000_000, 2000, "vectors")
    return cast("Collection", bench.once("vectors", partial(_made, count)))


def _made(count: int) -> Collection:
    random = np.random.default_rng(0)
    centres = random.standard_normal((max(8, count // _IN_A_CLUSTER), SIZE), dtype=np.float32)
    return Collection(centres, around(centres, count, 1))


def around(centres: Vectors, count: int, seed: int) -> Vectors:
    """So many vectors, each near one of the centres."""
    random = np.random.default_rng(seed)
    made = random.standard_normal((count, SIZE), dtype=np.float32)
    made *= _SPREAD
    made += centres[random.integers(0, len(centres), count)]
    return made


def rows(ids: Numbers, vectors: Vectors) -> pa.Table:
    """Vectors as rows of a table."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE)
    return pa.table([pa.array(ids), lists], schema=SCHEMA)


def stream(vectors: Vectors) -> pa.RecordBatchReader:
    """All of them, with ids from 0 on."""

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(vectors), BATCH):
            part = vectors[first : first + BATCH]
            yield from rows(np.arange(first, first + len(part)), part).to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def distances(vectors: Vectors, query: Vectors) -> npt.NDArray[np.float64]:
    """Squared distances, one by one and exactly."""
    return np.asarray(np.square(vectors.astype(np.float64) - query).sum(axis=1))


def nearest(vectors: Vectors, queries: Vectors) -> list[set[int]]:
    """The ids of the nearest of all to each of these, by looking at every one of them."""
    best = np.empty((len(queries), 0), dtype=np.int64)
    far = np.empty((len(queries), 0), dtype=np.float32)
    for first in range(0, len(vectors), BATCH):
        part = vectors[first : first + BATCH]
        # |v - q|² without |q|², which is the same for all
        apart = np.square(part).sum(axis=1) - 2 * (queries @ part.T)
        far = np.concatenate([far, apart], axis=1)
        best = np.concatenate([best, np.broadcast_to(np.arange(first, first + len(part)), apart.shape)], axis=1)
        order = np.argpartition(far, K - 1, axis=1)[:, :K]
        far, best = np.take_along_axis(far, order, axis=1), np.take_along_axis(best, order, axis=1)
    return [set(ids) for ids in best.tolist()]
