"""Bad input gets a typed error that says what to do, before anything is written: no entry, no file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx import AlreadyExistsError, InvalidInputError, Lake, NotFoundError, PhalanxError, StateError

Bad = tuple[str, type[PhalanxError], str, Callable[[Lake], object]]
ROW = {"id": 9, "v": 1, "s": "x"}


def turns_bad() -> Iterator[pa.RecordBatch]:
    """A stream long enough to be staged, whose last batch has no key."""
    for start in range(0, 6000, 1000):
        yield pa.record_batch({"id": list(range(start, start + 1000)), "v": [0] * 1000})
    yield pa.record_batch({"id": pa.array([7000, None], pa.int64()), "v": [0, 0]})


CASES: list[Bad] = [
    ("unknown column", InvalidInputError, "no column 'w'", lambda lake: lake["t"].append([{"id": 1, "w": 2}])),
    ("wrong type", InvalidInputError, "id|int", lambda lake: lake["t"].append([{"id": "seven"}])),
    ("mixed types", InvalidInputError, "cannot be read", lambda lake: lake["t"].append([{"id": 1}, {"id": "x"}])),
    ("lossy cast", InvalidInputError, "'v'", lambda lake: lake["t"].append(pa.table({"id": [1], "v": [1.5]}))),
    ("no rows", InvalidInputError, "no rows to append", lambda lake: lake["t"].append([])),
    (
        "no rows, arrow",
        InvalidInputError,
        "no rows",
        lambda lake: lake["t"].append(pa.table({"id": pa.array([], "int64")})),
    ),
    ("none", InvalidInputError, "NoneType", lambda lake: lake["t"].append(None)),
    ("text", InvalidInputError, "str", lambda lake: lake["t"].append("rows")),
    ("number", InvalidInputError, "int", lambda lake: lake["t"].append(7)),
    ("null key", InvalidInputError, "part of the key", lambda lake: lake["k"].upsert([{"id": None}])),
    ("missing key", InvalidInputError, "key", lambda lake: lake["k"].upsert([{"v": 1}])),
    ("doubled key", InvalidInputError, "key 3 is there twice", lambda lake: lake["k"].insert([{"id": 3}, {"id": 3}])),
    ("taken key", AlreadyExistsError, "key 1 exists", lambda lake: lake["k"].insert([{"id": 1}])),
    ("insert, no key", InvalidInputError, "use append", lambda lake: lake["t"].insert([ROW])),
    ("upsert, no key", InvalidInputError, "use append", lambda lake: lake["t"].upsert([ROW])),
    ("get, no key", InvalidInputError, "no key", lambda lake: lake["t"].get(1)),
    ("get, wrong type", InvalidInputError, "not a key", lambda lake: lake["k"].get("one")),
    ("null", InvalidInputError, "'n' cannot be null", lambda lake: lake["n"].append([{"n": None}])),
    ("missing", InvalidInputError, "'n' is missing", lambda lake: lake["n"].append([{"m": 1}])),
    ("syntax", InvalidInputError, "id =", lambda lake: lake["t"].delete("id =")),
    ("no condition", InvalidInputError, "id", lambda lake: lake["t"].delete("id")),
    ("unknown in where", InvalidInputError, "nope", lambda lake: lake["t"].delete("nope = 1")),
    ("unknown to set", InvalidInputError, "nope", lambda lake: lake["t"].update({"nope": "1"})),
    ("nothing to set", InvalidInputError, "nothing to set", lambda lake: lake["t"].update({})),
    ("set to a wrong type", InvalidInputError, "v", lambda lake: lake["t"].update({"v": "'abc'"})),
    ("subquery", InvalidInputError, "select", lambda lake: lake["t"].delete("id in (select 1)")),
    ("aggregate", InvalidInputError, "sum", lambda lake: lake["t"].delete("sum(v) > 1")),
    ("fails on a row", InvalidInputError, "10 / v", lambda lake: lake["t"].delete("10 / v > 1")),
    ("update fails on a row", InvalidInputError, "10 / v", lambda lake: lake["t"].update({"v": "10 / v"})),
    ("key made double", AlreadyExistsError, "same key", lambda lake: lake["k"].update({"id": "7"})),
    ("column twice", InvalidInputError, "twice", lambda lake: lake["t"].append(pa.table([[1], [2]], names=["v", "v"]))),
    (
        "a later batch has more columns",
        InvalidInputError,
        "no column 'w'",
        lambda lake: lake["t"].append(iter([pa.record_batch({"id": [1]}), pa.record_batch({"id": [1], "w": [2]})])),
    ),
    ("unknown column read", InvalidInputError, "no column 'w'", lambda lake: lake["t"].to_arrow(["w"])),
    ("bad limit", InvalidInputError, "limit", lambda lake: lake["t"].to_arrow(limit=-1)),
    ("unknown table", NotFoundError, "there is: k, n, t", lambda lake: lake["nope"]),
    ("name with a path", InvalidInputError, "name of a table", lambda lake: lake.create_table("../x", [ROW])),
    ("name taken", AlreadyExistsError, "'t'", lambda lake: lake.create_table("t", [ROW])),
    ("no columns", InvalidInputError, "schema", lambda lake: lake.create_table("x", [])),
    ("empty schema", InvalidInputError, "column", lambda lake: lake.create_table("x", pa.schema([]))),
    ("unknown key", InvalidInputError, "no column", lambda lake: lake.create_table("x", [ROW], key="w")),
    ("key twice", InvalidInputError, "twice", lambda lake: lake.create_table("x", [ROW], key=["id", "id"])),
    ("floating key", InvalidInputError, "double", lambda lake: lake.create_table("x", [{"a": 1.5}], key="a")),
    ("reserved column", InvalidInputError, "_rowid", lambda lake: lake.create_table("x", [{"_rowid": 1}])),
    ("column with a dot", InvalidInputError, "a.b", lambda lake: lake.create_table("x", [{"a.b": 1}])),
    ("column with a backtick", InvalidInputError, "a`b", lambda lake: lake.create_table("x", [{"a`b": 1}])),
    ("column called *", InvalidInputError, "name of a column", lambda lake: lake.create_table("x", [{"*": 1}])),
    ("no token", InvalidInputError, "lake.token", lambda lake: lake.transaction(token="again")),
    ("bad timeout", InvalidInputError, "timeout", lambda lake: lake["t"].append([ROW], timeout=-1)),
    ("bad limit of flush", InvalidInputError, "flush.rows", lambda lake: lake.set_property("flush.rows", "many")),
    ("unknown limit", InvalidInputError, "flush.row", lambda lake: lake.set_property("flush.row", "5")),
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.create_table("t", pa.table({"id": [1, 2], "v": [0, 1], "s": ["a", "b"]}))
        made.create_table("k", pa.table({"id": [1, 2], "v": [0, 1]}), key="id")
        made.create_table("n", pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("m", pa.int64())]))
        yield made


def files(folder: Path) -> set[str]:
    """All of them but pins, which say nothing and come and go."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("pins/")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_bad_input_is_refused_before_anything_is_written(lake: Lake, tmp_path: Path, case: Bad) -> None:
    """The error has the right type, says what is wrong, and leaves the lake as it was."""
    _, kind, says, act = case
    before = files(tmp_path / "lake")
    with pytest.raises(kind, match=says) as caught:
        act(lake)
    assert caught.value.committed is False
    assert files(tmp_path / "lake") == before


