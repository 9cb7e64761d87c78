"""Reading rows: which, as of when, in which form; and what is written so is read so."""

import datetime as dt
import decimal
import io
import json
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

import phalanx
from tests.cli.running import Run, on_a_terminal, real, start

ROWS = [{"id": n, "name": f"n{n}", "v": n / 4} for n in range(1, 31)]

EVERYTHING = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("large", pa.large_string()),
        pa.field("vector", pa.list_(pa.float32(), 2)),
        pa.field("moment", pa.timestamp("us", "UTC")),
        pa.field("fine", pa.timestamp("ns")),
        pa.field("zoned", pa.timestamp("ms", "Europe/Berlin")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("time", pa.time64("us")),
        pa.field("second", pa.time32("s")),
        pa.field("bytes", pa.binary()),
        pa.field("two", pa.binary(2)),
        pa.field("nested", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.timestamp("us"))])),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("half", pa.float16()),
        pa.field("day", pa.date32()),
        pa.field("span", pa.duration("s")),
        pa.field("double", pa.float64()),
        pa.field("small", pa.uint8()),
        pa.field("huge", pa.uint64()),
        pa.field("flag", pa.bool_()),
        pa.field("many", pa.large_list(pa.int32())),
    ]
)
FULL = {
    "text": 'a "quoted", \n text',
    "large": "ä",
    "vector": [0.1, 2.5],
    "moment": dt.datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC),
    "fine": 1_234_567_890_123_456_789,
    "zoned": dt.datetime(2024, 7, 1, tzinfo=dt.UTC),
    "price": decimal.Decimal("12345678.90"),
    "time": dt.time(1, 2, 3, 4),
    "second": dt.time(1, 2, 3),
    "bytes": b"\x00\xff",
    "two": b"ab",
    "nested": {"a": 1, "b": ["x", None], "c": dt.datetime(2024, 1, 2)},  # noqa: DTZ001 - a column without a zone
    "map": [("k", 1)],
    "half": 1.5,
    "day": dt.date(2024, 1, 1),
    "span": dt.timedelta(seconds=90),
    "double": 1e300,
    "small": 255,
    "huge": (1 << 64) - 1,
    "flag": True,
    "many": [1, 2],
}
HOLLOW = {"text": "", "bytes": b"", "nested": {"a": None, "b": [], "c": None}, "map": [], "many": []}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake: table t has a row at version 2, 30 at 3 (tag "all"), the first deleted at 5."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("t", ROWS[:1], key="id")
        made["t"].append(ROWS[1:])
        made.tag("all")
        made["t"].delete("id = 1")
        made["t"].append([{"id": 31, "name": None}])
    return tmp_path


def rows(run: Run, *arguments: object) -> list[dict[str, object]]:
    found = run("query", "lake", "t", "--json", *arguments)
    assert (found.code, found.err) == (0, "")
    listed: list[dict[str, object]] = json.loads(found.out)
    return sorted(listed, key=str)


def test_rows_and_columns_are_chosen(run: Run, here: Path) -> None:
    """By a condition, by name and by number."""
    assert rows(run, "--where", "id > 29", "--columns", "name,id") == [
        {"name": "n30", "id": 30},
        {"name": None, "id": 31},
    ]
    assert [list(row) for row in rows(run, "-w", "id = 2", "-c", "v", "-c", "id")] == [["v", "id"]]
    assert len(rows(run, "--limit", 7)) == 7
    assert len(rows(run)) == 30
    assert rows(run, "--where", "id > 99") == []
    assert rows(run, "--limit", 0) == []


def test_rows_are_counted(run: Run, here: Path) -> None:
    """Now, by a condition, and as of an earlier version."""
    assert run("query", "lake", "t", "--count").out == "30\n"
    assert run("query", "lake", "t", "--count", "--where", "v > 5").out == "10\n"
    assert run("query", "lake", "t", "--count", "--version", 2).out == "1\n"
    assert json.loads(run("query", "lake", "t", "--count", "--json").out) == {"count": 30}


def test_the_past_is_read(run: Run, here: Path) -> None:
    """By version, by tag, and by a time with a zone or without."""
    assert len(rows(run, "--version", 2)) == 1
    assert rows(run, "--tag", "all", "-w", "id = 1") == ROWS[:1]
    with phalanx.open("lake") as lake:
        moment = lake.snapshot(version=2).time
    for text in (moment.isoformat(), moment.replace(tzinfo=None).isoformat(), f"{moment:%Y-%m-%d %H:%M:%S.%fZ}"):
        assert len(rows(run, "--as-of", text)) == 1


