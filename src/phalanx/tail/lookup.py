"""Finding rows by their keys: through the key's index where the head has one, by a pass over the keys otherwise.

A blocklist would switch the index off, so hidden rows are dropped from what it finds. What an index cannot tell exactly
(several columns, values that have no spelling) is compared here again.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.expr import spelled
from phalanx.runs import NO_IDS, Ids
from phalanx.tables.dataset import ROW_ID, Version
from phalanx.tail.disk import scan
from phalanx.tail.keys import NEVER, KeySet
from phalanx.tail.overlay import Segment

log = logging.getLogger("phalanx.tail")

T = TypeVar("T")

KEY_INDEX = "phalanx_key"
"""The index that keyed tables keep on the first column of their key."""

_SCANNED = 700
"""Rows of a pass over the keys that cost as much as one key looked up in the index."""
_MANY = 2500
"""Keys that are looked up together; more are shared by threads."""
_THREADS = 4
_PASS_ROWS = 1 << 16
_PASS_ROWS_OF_MANY = 1 << 20
"""Rows whose keys are compared at a time: each comparison builds a table of the wanted keys, which may be many."""
_PLAIN = 1 << 62
"""Smaller integers, by far the most, are spelled as they are: one by one, with care for the others, is slow."""


def rows_of_keys(version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...]) -> Ids:
    """The row ids of a segment's rows that have one of these keys."""
    if not keys.num_rows:
        return NO_IDS
    found = _unless_refused(lambda: _by_index(version, segment, keys, key))
    return _by_pass(version, segment, keys, key) if found is None else found


def _unless_refused(ask: Callable[[], T | None]) -> T | None:
    """What the index says; None where Lance does not take the question: no index decides what can be read."""
    try:
        return ask()
    except InvalidInputError as error:
        log.warning("an index of keys is passed over, and the keys are read instead: %s", error)
        return None


def _by_index(version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...]) -> Ids | None:
    """As `rows_of_keys`, by the index; None where a pass over the keys is better."""
    if _exact(keys, key) and keys.num_rows > _MANY and answers(version, segment, keys.num_rows):
        return _looked_up(version, segment, keys.column(key[0]), key[0])
    words = _words(version, segment, keys, key)
    if words is None:
        return None
    row_ids = _having(scan(version, segment, key, where=words, row_ids=True), keys, key)
    return row_ids[~segment.hides(row_ids)]


def _by_pass(version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...]) -> Ids:
    size = _PASS_ROWS if keys.num_rows < _PASS_ROWS else _PASS_ROWS_OF_MANY
    return _having(scan(version, segment, key, without=segment.hidden, row_ids=True, batch_size=size), keys, key)


def _having(rows: pa.RecordBatchReader, keys: pa.Table, key: tuple[str, ...]) -> Ids:
    """The row ids of rows that have one of these keys."""
    wanted = KeySet(key)
    wanted.add(keys)
    found = [batch.column(ROW_ID).to_numpy().astype(np.int64)[wanted.first(batch) < NEVER] for batch in rows]
    return np.concatenate([NO_IDS, *found])


def _looked_up(version: Version, segment: Segment, column: "pa.ChunkedArray[Any]", name: str) -> Ids:
    """The row ids of many numbers, where the index says all there is to say: in order, and a part of them in each thread.

    Most of the time goes into planning a list as long as that: half the list takes half the time, beside the other half.
    """
    numbers = np.sort(column.unique().to_numpy())
    parts = np.array_split(numbers, min(_THREADS, -(-len(numbers) // _MANY)))

    def part(values: Any) -> Ids:  # noqa: ANN401 - numbers
        words = f"`{name}` in ({', '.join(filter(None, _spelled_numbers(values.tolist(), column.type)))})"
        return version.scan([], where=words, row_ids=True).read_all().column(ROW_ID).to_numpy().astype(np.int64)

    try:
        with ThreadPoolExecutor(len(parts), "phalanx-lookup") as pool:
            found = list(pool.map(part, parts))
    except RuntimeError:  # Python is ending, and this is the last flush: no thread begins any more
        found = [part(values) for values in parts]
    row_ids = np.concatenate([NO_IDS, *found])
    return row_ids[~segment.hides(row_ids)]


def _spelled_numbers(numbers: list[int], kind: pa.DataType) -> list[str | None]:
    """Whole numbers as Lance reads them back exactly."""
    if not numbers or (min(numbers) > -_PLAIN and max(numbers) < _PLAIN):
        return list(map(str, numbers))
    return [spelled(pa.scalar(number, kind)) for number in numbers]


def _exact(keys: pa.Table, key: tuple[str, ...]) -> bool:
    """Whether what the index is asked is all there is to a key, and nothing is rounded on the way."""
    return len(key) == 1 and types.is_integer(keys.schema.field(0).type)


def rows_with_keys(
    version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...], columns: Sequence[str]
) -> pa.Table:
    """The rows of a segment that have one of these keys: by one scan where the index answers, by two otherwise."""
    found = _unless_refused(lambda: _rows_by_index(version, segment, keys, key, columns))
    if found is not None:
        return found
    row_ids = _by_pass(version, segment, keys, key) if keys.num_rows else NO_IDS
    return scan(version, segment, columns, only=row_ids).read_all()


def _rows_by_index(
    version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...], columns: Sequence[str]
) -> pa.Table | None:
    words = _words(version, segment, keys, key)
    if words is None:
        return None
    names = [*columns, *(name for name in key if name not in columns)]
    found = version.rows_of(names, where=words, without=None, limit=None, row_ids=True)
    right = np.ones(found.num_rows, dtype=np.bool_)
    if len(segment.hidden):
        right = ~segment.hides(found.column(ROW_ID).to_numpy())
    if not _exact(keys, key):
        wanted = KeySet(key)
        wanted.add(keys)
        right &= wanted.first(found) < NEVER
    return (found if right.all() else found.filter(pa.array(right))).select(list(columns))


def answers(version: Version, segment: Segment, count: int) -> bool:
    """Whether so many keys are better looked up in the index."""
    few = count > 0 and count * _SCANNED <= version.rows
    return segment.is_head and segment.conversion is None and few and KEY_INDEX in version.indexed


def _words(version: Version, segment: Segment, keys: pa.Table, key: tuple[str, ...]) -> str | None:
    """A condition on the key's first column that the index answers; None where a pass over the keys is better."""
    if not answers(version, segment, keys.num_rows):
        return None
    column = keys.column(key[0]).unique()
    if types.is_integer(column.type):
        numbers: list[Any] = column.to_pylist()
        values = _spelled_numbers(numbers, column.type)
    else:
        values = [spelled(value) for value in column]
    if any(value is None for value in values):
        return None
    return f"`{key[0]}` in ({', '.join(filter(None, values))})"
