"""Loading files: every format, in one commit or not at all, and every mistake named with its file."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

import phalanx
from phalanx.cli import lines, reading
from phalanx.lake import Lake
from tests.cli.running import Run, real

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def as_lines(table: pa.Table, place: Path) -> None:
    place.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def as_stream(table: pa.Table, place: Path) -> None:
    with ipc.new_stream(place, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "rows.parquet": parquet.write_table,
    "rows.csv": csv.write_csv,
    "rows.tsv": lambda table, place: csv.write_csv(table, place, csv.WriteOptions(delimiter="\t")),
    "rows.jsonl": as_lines,
    "rows.json": as_lines,
    "rows.feather": feather.write_feather,
    "rows.arrow": lambda table, place: feather.write_feather(table, place, compression="uncompressed"),
    "rows.arrows": as_stream,
    "rows.csv.gz": lambda table, place: csv.write_csv(table, pa.CompressedOutputStream(str(place), "gzip")),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake, which has tables with a key (k) and without (t)."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("k", ROWS.schema, key="id")
        made.create_table("t", ROWS.schema)
    return tmp_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks so small that short files have several."""
    monkeypatch.setattr(lines, "BLOCK", 64)
    monkeypatch.setattr(reading, "_CSV_BLOCK", 64)
    monkeypatch.setattr(reading, "ROWS", 2)
    return


def held(name: str = "t") -> list[dict[str, object]]:
    with phalanx.open("lake") as lake:
        return sorted(lake[name].to_arrow().to_pylist(), key=lambda row: (row["id"] is None, row["id"]))


def version() -> int:
    with phalanx.open("lake") as lake:
        return lake.version


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_loaded(name: str, run: Run, here: Path) -> None:
    """By the ending of its name, into a table that is there and into one that is not."""
    table = pa.table({"id": range(100), "name": [None if n % 7 == 0 else f"n{n}" for n in range(100)]})
    WRITERS[name](table, here / name)
    found = run("load", "lake", "t", name)
    assert (found.code, found.err) == (0, "")
    assert found.out == f"loaded 100 rows from {name} into t (version 4)\n"
    assert held() == table.to_pylist()
    assert run("load", "lake", "new", name, "--create", "--key", "id").code == 0
    assert held("new") == table.to_pylist()
    with phalanx.open("lake") as lake:
        assert (lake["new"].key, lake["new"].schema) == (("id",), table.schema)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("rows.parquet", "parquet"),
        ("rows.csv", "csv"),
        ("rows.jsonl", "json"),
        ("rows.arrow", "arrow"),
        ("rows.arrows", "arrow"),
    ],
)
def test_every_format_is_read_from_a_pipe(name: str, form: str, here: Path) -> None:
    """With --format, since a pipe has no name."""
    WRITERS[name](ROWS, here / name)
    with (here / name).open("rb") as file:
        found = real("load", "lake", "t", "-", "--format", form, "--json", stdin=file)
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["rows"] == 3
    assert held() == ROWS.to_pylist()


def test_all_files_land_in_one_commit(run: Run, here: Path) -> None:
    """Files, globs and folders of several formats, in the order in which they were named."""
    folder = here / "many" / "deep"
    folder.mkdir(parents=True)
    for number, name in enumerate(["b.csv", "a.jsonl", "deep/c.parquet"]):
        WRITERS[f"rows.{name.partition('.')[2]}"](pa.table({"id": [number], "name": [name]}), here / "many" / name)
    (here / "many" / "_SUCCESS").touch()
    (here / "many" / ".b.csv.crc").touch()
    (here / "many" / "readme.txt").write_text("not loaded")
    csv.write_csv(ROWS, here / "x1.csv")
    csv.write_csv(ROWS, here / "x2.csv")
    before = version()
    found = json.loads(run("load", "lake", "t", "many", "x?.csv", "--note", "monday", "--json").out)
    said = {"table": "t", "mode": "append", "created": False, "files": 5, "rows": 9}
    assert found == {**said, "version": before + 1}
    assert version() == before + 1
    with phalanx.open("lake") as lake:
        assert [row["name"] for row in lake["t"].to_arrow().to_pylist()[:3]] == ["a.jsonl", "b.csv", "deep/c.parquet"]
        assert (lake.history("t")[0].operation, lake.history("t")[0].note) == ("append 9 rows", "monday")


