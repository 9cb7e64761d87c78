"""What is taken as rows: everything that holds a table, column by column by name, and nothing that would lose a value."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.data import conform, source
from phalanx.errors import InvalidInputError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])
NOT_NULL = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
ROWS = [{"id": 1, "name": "a", "v": 0.5}, {"id": 2, "name": None, "v": None}, {"id": 3, "name": "ö", "v": -1.0}]
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)
BATCHES = TABLE.to_batches(max_chunksize=2)


NO_ROWS: list[object] = [
    *(None, "rows", b"rows", SCHEMA, 7, 1.5, object(), int, len, Path("rows"), range(3), {1, 2}, bytearray(b"x")),
    *([1, 2], [[1, 2]], [None], ["id"], np.array([1, 2]), [SimpleNamespace(id=1)], pd.Series([1]), pd.Index([1])),
    *(pl.Series("id", [1]), pl.DataFrame({"id": [1]}).lazy(), pa.array([1]), pa.chunked_array([[1]])),
]


class Stream:
    """Anything with Arrow's PyCapsule interface for streams."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Struct:
    """Anything with Arrow's PyCapsule interface for arrays."""

    def __init__(self, table: pa.Table) -> None:
        self._batch = table.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


def generated(*parts: object) -> Iterator[object]:
    yield from parts


COLUMNS = {name: TABLE.column(name).to_pylist() for name in SCHEMA.names}
KINDS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": TABLE.to_reader,
    "dataset": lambda: ds.dataset(TABLE),
    "struct array": TABLE.to_struct_array,
    "stream capsule": lambda: Stream(TABLE),
    "array capsule": lambda: Struct(TABLE),
    "pandas": TABLE.to_pandas,
    "pandas with an index": lambda: TABLE.to_pandas().set_index(pd.Index([7, 8, 9], name="at")),
    "polars": lambda: pl.from_arrow(TABLE),
    "list of dicts": lambda: ROWS,
    "tuple of dicts": lambda: tuple(ROWS),
    "list of mappings": lambda: list(map(MappingProxyType, ROWS)),
    "dict of lists": lambda: COLUMNS,
    "dict of tuples": lambda: {name: tuple(values) for name, values in COLUMNS.items()},
    "dict of arrays": lambda: {name: TABLE.column(name).combine_chunks() for name in SCHEMA.names},
    "dict of chunked arrays": lambda: {name: TABLE.column(name) for name in SCHEMA.names},
    "dict of series": lambda: {name: pd.Series(COLUMNS[name]) for name in SCHEMA.names},
    "dict of polars series": lambda: {name: pl.Series(COLUMNS[name]) for name in SCHEMA.names},
    "dict of generators": lambda: {name: (value for value in COLUMNS[name]) for name in SCHEMA.names},
    "list of batches": lambda: list(BATCHES),
    "list of tables": lambda: [TABLE.slice(0, 1), TABLE.slice(1)],
    "generator of batches": lambda: generated(*BATCHES),
    "generator of tables and batches": lambda: generated(TABLE.slice(0, 2), TABLE.slice(2).to_batches()[0]),
    "iterator of batches": lambda: iter(BATCHES),
}


