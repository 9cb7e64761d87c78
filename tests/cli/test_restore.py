"""The verb restore: says what becomes of each table, asks on a terminal, and does it in one commit."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import environment
from tests.cli.running import Run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake; since the tag "good" a table changed, one was dropped, one renamed, and one is new."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        for name in ("changed", "dropped", "old", "same"):
            made.create_table(name, [{"id": 1}, {"id": 2}], key="id")
        made.tag("good")
        made["changed"].delete("true")
        made.drop_table("dropped")
        made.rename_table("old", "renamed")
        made.create_table("new", pa.schema([("id", pa.int64())]))
    return tmp_path


def counts() -> dict[str, int]:
    with phalanx.open("lake") as lake:
        return {name: lake[name].count() for name in lake.tables()}


AFTER = {"changed": 2, "dropped": 2, "old": 2, "same": 2}
BEFORE = {"changed": 0, "new": 0, "renamed": 2, "same": 2}


def test_what_will_happen_is_said_and_happens(run: Run, here: Path) -> None:
    """Beforehand as a dry run, which changes nothing; afterwards there is nothing left to do."""
    dry = run("restore", "lake", "--tag", "good", "--dry-run").out.splitlines()
    assert [line.split() for line in dry[2:]] == [
        ["changed", "restore", "0", "2"],
        ["new", "drop", "0"],
        ["renamed", "rename,", "as", "old", "2", "2"],
        ["dropped", "bring", "back", "2"],
    ]
    assert counts() == BEFORE
    done = run("restore", "lake", "--tag", "good", "--note", "oops")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[2:-1] == dry[2:]
    assert "restored 4 tables (version" in done.out.splitlines()[-1]
    assert counts() == AFTER
    assert json.loads(run("log", "lake", "-n", 1, "--json").out)[0]["note"] == "oops"
    with phalanx.open("lake") as lake:
        end = lake.version
    again = run("restore", "lake", "--version", end - 1)
    assert again.code == 0
    assert counts() == BEFORE


def test_one_table_and_json(run: Run, here: Path) -> None:
    found = json.loads(run("restore", "lake", "--tag", "good", "--table", "changed", "--json").out)
    assert found["tables"] == [{"table": "changed", "what": "restore", "rows_now": 0, "rows_then": 2, "to": None}]
    assert found["committed"] > found["source"]
    assert counts() == {**BEFORE, "changed": 2}
    found = json.loads(run("restore", "lake", "--tag", "good", "--table", "dropped", "--json").out)
    assert [(one["table"], one["what"]) for one in found["tables"]] == [("dropped", "bring back")]
    assert counts() == {**BEFORE, "changed": 2, "dropped": 2}
    with phalanx.open("lake") as lake:
        end = lake.version
    nothing = run("restore", "lake", "--version", end)
    assert nothing.out.startswith(f"nothing to do: the tables are as they were at version {end} ")
    found = json.loads(run("restore", "lake", "--version", end, "--json").out)
    assert (found["tables"], found["committed"]) == ([], None)


@pytest.mark.parametrize(("answer", "code", "after"), [("y\n", 0, AFTER), ("n\n", 1, BEFORE), ("\x03", 130, BEFORE)])
def test_people_are_asked(answer: str, code: int, after: dict[str, int], here: Path) -> None:
    """Ctrl-C is a no as well."""
    screen, inner = pty.openpty()
    command = [sys.executable, "-m", "phalanx", "restore", "lake", "--tag", "good"]
    terminal = {**environment(), "COLUMNS": "100", "TERM": "xterm-256color"}
    command = [sys.executable, "-c", f"import os, pty; os.login_tty(0); os.execv({command[0]!r}, {command!r})"]
    shown = b""
    with subprocess.Popen(
        command, env=terminal, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    ) as process:
        os.close(inner)
        while process.poll() is None:
            if b"go on?" in shown and not shown.endswith(b"\r\n"):
                os.write(
                    screen, answer.encode()
                )  # again if need be: Python may miss one that comes just before it waits
            while select.select([screen], [], [], 1)[0]:
                try:
                    shown += os.read(screen, 1 << 16)
                except OSError:  # nobody has the terminal open any more
                    break
        process.wait(60)
    os.close(screen)
    assert (process.returncode, counts()) == (code, after), shown
    assert (b"nothing was changed" in shown) == (code != 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "say what to go back to: --version, --tag or --as-of"),
        (["--version", "2", "--tag", "good"], 2, "one of version, tag and as_of"),
        (["--version", "99"], 3, "there is no version 99"),
        (["--tag", "bad"], 3, "there is: good"),
        (["--as-of", "tuesday"], 2, "--as-of takes a time like"),
        (["--as-of", "2001-01-01"], 3, "did not exist at that time"),
        (["--tag", "good", "--table", "none"], 3, "there is no table 'none'"),
        (["--tag", "good", "--table", "new"], 3, "table 'new' did not exist at version"),
        (["--tag", "good", "--table", "old"], 3, "it was renamed to 'renamed'"),
    ],
)
def test_what_is_wrong_is_said(run: Run, here: Path, arguments: list[str], code: int, said: str) -> None:
    found = run("restore", "lake", *arguments)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert counts() == BEFORE