def test_the_modes_do_what_they_say(run: Run, here: Path) -> None:
    """Append, upsert, insert and overwrite, on a table with a key."""
    (here / "one.csv").write_text("id,name\n1,one\n2,two\n")
    (here / "two.csv").write_text("id,name\n2,zwei\n3,drei\n")
    assert run("load", "lake", "k", "one.csv", "--mode", "insert").code == 0
    taken = run("load", "lake", "k", "two.csv", "--mode", "insert")
    assert (taken.code, taken.out) == (4, "")
    assert "key 2 exists already: use upsert" in taken.err
    assert [row["name"] for row in held("k")] == ["one", "two"]
    assert run("load", "lake", "k", "two.csv", "--mode", "upsert").code == 0
    assert [row["name"] for row in held("k")] == ["one", "zwei", "drei"]
    assert run("load", "lake", "k", "one.csv", "--mode", "overwrite").code == 0
    assert [row["name"] for row in held("k")] == ["one", "two"]
    assert run("load", "lake", "k", "two.csv", "one.csv").code == 0  # the last of equal keys counts
    assert [row["name"] for row in held("k")] == ["one", "two", "drei"]
    (here / "none.csv").write_text("id,name\n")
    assert run("load", "lake", "k", "none.csv", "--mode", "overwrite").code == 0
    assert held("k") == []


def test_cells_of_csv_are_null_only_if_they_are_empty(run: Run, here: Path) -> None:
    """NA is a country and "" a text; --null says what else means null."""
    (here / "c.csv").write_text('id,name\n1,NA\n2,""\n3,\n4,null\n')
    run("load", "lake", "t", "c.csv")
    assert [row["name"] for row in held()] == ["NA", "", None, "null"]
    run("load", "lake", "t", "c.csv", "--null", "NA", "--null", "null", "--mode", "overwrite")
    assert [row["name"] for row in held()] == [None, "", None, None]


