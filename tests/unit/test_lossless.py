"""Casts: a value arrives as it was, or its rows are refused; floats are rounded, and never to infinity."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from phalanx.data import conform, source
from phalanx.errors import InvalidInputError
from phalanx.lossless import column, recast

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 7)  # noqa: DTZ001 - a type without a zone
DAY = dt.datetime(2024, 2, 29)  # noqa: DTZ001
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
WORDS = pa.dictionary(pa.int8(), pa.string())
MAP = pa.map_(pa.string(), pa.int64())

KEPT: list[tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = [
    # from, to, values, what they become
    (pa.int8(), pa.int64(), [-128, 127], [-128, 127]),
    (pa.int64(), pa.int8(), [-128, 127], [-128, 127]),
    (pa.int64(), pa.float64(), [1 << 53], [float(1 << 53)]),
    (pa.int64(), pa.float16(), [2048], [2048.0]),
    (pa.float64(), pa.int64(), [2.0, None], [2, None]),
    (pa.float64(), pa.float32(), [0.1], [np.float32(0.1)]),
    (pa.float64(), pa.float32(), [float("inf"), float("-inf")], [float("inf"), float("-inf")]),
    (pa.int64(), pa.bool_(), [0, 1], [False, True]),
    (pa.bool_(), pa.int64(), [True], [1]),
    (pa.decimal128(5, 2), pa.float64(), [Decimal("1.25")], [1.25]),
    (pa.float64(), pa.decimal128(5, 2), [1.25], [Decimal("1.25")]),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), [Decimal("1.25")], [Decimal("1.2500")]),
    (pa.decimal128(5, 2), pa.int64(), [Decimal("7.00")], [7]),
    (pa.timestamp("us"), pa.date32(), [DAY, None], [DAY.date(), None]),
    (pa.timestamp("us"), pa.timestamp("s"), [DAY], [DAY]),
    (pa.date32(), pa.timestamp("us"), [DAY.date()], [DAY]),
    (pa.string(), pa.int64(), ["7"], [7]),
    (pa.string(), pa.date32(), ["2024-02-29"], [DAY.date()]),
    (pa.string_view(), pa.string(), ["a" * 30, None], ["a" * 30, None]),
    (pa.large_string(), pa.string(), ["a"], ["a"]),
    (pa.binary(), pa.string(), [b"\xc3\xb6"], ["ö"]),
    (WORDS, pa.string(), ["a", None], ["a", None]),
    (pa.string(), WORDS, ["a", None], ["a", None]),
    (pa.string_view(), WORDS, ["a", None], ["a", None]),
    (pa.list_(pa.float64()), pa.list_(pa.float32(), 2), [[0.5, 1.5], None], [[0.5, 1.5], None]),
    (pa.list_(pa.int64()), pa.large_list(pa.int8()), [[1, None], []], [[1, None], []]),
    (pa.struct([("b", pa.large_string())]), STRUCT, [{"b": "x"}], [{"a": None, "b": "x"}]),
    (pa.struct([("b", pa.string()), ("a", pa.int8())]), STRUCT, [{"b": "x", "a": 1}], [{"a": 1, "b": "x"}]),
    (pa.null(), STRUCT, [None], [None]),
]
LOST: list[tuple[pa.DataType, pa.DataType, Any]] = [
    (pa.int64(), pa.int8(), 128),
    (pa.int64(), pa.uint64(), -1),
    (pa.uint64(), pa.int64(), 1 << 63),
    (pa.int64(), pa.float64(), (1 << 53) + 1),
    (pa.int64(), pa.float32(), (1 << 24) + 1),
    (pa.int64(), pa.float16(), 2049),
    (pa.int64(), pa.bool_(), 5),
    (pa.float64(), pa.bool_(), 0.5),
    (pa.float64(), pa.bool_(), float("nan")),
    (pa.float64(), pa.int64(), 1.5),
    (pa.float64(), pa.int64(), float("nan")),
    (pa.float64(), pa.float32(), 1e300),
    (pa.float32(), pa.float16(), 1e30),
    (pa.float64(), pa.decimal128(5, 1), 0.15),
    (pa.decimal128(19, 19), pa.float64(), Decimal("0.1234567890123456789")),
    (pa.decimal128(5, 2), pa.decimal128(5, 1), Decimal("1.25")),
    (pa.decimal128(5, 2), pa.int64(), Decimal("1.25")),
    (pa.timestamp("us"), pa.date32(), NOON),
    (pa.timestamp("us"), pa.date64(), NOON),
    (pa.timestamp("us"), pa.time64("us"), NOON),
    (pa.timestamp("us"), pa.timestamp("ms"), NOON),
    (pa.timestamp("us", "Asia/Tokyo"), pa.date32(), NOON),
    (pa.time64("us"), pa.time32("s"), NOON.time()),
    (pa.duration("us"), pa.duration("s"), dt.timedelta(microseconds=1)),
    (pa.timestamp("s"), pa.timestamp("ns"), 1 << 40),
    (pa.string(), pa.int64(), "1.5"),
    (pa.string(), pa.int64(), ""),
    (pa.binary(), pa.string(), b"\xff"),
    (pa.binary(), pa.binary(2), b"abc"),
    (pa.list_(pa.int64()), pa.list_(pa.int64(), 2), [1, 2, 3]),
    (pa.list_(pa.int64()), pa.list_(pa.bool_()), [5]),
    (pa.list_(pa.float64()), pa.list_(pa.float32(), 1), [1e300]),
    (pa.list_(pa.timestamp("us")), pa.list_(pa.date32()), [NOON]),
    (pa.struct([("a", pa.int64()), ("c", pa.int64())]), STRUCT, {"a": 1, "c": 2}),
    (pa.struct([("c", pa.int64())]), STRUCT, {"c": 2}),
    (pa.list_(pa.struct([("c", pa.int64())])), pa.list_(STRUCT), [{"c": 2}]),
    (pa.struct([("a", pa.float64())]), pa.struct([("a", pa.bool_())]), {"a": 0.5}),
    (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.bool_()), [("k", 0.5)]),
    (pa.int64(), pa.list_(pa.int64()), 1),
    (STRUCT, pa.string(), {"a": 1, "b": "x"}),
]


@pytest.mark.parametrize(("one", "other", "values", "wanted"), KEPT, ids=str)
def test_what_another_type_can_hold_is_taken(
    one: pa.DataType, other: pa.DataType, values: list[Any], wanted: list[Any]
) -> None:
    """The same value under another type, nulls included."""
    found = recast(pa.array(values, one), other)
    assert (found.type, found.to_pylist()) == (other, wanted)
    found.validate(full=True)


@pytest.mark.parametrize(("one", "other", "value"), LOST, ids=str)
def test_what_another_type_cannot_hold_is_refused(one: pa.DataType, other: pa.DataType, value: Any) -> None:
    """Among values that it can hold; the error names the column and both types."""
    schema = pa.schema([("c", other)])
    given_to = source(pa.table({"c": pa.array([None, value, None], one)}))
    with pytest.raises(InvalidInputError, match=r"column 'c' is of type .*, and .* was given: "):
        conform(given_to, schema).table()


PYTHON: list[tuple[pa.DataType, Any]] = [
    # what is refused as a value of Python, at any depth
    (pa.int64(), 1.5),
    (pa.int64(), np.float32(1.5)),
    (pa.int64(), Decimal("1.5")),
    (pa.int64(), "1"),
    (pa.bool_(), 1),
    (pa.string(), 1),
    (pa.float32(), 1e300),
    (pa.float16(), 70_000.0),
    (pa.date32(), NOON),
    (pa.date32(), np.datetime64("2024-02-29T12:00")),
    (pa.timestamp("ms"), NOON),
    (pa.string(), "\ud800"),
    (pa.list_(pa.int64()), [1, 1.5]),
    (pa.list_(pa.int64()), (1.5,)),
    (pa.list_(pa.int64()), np.array([1.5])),
    (pa.list_(pa.int64()), 7),
    (pa.list_(pa.float32(), 1), [1e300]),
    (pa.list_(pa.float32(), 2), [1.0]),
    (pa.list_(pa.list_(pa.int8())), [[1.5]]),
    (STRUCT, {"a": 1.5}),
    (STRUCT, {"a": 1, "z": 2}),
    (STRUCT, {"z": None}),
    (STRUCT, 7),
    (pa.list_(STRUCT), [{"a": 1}, {"z": 1}]),
    (pa.struct([("s", STRUCT)]), {"s": {"a": 1.5}}),
    (MAP, {"k": 1.5}),
    (MAP, [("k", 1.5)]),
    (MAP, 7),
    (pa.map_(pa.int64(), pa.int64()), [(1.5, 1)]),
]


@pytest.mark.parametrize(("kind", "value"), PYTHON, ids=str)
def test_a_python_value_that_would_change_is_refused_at_any_depth(kind: pa.DataType, value: object) -> None:
    """In a list, in a tuple, in a generator, and in rows."""
    schema = pa.schema([("c", kind)])
    for data in ([{"c": None}, {"c": value}], {"c": [None, value]}, {"c": (None, value)}, {"c": iter([None, value])}):
        with pytest.raises(InvalidInputError, match=r"these rows cannot be read: .*; give an Arrow table"):
            conform(source(data, schema), schema).table()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (pa.list_(pa.int64()), (1, 2.0), [1, 2]),
        (pa.list_(pa.int64()), np.array([1.0, 2.0]), [1, 2]),
        (pa.list_(pa.float32(), 2), np.array([0.5, float("inf")]), [0.5, float("inf")]),
        (pa.list_(pa.float32()), [float("-inf"), None], [float("-inf"), None]),
        (STRUCT, {"b": "x"}, {"a": None, "b": "x"}),
        (MAP, {"k": 2.0}, [("k", 2)]),
        (MAP, [("k", None)], [("k", None)]),
        (pa.float32(), float("inf"), float("inf")),
        (WORDS, "a", "a"),
    ],
    ids=str,
)
def test_a_python_value_that_has_an_equal_is_taken_at_any_depth(
    kind: pa.DataType, value: object, wanted: object
) -> None:
    """Two is two, and infinity was infinite before."""
    assert column([value, None], kind).to_pylist() == [wanted, None]


@pytest.mark.parametrize("make", [np.array, pd.Series, pl.Series, pa.array, lambda values: pa.chunked_array([values])])
def test_an_array_of_any_make_is_cast_like_a_column(make: Any) -> None:
    """By what it holds, not by what Arrow would make of it."""
    assert column(make([1.0, 2.0]), pa.int8()).to_pylist() == [1, 2]
    assert column(make([1, 2]), pa.float32()).to_pylist() == [1.0, 2.0]
    for values, kind in ([1.5], pa.int64()), ([300], pa.int8()), ([5], pa.bool_()), ([1e300], pa.float32()):
        with pytest.raises(pa.ArrowException):
            column(make(values), kind)


def test_an_array_of_moments_loses_no_time_of_day() -> None:
    """Arrow itself makes them days without a word."""
    with pytest.raises(pa.ArrowInvalid):
        column(np.array(["2024-02-29T12:00"], dtype="M8[s]"), pa.date32())
    assert column(np.array(["2024-02-29"], dtype="M8[s]"), pa.date32()).to_pylist() == [DAY.date()]


TYPES = [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(9, 2)]


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.lists(st.integers(0, 100) | st.integers(-300, 70_000)))
def test_a_number_is_the_same_number_in_any_type_or_is_refused(
    one: pa.DataType, other: pa.DataType, numbers: list[int]
) -> None:
    """Whole numbers between any two types of numbers, unless both are floating point: nothing is ever wrapped or cut."""
    assume(not (pa.types.is_floating(one) and pa.types.is_floating(other)))
    try:
        array = recast(pa.array(numbers, pa.int64()), one)
        found = recast(array, other)
    except pa.ArrowException:
        return
    assert [int(value) for value in found.to_pylist()] == numbers


def test_moments_that_arrow_cuts_when_it_chooses_a_type() -> None:
    """Nanoseconds of pandas, moments among days, zones among none: refused where they would be lost."""
    fine = pd.Timestamp("2024-01-01T00:00:00.123456789")
    for rows in (
        [{"a": fine}],
        [{"a": pd.Timedelta(1, "ns")}],
        [{"a": dt.date(2020, 1, 1)}, {"a": dt.datetime(2020, 1, 1, 10)}],  # noqa: DTZ001 - without a zone is what it is
        [{"a": dt.datetime(2020, 1, 1)}, {"a": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}],  # noqa: DTZ001
        [{"a": dt.time(12, tzinfo=dt.UTC)}],
    ):
        with pytest.raises(InvalidInputError):
            source(rows, None).table()
        with pytest.raises(InvalidInputError):
            source({"a": [row["a"] for row in rows]}, None).table()
    with pytest.raises(pa.ArrowInvalid, match="cut off"):
        column([fine], pa.timestamp("us"))
    assert column([fine], pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [fine.value]
    assert source([{"a": dt.date(2020, 1, 1)}], None).table()["a"].to_pylist() == [dt.date(2020, 1, 1)]


def test_numbers_inside_maps_and_dictionaries() -> None:
    with pytest.raises(pa.ArrowInvalid, match="too large"):
        column([{"a": 1e300}], pa.map_(pa.string(), pa.float32()))
    with pytest.raises(pa.ArrowInvalid, match="cut off"):
        column([1.5], pa.dictionary(pa.int32(), pa.int64()))


def test_views_of_lists_are_refused() -> None:
    """Arrow's cast of them loses values without a word."""
    views = pa.array([[1, 2], [3]], pa.list_view(pa.int64()))
    with pytest.raises(pa.ArrowInvalid, match="make lists of it first"):
        recast(views, pa.list_(pa.int64()))


