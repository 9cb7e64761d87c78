"""Columns without a null, as the files of a version tell: Lance notes for every page of a column whether it has any.

Whoever asks every value of a vector whether it is null asks for nothing, most of the time, and takes half of the time of a
read for it. What files say is believed only as far as it is understood, and whoever relies on it looks at the rows too.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata
from pyarrow import types

from phalanx.tables.dataset import Version

MOST_FILES = 64
"""Of a version: with more, it takes too long to look at all of them."""

_LAYERS = re.compile(r"layers: \[\s*((?:\w+,\s*)*)\]")
_VALIDITY = re.compile(r"has_validity: (\w+)")
_ITEM, _LISTS = "RepdefAllValidItem", {"RepdefAllValidList", "RepdefEmptyableList"}


class _Said(NamedTuple):
    """What a page, or a column of a file, says: neither rows nor the items of their lists are null."""

    rows: bool
    items: bool


_NOTHING = _Said(rows=False, items=False)


def full_columns(version: Version, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of some columns that have no null in any row of a version, and none inside of their lists or vectors."""
    fragments = [one.metadata for one in version.dataset.get_fragments()]
    if sum(len(one.files) for one in fragments) > MOST_FILES:
        return ()
    leaves = _leaves(version, frozenset(columns))
    for fragment in fragments:
        said = _said(f"{version.dataset.uri}/data", fragment, {leaf for leaf, _ in leaves.values()})
        leaves = {
            name: (leaf, nested)
            for name, (leaf, nested) in leaves.items()
            if (found := said.get(leaf, _NOTHING)).rows and (found.items or not nested)
        }
        if not leaves:
            break
    return tuple(name for name in columns if name in leaves)


def _said(folder: str, fragment: FragmentMetadata, wanted: set[int]) -> dict[int, _Said]:
    """What the files of a fragment say of some of their columns, by the numbers that Lance gives to these."""
    said: dict[int, _Said] = {}
    for file in fragment.files:
        places = {field: at for field, at in zip(file.fields, file.column_indices, strict=False) if field in wanted}
        if file.base_id is None and places:
            told = _told(f"{folder}/{file.path}", tuple(places.values()))
            said |= dict(zip(places, told, strict=True))
    return said


def _leaves(version: Version, columns: frozenset[str]) -> dict[str, tuple[int, bool]]:
    """The columns of which pages tell: the number that Lance gives to their values, and whether these are inside of lists."""
    found: dict[str, tuple[int, bool]] = {}
    fields: list[Any] = version.dataset.lance_schema.fields()
    for field in fields:
        kind = field.to_arrow().type
        if field.name() not in columns:
            continue
        if _plain(kind):
            found[field.name()] = field.id(), False
        elif types.is_fixed_size_list(kind) and _plain(kind.value_type):
            found[field.name()] = field.id(), True
        elif (types.is_list(kind) or types.is_large_list(kind)) and _plain(kind.value_type):
            found[field.name()] = field.children()[0].id(), True
    return found


def _plain(kind: Any) -> bool:  # noqa: ANN401 - a type
    return types.is_primitive(kind) or types.is_decimal(kind) or types.is_string(kind) or types.is_large_string(kind)


@functools.lru_cache(maxsize=4096)
def _told(path: str, places: tuple[int, ...]) -> tuple[_Said, ...]:
    """What a file says of some of its columns: nothing if it cannot be read, which is for others to tell. It never changes."""
    try:
        columns = LanceFileReader(path).metadata().columns
        return tuple(_all([_page(str(page.encoding)) for page in columns[at].pages]) for at in places)
    except (OSError, ValueError, IndexError, RuntimeError):
        return (_NOTHING,) * len(places)


def _all(pages: list[_Said]) -> _Said:
    return _Said(all(page.rows for page in pages), all(page.items for page in pages)) if pages else _NOTHING


def _page(encoding: str) -> _Said:
    """What a page says, which Lance tells as a text; nothing if that is not understood."""
    found = _LAYERS.findall(encoding)
    if not found:
        return _NOTHING
    layers = found[-1].replace(",", " ").split()  # what comes before may be of the data
    if len(layers) == 1:
        validity = _VALIDITY.findall(encoding)
        return _Said(layers[0] == _ITEM, bool(validity) and set(validity) == {"false"})
    if len(layers) == 2 and layers[1].endswith("List"):
        return _Said(layers[1] in _LISTS, layers[0] == _ITEM)
    return _NOTHING


def null_in(rows: pa.RecordBatch, columns: Sequence[str]) -> str | None:
    """Which of some columns has a null after all, in a row or inside of one."""
    for name in columns:
        array: Any = rows.column(name)
        nested = types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)
        if array.null_count or (nested and array.flatten().null_count):
            return name
    return None
