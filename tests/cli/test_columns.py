"""Columns as text: what Arrow writes is read, and what cannot be read is refused with its place."""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.cli.columns import parse_columns
from phalanx.errors import InvalidInputError

PLAIN = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    *(pa.binary(16), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "+02:00")),
    *(pa.duration("s"), pa.duration("ns"), pa.decimal128(10, 2), pa.decimal128(5, -2), pa.decimal256(60, 3)),
]
NAMES = st.text(st.sampled_from("abcxyz_019äß-"), min_size=1, max_size=6)


def fields(kinds: st.SearchStrategy[pa.DataType]) -> "st.SearchStrategy[list[pa.Field]]":
    one = st.builds(lambda name, kind, null: pa.field(name, kind, nullable=null), NAMES, kinds, st.booleans())
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda field: field.name)


def nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    element = st.builds(lambda kind, null: pa.field("item", kind, nullable=null), kinds, st.booleans())
    return st.one_of(
        element.map(pa.list_),
        element.map(pa.large_list),
        st.builds(pa.list_, element, st.integers(1, 2000)),
        fields(kinds).map(pa.struct),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int64()]), kinds),
    )


SCHEMAS = fields(st.recursive(st.sampled_from(PLAIN), nested, max_leaves=6)).map(pa.schema)


def written(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)


@given(SCHEMAS)
def test_what_arrow_writes_is_read(schema: pa.Schema) -> None:
    """So `phalanx show` prints what `phalanx create` takes, for every type that can be said."""
    assert parse_columns(written(schema)).equals(schema)


def test_it_may_be_written_shorter() -> None:
    """Without names of elements, without `tz=`, in any case, with as many blanks as one likes."""
    found = parse_columns(
        'id:INT64 NOT  NULL,"my name":str,e:fixed_size_list<float>[128],at:timestamp[us,UTC],d:decimal(10,2),\n'
        "tags : list< string not null >, at2: Timestamp[ MS , Europe/Berlin ], wide: decimal(40, 0), x: struct<a:f4>, l: list<f4>[2]"
    )
    assert found == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("my name", pa.string()),
            pa.field("e", pa.list_(pa.float32(), 128)),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("d", pa.decimal128(10, 2)),
            pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
            pa.field("at2", pa.timestamp("ms", "Europe/Berlin")),
            pa.field("wide", pa.decimal256(40, 0)),
            pa.field("x", pa.struct([("a", pa.float32())])),
            pa.field("l", pa.list_(pa.float32(), 2)),
        ]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at its end: expected the name of a column"),
        ("id", 'at its end: expected ":"'),
        ("id:", "at its end: expected a type"),
        ("id int64", "at 'int64': expected \":\""),
        ("id: int64,", "at its end: expected the name"),
        ("id: int64; b: int8", "at '; b: int8': expected \",\" or the end"),
        ("id: int64 null", "at 'null': expected \",\" or the end"),
        ("id: int", "'int' is not a type; use int32 or int64"),
        ("id: varchar", "use string"),
        ("e: vector", "fixed_size_list<float>[n]"),
        ("id: int65", "is not a type; use int64"),
        ("id: qqq", "use one of bool, int8"),
        ("id: list", 'expected "<"'),
        ("id: list<int64", 'at its end: expected ">"'),
        ("id: list<>", "expected a type"),
        ("e: fixed_size_list<float>", 'expected "["'),
        ("e: fixed_size_list<float>[0]", "a size is 1 or more"),
        ("e: fixed_size_list<float>[many]", "expected a number"),
        ("e: fixed_size_list<float>[99999999999999]", 'expected "]"'),
        ("d: decimal(99, 2)", "precision"),
        ("d: decimal(10)", 'expected ","'),
        ("t: timestamp", 'expected "["'),
        ("t: timestamp[hours]", "the unit of a timestamp: s, ms, us, ns"),
        ("t: timestamp[us, Mars/Olympus]", "not a time zone"),
        ("t: timestamp[us, ../../etc/passwd]", "not a time zone"),
        ("t: timestamp[us, ]", "not a time zone"),
        ("t: time32[us]", "use time32[ms]"),
        ("a: int64, a: string", "name 'a' only once"),
        ("s: struct<a: int8, a: int8>", "name 'a' only once"),
        ("s: struct<>", "expected the name of a column"),
        ("a: " + "list<" * 40 + "int8" + ">" * 40, "32 deep"),
        ("a: " + "list<" * 100_000, "32 deep"),
        ('"a: int8', "expected the name of a column"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, says: str) -> None:
    """In one line that says what was expected."""
    with pytest.raises(InvalidInputError) as refused:
        parse_columns(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(st.sampled_from('abint648list<>[](),: ="\\notu'), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never anything else."""
    with contextlib.suppress(InvalidInputError):
        parse_columns(text)