def test_people_get_a_table_that_ends_with_what_is_left(run: Run, here: Path) -> None:
    """The first 20 rows, or as many as they ask for; null is a word."""
    text = run("query", "lake", "t").out.splitlines()
    assert text[0].split() == ["id", "name", "v"]
    assert text[1].split() == ["int64", "string", "double"]
    assert len(text) == 2 + 20 + 1
    assert text[-1] == "20 rows; there are more: --limit shows them, --count counts them"
    assert run("query", "lake", "t", "-n", 30).out.splitlines()[-1] == "30 rows"
    one = run("query", "lake", "t", "-w", "id = 31").out.splitlines()
    assert (one[-2].split(), one[-1]) == (["31", "null", "null"], "1 row")
    assert run("query", "lake", "t", "-w", "id = 99").out == "no rows\n"


def test_long_values_are_shortened_for_people_only(run: Run, here: Path) -> None:
    """A vector shows its beginning and its length; JSON has all of it."""
    schema = pa.schema([("e", pa.list_(pa.float32(), 128)), ("s", pa.string()), ("b", pa.binary())])
    with phalanx.open("lake") as lake:
        lake.create_table("long", schema).append([{"e": [0.5] * 128, "s": "x\x1b[2J" + "y" * 500, "b": b"\xff" * 99}])
    text = run("query", "lake", "long").out
    assert "[0.5, 0.5, 0.5, … 128 values]" in text
    assert "ffffffffffffffff… (99 bytes)" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 160
    row = json.loads(run("query", "lake", "long", "--json").out)[0]
    assert (len(row["e"]), len(row["s"]), len(row["b"])) == (128, 505, 132)


def test_a_terminal_gets_as_many_columns_as_fit(run: Run, here: Path) -> None:
    """And is told how many are left; a pipe gets all."""
    with phalanx.open("lake") as lake:
        lake.create_table("wide", [{f"column_{n}": "x" * 12 for n in range(30)}])
    shown = on_a_terminal("query", "lake", "wide", folder=here, width=80)
    assert shown.code == 0
    assert "column_3" in shown.out
    assert "column_9" not in shown.out
    assert "+25" in shown.out
    assert "column_29" in run("query", "lake", "wide").out


def test_standard_output_takes_every_format(run: Run, here: Path) -> None:
    """So that the answer can be piped into whatever comes next."""
    command = ["query", "lake", "t", "-w", "id in (2, 31)", "--format"]
    lines = run(*command, "json").out.splitlines()
    assert [json.loads(line) for line in lines] == [ROWS[1], {"id": 31, "name": None, "v": None}]
    assert run(*command, "csv").out == '"id","name","v"\n2,"n2",0.5\n31,,\n'
    assert run(*command, "tsv").out == '"id"\t"name"\t"v"\n2\t"n2"\t0.5\n31\t\t\n'
    for form in ("parquet", "arrow"):
        found = real(*command, form, text=False)
        assert found.returncode == 0
        data = io.BytesIO(found.stdout)  # type: ignore[arg-type]
        table = parquet.read_table(data) if form == "parquet" else ipc.open_stream(data).read_all()
        assert table.column("id").to_pylist() == [2, 31]


def test_a_file_appears_when_it_is_complete(run: Run, here: Path) -> None:
    """In the format of its name or the one asked for; what was there is replaced, and nothing else is left."""
    (here / "out.parquet").write_text("old")
    assert run("query", "lake", "t", "--output", "out.parquet").out == "wrote 30 rows to out.parquet\n"
    assert parquet.read_table("out.parquet").num_rows == 30
    said = json.loads(run("query", "lake", "t", "--output", "x", "--format", "csv", "-n", 3, "--json").out)
    assert said == {"output": "x", "format": "csv", "rows": 3}
    assert csv.read_csv("x").num_rows == 3
    run("query", "lake", "t", "--output", "out.feather")
    assert feather.read_table("out.feather").num_rows == 30
    assert run("query", "lake", "t", "-w", "1/(id-30) > 0", "--output", "fails.csv").code == 2
    assert {path.name for path in here.iterdir()} == {"lake", "out.parquet", "x", "out.feather"}