def taken(data: object, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The rows as a table of this schema gets them."""
    table = conform(source(data, schema), schema).table()
    table.validate(full=True)
    assert table.schema == schema
    return table


def refused(data: object, schema: pa.Schema = SCHEMA) -> str:
    """What is said of data that is not taken."""
    with pytest.raises(InvalidInputError) as caught:
        taken(data, schema)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_taken_from_whatever_holds_them(kind: str) -> None:
    """The same rows, in the same order, with nulls where nothing is."""
    assert taken(KINDS[kind]()).to_pylist() == ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_can_be_made_of_whatever_holds_rows(kind: str) -> None:
    """Without a schema the rows bring their own, and it says what is in them; an index is no column."""
    given_by = source(KINDS[kind]())
    assert given_by.schema.names == SCHEMA.names
    assert given_by.table().to_pylist() == ROWS


def test_numpy_columns_are_taken() -> None:
    """By their dtype, and objects by their values."""
    columns = {"id": np.arange(3), "name": np.array(["a", None, "b"], dtype=object), "v": np.array([0.5, 1, 2])}
    assert taken(columns).column("name").to_pylist() == ["a", None, "b"]
    assert taken(columns).column("id").to_pylist() == [0, 1, 2]


def test_a_stream_is_read_once_and_batch_by_batch() -> None:
    """Nothing is read before it is asked for, so what does not fit into memory can be written."""
    read: list[int] = []

    def endless() -> Iterator[pa.RecordBatch]:
        for number in range(1_000_000):
            read.append(number)
            yield pa.record_batch({"id": [number]})

    batches = conform(source(endless(), SCHEMA), SCHEMA).batches
    assert len(read) <= 1
    assert [next(batches).column("id").to_pylist() for _ in range(3)] == [[0], [1], [2]]
    assert len(read) <= 4


@pytest.mark.parametrize(
    "data", [[], (), {}, TABLE.slice(0, 0), TABLE.slice(0, 0).to_pandas(), [BATCHES[0].slice(0, 0)]]
)
def test_no_rows_are_rows_too(data: object) -> None:
    """Whether that makes sense is for the statement to say."""
    assert taken(data).num_rows == 0


def test_a_row_that_says_nothing_is_a_row_of_nulls() -> None:
    """Rows are not lost because they have no column."""
    assert taken([{}, {}]).to_pylist() == [dict.fromkeys(SCHEMA.names)] * 2
    assert taken([{}, {"id": 1}]).column("id").to_pylist() == [None, 1]
    assert "column 'id' cannot be null: row 0 is" in refused([{}], NOT_NULL)


@pytest.mark.parametrize(
    "data",
    [[{"v": 1.0}, {"id": 4}], {"v": [1.0, None], "id": [None, 4]}, pa.table({"v": [1.0, None], "id": [None, 4]})],
    ids=["rows", "columns", "table"],
)
def test_columns_are_matched_by_name_and_missing_ones_are_null(data: object) -> None:
    """Whatever order they come in."""
    assert taken(data).to_pylist() == [{"id": None, "name": None, "v": 1.0}, {"id": 4, "name": None, "v": None}]


def test_batches_of_one_stream_may_differ() -> None:
    """Each is matched by itself, and none of its columns is lost."""
    parts = [pa.table({"id": [1]}), pa.record_batch({"name": ["x"], "id": pa.array([2], pa.int8())})]
    assert taken(parts).to_pylist() == [{"id": 1, "name": None, "v": None}, {"id": 2, "name": "x", "v": None}]
    assert "'w'" in refused([pa.table({"id": [1]}), pa.table({"id": [1], "w": [2]})])


@pytest.mark.parametrize(
    "data",
    NO_ROWS,
    ids=lambda data: type(data).__name__,
)
def test_what_holds_no_rows_is_refused_with_what_does(data: object) -> None:
    """The error says what can be given."""
    for schema in (SCHEMA, None):
        with pytest.raises(
            InvalidInputError, match="give an Arrow table or stream, a pandas or polars frame, a list of"
        ):
            source(data, schema)


@pytest.mark.parametrize(
    "parts", [[{"id": 1}], ["rows"], [None], []], ids=["dicts", "texts", "nothing", "an end at once"]
)
def test_a_generator_of_something_else_is_refused(parts: list[object]) -> None:
    """Before anything is written, and with what can be given."""
    assert "give an Arrow table or stream" in refused(generated(*parts))


@pytest.mark.parametrize("later", [{"id": 2}, None, "rows", 7], ids=repr)
def test_a_stream_that_goes_on_with_something_else_is_refused(later: object) -> None:
    """Also behind a batch that was good."""
    assert f"a {type(later).__name__} came in a stream of batches" in refused(generated(BATCHES[0], later))
    assert "stream of batches" in refused([BATCHES[0], later])


def test_what_a_generator_raises_is_the_callers_own() -> None:
    """Only what concerns the rows is said anew."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCHES[0]
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        taken(broken())


def test_a_stream_that_cannot_be_read_to_its_end_is_refused(tmp_path: Path) -> None:
    """A file whose last line is of another type, read through Arrow's own dataset."""
    path = tmp_path / "rows.csv"
    path.write_text("id\n" + "2\n" * 3 + "x\n")
    assert "cannot be read" in refused(ds.dataset(path, format="csv", schema=pa.schema([("id", pa.int64())])))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"id": 1, "w": 2}], "there is no column 'w'; there is: id, name, v"),
        ([{"id": 1}, {"w": 2}], "there is no column 'w'"),
        ({"w": [1]}, "there is no column 'w'"),
        (pa.table({"w": [1]}), "there is no column 'w'"),
        (pd.DataFrame({"w": [1]}), "there is no column 'w'"),
        (pd.DataFrame({0: [1]}), "there is no column '0'"),
        (pl.DataFrame({"ID": [1]}), "there is no column 'ID'"),
        (pa.table([[1], [2]], names=["id", "id"]), "a column is there twice"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "a column is there twice"),
        ({1: [1]}, "1 cannot be the name of a column: names are text"),
        ([{None: 1}], "None cannot be the name of a column"),
        ({"id": 7}, "column 'id' is a int: a column is a list of values; give a row as [{...}]"),
        ({"id": 7, "name": "a"}, "column 'id' is a int"),
        ({"name": "abc"}, "column 'name' is a str"),
        ({"name": b"abc"}, "column 'name' is a bytes"),
        ({"id": {"a": 1}}, "column 'id' is a dict"),
        ({"id": {1, 2}}, "column 'id' is a set"),
        ({"id": None}, "column 'id' is a NoneType"),
        ({"id": [1, 2], "name": ["a"]}, "expected length 2 but got length 1"),
        ([{"id": 1}, 7], "row 1 is a int, and those before it are dicts"),
        ([{"id": 1}, None], "row 1 is a NoneType"),
        ([{"id": 1}, {"id": "x"}], "'x'"),
        ([{"id": "1"}], "cannot be read"),
        ([{"name": 1}], "cannot be read"),
        ([{"name": "\ud800"}], "surrogates not allowed"),
        ([{"id": 1 << 70}], "cannot be read"),
        ([{"id": ...}], "cannot be read"),
        (pd.DataFrame({"id": [1, "x"]}), "cannot be read"),
        (pa.table({"id": ["x"]}), "column 'id' is of type int64, and string was given"),
        (pa.table({"name": [b"\xff"]}), "column 'name' is of type string, and binary was given"),
        (pa.table({"id": [[1]]}), "column 'id' is of type int64"),
    ],
    ids=lambda part: None if isinstance(part, str) else re.sub(r"\s+", " ", str(part))[:40],
)
def test_rows_that_do_not_fit_are_refused_with_what_is_wrong(data: object, said: str) -> None:
    """The error names the column, the row or the value."""
    assert said in refused(data)


