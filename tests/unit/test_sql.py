"""SQL over one snapshot: right with a tail and without, asking Lance for no more than is needed, and reading only."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx import InvalidInputError, Lake, NotFoundError, UnsupportedError
from phalanx.sql.source import Part
from tests.unit.test_table_types import VALUES, rows

JOIN = "select id, n, s, turns.x from turns join crm.archive using (id) order by id"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.set_property("flush.background", "off")
        made.create_namespace("crm")
        numbers = list(range(100))
        turns = {"id": numbers, "n": [one % 7 for one in numbers], "x": [one / 2 for one in numbers]}
        made.create_table("turns", pa.table(turns), key="id")
        made.create_table("crm.archive", pa.table({"id": numbers, "s": [f"s{one}" for one in numbers]}), key="id")
        made.flush()
        yield made


def asked(lake: Lake, text: str, **options: Any) -> list[dict[str, Any]]:
    return lake.sql(text, **options).to_arrow().to_pylist()


def change(lake: Lake) -> None:
    """Every kind of change, by way of the log and of files."""
    lake["turns"].append([{"id": 200, "n": 1, "x": None}])
    lake["turns"].upsert([{"id": 3, "n": 30, "x": 0.25}])
    lake["turns"].delete("id between 10 and 19")
    lake["turns"].update({"x": "x + 1"}, "n = 2")
    lake["turns"].append(pa.table({"id": [4, 300], "n": [40, 41], "x": [4.5, 5.5]}), stage=True)
    lake["crm.archive"].upsert([{"id": 200, "s": "new"}, {"id": 300, "s": "newer"}, {"id": 1, "s": "other"}])


def by_hand(lake: Lake) -> list[dict[str, Any]]:
    words = {row["id"]: row["s"] for row in lake["crm.archive"].to_arrow().to_pylist()}
    turns = sorted(lake["turns"].to_arrow().to_pylist(), key=lambda row: row["id"])
    return [{"id": r["id"], "n": r["n"], "s": words[r["id"]], "x": r["x"]} for r in turns if r["id"] in words]


def test_a_join_reads_every_table_at_one_snapshot_with_its_tail(lake: Lake) -> None:
    before = asked(lake, JOIN)
    assert len(before) == 100
    old = lake.snapshot()
    change(lake)
    pending = asked(lake, JOIN)
    assert pending == by_hand(lake)
    assert pending != before
    assert old.sql(JOIN).to_arrow().to_pylist() == before
    lake.flush()
    assert asked(lake, JOIN) == pending
    assert old.sql(JOIN).to_arrow().to_pylist() == before


@pytest.mark.parametrize("where", ["id = 3", "n = 2", "n in (1, 30)", "x is null", "id > 95 or n = 40", "x < 1.5"])
def test_a_condition_finds_the_same_rows_as_where(lake: Lake, where: str) -> None:
    """By an index and without, in the head, in files of the tail and in memory."""
    change(lake)
    for _ in range(2):
        found = asked(lake, f"select * from turns where {where} order by id")
        assert found == lake["turns"].to_arrow(where=where).sort_by("id").to_pylist()
        assert asked(lake, f"select count(*) as n from turns where {where}") == [{"n": lake["turns"].count(where)}]
        lake.flush()


def test_lance_is_asked_for_what_is_needed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of the question, and the rows of its condition."""
    change(lake)
    seen: list[tuple[list[str], str, int]] = []
    opened = Part._opened

    def looked_at(part: Part, names: list[str], condition: Any) -> pa.RecordBatchReader:
        rows = opened(part, names, condition).read_all()
        seen.append((names, str(condition), rows.num_rows))
        return rows.to_reader()

    monkeypatch.setattr(Part, "_opened", looked_at)
    assert asked(lake, "select sum(x) as s from turns where n = 5 and id < 10") == [{"s": 2.5}]
    assert {(tuple(names), count) for names, _, count in seen} == {(("x",), 1), (("x",), 0)}
    assert all("n == 5" in text and "id < 10" in text for _, text, _ in seen)


def test_only_the_tables_it_names_are_opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    reading = lake._core.reading
    monkeypatch.setattr(lake._core, "reading", lambda found: read.append(found.name[-1]) or reading(found))
    asked(lake, "with archive as (select 1 as id) select * from turns join archive using (id)")
    assert read == ["turns"]


def test_fifty_identical_projections_all_count(lake: Lake) -> None:
    """DataFusion drops some of them."""
    text = "select id, x as v from turns"
    for _ in range(50):
        text = f"select id, v + 1 as v from ({text})"
    assert asked(lake, f"select v from ({text}) where id = 4") == [{"v": 52.0}]


