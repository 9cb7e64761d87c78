"""Keys of rows: as values that can be looked up, and in bulk against rows on disk.

A key is one column or several, never null, never floating point (rule C8), so two keys are equal exactly when their
values are. Values of time types count as their integers: Python's own lose nanoseconds.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from phalanx.lossless import column

_FIRST = "\x01first"
_PLACE = "\x01place"
"""Columns beside those of the key, under names that no column of a table has."""
_FEW = 2048
"""Up to so many keys, a dictionary is faster than setting up a grouping."""
NEVER = np.iinfo(np.int64).max
"""The number of the item that touches a row which none touches."""


def key_values(rows: pa.Table, key: Sequence[str]) -> list[Hashable]:
    """The keys of rows, as values: of one column themselves, of several as tuples."""
    columns = [_plain(rows.column(name)).to_pylist() for name in key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def shown_key(rows: pa.Table, key: Sequence[str], at: int) -> str:
    """One key as people see it."""
    one = rows.slice(at, 1)
    try:
        values = [one.column(name)[0].as_py() for name in key]
    except (OverflowError, ValueError):  # a time that Python cannot tell: as its number
        values = [_plain(one.column(name))[0].as_py() for name in key]
    return repr(values[0]) if len(values) == 1 else repr(tuple(values))


def superseded(rows: pa.Table, key: Sequence[str]) -> npt.NDArray[np.int64]:
    """The places of rows whose key comes again later: the last one counts (rule C8)."""
    places = np.arange(rows.num_rows)
    if rows.num_rows > _FEW:  # values of Python's would take many times the memory of the rows
        whole = rows.select(list(key)).append_column(_PLACE, pa.array(places))
        last = whole.group_by(list(key)).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max").to_numpy()
    else:
        of_each = {value: at for at, value in enumerate(key_values(rows, key))}
        last = np.fromiter(of_each.values(), np.int64, len(of_each))
    if len(last) == rows.num_rows:
        return np.empty(0, dtype=np.int64)
    return np.setdiff1d(places, last, assume_unique=True)


def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows without those whose key comes again later."""
    if rows.num_rows <= 1:
        return rows
    gone = superseded(rows, key)
    return rows if not len(gone) else rows.take(np.setdiff1d(np.arange(rows.num_rows), gone))


def repeated(rows: pa.Table, key: Sequence[str]) -> int | None:
    """The place of a row whose key was there before in the same rows."""
    seen: set[Hashable] = set()
    for at, value in enumerate(key_values(rows, key)):
        if value in seen:
            return at
        seen.add(value)
    return None


class KeySet:
    """Keys with the number of the first item that touches each, to be found among rows on disk."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = tuple(key)
        self._parts: list[pa.Table] = []
        self._built: pa.Table | None = None

    def add(self, rows: pa.Table, numbers: npt.NDArray[np.int64] | None = None) -> None:
        """These rows' keys are touched by the items of these numbers, in ascending order; by one item without any."""
        of = np.zeros(rows.num_rows, dtype=np.int64) if numbers is None else numbers
        self._parts.append(rows.select(list(self._key)).append_column(_FIRST, pa.array(of)))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def rows(self) -> pa.Table:
        """The keys, each once."""
        return self._wanted().select(list(self._key))

    def first(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
        """For each row the number of the first item that touches its key, or `NEVER`."""
        wanted = self._wanted()
        if not wanted.num_rows:
            return np.full(rows.num_rows, NEVER, dtype=np.int64)
        if len(self._key) == 1:
            values = _flat(rows.column(self._key[0]))
            at = pc.index_in(values, value_set=_flat(wanted.column(self._key[0])))
            numbers = wanted.column(_FIRST).to_numpy()
            found = at.fill_null(-1).to_numpy(zero_copy_only=False)
            return np.where(found >= 0, numbers[found], NEVER)
        given = pa.table([rows.column(name) for name in self._key], names=list(self._key))
        given = given.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
        found = given.join(wanted, keys=list(self._key), join_type="inner")
        first = np.full(rows.num_rows, NEVER, dtype=np.int64)
        first[found.column(_PLACE).to_numpy()] = found.column(_FIRST).to_numpy()
        return first

    def _wanted(self) -> pa.Table:
        if self._built is None:
            whole = pa.concat_tables(self._parts)
            if whole.num_rows <= _FEW:
                firsts: dict[Hashable, int] = {}
                for at, value in enumerate(key_values(whole, self._key)):
                    firsts.setdefault(value, at)
                self._built = whole.take(np.fromiter(firsts.values(), np.int64, len(firsts))).combine_chunks()
                return self._built
            grouped = whole.group_by(list(self._key)).aggregate([(_FIRST, "min")])
            self._built = grouped.rename_columns([*self._key, _FIRST]).combine_chunks()
        return self._built


def _plain(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    kind = column.type
    if (
        pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_date64(kind)
    ):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    return column


def _flat(column: Any) -> Any:  # noqa: ANN401 - an array, in one piece or not
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return flat.dictionary_decode() if isinstance(flat, pa.DictionaryArray) else flat


def as_key_table(keys: Iterable[Any], key: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Keys that a user gave (values, or tuples of them) as rows."""
    wanted = [(value,) if len(key) == 1 else value for value in keys]
    for value in wanted:
        if not isinstance(value, tuple | list) or len(value) != len(key):
            raise TypeError(f"it has {len(key)} parts: give a tuple")
    fields = [schema.field(name) for name in key]
    arrays = [column([row[at] for row in wanted], field.type) for at, field in enumerate(fields)]
    return pa.table(arrays, schema=pa.schema(fields))