def test_names_are_text_also_where_there_is_no_schema_yet() -> None:
    """A table is not made of columns that nobody could name."""
    for data in ({1: [1]}, [{1: 2}], {"id": 7}, {"name": "abc"}, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(InvalidInputError):
            source(data)
    with pytest.raises(InvalidInputError):
        source([{"name": "\ud800"}])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"id": 1}, {"id": None}], "column 'id' cannot be null: row 1 is"),
        ([{"id": 1}, {"name": "x"}], "column 'id' cannot be null: row 1 is"),
        ({"id": [None]}, "column 'id' cannot be null: row 0 is"),
        (pa.table({"id": pa.array([1, None])}), "column 'id' cannot be null: row 1 is"),
        (pd.DataFrame({"id": [1.0, None]}), "column 'id' cannot be null: row 1 is"),
        ([{"name": "x"}], "column 'id' is missing, and it cannot be null: give it a value"),
        (pa.table({"name": ["x"]}), "column 'id' is missing"),
    ],
    ids=lambda part: None if isinstance(part, str) else re.sub(r"\s+", " ", str(part))[:40],
)
def test_a_column_that_cannot_be_null_is_not(data: object, said: str) -> None:
    """However the rows are given; the error names the first row without a value."""
    assert said in refused(data, NOT_NULL)
    assert taken([{"id": 1}], NOT_NULL).to_pylist() == [{"id": 1, "name": None}]


WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.fixed_dictionaries({}, optional={"id": st.none() | WHOLE, "name": st.text(), "v": st.floats()})))
def test_any_rows_are_taken_as_they_are(rows: list[dict[str, Any]]) -> None:
    """Lists of dicts with any values and any of the columns."""
    try:
        found = taken(rows)
    except InvalidInputError as error:
        assert "surrogates" in str(error)  # noqa: PT017 - the only reason there is
        return
    for row, held in zip(rows, found.to_pylist(), strict=True):
        for name in SCHEMA.names:
            value = row.get(name)
            assert held[name] == value or (value != value and held[name] != held[name])  # noqa: PLR0124 - not a number