def test_names_of_several_parts_aliases_and_case(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a.b")
    lake.create_table("a.b.c", [{"k": 1}])
    one = [{"id": 1, "s": "s1"}]
    assert asked(lake, "select crm.archive.id, s from crm.archive, a.b.c where id = k") == one
    assert asked(lake, 'select id, s from "crm.archive" join "a.b.c" d on id = d.k') == one
    assert asked(lake, "select id, s from CRM.Archive join a.b.c on id = c.k") == one
    lake.create_table("Turns", [{"id": 7}])
    assert asked(lake, "select count(*) as n from Turns") == [{"n": 1}]
    with pytest.raises(InvalidInputError, match="differ in case only"):
        lake.sql("select * from turns join Turns using (id)")


def test_values_are_given_beside_the_text(lake: Lake) -> None:
    assert asked(lake, "select x from turns where id = ?", params=[8]) == [{"x": 4.0}]
    assert asked(lake, "select x from turns where id = $id", params={"id": 8}) == [{"x": 4.0}]
    for wrong in ("8", [1, 2], {"other": 1}):
        with pytest.raises(InvalidInputError):
            lake.sql("select x from turns where id = ?", params=wrong)


@pytest.mark.parametrize(
    "text",
    [
        "copy turns to '/tmp/never.csv'",
        "create table t (a int)",
        "insert into turns values (1, 1, 1)",
        "with gone as (delete from turns returning *) select * from gone",
        "attach '/tmp/never.db'",
        "install httpfs",
        "load json",
        "set threads = 1",
        "pragma version",
        "call pragma_version()",
        "select 1; select 2",
        "show tables",
        "",
        "-- nothing",
        "selec 1",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from query('select 1')",
        "select * from arrow_scan(1, 2, 3)",
        "select * from duckdb_settings()",
        "select * from turns at (version => 3)",
        "select nope from turns",
        "select * from turns, (from glob('*'))",
    ],
)
def test_what_does_more_than_read_tables_is_refused(lake: Lake, text: str) -> None:
    """Before anything runs; and so is what is no SQL."""
    with pytest.raises((InvalidInputError, NotFoundError)):
        lake.sql(text)


def test_an_unknown_table_is_named_with_what_is_near(lake: Lake) -> None:
    frame = pa.table({"a": [1]})
    for name in ("frame", "information_schema.tables"):
        with pytest.raises(NotFoundError):
            lake.sql(f"select * from {name}")
    with pytest.raises(NotFoundError, match="did you mean 'turns'"):
        lake.sql("select * from turn")
    assert frame.num_rows == 1


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in ("decimal256", "duration")])
def test_every_type_that_is_stored_is_read(tmp_path: Path, kind: str) -> None:
    """From the log, from files, and where a condition is on it; half floats come as floats."""
    given = rows(kind)
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("t", given.schema, key="id")
        table.append(given, stage=False)
        for _ in range(2):
            found = lake.sql("select x from t order by id").to_arrow()
            assert found.to_pylist() == given.select(["x"]).to_pylist()
            same = lake.sql("select id from t where x = (select x from t where id = 1) order by id").to_arrow()
            nothing = lake.sql("select id from t where x is null order by id").to_arrow()
            wanted = [] if kind == "null" else [2] if kind in ("timestamp_ns", "timestamp_tz", "struct") else []
            assert same.column("id").to_pylist() == ([] if kind == "null" else [1, *wanted])
            assert nothing.column("id").to_pylist() == ([1, 2, 3] if kind == "null" else [3])
            lake.flush()


def test_conditions_on_types_that_lance_refuses_are_right(tmp_path: Path) -> None:
    kinds = {"u": pa.uint32(), "h": pa.float16(), "d": pa.date64(), "w": pa.dictionary(pa.int32(), pa.string())}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", schema, key="id")
        table.append([{"id": n, "u": n, "h": n / 2, "d": n * 86_400_000, "w": f"w{n % 3}"} for n in range(30)])
        lake.flush()
        table.delete("id = 29")
        for where in ("u > 27", "h = 14.0", "d = date '1970-01-29'", "w = 'w1' and id > 26"):
            assert asked(lake, f"select id from t where {where}") == [{"id": 28}], where


def test_a_type_that_the_engine_lacks_is_named(tmp_path: Path) -> None:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.create_table("t", rows("decimal256"), key="id")
        with pytest.raises(UnsupportedError, match="column 'x' of table 't'"):
            lake.sql("select id from t")


def test_an_answer_is_asked_again_by_many_threads(lake: Lake) -> None:
    change(lake)
    answer = lake.sql(JOIN)
    wanted = answer.to_arrow()
    assert answer.schema.names == ["id", "n", "s", "x"]
    found: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: found.append(answer.scan(batch_size=7).read_all())) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.equals(wanted) for one in found] == [True] * 4
    assert answer.to_pandas()["id"].tolist() == answer.to_polars()["id"].to_list() == wanted["id"].to_pylist()


@pytest.mark.parametrize("way", ["to_arrow", "scan"])
def test_ctrl_c_stops_it(lake: Lake, way: str) -> None:
    """The engine does not look at signals by itself, and polars changes how they arrive; the next one is answered."""
    lake.sql("select 1").to_polars()
    endless = "select a.range from range(10000000) a, range(10000000) b where a.range + b.range < 0"
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    ask = getattr(lake.sql(endless), way)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        list(ask())
    assert asked(lake, "select count(*) as n from turns") == [{"n": 100}]


def test_a_damaged_file_is_said_in_our_words(tmp_path: Path) -> None:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.create_table("t", pa.table({"id": list(range(1000))}))
        lake.flush()
        for file in (tmp_path / "lake").rglob("data/*.lance"):
            file.unlink()
    with phalanx.open(tmp_path / "lake") as lake, pytest.raises(phalanx.CorruptionError, match="phalanx check"):
        lake.sql("select max(id) from t").to_arrow()
