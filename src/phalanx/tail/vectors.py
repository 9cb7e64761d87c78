"""The vectors of rows in memory, ready to be compared with many queries.

All of them are compared in single precision, by one product of a matrix with a vector. How far off that can be is known,
so the rows that could be among the nearest are few, and only these are compared in double precision: the answer is that
of comparing all of them so.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_EPSILON = float(np.finfo(np.float32).eps)
_TINY = float(np.finfo(np.float32).tiny)


class Vectors:
    """The vectors of one column of some rows; rows without one are left out."""

    def __init__(self, column: "pa.ChunkedArray[Any]") -> None:
        whole: Any = column.combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
        self._places = np.flatnonzero(whole.is_valid().to_numpy(zero_copy_only=False))
        values = (whole if len(self._places) == len(whole) else whole.drop_null()).flatten()
        exact = values.to_numpy(zero_copy_only=False).reshape(len(self._places), whole.type.list_size)
        self._exact = exact
        with np.errstate(over="ignore"):
            self._quick = np.ascontiguousarray(exact, dtype=np.float32)
            self._lengths = np.sqrt(np.einsum("ij,ij->i", self._quick, self._quick, dtype=np.float64))

    def nearest(self, query: Floats, metric: str, k: int, only: Mask | None) -> tuple[npt.NDArray[np.int64], Floats]:
        """The places of the k nearest rows, nearest first, and their distances; of those in the mask, if there is one."""
        at = self._likely(query, metric, k, None if only is None else ~only[self._places])
        if not len(at):
            return np.empty(0, dtype=np.int64), np.empty(0)
        exact = distances(np.asarray(self._exact[at], dtype=np.float64), query, metric)
        order = np.argsort(exact, kind="stable")  # what has no distance comes last
        order = order[~np.isnan(exact[order])][:k]
        return self._places[at[order]], exact[order]

    def _likely(self, query: Floats, metric: str, k: int, never: Mask | None) -> npt.NDArray[np.int64]:
        """Which of them may be among the k nearest, by distances that may be off by a bound that is known."""
        matrix, lengths = self._quick, self._lengths
        if len(matrix) <= k:
            return np.flatnonzero(np.ones(len(matrix)) if never is None else ~never)
        size = float(np.linalg.norm(query))
        with np.errstate(all="ignore"):
            product = (matrix @ query.astype(np.float32)).astype(np.float64)
            # Each value of both sides is rounded once, and so is every step of the sum; what is tiny is lost.
            off = (matrix.shape[1] + 4) * (_EPSILON * lengths * size + _TINY)
            if metric == "l2":
                found = lengths**2 + size**2 - 2 * product
                off = 2 * off + 4 * _EPSILON * (lengths**2 + size**2)
            elif metric == "dot":
                found = 1 - product
            else:
                scale = lengths * size
                found, off = 1 - product / scale, off / scale + 4 * _EPSILON
            told = np.isfinite(found + off)
            # To leave some out here is cheaper than to copy the others.
            counted = told if never is None else told & ~never
            most = np.partition(np.where(counted, found + off, np.inf), k - 1)[k - 1]
            likely = ~told | (found - off <= most)  # what cannot be told is compared
        return np.flatnonzero(likely if never is None else likely & ~never)


def distances(vectors: Floats, query: Floats, metric: str) -> Floats:
    """As Lance measures them: squared for l2, one minus the product for dot, one minus the cosine, where there is one."""
    if metric == "l2":
        return np.asarray(np.square(vectors - query).sum(axis=1))
    product = vectors @ query
    if metric == "dot":
        return np.asarray(1.0 - product)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.asarray(1.0 - np.divide(product, lengths, out=np.full_like(product, np.nan), where=lengths > 0))
