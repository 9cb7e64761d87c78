"""The verb column: each change of a table's columns, as people write it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from tests.cli.running import Run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake, and a table with a row."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("t", pa.table({"id": pa.array([1], pa.int32()), "name": ["ann"], "v": [None]}), key="id")
    return tmp_path


def rows() -> list[dict[str, Any]]:
    with phalanx.open("lake") as lake:
        found: list[dict[str, Any]] = lake["t"].to_arrow().to_pylist()
        return found


@pytest.mark.parametrize(
    ("kind", "options", "value"),
    [
        ("int64", [], None),
        ("int64 not null", ["--default", "7"], 7),
        ("double", ["--default", "1.5", "--not-null"], 1.5),
        ("bool", ["--default", "true"], True),
        ("string", ["--default", "it's"], "it's"),
        ("string", ["--expression", "upper(name)"], "ANN"),
        ("timestamp[us, UTC]", ["--default", "2026-01-31T12:00"], "2026-01-31 12:00:00+00:00"),
        ("date32", ["--default", "2026-01-31"], "2026-01-31"),
        ("decimal(10, 2)", ["--default", "19.9"], "19.90"),
        ("list<float>[3]", [], None),
    ],
)
def test_a_column_is_added(run: Run, here: Path, kind: str, options: list[str], value: object) -> None:
    found = run("column", "add", "lake", "t", "more", kind, *options)
    assert (found.code, found.err, found.out) == (0, "", "added column more to t (version 3)\n")
    held = rows()[0]["more"]
    assert (str(held) if isinstance(value, str) else held) == value


def test_columns_are_changed_in_every_way(run: Run, here: Path) -> None:
    said = [
        run("column", *words).out.rpartition(" (")[0]
        for words in (
            ["rename", "lake", "t", "name", "title"],
            ["add", "lake", "t", "n", "int32", "--default", "5"],
            ["widen", "lake", "t", "n", "int64"],
            ["nullable", "lake", "t", "n", "--no"],
            ["nullable", "lake", "t", "title"],
            ["drop", "lake", "t", "v"],
            ["order", "lake", "t", "n", "title", "id"],
        )
    ]
    assert said == [
        "renamed column name of t to title",
        "added column n to t",
        "column n of t is of type int64 now",
        "column n of t may no longer be null",
        "column title of t may be null",
        "dropped column v of t",
        "the columns of t are now n, title, id",
    ]
    assert rows() == [{"n": 5, "title": "ann", "id": 1}]
    columns = json.loads(run("show", "lake", "t", "--json").out)["columns"]
    assert [(one["name"], one["type"], one["nullable"]) for one in columns] == [
        ("n", "int64", False),
        ("title", "string", True),
        ("id", "int32", True),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["add", "lake", "t", "name", "string"], 2, "there is a column 'name' already"),
        (["add", "lake", "t", "x", "int"], 2, "'int' is not a type; use int32 or int64"),
        (["add", "lake", "t", "x", "int64,"], 2, "the type cannot be read at ',': expected the end"),
        (["add", "lake", "t", "x", ""], 2, 'expected a type, for example int64; write it like "int64"'),
        (["add", "lake", "t", "x", "int64 not null"], 2, "give it a default or an expression"),
        (["add", "lake", "t", "x", "int64", "--default", "many"], 2, "--default 'many' is no value of type int64"),
        (["add", "lake", "t", "x", "int8", "--default", "300"], 2, "--default '300' is no value of type int8"),
        (["add", "lake", "t", "x", "timestamp[us, UTC]", "--default", "noon"], 2, "--default takes a time like"),
        (["add", "lake", "t", "x", "int64", "--default", "1", "--expression", "id"], 2, "a default or an expression"),
        (["add", "lake", "t", "x", "int64", "--expression", "nope"], 2, "nope"),
        (["add", "lake", "t", "x", "int64", "--expression", "1 / id"], 2, "may fail on some row"),
        (["add", "lake", "tt", "x", "int64"], 3, "there is no table 'tt'"),
        (["drop", "lake", "t", "nope"], 2, "there is no column 'nope'; there is: id, name, v"),
        (["drop", "lake", "t", "id"], 2, "part of the key"),
        (["rename", "lake", "t", "name", "v"], 2, "there is a column 'v' already"),
        (["widen", "lake", "t", "name", "int64"], 2, "choose a wider type"),
        (["widen", "lake", "t", "name", "large_string not null"], 2, "`phalanx column nullable LAKE TABLE name --no`"),
        (["order", "lake", "t", "id"], 2, "give every column once"),
        (["nullable", "lake", "t", "v", "--no"], 2, "is null in some rows"),
        (["turn", "lake", "t"], 2, "turn"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    run: Run, here: Path, arguments: list[str], code: int, said: str
) -> None:
    before = rows()
    found = run("column", *arguments)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert rows() == before
