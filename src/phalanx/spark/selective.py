"""Whether Lance is to find the rows that a condition holds for, or whether all are read and some left out.

Lance reads the columns of the condition, and then the others at the rows that were found. That is best where these are few,
or lie together; for rows that are found everywhere it takes twice the processor time of reading all of them.
"""

import numpy as np
import pyarrow as pa

from phalanx.errors import PhalanxError
from phalanx.expr import Predicate
from phalanx.runs import Ids
from phalanx.tables.dataset import Version
from phalanx.tables.speaking import speaking

PLACES, ROWS = 16, 256
"""A condition is tried on so many places of what is read, so many rows each."""
FEW = 0.04
"""Of the rows: where a condition holds for fewer, Lance finds them."""


def by_lance(version: Version, predicate: Predicate) -> str | None:
    """The condition in Lance's words, if Lance is to find the rows of a version; None if all are to be read."""
    where = predicate.lance
    if where is None or not version.plans(where):
        return None
    places = _places(version.rows)
    if not predicate.columns or not len(places):
        return where
    try:
        with speaking("reading a table"):
            rows = version.dataset.take(places.ravel().tolist(), columns=list(predicate.columns))
        held = _counts(predicate, rows, len(places))
    except PhalanxError:  # a condition on blobs, which only Lance can judge; what else is wrong is found by reading
        return where
    return None if 2 * np.count_nonzero(held) > len(held) and held.sum() > FEW * places.size else where


def _places(rows: int) -> Ids:
    """Which rows are looked at, of so many: a line of them for each place."""
    many = min(PLACES, rows // ROWS)
    begin = np.arange(many, dtype=np.int64) * (rows - ROWS) // max(1, many - 1)
    found: Ids = np.add.outer(begin, np.arange(ROWS, dtype=np.int64))
    return found


def _counts(predicate: Predicate, rows: pa.Table, places: int) -> Ids:
    """For how many rows of each place it holds."""
    mask = predicate.mask(rows).to_numpy(zero_copy_only=False)
    found: Ids = mask.reshape(places, ROWS).sum(axis=1)
    return found
