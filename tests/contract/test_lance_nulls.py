"""What Lance's files say of nulls: which columns have none, told by their pages as this version of Lance tells them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.tables import nulls
from phalanx.tables.dataset import Version
from phalanx.tables.nulls import full_columns, null_in

COUNT = 3000
RANDOM = np.random.default_rng(3)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True) as made:
        made.set_property("flush.background", "off")
        yield made


def version_of(lake: Lake) -> Version:
    return lake.core.overlays.written_out(lake.core.reading(lake.refresh().found("t")).overlay)


def vectors(size: int, *, rows: bool = False, items: bool = False) -> "pa.Array[Any]":
    """Vectors, with nulls in place of some, or inside of some."""
    inside = np.arange(COUNT * size) % 97 == 3
    values: Any = pa.array(RANDOM.random(COUNT * size).astype(np.float32), mask=inside if items else None)
    absent: Any = pa.array(np.arange(COUNT) % 5 == 0)
    return pa.FixedSizeListArray.from_arrays(values, size, mask=absent if rows else None)


def some(values: list[Any], kind: Any) -> "pa.Array[Any]":
    return pa.array(values, kind)


NUMBERS = list(range(COUNT))
TEXTS = [f"layers: [ RepdefNullableItem, ] {number % 50}" for number in NUMBERS]
FULL: "dict[str, pa.Array[Any]]" = {
    "numbers": some(NUMBERS, pa.int64()),
    "one number": some([5] * COUNT, pa.int32()),
    "doubles": pa.array(RANDOM.random(COUNT)),
    "booleans": some([number % 3 == 0 for number in NUMBERS], pa.bool_()),
    "texts": some(TEXTS, pa.string()),
    "long texts": some([text * 40 for text in TEXTS], pa.string()),
    "moments": some(NUMBERS, pa.int64()).cast(pa.timestamp("us", "UTC")),
    "decimals": some(NUMBERS, pa.int64()).cast(pa.decimal128(24, 2)),
    "vectors of 4": vectors(4),
    "vectors of 32": vectors(32),
    "vectors of 768": vectors(768),
    "lists": some([[1.0, 2.0]] * COUNT, pa.list_(pa.float32())),
    "lists, some empty": some([[1.0] * (number % 3) for number in NUMBERS], pa.list_(pa.float32())),
    "lists of texts": some([["a", "b"]] * COUNT, pa.list_(pa.string())),
}
NOT_FULL: "dict[str, pa.Array[Any]]" = {
    "one null": some([None, *NUMBERS[1:]], pa.int64()),
    "the last is null": some([*NUMBERS[1:], None], pa.float64()),
    "all null": some([None] * COUNT, pa.int64()),
    "texts": some([None if number % 7 == 0 else "text" for number in NUMBERS], pa.string()),
    "booleans": some([None, *[True] * (COUNT - 1)], pa.bool_()),
    **{
        f"vectors of {size}, {rows} {items}": vectors(size, rows=rows, items=items)
        for size in (4, 32, 768)
        for rows, items in ((True, False), (False, True), (True, True))
    },
    "lists, one null": some([None, *[[1.0]] * (COUNT - 1)], pa.list_(pa.float32())),
    "lists, one null inside": some([[None], *[[1.0]] * (COUNT - 1)], pa.list_(pa.float32())),
    "lists, null and empty": some([None, [], *[[1.0]] * (COUNT - 2)], pa.list_(pa.float32())),
    "structs are not looked at": some([{"a": 1}] * COUNT, pa.struct([("a", pa.int64())])),
    "lists of lists are not either": some([[[1]]] * COUNT, pa.list_(pa.list_(pa.int64()))),
}


def named(arrays: "dict[str, pa.Array[Any]]") -> list[Any]:
    return [pytest.param(array, id=name) for name, array in arrays.items()]


@pytest.mark.parametrize("array", named(FULL))
def test_a_column_without_a_null_says_so(lake: Lake, array: "pa.Array[Any]") -> None:
    """If this fails, Lance tells it in other words: nothing is wrong, and reads on Spark are slower."""
    lake.create_table("t", pa.table({"c": array}).schema).append(pa.table({"c": array}), stage=True)
    assert full_columns(version_of(lake), ["c"]) == ("c",)


@pytest.mark.parametrize("array", named(NOT_FULL))
def test_a_column_with_a_null_is_never_said_to_have_none(lake: Lake, array: "pa.Array[Any]") -> None:
    """Not even if only one of its fragments has any. If this fails, reads on Spark fail too."""
    table = lake.create_table("t", pa.table({"c": array}).schema)
    table.append(pa.table({"c": array}), stage=True)
    assert full_columns(version_of(lake), ["c"]) == ()
    plain = array.filter(
        pa.array([one is not None and None not in (one if isinstance(one, list) else [0]) for one in array.to_pylist()])
    )
    if len(plain):
        table.append(pa.table({"c": plain}, table.schema), stage=True)
        assert full_columns(version_of(lake), ["c"]) == ()


def test_a_column_that_came_later_and_rows_that_are_pending(lake: Lake) -> None:
    """Files from before do not have it: its rows are null there. What is pending is written out before it is looked at."""
    table = lake.create_table("t", {"a": pa.array(NUMBERS)})
    assert full_columns(version_of(lake), ["a"]) == ("a",)
    table.add_column("b", pa.int64())
    assert full_columns(version_of(lake), ["a", "b"]) == ("a",)
    table.append([{"a": None, "b": 1}])
    assert full_columns(version_of(lake), ["a", "b"]) == ()
    table.delete("a is null")
    lake.flush()
    table.update({"b": "7"}, "true")
    lake.flush()
    lake.optimize("t")
    assert full_columns(version_of(lake), ["b", "a"]) == ("b", "a")


def test_too_many_files_are_not_looked_at(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take longer than it saves."""
    table = lake.create_table("t", {"a": pa.array(NUMBERS)})
    table.append(pa.table({"a": NUMBERS}), stage=True)
    monkeypatch.setattr(nulls, "MOST_FILES", 1)
    assert full_columns(version_of(lake), ["a"]) == ()


@pytest.mark.parametrize(
    "encoding", ["", "layers: []", "layers: [ New, ]", "layers: [ A, B, C, ]", "layers: [ RepdefAllValidItem, X, ]"]
)
def test_what_is_not_understood_says_nothing(encoding: str) -> None:
    """Words of a later version."""
    assert nulls._page(encoding) == (False, False)


@pytest.mark.parametrize("array", [*named(FULL), *named(NOT_FULL)])
def test_rows_are_looked_at_as_well(array: "pa.Array[Any]") -> None:
    """A null in a row, or inside of one, is found; slices are looked at for themselves."""
    rows = pa.record_batch({"other": array, "c": array})
    inside = any(None in one for one in array.to_pylist() if isinstance(one, list))
    assert null_in(rows, ["c"]) == ("c" if array.null_count or inside else None)
    assert null_in(rows, []) is None
    assert null_in(rows.slice(0, 0), ["c"]) is None


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    """Whoever reads its rows tells what is wrong with it."""
    (tmp_path / "broken.lance").write_bytes(b"no such thing" * 1000)
    for path in ("missing.lance", "broken.lance"):
        assert nulls._told(str(tmp_path / path), (0, 3)) == ((False, False), (False, False))
