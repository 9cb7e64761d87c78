"""The difference between two states of one table: the rows that only one of them has.

What both have on disk in the same files is not read: there a row can only have been hidden. All other rows are compared
by their values, by key where there is one; of a table without a key, equal rows cancel each other out one by one.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.log import item as it
from phalanx.runs import Ids
from phalanx.schema import decode_schema
from phalanx.tables.dataset import ROW_ID, Version
from phalanx.tail.columns import Steps, as_type, conversion
from phalanx.tail.disk import scan
from phalanx.tail.keys import key_values
from phalanx.tail.overlay import Overlay, Segment
from phalanx.tail.read import Reading


class Difference(msgspec.Struct, frozen=True):
    """Rows that went, rows that came; and, of a table with a key, rows that changed: before and after, in pairs."""

    deleted: pa.Table
    inserted: pa.Table
    before: pa.Table
    after: pa.Table


def difference(old: Reading, new: Reading) -> Difference:
    """What changed from one state to the other; both have the columns of the newer one."""
    schema, key = new.overlay.shape.schema, new.overlay.shape.key
    shared = _shared(old, new)
    gone, come = _as_in(_rest(old, shared), old.overlay, new.overlay), _rest(new, shared)
    come = fitted(come, schema)
    if key and old.overlay.shape.key == key:
        return _by_key(gone, come, key)
    mine, theirs = [_frozen(row) for row in gone.to_pylist()], [_frozen(row) for row in come.to_pylist()]
    deleted, inserted = _surplus(mine, Counter(theirs)), _surplus(theirs, Counter(mine))
    nothing = schema.empty_table()
    return Difference(gone.take(deleted), come.take(inserted), nothing, nothing)


def _by_key(gone: pa.Table, come: pa.Table, key: Sequence[str]) -> Difference:
    old = {value: at for at, value in enumerate(key_values(gone, key))}
    new = {value: at for at, value in enumerate(key_values(come, key))}
    both = [value for value in new if value in old]
    before, after = gone.take(_at(old[value] for value in both)), come.take(_at(new[value] for value in both))
    pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
    changed = _at(at for at, (one, other) in enumerate(pairs) if _frozen(one) != _frozen(other))
    return Difference(
        gone.take(_at(at for value, at in old.items() if value not in new)),
        come.take(_at(at for value, at in new.items() if value not in old)),
        before.take(changed),
        after.take(changed),
    )


def _at(places: Iterator[int] | Any) -> "pa.Array[Any]":  # noqa: ANN401 - any iterable
    return pa.array(list(places), pa.int64())


def _surplus(rows: Sequence[Hashable], others: "Counter[Hashable]") -> "pa.Array[Any]":
    """Which rows remain when each cancels out one equal row of the others."""
    left = Counter(others)
    places = []
    for at, row in enumerate(rows):
        if left[row] > 0:
            left[row] -= 1
        else:
            places.append(at)
    return _at(places)


class _Shared(msgspec.Struct, frozen=True):
    """Fragments of both heads that are the same files; the row ids in them that both have."""

    fragments: frozenset[int]
    alive: Ids


def _shared(old: Reading, new: Reading) -> _Shared | None:
    mine, theirs = _head(old), _head(new)
    if mine is None or theirs is None:
        return None
    one, other = old.version(mine.manifest), new.version(theirs.manifest)
    same = frozenset(
        number for number in set(one.fragments) & set(other.fragments) if _files(one, number) == _files(other, number)
    )
    if not same:
        return None
    alive = np.intersect1d(_alive(one, mine, same), _alive(other, theirs, same), assume_unique=True)
    return _Shared(same, alive)


def _head(reading: Reading) -> Segment | None:
    """The head, if its rows are what they are on disk."""
    return next((one for one in reading.overlay.segments if one.is_head and one.conversion is None), None)


def _files(version: Version, fragment: int) -> tuple[Any, ...]:
    return tuple((file.path, tuple(file.fields)) for file in version.fragment(fragment).metadata.files)


def _alive(version: Version, segment: Segment, fragments: frozenset[int]) -> Ids:
    found = version.scan([], without=segment.hidden, fragments=sorted(fragments), row_ids=True).read_all()
    return np.sort(found.column(ROW_ID).to_numpy().astype(np.int64))


def _as_in(rows: pa.Table, old: Overlay, new: Overlay) -> pa.Table:
    """Rows of one state with the columns of the other: back to what both had in common, and on from there."""
    common = 0
    for one, other in zip(old.layouts, new.layouts, strict=False):
        if one.id != other.id:
            break
        common += 1
    apart = (*old.layouts[common:], *new.layouts[common:])
    if not common or any(not one.steps for one in apart):
        return fitted(rows, new.shape.schema)  # a client of the namespace does not say how it changed columns
    schema = decode_schema(new.layouts[common - 1].schema)
    if len(old.layouts) > common:
        rows = conversion(schema, _steps(old.layouts[common:])).back(rows)
    return fitted(conversion(schema, _steps(new.layouts[common:])).rows(rows), new.shape.schema)


def _steps(layouts: Sequence[it.Layout]) -> Steps:
    return tuple(step for one in layouts for step in one.steps)


def _rest(reading: Reading, shared: _Shared | None) -> pa.Table:
    """The rows of a state that are not in what both share."""
    schema = reading.overlay.shape.schema
    names = schema.names
    parts = []
    for segment in reading.overlay.segments:
        version = reading.version(segment.manifest)
        hidden = segment.hidden
        if shared is not None and segment is _head(reading):
            hidden = np.union1d(hidden, shared.alive)
        parts.append(scan(version, segment, names, without=hidden).read_all())
    parts.append(reading.overlay.memory.living())
    return pa.concat_tables([fitted(part, schema) for part in parts]).combine_chunks()


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a schema: those of the same name, and null where there is none or of another kind."""
    columns: list[Any] = []
    for field in schema:
        held = rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        columns.append(as_type(held, field.type))
    return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in schema]))


def _frozen(value: Any) -> Hashable:  # noqa: ANN401 - a value of any type
    """A value that can be compared and counted; a NaN is equal to another one."""
    if isinstance(value, dict):
        return tuple((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, float):
        return "nan" if value != value else (value, str(value))  # noqa: PLR0124 - what NaN is
    return value  # type: ignore[no-any-return]
