"""`load --follow`: lines for ever, each acknowledged; a bad one fails alone, and nothing that was read is forgotten."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.cli import follow
from phalanx.cli.single import Singly
from tests.cli.running import Run, on_a_terminal, real, start
from tests.cli.test_stopping import feed

SCHEMA = (
    "id: int64 not null, name: string, at: timestamp[ns], e: fixed_size_list<float>[2], m: map<string, int64>, "
    "b: binary, d: decimal(5, 2), days: list<struct<on: date32, t: timestamp[ns]>>"
)


@pytest.fixture
def here(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake, which has tables with a key (k) and without (t)."""
    monkeypatch.chdir(tmp_path)
    phalanx.open("lake", create=True, durability="os").close()
    run("create", "lake", "k", "--schema", SCHEMA, "--key", "id")
    run("create", "lake", "t", "--schema", "id: int64, name: string")
    return tmp_path


def held(name: str) -> list[dict[str, object]]:
    with phalanx.open("lake") as lake:
        return sorted(lake[name].to_arrow().to_pylist(), key=lambda row: str(row["id"]))


def follows(table: str, text: bytes | str, *more: str) -> "subprocess.CompletedProcess[bytes]":
    given = text if isinstance(text, bytes) else text.encode()
    found: subprocess.CompletedProcess[bytes] = real("load", "lake", table, "-", "-f", *more, input=given, text=False)  # type: ignore[assignment]
    return found


