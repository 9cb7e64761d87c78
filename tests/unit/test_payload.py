"""Rows inside an entry: whatever Arrow can hold comes back as it was, and damage is found."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import CorruptionError
from phalanx.tail import payload
from phalanx.tail.payload import decode_rows, encode_rows

DAY, NOON = dt.date(2024, 2, 29), dt.time(12, 0, 0, 5)
NOW = dt.datetime(2024, 2, 29, 12, 0, 0, 7)  # noqa: DTZ001 - a type without a zone
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
WORDS = pa.dictionary(pa.int8(), pa.string())
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [1, 0, 100]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, [1, 0, 100]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *((kind, [0.5, -0.0, float("inf")]) for kind in (pa.float16(), pa.float32(), pa.float64())),
    (pa.int64(), [-(1 << 63), (1 << 63) - 1, 0]),
    (pa.uint64(), [(1 << 64) - 1, 0, 1]),
    (pa.bool_(), [True, False, True]),
    (pa.null(), [None, None, None]),
    *((kind, ["", "ö", "a" * 40]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"", b"\0", b"a" * 40]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), [b"abc", b"\0\0\0", b"xyz"]),
    (pa.date32(), [DAY, dt.date(1, 1, 1), DAY]),
    (pa.date64(), [DAY, dt.date(1970, 1, 1), DAY]),
    *((pa.time32(unit), [NOON.replace(microsecond=0), dt.time(0), dt.time(23, 59, 59)]) for unit in ("s", "ms")),
    *((pa.time64(unit), [NOON, dt.time(0), dt.time(23, 59, 59)]) for unit in ("us", "ns")),
    *((pa.timestamp(unit), [1, -1, 0]) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "Europe/Berlin"), [NOW, NOW, NOW]),
    *((pa.duration(unit), [1, -1, 0]) for unit in ("s", "ms", "us", "ns")),
    (
        pa.month_day_nano_interval(),
        [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0]), pa.MonthDayNano([-1, 0, 0])],
    ),
    *((kind, [Decimal("1.25"), Decimal(0), Decimal("-9.99")]) for kind in (pa.decimal128(9, 2), pa.decimal256(70, 2))),
    (pa.list_(pa.int32()), [[1, None], [], [3]]),
    (pa.large_list(pa.string()), [["a"], [], [None, "b"]]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0], [0.5, None], [3.0, 4.0]]),
    (pa.list_(pa.list_(pa.float16(), 1), 1), [[[1.0]], [[2.0]], [[3.0]]]),
    (STRUCT, [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, {"a": 2, "b": []}]),
    (pa.list_(STRUCT), [[{"a": 1, "b": ["x", None]}], [], [{"a": 1, "b": None}, {"a": None, "b": []}]]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], [("b", None), ("c", 2)]]),
    (WORDS, ["a", "b", "a"]),
    (pa.dictionary(pa.int32(), pa.large_string()), ["a", "b", "a"]),
    (pa.dictionary(pa.int8(), pa.int64()), [7, 8, 7]),
    (pa.list_(WORDS), [["a"], [], ["b", "a"]]),
    (pa.struct([("w", WORDS)]), [{"w": "a"}, {"w": None}, {"w": "b"}]),
]


def columns() -> pa.Table:
    """A column of every type, with nulls."""
    arrays = [pa.array([*values, None], kind) for kind, values in COLUMNS]
    return pa.table(arrays, names=[f"c{at}" for at in range(len(arrays))])


def same(found: pa.Table, wanted: pa.Table) -> bool:
    """Equal in schema, order and every value."""
    found.validate(full=True)
    return found.schema.equals(wanted.schema, check_metadata=True) and found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=lambda part: str(part).replace(" ", "")[:40])
def test_a_column_of_any_type_comes_back(kind: pa.DataType, values: list[Any]) -> None:
    """With nulls and without, in one piece and in several, sliced and empty."""
    plain, nulls = pa.array(values, kind), pa.array([None, *values, None], kind)
    sparse = pa.table({"c": nulls})
    tables = [pa.table({"c": plain}), sparse, sparse.slice(1, 2), sparse.slice(4), sparse.slice(0, 0)]
    tables.append(pa.table({"c": pa.chunked_array([plain, nulls, nulls.slice(2), plain])}))
    for table in tables:
        assert same(decode_rows(encode_rows(table)), table)
        assert same(decode_rows(encode_rows(table)), table)  # its schema is known by now


def test_columns_of_all_types_come_back_together() -> None:
    """Dictionaries beside plain columns, and what is said of the columns: that they cannot be null, and notes."""
    assert same(decode_rows(encode_rows(columns())), columns())
    field = pa.field("id", pa.int64(), nullable=False, metadata={"note": "of a column"})
    table = pa.table([pa.array([1, 2])], schema=pa.schema([field], metadata={"note": "of a table"}))
    found = decode_rows(encode_rows(table))
    assert same(found, table)
    assert not found.schema.field("id").nullable


def test_each_batch_may_have_a_dictionary_of_its_own() -> None:
    """A value is what it was, wherever it stands in the dictionary of its batch."""
    parts = [pa.array(words).dictionary_encode() for words in (["a", "b"], ["b", "c", "a"], ["z"])]
    table = pa.table({"w": pa.chunked_array(parts), "n": pa.chunked_array([[1, 2], [3, 4, 5], [6]])})
    assert decode_rows(encode_rows(table)).to_pylist() == table.to_pylist()


def test_a_schema_that_was_seen_before_is_not_taken_for_another() -> None:
    """Streams that begin alike and end differently, in turn, however many schemas there are."""
    tables = [pa.table({f"c{at}": [at], "text": [str(at)]}) for at in range(payload._KEPT + 20)]
    tables += [pa.table({"a": pa.array([1], kind)}) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    held = [encode_rows(table) for table in tables]
    for _ in range(2):
        for table, data in zip(tables, held, strict=True):
            assert same(decode_rows(data), table)
    assert len(payload._known) <= payload._KEPT


def test_rows_are_not_copied() -> None:
    """A tail of large payloads is held once."""
    data = encode_rows(pa.table({"n": pa.array(range(100_000), pa.int64())}))
    before = pa.total_allocated_bytes()
    table = decode_rows(data)
    assert pa.total_allocated_bytes() - before < 10_000
    address = table.column("n").chunk(0).buffers()[1].address
    start = pa.py_buffer(data).address
    assert start <= address < start + len(data)


SMALL = {
    "plain": pa.table({"i": [1, None, 3], "s": ["a", None, "ccc"], "l": [[1], None, [2, 3]]}),
    "two batches": pa.table({"i": pa.chunked_array([[1], [2]])}),
    "dictionary": pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()}),
    "empty": pa.table({"i": pa.array([], pa.int64())}),
}


@pytest.mark.parametrize("kind", SMALL)
def test_a_payload_that_was_cut_off_is_damage(kind: str) -> None:
    """At every length, also between two batches."""
    data = encode_rows(SMALL[kind])
    for size in range(len(data)):
        with pytest.raises(CorruptionError, match="run `phalanx check`"):
            decode_rows(data[:size])


@pytest.mark.parametrize("kind", SMALL)
def test_a_payload_with_a_wrong_byte_is_read_or_is_damage(kind: str) -> None:
    """What a flipped byte leaves readable is for the checksum of the entry to find; nothing else is ever raised."""
    data = encode_rows(SMALL[kind])
    damaged = 0
    for at in range(len(data)):
        for value in {0, 255, data[at] ^ 1} - {data[at]}:
            try:
                decode_rows(data[:at] + bytes([value]) + data[at + 1 :])
            except CorruptionError:
                damaged += 1
    assert damaged > len(data) // 8
    assert same(decode_rows(data), SMALL[kind])  # damage is not remembered as a schema


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_arbitrary_bytes_are_damage(data: bytes) -> None:
    """Garbage gives a typed error and nothing else, with an end like a stream's too."""
    for made in (data, data + payload._END, payload._END[:4] + data + payload._END):
        with pytest.raises(CorruptionError):
            decode_rows(made)
