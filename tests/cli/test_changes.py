"""The verbs changes and diff, and history with rows: marks for people, rows for programs, and what lands meanwhile."""

import json
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import phalanx
from phalanx.cli import changes
from tests.cli.running import Run, on_a_terminal, start


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake: a table at versions 2 to 6, flushed in between, and a tag at 3."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        table = made.create_table("t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
        table.append([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        made.flush()
        table.update({"name": "upper(name)"}, "id = 1")
        table.delete("id = 2")
        made.tag("before", version=3)
    return tmp_path


def test_people_see_a_mark_and_both_values(run: Run, here: Path) -> None:
    lines = [line.split() for line in run("changes", "lake", "t", "--since", 0).out.splitlines()]
    assert lines[0] == ["version", "time", "(UTC)", "id", "name"]
    assert [line[:2] for line in lines[2:6]] == [["+", "3"], ["+", "3"], ["~", "5"], ["-", "6"]]
    assert lines[4][4:] == ["1", "ann", "→", "ANN"]
    assert " ".join(lines[-1]) == "2 rows inserted, 1 row deleted, 1 row updated"
    assert run("changes", "lake", "t", "--since", 6).out == "no changes\n"
    some = run("changes", "lake", "t", "--since", "before", "--until", 5, "-n", 5).out.splitlines()
    assert some[-1] == "1 row updated"


def test_a_difference_has_no_times(run: Run, here: Path) -> None:
    text = run("diff", "lake", "t", "before").out.splitlines()
    assert text[0].split() == ["id", "name"]
    assert sorted(line.split() for line in text[2:-1]) == [["+", "1", "ANN"], ["-", "1", "ann"], ["-", "2", "bob"]]
    assert text[-1] == "1 row inserted, 2 rows deleted"
    found = json.loads(run("diff", "lake", "t", 3, 5, "--json").out)
    assert {(row["name"], row["_change_type"]) for row in found} == {("ann", "delete"), ("ANN", "insert")}


def test_programs_get_the_feed_as_it_is(run: Run, here: Path) -> None:
    """An update is two rows there."""
    rows = json.loads(run("changes", "lake", "t", "--since", 3, "--json").out)
    assert [row["_change_type"] for row in rows] == ["update_preimage", "update_postimage", "delete"]
    lines = run("changes", "lake", "t", "--since", 3, "--format", "json", "-n", 2).out.splitlines()
    assert [json.loads(line) for line in lines] == rows[:2]
    for name, read in (("o.csv", csv.read_csv), ("o.parquet", parquet.read_table)):
        assert run("changes", "lake", "t", "--since", 0, "--output", name).out == f"wrote 5 rows to {name}\n"
        assert read(name).column("_commit_version").to_pylist() == [3, 3, 5, 5, 6]


def test_many_are_shown_a_part_at_a_time(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one header; an update whose two rows are in two parts is one line all the same."""
    monkeypatch.setattr(changes, "_PART", 7)
    with phalanx.open("lake") as lake:
        lake["t"].append([{"id": n, "name": "x"} for n in range(100, 120)])
        lake["t"].update({"name": "'longer than before'"}, "id >= 100")
    text = run("changes", "lake", "t", "--since", 6).out
    assert text.count("version") == 1
    assert (text.count("\n+ "), text.count("\n~ ")) == (20, 20)
    assert "x → longer than before" in text
    cut = run("changes", "lake", "t", "--since", 6, "-n", 9).out.splitlines()
    assert len(cut) == 2 + 9 + 1
    assert cut[-1] == "9 rows inserted; there are more: --limit shows them"


def test_what_lands_is_followed_through_a_new_name_and_new_columns(here: Path) -> None:
    """Ctrl-C ends it with 130 and no word."""
    with phalanx.open("lake") as lake, start("changes", "lake", "t", "-f", "--since", "5", "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["_change_type"] == "delete"
        lake.rename_table("t", "u")
        lake["u"].add_column("more", pa.int64())
        lake["u"].append([{"id": 9, "name": "new", "more": 5}])
        found = json.loads(process.stdout.readline())
        assert (found["id"], found["more"], found["_change_type"]) == (9, 5, "insert")
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=20)
    assert (process.returncode, rest, said) == (130, "", "")


def test_a_terminal_shows_as_many_columns_as_fit(here: Path) -> None:
    with phalanx.open("lake") as lake:
        for number in range(9):
            lake["t"].add_column(f"another_column_{number}", pa.int64(), default=number)
    shown = on_a_terminal("changes", "lake", "t", "-f", "--since", 0, folder=here, interrupt_at="~", width=80)
    assert shown.code == 130
    assert "+8" in shown.out
    assert "→" in shown.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["changes", "lake", "t"], 2, "say since when: --since VERSION"),
        (["changes", "lake", "t", "--since", "99"], 2, "99"),
        (["changes", "lake", "t", "--since", "4", "--until", "3"], 2, "4 and 3 are not"),
        (["changes", "lake", "t", "--since", "-1"], 3, "there is no tag '-1'"),
        (["changes", "lake", "t", "--since", "nope"], 3, "there is: before"),
        (["changes", "lake", "tt", "--since", "0"], 3, "there is no table 'tt'"),
        (["changes", "lake", "tt", "--follow"], 3, "there is no table 'tt'"),
        (["changes", "lake", "t", "--follow", "--until", "5"], 2, "--follow prints a table or json lines"),
        (["changes", "lake", "t", "--follow", "--format", "csv"], 2, "--follow prints a table or json lines"),
        (["changes", "lake", "t", "--follow", "--output", "x.json"], 2, "--follow prints a table or json lines"),
        (["changes", "lake", "t", "--since", "0", "--format", "xml"], 2, "--format is one of"),
        (["diff", "lake", "t", "1"], 3, "there is no table 't' at version 1"),
        (["diff", "lake", "t", "99"], 3, "the lake is at version 7"),
        (["diff", "lake", "t"], 2, "OLD"),
    ],
)
def test_what_is_wrong_is_said(run: Run, here: Path, arguments: list[str], code: int, said: str) -> None:
    found = run(*arguments)
    assert (found.code, found.out) == (code, "")
    assert said in found.err


def test_history_counts_rows(run: Run, here: Path) -> None:
    lines = [line.split() for line in run("history", "lake", "t", "--rows").out.splitlines()]
    assert lines[0][6:9] == ["inserted", "updated", "deleted"]
    assert [line[5:8] for line in lines[1:]] == [["0", "0", "1"], ["0", "1", "0"], ["2", "0", "0"], ["0", "0", "0"]]
    found = json.loads(run("history", "lake", "t", "--rows", "--json", "-n", 1).out)
    assert found[0]["rows"] == {"inserted": 0, "updated": 0, "deleted": 1}
    assert json.loads(run("history", "lake", "t", "--json", "-n", 1).out)[0]["rows"] is None