def test_lines_are_acknowledged_and_values_are_those_of_load(run: Run, here: Path) -> None:
    """Times, bytes, decimals, maps and nested values, to the nanosecond; the last line needs no end."""
    lines = [
        {"id": 1, "name": "a", "at": "2026-01-31T12:00:00.123456789", "e": [1, 2], "d": "1.25"},
        {"id": 2, "m": [{"key": "x", "value": 1}], "b": "aGk="},
        {"id": 3, "days": [{"on": "2026-01-31", "t": "2026-01-31T12:00:00.000000001"}]},
        {"id": 1, "name": "b", "at": "2026-01-31T12:00:00.123456789"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    found = follows("k", "\n" + text)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"acknowledged 4 rows into k (version ")
    (here / "same.jsonl").write_text(text)
    with phalanx.open("lake") as lake:
        lake.create_table("again", lake["k"].schema, key="id")
    assert run("load", "lake", "again", "same.jsonl").code == 0
    now = {row["id"]: row for row in held("k")}
    assert now == {row["id"]: row for row in held("again")}
    assert (now[1]["name"], now[2]["b"], now[2]["m"]) == ("b", b"hi", [("x", 1)])
    assert getattr(now[1]["at"], "nanosecond", None) == 789


BAD = {
    2: (b"null", "line 2 cannot be read: null is not a row"),
    3: (b'{"id": "x"}', "line 3 cannot be read: Column(/id) changed from number to string"),
    5: (b'{"name": "q"}', "line 5: column 'id' cannot be null\n"),
    6: (b'{"id": 2, "age": 3}', "line 6: there is no column 'age'; there is: id, name"),
    7: (b'{"id": 3} {"id": 4}', "line 7: there is more than one object on it"),
    8: (b'{"id": 5, "name": "\xff"}', "line 8 cannot be read: this is not UTF-8"),
    9: (b'{"id": 6, "e": [1]}', "line 9: column 'e' is of type"),
    10: (b'{"id": 6, "b": "%"}', "line 10: column 'b' holds bytes"),
    11: (b'{"id": 6, "d": "1.234"}', "line 11 cannot be read"),
    12: (b'{"id": 6', "line 12 cannot be read"),
    13: (b"[1]", "line 13 cannot be read"),
    14: (b"\x00", "line 14 cannot be read"),
}


@pytest.mark.parametrize("flag", [[], ["--json"]], ids=["text", "json"])
def test_a_bad_line_fails_alone_and_is_named(flag: list[str], here: Path) -> None:
    """All others are there; the exit code tells."""
    lines = [BAD[number][0] if number in BAD else b'{"id": %d}' % number for number in range(1, 20) if number != 4]
    lines.insert(3, b"  ")
    found = follows("k", b"\n".join(lines) + b"\n", *flag)
    assert found.returncode == 2
    said = found.stderr.decode()
    for _, says in BAD.values():
        assert says in said
    assert said.count("\n") == len(BAD)
    assert [row["id"] for row in sorted(held("k"), key=lambda row: int(str(row["id"])))] == [1, *range(15, 20)]
    last = found.stdout.decode().splitlines()[-1]
    if flag:
        outcome = json.loads(last)
        assert (outcome["table"], outcome["acknowledged"], outcome["failed"]) == ("k", 6, len(BAD))
    else:
        assert last.startswith("acknowledged 6 rows into k (version ")
        assert last.endswith("); 12 lines failed")


def test_strict_stops_at_the_first_line_that_fails(here: Path) -> None:
    """What came before it is there, what comes after it is not."""
    found = follows("t", '{"id": 1}\n{"id": 2}\n{"id": "x"}\n{"id": 4}\n', "--strict")
    assert (found.returncode, found.stderr.count(b"\n")) == (2, 1)
    assert b"acknowledged 2 rows into t" in found.stdout
    assert [row["id"] for row in held("t")] == [1, 2]


def test_json_says_which_lines_landed_at_once_and_before_the_next_comes(here: Path) -> None:
    """So that whoever feeds it knows what is durable while it goes on."""
    with start("load", "lake", "t", "-", "--follow", "--json", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        for number in range(1, 4):
            feed(process, f'{{"id": {number}}}\n')
            batch = json.loads(process.stdout.readline())
            assert (batch["rows"], batch["lines"]) == (1, [number, number])
            with phalanx.open("lake") as lake:
                assert lake.version >= batch["version"]
                assert lake["t"].count() == number
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["acknowledged"] == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_what_was_read(number: signal.Signals, code: int, here: Path) -> None:
    """And says how much that was, though the pipe stays open."""
    with start("load", "lake", "t", "-", "--follow", stdin=subprocess.PIPE) as process:
        feed(process, '{"id": 1, "name": "some text"}\n' * 5_000 + '{"id": 2, "na')
        process.send_signal(number)
        process.wait(30)
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (code, "")
        assert process.stdout.read().startswith("acknowledged 5,000 rows into t")
    assert len(held("t")) == 5_000


def test_a_table_that_goes_away_stops_it(run: Run, here: Path) -> None:
    """Lines after that would be lost one by one; those that were are named."""
    with start("load", "lake", "t", "-", "--follow", stdin=subprocess.PIPE) as process:
        feed(process, '{"id": 1}\n')
        deadline = time.monotonic() + 30
        while not held("t") and time.monotonic() < deadline:
            time.sleep(0.05)
        run("drop", "lake", "t")
        feed(process, '{"id": 2}\n{"id": 3}\n')
        process.wait(30)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.returncode == 3
        assert "phalanx: lines 2 to 3: " in process.stderr.read()
        assert process.stdout.read().endswith("; 2 lines failed\n")


def test_a_terminal_sees_it_move(here: Path) -> None:
    """Rows and rows a second, and a last line."""
    shown = on_a_terminal("load", "lake", "t", "-", "--follow", folder=here, interrupt_at="rows/s")
    assert shown.code == 130
    assert "standard input" in shown.out
    assert "acknowledged 0 rows into t" in shown.out


class Slow:
    """A writer that acknowledges nothing until it is asked; knows how much it was given."""

    def __init__(self) -> None:
        self.waiting: list[SlowAck] = []
        self.most = 0

    def append(self, row: dict[str, object]) -> "SlowAck":
        self.waiting.append(SlowAck(self))
        self.most = max(self.most, len(self.waiting))
        return self.waiting[-1]


class SlowAck:
    """An acknowledgement that comes when it is waited for."""

    def __init__(self, writer: Slow) -> None:
        self._writer = writer

    def done(self) -> bool:
        return False

    def result(self) -> int:
        self._writer.waiting.remove(self)
        return 7


def test_only_so_much_is_on_its_way(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input waits instead."""
    monkeypatch.setattr(follow, "MOST_BYTES", 1_000)
    with phalanx.open("lake") as lake:
        singly = Singly(lake["t"].schema, ())
    writer = Slow()
    following = follow.Following(writer, singly, strict=False, as_json=False)  # type: ignore[arg-type]
    for number in range(1, 1_000, 10):
        following._send(number, b'{"id": 1}\n' * 10)
    assert writer.most <= 110
    assert following.rows == 1_000 - len(writer.waiting)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["t", "x.jsonl", "-f"], 2, "phalanx load LAKE TABLE - --follow"),
        (["t", "-", "-", "-f"], 2, "phalanx load LAKE TABLE - --follow"),
        (["t", "-", "-f", "--format", "csv"], 2, "--follow reads json lines"),
        (["t", "-", "-f", "--mode", "overwrite"], 2, "--mode overwrite is for files"),
        (["t", "-", "-f", "--create"], 2, "`phalanx create` makes the table"),
        (["t", "-", "-f", "--note", "x"], 2, "--note"),
        (["t", "-", "-f", "--mode", "upsert"], 2, "upsert needs a key"),
        (["t", "-", "--format", "json", "--strict"], 2, "--strict belongs to --follow"),
        (["tt", "-", "-f"], 3, "did you mean 't'?"),
    ],
)
def test_what_cannot_be_followed_is_refused(arguments: list[str], code: int, says: str, run: Run, here: Path) -> None:
    """Before a line is read."""
    found = run("load", "lake", *arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err


def test_columns_that_change_meanwhile_are_learned(here: Path) -> None:
    """New, renamed and wider ones from the first line that needs them; if one is dropped, the lines after one that fails."""
    with phalanx.open("lake") as lake, lake.writer("t") as writer:
        target = lake["t"]
        target.add_column("small", pa.int8())

        def learn() -> Singly:
            return Singly(target.schema, ())

        following = follow.Following(writer, learn(), strict=False, as_json=False, learn=learn)

        def send(text: str) -> int:
            following._send(1, text.encode())
            while following._sent:
                following._hear()
            return following.failed

        target.add_column("age", pa.int64())
        assert send('{"id": 1}\n{"id": 2, "age": 3}\n') == 0
        target.rename_column("age", "years")
        assert send('{"id": 3, "years": 3}\n') == 0
        target.widen_column("small", pa.int64())
        assert send('{"id": 4, "small": 1000}\n') == 0
        target.drop_column("years")
        assert send('{"id": 5}\n') == 1
        assert send('{"id": 6}\n') == 1
        assert send('{"id": 7, "years": 1}\n{"id": 8}\n') == 2
    assert [row["id"] for row in held("t")] == [1, 2, 3, 4, 6, 8]


def test_standard_input_that_is_closed_is_refused(here: Path) -> None:
    """With an error that says so."""
    command = ["sh", "-c", 'exec "$0" -m phalanx load lake t - --follow <&-', sys.executable]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("phalanx: standard input is closed")


@pytest.mark.parametrize("text", ["null\n", '{"id": 1}\nnull\n', 'null {"id": 1}\n'])
def test_a_line_of_null_is_no_row(text: str, run: Run, here: Path) -> None:
    """Arrow makes a row of nulls out of it, or dies if it is the first."""
    (here / "null.jsonl").write_text(text)
    found = run("load", "lake", "t", "null.jsonl")
    assert found.code == 2
    assert "null is not a row: put one object on each line" in found.err


def test_a_file_that_is_not_utf8_is_refused(run: Run, here: Path) -> None:
    """Arrow would store it, and nobody could read it."""
    (here / "bytes.jsonl").write_bytes(b'{"id": 1}\n{"name": "\xff"}\n')
    found = run("load", "lake", "t", "bytes.jsonl")
    assert (found.code, held("t")) == (2, [])
    assert "line 2 cannot be read: this is not UTF-8" in found.err
