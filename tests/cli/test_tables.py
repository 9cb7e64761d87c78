"""Verbs on tables as such: create, show, history, rename, drop, flush, optimize, namespace."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import phalanx
from tests.cli.running import Run, on_a_terminal


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake: table t of three rows, one of them pending."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("t", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], key="id", properties={"owner": "ann"})
        made.flush("t")
        made["t"].append([{"id": 3, "name": "c"}], note="one more")
    return tmp_path


def test_a_table_is_created_from_text(run: Run, here: Path) -> None:
    """With its key and properties; the answer says what was made."""
    text = "id: int64 not null, part: string not null, e: fixed_size_list<float>[4], at: timestamp[us, UTC]"
    made = run("create", "lake", "new", "--schema", text, "--key", "id", "--key", "part", "--property", "a=b=c")
    assert (made.code, made.err, made.out) == (0, "", "created table new (version 5)\n")
    with phalanx.open("lake") as lake:
        assert lake["new"].key == ("id", "part")
        assert lake["new"].schema.field("e").type == pa.list_(pa.float32(), 4)
        assert not lake["new"].schema.field("id").nullable
        assert lake.describe("new").properties == {"a": "b=c"}
    value = json.loads(run("create", "lake", "other", "--schema", "a: int8", "--json").out)
    assert (value["name"], value["rows"], value["version"], value["lake_version"]) == ("other", 0, 1, 6)


@pytest.mark.parametrize("name", ["like.parquet", "like.csv", "like.jsonl", "folder"])
def test_a_table_is_created_like_a_file(name: str, run: Run, here: Path) -> None:
    """With its columns, and none of its rows."""
    parquet.write_table(pa.table({"id": [1], "w": ["x"]}), "like.parquet")
    (here / "like.csv").write_text("id,w\n1,x\n")
    (here / "like.jsonl").write_text('{"id": 1, "w": "x"}\n')
    (here / "folder").mkdir()
    (here / "folder" / "a.csv").write_text("id,w\n1,x\n")
    assert run("create", "lake", "new", "--like", name, "--key", "id").code == 0
    with phalanx.open("lake") as lake:
        assert lake["new"].schema == pa.schema([("id", pa.int64()), ("w", pa.string())])
        assert (lake["new"].key, lake["new"].count()) == (("id",), 0)


def test_what_show_prints_of_a_table_can_be_given_to_create(run: Run, here: Path) -> None:
    """Types included."""
    text = "a: list<string>, s: struct<x: int64 not null, y: decimal128(5, 2)>, m: map<string, double>, t: time64[us]"
    run("create", "lake", "one", "--schema", text)
    columns = json.loads(run("show", "lake", "one", "--json").out)["columns"]
    again = ", ".join(f"{one['name']}: {one['type']}" for one in columns)
    assert run("create", "lake", "two", "--schema", again).code == 0
    with phalanx.open("lake") as lake:
        assert lake["one"].schema == lake["two"].schema


def test_show_tells_what_a_table_is(run: Run, here: Path) -> None:
    """Rows, key, columns, versions, what is on disk and what is pending; nothing is scanned."""
    value = json.loads(run("show", "lake", "t", "--json").out)
    assert (value["name"], value["rows"], value["key"], value["properties"]) == ("t", 3, ["id"], {"owner": "ann"})
    assert (value["version"], value["lake_version"], value["created"], value["changed"]) == (2, 4, 2, 4)
    assert (value["head"]["fragments"], value["head"]["rows"]) == (1, 2)
    assert (value["tail"]["items"], value["tail"]["rows"], value["tail"]["predicates"]) == (1, 1, 0)
    assert value["columns"][0] == {"name": "id", "type": "int64", "nullable": True}
    text = " ".join(run("show", "lake", "t").out.split())
    for word in ("property owner ann", "3", "2 rows in 1 fragment", "1 change: 1 row", value["id"], "string", "key"):
        assert word in text


def test_show_tells_what_a_table_was(run: Run, here: Path) -> None:
    """At a version or a tag."""
    run("tag", "lake", "early", "--version", 3)
    assert json.loads(run("show", "lake", "t", "--tag", "early", "--json").out)["rows"] == 2
    assert json.loads(run("show", "lake", "t", "--version", 2, "--json").out)["tail"]["items"] == 1
    assert json.loads(run("show", "lake", "--version", 1, "--json").out)["tables"] == []


def test_show_and_tables_say_what_is_pending(run: Run, here: Path) -> None:
    """For every table, without opening any."""
    for verb in ("show", "tables"):
        found = json.loads(run(verb, "lake", "--json").out)
        table = (found["tables"] if verb == "show" else found)[0]
        assert (table["name"], table["version"], table["changed"], table["pending"]) == ("t", 2, 4, 1)
        assert ["t", "2", "4", "1", "2"] in [line.split()[:5] for line in run(verb, "lake").out.splitlines()]


def test_history_lists_the_versions_of_a_table(run: Run, here: Path) -> None:
    """Newest first, with who, when and what; the flush between them changed no row."""
    changes = json.loads(run("history", "lake", "t", "--json").out)
    assert [(one["version"], one["lake_version"], one["operation"], one["note"]) for one in changes] == [
        (2, 4, "upsert 1 row", "one more"),
        (1, 2, "create, insert 2 rows", ""),
    ]
    assert [one["version"] for one in json.loads(run("history", "lake", "t", "-n", 1, "--json").out)] == [2]
    text = run("history", "lake", "t").out
    assert "lake version" in text
    assert "one more" in text


def test_a_table_is_renamed_and_dropped(run: Run, here: Path) -> None:
    """What it was can still be read, as the answer says."""
    run("namespace", "lake", "crm")
    assert run("rename", "lake", "t", "crm.turns").out == "renamed table t to crm.turns (version 6)\n"
    dropped = run("drop", "lake", "crm.turns").out
    assert dropped == "dropped table crm.turns (version 7); `phalanx query --version 6` still reads it\n"
    assert run("query", "lake", "crm.turns", "--version", 6, "--count").out == "3\n"
    assert run("drop", "lake", "crm.turns").code == 3
    assert json.loads(run("create", "lake", "t", "--schema", "a: int8", "--json").out)["rows"] == 0


def test_flush_says_what_was_written_out(run: Run, here: Path) -> None:
    """Once; then there is nothing to do."""
    assert [line.split() for line in run("flush", "lake").out.splitlines()] == [
        ["table", "changes", "rows", "written", "version"],
        ["t", "1", "1", "5"],
    ]
    assert run("flush", "lake", "t").out == "nothing was pending\n"
    assert json.loads(run("flush", "lake", "--json").out) == {"t": {"items": 0, "rows": 0, "version": None}}
    assert json.loads(run("show", "lake", "t", "--json").out)["tail"]["items"] == 0


def test_optimize_says_what_became_of_the_fragments(run: Run, here: Path) -> None:
    """And leaves a table alone that is in order; all of them without a name."""
    run("flush", "lake")
    assert run("optimize", "lake", "t", "--dry-run").out.startswith("t: would rewrite 1 group of ")
    little = run("optimize", "lake", "t", "--max-bytes", "1kB", "--max-time", "1m").out
    assert "left 2 fragments: max_bytes is spent" in little
    assert run("optimize", "lake", "t").out.startswith("rewrote t: 2 fragments became 1, ")
    assert run("optimize", "lake", "t").out == run("optimize", "lake").out == "t is in order: 1 fragment\n"
    assert json.loads(run("optimize", "lake", "--json").out)["t"]["after"] == 1
    assert run("optimize", "lake", "t", "--cluster-by", "id", "--threads", "1").code == 0
    assert run("query", "lake", "t", "--count").out == "3\n"


def test_namespaces_are_created_listed_and_dropped(run: Run, here: Path) -> None:
    """A table in a namespace needs the namespace."""
    assert run("namespace", "lake").out == "no namespaces: phalanx namespace LAKE NAME makes one\n"
    assert run("create", "lake", "crm.x", "--schema", "a: int8").code == 3
    assert run("namespace", "lake", "crm", "--property", "owner=ann").out == "created namespace crm (version 5)\n"
    assert run("namespace", "lake", "crm").code == 4
    assert json.loads(run("namespace", "lake", "--json").out) == {"crm": {"owner": "ann"}}
    assert run("create", "lake", "crm.x", "--schema", "a: int8").code == 0
    assert run("namespace", "lake", "crm", "--drop").code in {4, 6}
    run("drop", "lake", "crm.x")
    assert run("namespace", "lake", "crm", "--drop").out == "dropped namespace crm (version 8)\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["create", "lake", "x"], 2, 'give --schema "id: int64, name: string", or --like FILE'),
        (["create", "lake", "x", "--schema", "a: int8", "--like", "f"], 2, "give --schema"),
        (["create", "lake", "x", "--schema", "a: thing"], 2, "'thing' is not a type"),
        (["create", "lake", "x", "--schema", "a: int8", "--key", "b"], 2, "the key names 'b', which is no column"),
        (["create", "lake", "x", "--schema", "a: float", "--key", "a"], 2, "cannot be part of a key"),
        (["create", "lake", "x", "--schema", "a: int8", "--property", "b"], 2, "--property takes KEY=VALUE"),
        (["create", "lake", "x", "--schema", '"a.b": int8'], 2, "without dots"),
        (["create", "lake", "x", "--schema", "_rowid: int8"], 2, "choose another one"),
        (["create", "lake", "t", "--schema", "a: int8"], 4, "table 't' exists already"),
        (["create", "lake", "../x", "--schema", "a: int8"], 2, "'../x' cannot be the name of a table"),
        (["create", "lake", "", "--schema", "a: int8"], 2, "cannot be the name of a table"),
        (["create", "lake", "n.x", "--schema", "a: int8"], 3, "namespace 'n' does not exist"),
        (["create", "nolake", "x", "--schema", "a: int8"], 3, "phalanx init"),
        (["create", "lake", "x", "--like", "none.csv"], 3, "there is no file none.csv"),
        (["show", "lake", "tt"], 3, "did you mean 't'?"),
        (["show", "lake", "t", "--version", "1"], 3, "there is no table 't' at version 1"),
        (["history", "lake", "tt"], 3, "did you mean 't'?"),
        (["history", "lake", "t", "-n", "-1"], 2, "--limit"),
        (["rename", "lake", "tt", "u"], 3, "did you mean 't'?"),
        (["rename", "lake", "t", "../u"], 2, "'../u' cannot be the name of a table"),
        (["rename", "lake", "t", "n.u"], 3, "namespace 'n' does not exist"),
        (["rename", "lake", "t"], 2, "NEW"),
        (["drop", "lake", "tt"], 3, "did you mean 't'?"),
        (["flush", "lake", "tt"], 3, "did you mean 't'?"),
        (["optimize", "lake", "t", "--max-bytes", "much"], 2, "--max-bytes takes a number and a unit"),
        (["optimize", "lake", "t", "--max-time", "10y"], 2, "--max-time takes a number and a unit"),
        (["optimize", "lake", "t", "--cluster-by", "none"], 2, "there is no column 'none' to cluster by"),
        (["optimize", "lake", "tt"], 3, "did you mean 't'?"),
        (["optimize", "lake", "../t"], 2, "cannot be the name of a table"),
        (["namespace", "lake", "--drop"], 2, "needs a namespace"),
        (["namespace", "lake", "a/b"], 2, "cannot be the name of a namespace"),
        (["namespace", "lake", "none", "--drop"], 3, "none"),
    ],
)
def test_a_mistake_changes_nothing_and_says_what_to_do(
    arguments: list[str], code: int, says: str, run: Run, here: Path
) -> None:
    """In one line, with its code."""
    found = run(*arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err
    with phalanx.open("lake") as lake:
        assert lake.version == 4


def test_a_terminal_gets_what_fits(here: Path) -> None:
    """No line is longer than it is wide, and what steers it comes from us."""
    for arguments in (["show", "lake", "t"], ["history", "lake", "t"]):
        shown = on_a_terminal(*arguments, folder=here, width=72)
        assert shown.code == 0
        assert "t" in shown.out
        plain = [line for line in shown.out.replace("\r", "").split("\n") if "\x1b" not in line]
        assert max(map(len, plain)) <= 72
