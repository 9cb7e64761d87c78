"""Ctrl-C during a load leaves nothing, wherever it strikes; and a bar is drawn on terminals only."""

import array
import fcntl
import os
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

import phalanx
from phalanx.cli.stopping import Stopping
from tests.cli.running import on_a_terminal, real, start


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a lake, a table that has a row, and a file."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.create_table("t", [{"id": 0, "name": "first"}])
    (tmp_path / "many.csv").write_text("id,name\n" + "".join(f"{n},some text\n" for n in range(200_000)))
    return tmp_path


def settled(here: Path) -> tuple[int, int, list[str]]:
    with phalanx.open(here / "lake") as lake:
        return lake.version, lake["t"].count(), lake.tables()


@pytest.mark.parametrize("rows", [0, 10, 400_000], ids=["before a row", "in memory", "while files are written"])
@pytest.mark.parametrize("create", [[], ["--create"]], ids=["table", "create"])
def test_ctrl_c_during_a_load_leaves_nothing(rows: int, create: list[str], here: Path) -> None:
    """Though the pipe it reads from says nothing and never ends: 130, a word, and no change."""
    arguments = ["load", "lake", "new" if create else "t", "-", "--format", "json", *create]
    with start(*arguments, cwd=here, stdin=subprocess.PIPE) as process:
        feed(process, "\n" + '{"id": 1, "name": "some text"}\n' * rows)
        process.send_signal(signal.SIGINT)
        out, err = _wait(process)
    assert (process.returncode, out, err) == (130, "", "phalanx: stopped: nothing was loaded\n")
    assert settled(here) == (2, 1, ["t"])


def feed(process: "subprocess.Popen[str]", text: str) -> None:
    """Write into its stdin, and wait until it has taken all of it."""
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()
    left = array.array("i", [1])
    while left[0] and process.poll() is None:
        time.sleep(0.05)
        fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, left)


def _wait(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What it says, while its stdin stays open."""
    process.wait(30)
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.read(), process.stderr.read()


def test_ctrl_c_on_a_terminal_leaves_nothing(here: Path) -> None:
    """Struck while the bar is drawn, which is cleared away."""
    many = ["many.csv"] * 40
    shown = on_a_terminal("load", "lake", "t", *many, folder=here, interrupt_at="rows/s")
    assert shown.code == 130
    assert "phalanx: stopped: nothing was loaded" in shown.out
    assert settled(here) == (2, 1, ["t"])


def test_a_load_on_a_terminal_shows_how_far_it_is(here: Path) -> None:
    """A bar, rows and rows a second; at the end it is gone, and one line says what was done."""
    shown = on_a_terminal("load", "lake", "t", "many.csv", folder=here)
    assert shown.code == 0
    for word in ("many.csv", "━", "rows/s", "200,000 rows"):
        assert word in shown.out
    assert "\x1b[2K" in shown.out
    assert "loaded 200,000 rows from many.csv into t (version 3)" in shown.out.replace("\r", "").splitlines()[-1]


@pytest.mark.parametrize("flag", [[], ["--json"]], ids=["text", "json"])
def test_a_pipe_gets_no_bar(flag: list[str], here: Path) -> None:
    """One line on stdout, nothing on stderr, nothing that steers a terminal."""
    found = real("load", "lake", "t", "many.csv", *flag, cwd=here)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.count("\n") == 1
    assert "\x1b" not in found.stdout


def test_a_job_in_the_background_ignores_ctrl_c(here: Path) -> None:
    """As the shell that started it decided."""
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    with start("load", "lake", "t", "-", "--format", "csv", cwd=here, stdin=subprocess.PIPE, before=shell) as process:
        feed(process, "id,name\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("1,x\n", timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("loaded 1 row")


def test_once_all_rows_are_read_the_commit_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The first Ctrl-C is answered with a word, and what was under way before is restored."""
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stopping:
        stopping.landing = True
        signal.raise_signal(signal.SIGINT)
        assert stopping.asked
    assert "the commit is on its way" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("landing", "says"), [(False, "nothing was loaded"), (True, "look whether it landed")])
def test_a_second_ctrl_c_leaves_at_once(
    landing: bool, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever holds the first one up; the word says what is known."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    with Stopping() as stopping:
        stopping.landing = landing
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(SystemExit, match="130"):
            signal.raise_signal(signal.SIGINT)
    assert says in capsys.readouterr().err
