"""Schemas of tables: what a column and a key may be, and how columns are stored."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import InvalidInputError
from phalanx.schema import _RESERVED, check_schema, decode_schema, encode_schema, require_keys

PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.list_(pa.float32(), 4))])


def refused(schema: pa.Schema, *key: str) -> str:
    """What is said of a schema that no table can have."""
    with pytest.raises(InvalidInputError) as caught:
        check_schema(schema, key)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "a.b", "a\n", "\0", "a`b", "*", "\x01first", *sorted(_RESERVED)], ids=repr)
def test_a_name_that_could_mean_something_else_is_refused(name: str) -> None:
    """Lance's own columns, paths into structs, and what cannot be written down."""
    assert "cannot be the name of a column: choose another one" in refused(
        pa.schema([("id", pa.int64()), (name, pa.int8())])
    )


@pytest.mark.parametrize("name", ["id", "ID", "größe", "a b", "a-b", "1", "select", "__first", "_id", "rowid", "🙂"])
def test_any_other_name_is_taken(name: str) -> None:
    """Also words of SQL, spaces and other alphabets."""
    assert check_schema(pa.schema([(name, pa.int8())]), (name,)).names == [name]


def test_a_table_has_columns_and_each_once() -> None:
    """None at all, or one twice, is refused."""
    assert "at least one column" in refused(pa.schema([]))
    assert "column 'a' is there twice" in refused(pa.schema([("a", pa.int8()), ("b", pa.int8()), ("a", pa.int64())]))


def test_a_key_names_columns_that_are_there_each_once() -> None:
    """The error says which ones there are."""
    assert "the key names 'x', which is no column; there is: id, name, v" in refused(PLAIN, "x")
    assert "in the key twice" in refused(PLAIN, "id", "id")
    assert check_schema(PLAIN, ("name", "id")) == PLAIN


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.float16(), pa.float32(), pa.float64(), pa.null(), pa.duration("s"), pa.dictionary(pa.int8(), pa.string())),
        *(pa.list_(pa.int8()), pa.list_(pa.int8(), 2), pa.struct([("a", pa.int8())]), pa.map_(pa.int8(), pa.int8())),
    ],
    ids=str,
)
def test_values_that_cannot_be_compared_for_sure_make_no_key(kind: pa.DataType) -> None:
    """C8: floating point, null, and what is made of parts."""
    schema = pa.schema([("id", pa.int64()), ("k", kind)])
    assert check_schema(schema, ("id",)) == schema
    assert "column 'k' cannot be part of a key" in refused(schema, "k")
    assert "column 'k' cannot be part of a key" in refused(schema, "id", "k")


def view(kind: Any) -> list[tuple[pa.DataType, pa.DataType]]:
    return [(pa.string_view(), pa.string()), (pa.binary_view(), pa.binary()), (kind, kind)]


STORED: list[tuple[pa.DataType, pa.DataType]] = [
    *view(pa.int64()),
    *((pa.list_(one), pa.list_(other)) for one, other in view(pa.int8())),
    *((pa.large_list(one), pa.large_list(other)) for one, other in view(pa.int8())),
    *((pa.list_(one, 3), pa.list_(other, 3)) for one, other in view(pa.int8())),
    *(
        (pa.struct([("a", one), ("b", pa.int8())]), pa.struct([("a", other), ("b", pa.int8())]))
        for one, other in view(pa.int8())
    ),
    *((pa.map_(one, one), pa.map_(other, other)) for one, other in view(pa.int8())),
    *((pa.dictionary(pa.int8(), one, True), pa.dictionary(pa.int8(), other)) for one, other in view(pa.int64())),
    (pa.list_(pa.struct([("a", pa.list_(pa.string_view()))])), pa.list_(pa.struct([("a", pa.list_(pa.string()))]))),
]


@pytest.mark.parametrize(("kind", "wanted"), STORED, ids=str)
def test_a_column_is_stored_as_what_can_be_computed_with(kind: pa.DataType, wanted: pa.DataType) -> None:
    """Views become text and bytes, and dictionaries have no order, at any depth; all else stays as it is."""
    field = pa.field("c", kind, nullable=False, metadata={"lance-encoding:compression": "zstd", "_PL_CATEGORICAL": "1"})
    (found,) = check_schema(pa.schema([field], metadata={"pandas": "{}"}), ())
    assert (found.name, found.type, found.nullable) == ("c", wanted, False)
    assert found.metadata == {b"lance-encoding:compression": b"zstd"}
    assert check_schema(pa.schema([field], metadata={"pandas": "{}"}), ()).metadata is None


def test_a_schema_in_the_log_is_read_back() -> None:
    """Types, nullability and notes of columns; equal bytes give one object."""
    field = pa.field("c", pa.list_(pa.float32(), 4), nullable=False, metadata={"note": "x"})
    for schema in (PLAIN, pa.schema([field]), pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])):
        data = encode_schema(schema)
        assert decode_schema(data).equals(schema, check_metadata=True)
        assert decode_schema(bytes(bytearray(data))) is decode_schema(data)
    assert decode_schema(b"") == pa.schema([])


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_no_part_of_a_key_is_null(make: Any) -> None:
    """C8: the error names the column."""
    rows = make({"id": pa.array([1, 2]), "part": pa.array(["a", None]), "v": pa.array([None, None], pa.int8())})
    require_keys(rows, ())
    require_keys(rows, ("id",))
    for key in (("part",), ("id", "part")):
        with pytest.raises(InvalidInputError, match="column 'part' is part of the key, and cannot be null"):
            require_keys(rows, key)


def test_a_polars_frame_makes_a_table_that_works() -> None:
    """Its text can be a key, be updated and be looked for, in the tail and in the head; others may add categories."""
    frame = pl.DataFrame(
        {
            "k": ["a", "b"],
            "tags": [["x"], []],
            "enum": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"])),
            "cat": pl.Series(["x", None], dtype=pl.Categorical),
        }
    )
    with phalanx.open("memory://polars", create=True) as lake:
        table = lake.create_table("t", frame, key="k")
        table.upsert([{"k": "c", "tags": ["z"], "enum": "z", "cat": "z"}])
        for _ in range(2):
            assert table.to_polars().sort("k").select("k", "tags").rows() == [("a", ["x"]), ("b", []), ("c", ["z"])]
            assert table.to_polars().sort("k")["enum"].cast(pl.String).to_list() == ["x", "y", "z"]
            assert table.to_arrow(where="enum = 'z'").num_rows == table.count("cat = 'z'") == 1
            lake.flush("t")
        table.update({"k": "'d'"}, "k = 'c'")
        with lake.transaction() as txn:
            txn["t"].upsert(frame.with_columns(pl.lit("q").alias("cat")))
        assert table.to_arrow().sort_by("k").column("cat").to_pylist() == ["q", "q", "z"]
        assert table.get("d")["tags"] == ["z"]  # type: ignore[index]
