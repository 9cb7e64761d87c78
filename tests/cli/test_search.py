"""Indexes and search from the command line: made, listed, dropped, asked; every mistake in one line."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from tests.cli.running import Run, on_a_terminal, real

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("e", pa.list_(pa.float32(), 2))])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake: table t of points on a line, the last one pending and without a vector; at version 5."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": n, "text": "even lamp" if n % 2 == 0 else f"odd chair {n}", "e": [n, 0]} for n in range(300)]
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("t", SCHEMA, key="id")
        made["t"].append(rows)
        made.flush("t")
        made["t"].append([{"id": 300, "text": "a late lamp"}])
        assert made.version == 5
    return tmp_path


def test_an_index_is_created_listed_shown_and_dropped(run: Run, here: Path) -> None:
    """With its settings, and how much it covers."""
    made = run(
        "index", "lake", "t", "--create", "e", "--kind", "ivf_flat", "--set", "num_partitions=2", "--name", "near"
    )
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("created index near on t (version ")
    assert made.out.endswith("): covers all\n")
    listed = json.loads(run("index", "lake", "t", "--json").out)
    assert [(one["name"], one["kind"], one["column"]) for one in listed] == [
        ("phalanx_key", "btree", "id"),
        ("near", "ivf_flat", "e"),
    ]
    assert listed[1]["options"] == {"num_partitions": 2}
    assert listed[1]["fragments"] == listed[1]["of"] > 0
    assert json.loads(run("show", "lake", "t", "--json").out)["indexes"] == listed
    text = run("index", "lake", "t").out
    assert [line.split() for line in text.splitlines()][2] == [
        "near",
        "ivf_flat",
        "e",
        "covers",
        "all",
        "num_partitions=2",
    ]
    assert "index near" in run("show", "lake", "t").out
    assert "ivf_flat of e, covers all" in run("show", "lake", "t").out
    assert json.loads(run("show", "lake", "t", "--version", 5, "--json").out)["indexes"][1:] == []
    assert run("index", "lake", "t", "--drop", "near").out.startswith("dropped index near (version ")
    assert [one["name"] for one in json.loads(run("index", "lake", "t", "--json").out)] == ["phalanx_key"]


def test_a_table_without_indexes_says_how_to_make_one(run: Run, here: Path) -> None:
    """There is none without a key."""
    run("create", "lake", "bag", "--schema", "a: int8")
    assert run("index", "lake", "bag").out == "no indexes: --create COLUMN makes one\n"
    made = json.loads(run("index", "lake", "bag", "--create", "a", "--json").out)
    assert (made["created"]["name"], made["created"]["kind"], made["created"]["of"]) == ("a_btree", "btree", 0)


def test_rows_are_found_by_vector(run: Run, here: Path) -> None:
    """Given as numbers, or as that of a row; best first; with the score in front for people."""
    found = json.loads(run("search", "lake", "t", "--vector", "[7.2, 0]", "--k", 3, "--json").out)
    assert [row["id"] for row in found] == [7, 8, 6]
    assert found[0]["_distance"] == pytest.approx(0.04, abs=1e-4)
    like = json.loads(run("search", "lake", "t", "--vector-of", 7, "-n", 1, "--columns", "text, id", "--json").out)
    assert like == [{"text": "odd chair 7", "id": 7, "_distance": 0.0}]
    some = run("search", "lake", "t", "--vector", "[1, 0]", "--where", "id > 100", "-c", "id", "--k", 2).out
    assert [line.split() for line in some.splitlines()] == [
        ["_distance", "id"],
        ["float", "int64"],
        ["10000", "101"],
        ["10201", "102"],
        ["2", "rows"],
    ]
    near = run("search", "lake", "t", "--vector", "[0, 1]", "--metric", "dot", "-n", 1, "--version", 3, "--json")
    assert len(json.loads(near.out)) == 1
    assert run("search", "lake", "t", "--vector", "[0, 0]", "--where", "id > 999").out == "no rows\n"


def test_rows_are_found_by_text_and_by_both(run: Run, here: Path) -> None:
    """Those that are pending too."""
    assert run("index", "lake", "t", "--create", "text", "--kind", "inverted").code == 0
    found = json.loads(run("search", "lake", "t", "--text", "late", "--json").out)
    assert [row["id"] for row in found] == [300]
    assert found[0]["_score"] > 0
    both = run("search", "lake", "t", "--text", "lamp", "--vector-of", 8, "-n", 1, "-c", "id", "--json").out
    assert "_relevance_score" in json.loads(both)[0]
    assert run("search", "lake", "t", "--text", "nothing").out == "no rows\n"


def test_the_row_of_a_key_of_several_columns_is_found(run: Run, here: Path) -> None:
    """Each value is read as its column's type."""
    run("create", "lake", "two", "--schema", "on: date32, n: int8, e: fixed_size_list<float>[1]", "-k", "on", "-k", "n")
    with phalanx.open("lake") as lake:
        lake["two"].append(
            pa.table({"on": ["2026-01-31"] * 2, "n": ["1", "2"], "e": [[1.0], [5.0]]}).cast(lake["two"].schema)
        )
    like = ["--vector-of", "2026-01-31", "--vector-of", "2"]
    assert json.loads(run("search", "lake", "two", *like, "-n", 1, "--json").out)[0]["n"] == 2
    assert "give --vector-of once for each" in run("search", "lake", "two", "--vector-of", "2026-01-31").err