TEXTS = {
    "words.csv": "id,name\n1,a\nx,b\n",
    "ragged.csv": "id,name\n1\n",
    "more.csv": "id,name,age\n1,a,7\n",
    "twice.csv": "id,id\n1,2\n",
    "mixed.jsonl": '{"id": 1}\n\n{"id": 2}\n{"id": "three"}\n{"id": 4}\n',
    "half.jsonl": '{"id": 1.5}\n',
    "array.json": '[{"id": 1}]\n',
    "broken.json": '{"id": 1\n',
    "more.json": '{"id": 1}\n{"id": 2, "age": 7}\n',
    "empty.csv": "",
    "empty.json": "",
    "blank.json": "\n \n",
    "empty.parquet": "",
    "empty.arrow": "",
    "text.parquet": "this is not parquet",
    "text.arrow": "this is not arrow",
    "old.feather": "FEA1....",
    "text.csv.gz": "this is not gzip",
    "nothing.txt": "id\n1\n",
}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["t", "words.csv"], 2, "words.csv: row 3, column 1: CSV conversion error to int64: invalid value 'x'"),
        (["t", "ragged.csv"], 2, "ragged.csv: CSV parse error: Row #2: Expected 2 columns, got 1"),
        (["t", "more.csv"], 2, "more.csv: there is no column 'age'; there is: id, name"),
        (["t", "twice.csv"], 2, "twice.csv: column 'id' is there twice"),
        (["t", "mixed.jsonl"], 2, "mixed.jsonl: line 4 cannot be read: Column(/id) changed from number to string"),
        (["t", "half.jsonl"], 2, "half.jsonl: line 1 cannot be read"),
        (["t", "array.json"], 2, "array.json: this is one JSON array: put one object on each line"),
        (["t", "broken.json"], 2, "broken.json: line 1 cannot be read"),
        (["t", "more.json"], 2, "more.json: there is no column 'age'"),
        (["t", "empty.csv"], 2, "empty.csv: the file is empty"),
        (["t", "empty.json"], 2, "empty.json: the file is empty"),
        (["t", "blank.json"], 2, "blank.json: there is no row in it"),
        (["t", "empty.parquet"], 2, "empty.parquet: the file is empty"),
        (["t", "empty.arrow"], 2, "empty.arrow: the file is empty"),
        (["t", "text.parquet"], 2, "text.parquet: Parquet magic bytes not found"),
        (["t", "text.arrow"], 2, "text.arrow: "),
        (["t", "old.feather"], 2, "old.feather: this is feather of version 1"),
        (["t", "text.csv.gz"], 7, "text.csv.gz cannot be read"),
        (["t", "nothing.txt"], 2, "the format of nothing.txt is not known by its name: give --format"),
        (["t", "-"], 2, "the format of standard input is not known"),
        (["t", "none.csv"], 3, "there is no file none.csv"),
        (["t", "none*.csv"], 3, "there is no file none*.csv"),
        (["t", "s3://bucket/x.csv"], 2, "not a file of this machine"),
        (["t", "lake/log"], 3, "there is no file in lake/log whose name ends in one of .parquet"),
        (["t", "good.csv", "--mode", "merge"], 2, "--mode"),
        (["t", "good.csv", "--format", "xml"], 2, "--format"),
        (["t", "good.csv", "--key", "id"], 2, "--key belongs to a new table: give --create too"),
        (["t", "good.csv", "--mode", "upsert"], 2, "upsert needs a key, and this table has none: use append"),
        (["t", "good.csv", "--mode", "insert"], 2, "use append"),
        (["t", "good.csv", "--create"], 4, "table 't' exists already"),
        (["k", "null.csv"], 2, "column 'id' is part of the key, and cannot be null"),
        (["k", "double.csv", "--mode", "insert"], 2, "key 1 is there twice"),
        (["tt", "good.csv"], 3, "did you mean 't'?; --create makes it"),
        (["new", "good.csv", "--create", "--key", "nope"], 2, "the key names 'nope', which is no column"),
        (["new", "unknown.csv", "--create"], 2, "unknown.csv: column 'b' has no value, so that its type is not known"),
        (["new", "mixed.jsonl", "--create"], 2, "mixed.jsonl: line 4 cannot be read"),
        (["new", "head.csv", "--create"], 2, "column 'id' has no value"),
        (["new", "good.csv", "words.csv", "--create"], 2, "words.csv: row 3, column 1"),
        (["../x", "good.csv", "--create"], 2, "'../x' cannot be the name of a table"),
        (["a.b", "good.csv", "--create"], 3, "namespace 'a' does not exist"),
        (["t", "good.csv", "good.jsonl", "words.csv"], 2, "words.csv: row 3"),
        (["t", "head.csv"], 2, "there are no rows to append"),
    ],
)
def test_a_mistake_names_the_file_and_nothing_is_loaded(
    arguments: list[str], code: int, says: str, run: Run, here: Path
) -> None:
    """Not even the files that were right."""
    good = {"good.csv": "id,name\n1,a\n", "good.jsonl": '{"id": 1}\n', "head.csv": "id,name\n"}
    keys = {"null.csv": "id,name\n1,a\n,b\n", "double.csv": "id\n1\n1\n", "unknown.csv": "a,b\n1,\n"}
    for name, text in {**TEXTS, **good, **keys}.items():
        (here / name).write_text(text)
    before = version()
    found = run("load", "lake", *arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err
    assert version() == before
    assert held() == held("k") == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "says"),
    [("late.csv", "late.csv: row 9002, column 1"), ("late.jsonl", "late.jsonl: line 9001 cannot be read")],
)
@pytest.mark.parametrize("create", [[], ["--create"]], ids=["table", "create"])
def test_a_bad_row_is_named_however_late_it_comes(
    name: str, says: str, create: list[str], run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were staged before it are never seen."""
    (here / "late.csv").write_text("id\n" + "1\n" * 9000 + "x\n" + "1\n" * 100)
    (here / "late.jsonl").write_text('{"id": 1}\n' * 9000 + '{"id": "x"}\n' + '{"id": 1}\n' * 100)
    found = run("load", "lake", "new" if create else "t", name, *create)
    assert (found.code, found.out) == (2, "")
    assert says in found.err
    assert found.err.endswith("nothing was loaded\n")
    assert held() == []
    with phalanx.open("lake") as lake:
        assert lake.tables() == ["k", "t"]


def test_a_null_key_far_down_is_named(run: Run, here: Path) -> None:
    """Beyond the rows that travel in the log."""
    (here / "keys.csv").write_text("id,name\n" + "".join(f"{n},x\n" for n in range(20_000)) + ",x\n")
    found = run("load", "lake", "k", "keys.csv")
    assert (found.code, found.out) == (2, "")
    assert "column 'id' is part of the key, and cannot be null" in found.err
    assert held("k") == []


def test_many_rows_are_staged_and_few_travel_in_the_log(run: Run, here: Path) -> None:
    """And both are read the same."""
    (here / "many.csv").write_text("id,name\n" + "".join(f"{n},x\n" for n in range(20_000)))
    (here / "few.csv").write_text("id,name\n-1,y\n")

    def operation(lake: Lake) -> str:
        return lake.history("t")[0].operation

    assert "20,000 rows" in run("load", "lake", "t", "many.csv").out
    with phalanx.open("lake") as lake:
        assert (operation(lake), lake["t"].count()) == ("append 20000 rows in bulk", 20_000)
    run("load", "lake", "t", "few.csv")
    with phalanx.open("lake") as lake:
        assert (operation(lake), lake["t"].count("id >= 0"), lake["t"].count()) == ("append 1 row", 20_000, 20_001)


@pytest.mark.parametrize(("name", "text"), [("f.csv", "f\n1e300\n"), ("f.jsonl", '{"f":1e300}\n')])
def test_a_number_too_large_for_its_column_is_refused(name: str, text: str, run: Run, here: Path) -> None:
    """It would be infinite."""
    (here / name).write_text(text)
    with phalanx.open("lake") as lake:
        lake.create_table("small", pa.schema([("f", pa.float32())]))
    ended = run("load", "lake", "small", name)
    assert ended.code != 0
    assert "too large" in ended.err
    with phalanx.open("lake") as lake:
        assert lake["small"].count() == 0
