"""Keys: two are equal exactly when their values are, whatever their type and however they are looked for."""

from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.schema import _KEY_TYPES
from phalanx.tail import keys
from phalanx.tail.keys import NEVER, KeySet, as_key_table, key_values, last_of_each, repeated, shown_key, superseded

Make = Callable[[Sequence[int]], "pa.Array[Any]"]


def of(kind: pa.DataType, *values: object) -> Make:
    """A column of this type, by the places of its values in the list."""
    return lambda places: pa.array([values[place % len(values)] for place in places], kind)


def raw(kind: Any, *numbers: int) -> Make:
    """As `of`, by the numbers that a time is stored as: Python's own times have neither their range nor their units."""
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    return lambda places: pa.array([numbers[place % len(numbers)] for place in places], whole).view(kind)


def whole(kind: Any) -> Make:
    """The extremes of an integer type, and some between them."""
    bits = kind.bit_width - pa.types.is_signed_integer(kind)
    high = (1 << bits) - 1
    return of(kind, 0, 1, -high - 1 if pa.types.is_signed_integer(kind) else 2, high, high - 1, 64)


WORDS = ("", "a", "A", "ö", "o\u0308", "a\0")
BYTES = (b"", b"\0", b"\0\0", b"a", b"\xff", b"a\0")
NEAR = (0, 1, -1, 1_000, (1 << 63) - 1, -(1 << 62))
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
MAKERS: dict[str, Make] = {
    **{str(kind): whole(kind) for kind in INTEGERS},
    "bool": of(pa.bool_(), False, True),
    "string": of(pa.string(), *WORDS),
    "large_string": of(pa.large_string(), *WORDS),
    "binary": of(pa.binary(), *BYTES),
    "large_binary": of(pa.large_binary(), *BYTES),
    "fixed_size_binary": of(pa.binary(2), b"\0\0", b"\0a", b"a\0", b"\xff\xff", b"ab", b"ba"),
    "date32": raw(pa.date32(), 0, 1, -1, 20_000, (1 << 31) - 1, -(1 << 31)),
    "date64": raw(pa.date64(), *(day * 86_400_000 for day in (0, 1, -1, 20_000, 1 << 30, -(1 << 30)))),
    **{f"timestamp {unit}": raw(pa.timestamp(unit), *NEAR) for unit in ("s", "ms", "us", "ns")},
    "timestamp with a zone": raw(pa.timestamp("ns", "Europe/Berlin"), *NEAR),
    **{f"time32 {unit}": raw(pa.time32(unit), 0, 1, 2, 59, 86_399, 86_398) for unit in ("s", "ms")},
    **{f"time64 {unit}": raw(pa.time64(unit), 0, 1, 999, 1_000, 1_001, 86_399_999_999) for unit in ("us", "ns")},
    "decimal128": of(pa.decimal128(9, 2), *(Decimal(n) / 100 for n in (0, 1, -1, 100, 10, -999_999_999))),
    "decimal256": of(pa.decimal256(60, 2), *(Decimal(n) / 100 for n in (0, 1, -1, 100, 10, 10**58))),
}
KINDS = sorted(MAKERS)
PLACES = st.lists(st.integers(0, 5), max_size=12)


def rows_of(kinds: Sequence[str], places: Sequence[Sequence[int]]) -> pa.Table:
    """Rows with a key column of each kind; `places` are those of the values, row by row."""
    columns = {f"k{at}": MAKERS[kind]([row[at] for row in places]) for at, kind in enumerate(kinds)}
    return pa.table({"before": list(range(len(places))), **columns})


def names(kinds: Sequence[str]) -> list[str]:
    return [f"k{at}" for at in range(len(kinds))]


def distinct(kinds: Sequence[str], row: Sequence[int]) -> tuple[int, ...]:
    """The key as the model knows it: booleans have but two values."""
    return tuple(place % 2 if kind == "bool" else place for kind, place in zip(kinds, row, strict=True))


def test_every_type_that_a_key_may_have_is_tried_here() -> None:
    """A new one fails here until it has values above."""
    tried = [MAKERS[kind]([0]).type for kind in KINDS]
    assert all(any(allowed(kind) for allowed in _KEY_TYPES) for kind in tried)
    assert all(any(allowed(kind) for kind in tried) for allowed in _KEY_TYPES)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_equal_exactly_when_keys_are(kind: str) -> None:
    """They can be looked up, and neither units nor ranges of time lose anything."""
    first, again = (key_values(rows_of([kind], [[at] for at in range(6)]), ["k0"]) for _ in "12")
    wanted = [distinct([kind], [at]) for at in range(6)]
    for at, one in enumerate(first):
        for other, value in enumerate(again):
            assert (one == value) == (wanted[at] == wanted[other])
            assert one != value or hash(one) == hash(value)


kinds_of_key = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)


@st.composite
def keyed(draw: st.DrawFn, parts: int) -> tuple[list[str], list[list[list[int]]]]:
    """The types of a key, and several lists of rows."""
    kinds = draw(kinds_of_key)
    row = st.lists(st.integers(0, 5), min_size=len(kinds), max_size=len(kinds))
    return kinds, [draw(st.lists(row, max_size=8)) for _ in range(parts)]