def test_a_terminal_gets_what_fits(here: Path) -> None:
    """The score first."""
    shown = on_a_terminal("search", "lake", "t", "--vector", "[0, 0]", folder=here, width=40)
    assert shown.code == 0
    assert "_distance" in shown.out


def test_one_line_says_why_an_index_cannot_be_built(here: Path) -> None:
    """In a process of its own, where what is logged would be printed too."""
    pq = ["--create", "e", "--kind", "ivf_pq", "--set", "num_partitions=1", "--set", "num_sub_vectors=3"]
    found = real("index", "lake", "t", *pq)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert "must be divisible by num_sub_vectors" in found.stderr
    assert "e_ivf_pq" not in real("index", "lake", "t").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["index", "lake", "tt"], 3, "did you mean 't'?"),
        (["index", "lake", "t", "--create", "x"], 2, "there is no column 'x'; there is: id, text, e"),
        (
            ["index", "lake", "t", "--create", "e", "--kind", "tree"],
            2,
            "there is no kind of index 'tree'; there is: btree",
        ),
        (["index", "lake", "t", "--create", "e"], 2, "needs a column of plain values"),
        (["index", "lake", "t", "--create", "id", "--kind", "inverted"], 2, "needs a column of text"),
        (["index", "lake", "t", "--create", "id", "--name", "phalanx_x"], 2, "cannot be called 'phalanx_x'"),
        (["index", "lake", "t", "--create", "id", "--set", "a"], 2, "--set takes KEY=VALUE"),
        (["index", "lake", "t", "--create", "id", "--set", "kind=a"], 2, "'kind' is nothing to --set"),
        (["index", "lake", "t", "--create", "id", "--drop", "x"], 2, "give one of them"),
        (["index", "lake", "t", "--kind", "bitmap"], 2, "give --create COLUMN too"),
        (["index", "lake", "t", "--drop", "x"], 3, "index 'x' does not exist"),
        (["search", "lake", "t"], 2, 'say what to search for: --text "…"'),
        (["search", "lake", "tt", "--text", "a"], 3, "did you mean 't'?"),
        (["search", "lake", "t", "--vector", "[1, 2]", "--vector-of", "1"], 2, "give one of them"),
        (["search", "lake", "t", "--vector", "[1, 2"], 2, '--vector takes numbers, as "[0.1, 0.2]"'),
        (["search", "lake", "t", "--vector", '["a"]'], 2, "--vector takes numbers"),
        (["search", "lake", "t", "--vector", "[1]"], 2, "holds vectors of 2 numbers"),
        (["search", "lake", "t", "--vector", "[1, 2]", "--metric", "l3"], 2, "there is no metric 'l3'; there is: l2"),
        (["search", "lake", "t", "--vector", "[1, 2]", "--k", "0"], 2, "--k"),
        (["search", "lake", "t", "--vector", "[1, 2]", "--set", "k=3"], 2, "'k' is nothing to --set"),
        (["search", "lake", "t", "--vector", "[1, 2]", "--set", "probes=3"], 2, "a search has no option 'probes'"),
        (["search", "lake", "t", "--vector", "[1, 2]", "-c", "x"], 2, "there is no column 'x'"),
        (["search", "lake", "t", "--vector", "[1, 2]", "-w", "x = 1"], 2, "x"),
        (["search", "lake", "t", "--vector-of", "x"], 2, "'x' is no int64, as column 'id' is"),
        (["search", "lake", "t", "--vector-of", "999"], 3, "there is no row of the key 999"),
        (["search", "lake", "t", "--vector-of", "300"], 2, "has no vector in column 'e'"),
        (["search", "lake", "t", "--vector-of", "1", "--vector-column", "id"], 2, "columns of vectors are e"),
        (["search", "lake", "bag", "--vector-of", "1"], 2, "table bag has no key"),
        (["search", "lake", "bag", "--vector", "[1]"], 2, "there is no column of vectors to search"),
        (["search", "lake", "t", "--text", "a"], 2, "there is no column of text with a full-text index: create_index"),
        (["search", "lake", "t", "--text", "a", "--text-column", "text"], 2, "column 'text' has no full-text index"),
    ],
)
def test_a_mistake_changes_nothing_and_says_what_to_do(
    arguments: list[str], code: int, says: str, run: Run, here: Path
) -> None:
    """In one line, with its code."""
    run("create", "lake", "bag", "--schema", "a: int8")
    found = run(*arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err
    with phalanx.open("lake") as lake:
        assert lake.version == 6


def test_a_note_is_kept_with_what_is_done_to_a_table(run: Run, here: Path) -> None:
    """Create, rename and drop."""
    run("create", "lake", "n", "--schema", "a: int8", "--note", "one")
    run("rename", "lake", "n", "m", "--note", "two")
    run("drop", "lake", "m", "--note", "three")
    assert [one["note"] for one in json.loads(run("log", "lake", "-n", 3, "--json").out)] == ["three", "two", "one"]