def test_a_bad_statement_inside_a_transaction_leaves_the_rest_of_it_usable(lake: Lake) -> None:
    """A statement that was refused did nothing, and the transaction goes on."""
    with lake.transaction() as txn:
        with pytest.raises(InvalidInputError, match="part of the key"):
            txn["k"].upsert([{"id": None}])
        with pytest.raises(InvalidInputError, match="10 / v"):
            txn["k"].delete("10 / v > 1")
        txn["k"].upsert([{"id": 5, "v": 5}])
    assert lake["k"].get(5) == {"id": 5, "v": 5}
    assert lake["k"].count() == 3


def test_a_stream_that_turns_bad_late_commits_nothing(lake: Lake) -> None:
    """The error is the stream's, nothing is visible, and the table goes on."""
    before = lake.version
    with pytest.raises(InvalidInputError, match="part of the key"):
        lake["k"].upsert(turns_bad())
    assert lake.version == before
    assert lake["k"].count() == 2


def test_a_transaction_that_is_over_takes_no_more_statements(lake: Lake) -> None:
    """Neither after a commit nor after a rollback."""
    with lake.transaction() as txn:
        table = txn["t"]
        table.append([ROW])
    with pytest.raises(StateError, match="begin another"):
        table.append([ROW])
    other = lake.transaction()
    other.rollback()
    with pytest.raises(StateError, match="rolled back"):
        other["t"].append([ROW])