@pytest.mark.parametrize("few", [keys._FEW, 0], ids=["few", "many"])
@given(drawn=keyed(4))
@settings(max_examples=250, deadline=None)
def test_keys_are_found_with_the_first_item_that_touches_them(
    few: int, drawn: tuple[list[str], list[list[list[int]]]]
) -> None:
    """Like a dictionary that keeps the first: for any types, several columns, few keys and many."""
    kinds, (*parts, looked_for) = drawn
    model: dict[tuple[int, ...], int] = {}
    wanted = KeySet(names(kinds))
    assert not wanted
    for number, part in enumerate(parts):
        numbers = np.arange(len(part), dtype=np.int64) + 100 * number
        wanted.add(rows_of(kinds, part), numbers)
        for row, first in zip(part, numbers.tolist(), strict=True):
            model.setdefault(distinct(kinds, row), first)
    rows = rows_of(kinds, looked_for)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_FEW", few)
        found = wanted.first(rows)
        assert found.tolist() == [model.get(distinct(kinds, row), NEVER) for row in looked_for]
        assert found.dtype == np.int64
        each = key_values(wanted.rows(), names(kinds))
        assert len(each) == len(set(each)) == len(model)
    for batch in rows.to_batches(max_chunksize=3):
        at = batch.column("before")[0].as_py()
        assert wanted.first(batch).tolist() == found[at : at + batch.num_rows].tolist()
    assert wanted.first(rows.slice(2)).tolist() == found[2:].tolist()


def test_thousands_of_keys_are_found_like_a_few() -> None:
    """Beyond the size at which they are grouped instead of listed; seed 11."""
    chance = np.random.default_rng(11)
    for key in (["k"], ["k", "l"]):
        held = chance.integers(0, 9_000, 3 * keys._FEW)
        wanted = KeySet(key)
        wanted.add(pa.table({"k": held, "l": pa.array(map(str, held % 7))}), np.arange(len(held)))
        model: dict[int, int] = {}
        for at, value in enumerate(held.tolist()):
            model.setdefault(value, at)
        asked = chance.integers(0, 18_000, 5_000)
        found = wanted.first(pa.record_batch({"l": pa.array(map(str, asked % 7)), "k": asked}))
        assert found.tolist() == [model.get(value, NEVER) for value in asked.tolist()]


def test_no_keys_touch_nothing() -> None:
    """An item without rows is no item that touches all."""
    rows = pa.table({"k": [1, 2], "l": ["a", "b"]})
    for key in (["k"], ["k", "l"]):
        wanted = KeySet(key)
        wanted.add(rows.slice(0, 0))
        assert wanted.first(rows).tolist() == [NEVER, NEVER]
        wanted = KeySet(key)
        wanted.add(rows)
        assert wanted.first(rows.slice(0, 0)).tolist() == []
        assert wanted.first(rows).tolist() == [0, 0]


@pytest.mark.parametrize("key", [["__first"], ["__first", "__place"], ["first", "place"], ["left", "b c"]])
def test_a_key_may_have_any_name_that_a_column_may_have(key: list[str]) -> None:
    """No helper's column stands in its way."""
    rows = pa.table({name: [1, 2, 3] for name in key})
    wanted = KeySet(key)
    wanted.add(rows.slice(1), np.array([5, 6]))
    assert wanted.first(rows).tolist() == [NEVER, 5, 6]


@pytest.mark.parametrize("few", [keys._FEW, 0], ids=["few", "many"])
@given(drawn=keyed(1))
@settings(max_examples=150, deadline=None)
def test_the_last_of_equal_keys_counts(few: int, drawn: tuple[list[str], list[list[list[int]]]]) -> None:
    """C8: the earlier ones are superseded, and the rest keeps its order."""
    kinds, (places,) = drawn
    rows, key = rows_of(kinds, places), names(kinds)
    model = [distinct(kinds, row) for row in places]
    earlier = [at for at, value in enumerate(model) if value in model[at + 1 :]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_FEW", few)
        assert superseded(rows, key).tolist() == earlier
        kept = last_of_each(rows, key).column("before").to_pylist()
    assert kept == [at for at in range(len(model)) if at not in earlier]
    assert repeated(rows, key) == next((at for at, value in enumerate(model) if value in model[:at]), None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_a_user_gives_is_the_key_of_its_row(kind: str) -> None:
    """Alone, and in a tuple with others; in Python's own values, as far as these reach."""
    rows = rows_of([kind, "string"], [[0, 1], [1, 0], [3, 3]])
    values: list[Hashable] = rows.column("k0").to_pylist() if "64 ns" not in kind else [0, 0, 0]
    held = key_values(rows, ["k0"]) if "64 ns" not in kind else [0, 0, 0]
    assert key_values(as_key_table(values, ["k0"], rows.schema), ["k0"]) == held
    both = list(zip(values, rows.column("k1").to_pylist(), strict=True))
    found = key_values(as_key_table(both, ["k0", "k1"], rows.schema), ["k0", "k1"])
    assert found == list(zip(held, rows.column("k1").to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_can_be_shown(kind: str) -> None:
    """In an error, also where Python has no such date."""
    rows = rows_of([kind, "int64"], [[at, at] for at in range(6)])
    for at in range(6):
        assert shown_key(rows, ["k0"], at)
        assert shown_key(rows, ["k0", "k1"], at).startswith("(")
    assert shown_key(pa.table({"k": ["a'b"], "n": [7]}), ["k", "n"], 0) == '("a\'b", 7)'
    assert shown_key(pa.table({"k": ["a", "b"]}), ["k"], 1) == "'b'"


def test_one_repeated_key_makes_no_values_of_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, those that come again are found by Arrow: a dictionary would take many times their memory."""

    def refuse(rows: pa.Table, _: Sequence[str]) -> list[Hashable]:
        raise AssertionError(f"values of {rows.num_rows} rows")

    monkeypatch.setattr(keys, "key_values", refuse)
    count = keys._FEW + 10
    rows = pa.table({"a": [f"key {at % (count - 3)}" for at in range(count)], "b": [1] * count})
    for key in (["a"], ["a", "b"]):
        assert superseded(rows, key).tolist() == [0, 1, 2]
    assert last_of_each(rows, ["a"]).num_rows == count - 3