@pytest.mark.parametrize("form", ["json", "csv", "tsv", "parquet", "arrow"])
def test_what_query_writes_is_what_load_reads(form: str, run: Run, here: Path) -> None:
    """Every type, in every format, as it was."""
    nothing = dict.fromkeys(FULL)
    table = pa.Table.from_pylist(
        [{"id": 1, **FULL}, {"id": 2, **nothing}, {"id": 3, **nothing, **HOLLOW}], schema=EVERYTHING
    )
    with phalanx.open("lake") as lake:
        lake.create_table("every", table, key="id")
        lake.create_table("copy", EVERYTHING, key="id")
    assert run("query", "lake", "every", "--output", f"rows.{form}").code == 0
    found = run("load", "lake", "copy", f"rows.{form}")
    assert (found.code, found.err) == (0, "")
    with phalanx.open("lake") as lake:
        assert lake["copy"].to_arrow().to_pylist() == lake["every"].to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nolake", "t"], 3, "phalanx init"),
        (["lake", "tt"], 3, "there is no table 'tt' at version 6; did you mean 't'?"),
        (["lake", "../t"], 2, "cannot be the name of a table"),
        (["lake", "t", "-c", "id,nope"], 2, "there is no column 'nope'; there is: id, name, v"),
        (["lake", "t", "-c", ""], 2, "there is no column ''"),
        (["lake", "t", "-w", "nope = 1"], 2, "nope, which is no column here"),
        (["lake", "t", "-w", "id ="], 2, "not a condition that can be planned"),
        (["lake", "t", "-w", "id = 'x'"], 2, "id = 'x'"),
        (["lake", "t", "-w", "name"], 2, "name"),
        (["lake", "t", "-w", ""], 2, "condition"),
        (["lake", "t", "-n", "-1"], 2, "--limit"),
        (["lake", "t", "--version", "99"], 3, "the lake is at version 6"),
        (["lake", "t", "--version", "1"], 3, "there is no table 't' at version 1; there is: none"),
        (["lake", "t", "--tag", "none"], 3, "there is no tag 'none'; there is: all"),
        (["lake", "t", "--tag", "all", "--version", "3"], 2, "one of version, tag"),
        (["lake", "t", "--as-of", "yesterday"], 2, "--as-of takes a time like"),
        (["lake", "t", "--as-of", "1999-01-01"], 3, "the lake did not exist at that time"),
        (["lake", "t", "--format", "xml"], 2, "--format is one of table, parquet, csv, tsv, json, arrow"),
        (["lake", "t", "--format", "csv", "--json"], 2, "leave --format out"),
        (["lake", "t", "--output", "rows.txt"], 2, "--output needs a --format"),
        (["lake", "t", "--output", "rows.csv", "--format", "table"], 2, "--output needs a --format"),
        (["lake", "t", "--output", "no/rows.csv"], 2, "there is no folder no to write rows.csv into"),
        (["lake", "t", "--count", "--limit", "3"], 2, "--count counts all rows that match"),
    ],
)
def test_a_mistake_says_what_to_do(arguments: list[str], code: int, says: str, run: Run, here: Path) -> None:
    """In one line, with its code."""
    found = run("query", *arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err


@pytest.mark.parametrize("form", [["--json"], ["--format", "csv"], ["--format", "parquet"]], ids=lambda form: form[-1])
def test_a_closed_pipe_is_no_error_to_speak_of(form: list[str], here: Path) -> None:
    """`phalanx query | head` ends the query, without a word."""
    with phalanx.open("lake") as lake:
        lake.create_table("many", pa.table({"id": range(200_000), "text": ["x" * 50] * 200_000}))
    with start("query", "lake", "many", *form, text=False) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(8)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(30)
    assert (process.returncode, said) == (1, b"")


def test_a_terminal_is_not_sent_binary_data(here: Path) -> None:
    """It would garble it."""
    shown = on_a_terminal("query", "lake", "t", "--format", "parquet", folder=here)
    assert shown.code == 2
    assert "not for terminals: give --output FILE" in shown.out


def test_an_output_that_is_no_file(run: Run, here: Path) -> None:
    """A folder is refused, and a pipe is written to, not replaced."""
    refused = run("query", "lake", "t", "--output", here, "--format", "csv")
    assert (refused.code, "is a folder" in refused.err) == (2, True)
    pipe = here / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert run("query", "lake", "t", "--output", pipe, "--format", "json").code == 0
    reader.join(10)
    assert pipe.is_fifo()
    assert got[0].count(b"\n") == json.loads(run("query", "lake", "t", "--count", "--json").out)["count"]
    assert not list(here.glob(".*.part"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["history", "lake", "t", "-n", "9" * 20],
        ["query", "lake", "t", "--limit", "9" * 20],
        ["diff", "lake", "t", "9" * 5000],
        ["tag", "lake", "1"],
    ],
    ids=lambda one: one[0],
)
def test_numbers_beyond_all_bounds(run: Run, here: Path, arguments: list[str]) -> None:
    """Refused as what they are, or as good as all; never a trace, and never the storage's fault."""
    ended = run(*arguments)
    assert ended.code in ({0} if arguments[0] == "history" else {2, 3, 4})