@pytest.mark.parametrize("wide", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("narrow", [pa.float32(), pa.float16()])
def test_numbers_of_vectors_are_looked_at_where_their_type_changes(wide: pa.DataType, narrow: pa.DataType) -> None:
    """A list that becomes a vector of the same numbers keeps all of them; one of smaller numbers is refused if one is too large."""
    infinite = pa.array([[1.0, float("inf")]], pa.list_(wide))
    assert recast(infinite, pa.list_(narrow, 2)).to_pylist() == [[1.0, float("inf")]]
    large = pa.array([[1.0, 1e38]], pa.list_(wide))
    if narrow == pa.float32():
        assert len(recast(large, pa.list_(narrow, 2))) == 1
    else:
        with pytest.raises(pa.ArrowInvalid, match="too large"):
            recast(large, pa.list_(narrow, 2))
    if wide == pa.float64():
        with pytest.raises(pa.ArrowInvalid, match="too large"):
            recast(pa.array([[1.0, 1e300]], pa.list_(wide)), pa.list_(narrow, 2))


def from_a_stream(array: "pa.Array[Any]") -> "pa.Array[Any]":
    """The same as another process sends it: without buffers where there is nothing to send."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"a": array})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_all()["a"].chunk(0)


LIST, LONG = pa.list_(pa.float32()), pa.large_list(pa.float32())
THREE = pa.list_(pa.float32(), 3)


@pytest.mark.parametrize(
    ("values", "given", "kind"),
    [
        ([None, None], LIST, THREE),
        ([None], LONG, THREE),
        ([{"v": None}], pa.struct([("v", LIST)]), pa.struct([("v", THREE)])),
        ([[None], [], None], pa.list_(LIST), pa.list_(THREE)),
        ([[("k", None)], None], pa.map_(pa.string(), LIST), pa.map_(pa.string(), THREE)),
        ([None], pa.list_(LIST), pa.list_(THREE, 2)),
        ([], LIST, THREE),
        ([None, [1.0, 2.0, 3.0]], LIST, THREE),
    ],
)
def test_lists_without_any_value_become_vectors(values: list[Any], given: pa.DataType, kind: pa.DataType) -> None:
    """Arrow's own cast of them ends the process."""
    assert recast(from_a_stream(pa.array(values, given)), kind).to_pylist() == values


def test_what_stands_beside_lists_without_any_value_stays_as_it_is() -> None:
    """Nothing becomes a value of Python on the way, which counts in microseconds up to the year 9999."""
    fine = pa.array([1, (1 << 40) + 1], pa.time64("ns"))
    far = pa.array([10_000_000, -10_000_000], pa.date32())
    nothing: pa.Array[Any] = pa.nulls(2, LIST)
    given = pa.StructArray.from_arrays([fine, far, nothing], names=["fine", "far", "v"])
    kind = pa.struct([("fine", fine.type), ("far", far.type), ("v", THREE)])
    found = recast(from_a_stream(given), kind)
    assert found.field("fine").equals(fine)
    assert found.field("far").equals(far)
    assert found.field("v").to_pylist() == [None, None]


def test_an_empty_list_is_no_vector() -> None:
    """Beside nulls too, and where no row has a value."""
    for values in ([[]], [None, []]):
        with pytest.raises(pa.ArrowInvalid):
            recast(from_a_stream(pa.array(values, LIST)), THREE)


def test_a_null_struct_may_have_fields_that_are_null_where_they_must_not_be() -> None:
    """However deep; a struct that is there must have them."""
    deep = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    strict = pa.struct([pa.field("k", pa.int64(), nullable=False), pa.field("deep", deep)])
    fields = [pa.field("k", pa.int64()), pa.field("deep", pa.struct([pa.field("x", pa.int64())]))]
    inner = pa.StructArray.from_arrays(
        [pa.array([None, 5, None], pa.int64())], ["x"], mask=pa.array([True, False, True])
    )
    given = pa.StructArray.from_arrays(
        [pa.array([None, 1, 2]), inner], fields=fields, mask=pa.array([True, False, False])
    )
    assert recast(given, strict).to_pylist() == [None, {"k": 1, "deep": {"x": 5}}, {"k": 2, "deep": None}]
    assert recast(given[:1], strict).to_pylist() == [None]
    bad = pa.StructArray.from_arrays(
        [pa.array([None, None], pa.int64()), inner[:2]], fields=fields, mask=pa.array([True, False])
    )
    with pytest.raises(pa.ArrowInvalid, match="null"):
        recast(bad, strict)
