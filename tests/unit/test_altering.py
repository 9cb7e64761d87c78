"""Columns that change: with pending items, open readers and old snapshots, in every order with flushes (rule C7)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import ConflictError, InvalidInputError, SchemaChangedError
from phalanx.lake import Lake
from phalanx.tables import rewrite
from phalanx.txn.statement import Statements

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("s", pa.string())])
ROWS = [{"id": n, "v": n, "s": f"s{n}"} for n in range(6)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = phalanx.open(tmp_path / "lake", create=True)
    lake.set_property("flush.background", "off")  # so that it is certain what is pending
    return lake


def held(table: object) -> list[dict[str, object]]:
    rows = table.to_arrow().to_pylist()  # type: ignore[attr-defined]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("key", ["id", ()])
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_every_step_with_rows_on_disk_in_memory_and_staged(lake: Lake, key: str, flushed: bool, staged: bool) -> None:
    table = lake.create_table("t", SCHEMA, key=key)
    table.append(ROWS[:2], stage=staged)
    if flushed:
        lake.flush()
    table.append(ROWS[2:4], stage=staged)
    before = lake.refresh()["t"]
    table.add_column("w", pa.int64(), expression="v * 2")
    table.add_column("d", default="it's")
    table.append([{**ROWS[4], "w": -1}])
    table.rename_column("v", "value")
    table.widen_column("value", pa.int64())
    table.update({"value": "value + 100"}, "id = 1")
    table.drop_column("s")
    table.order_columns(["d", "w", "value", "id"])
    table.append([{"id": 5, "value": 1 << 40, "w": 0, "d": None}], stage=staged)
    expected = [
        {"d": "it's", "w": 0, "value": 0, "id": 0},
        {"d": "it's", "w": 2, "value": 101, "id": 1},
        {"d": "it's", "w": 4, "value": 2, "id": 2},
        {"d": "it's", "w": 6, "value": 3, "id": 3},
        {"d": None, "w": -1, "value": 4, "id": 4},
        {"d": None, "w": 0, "value": 1 << 40, "id": 5},
    ]
    assert held(table) == expected
    assert table.schema.names == ["d", "w", "value", "id"]
    assert held(before) == ROWS[:4]
    assert table.count("w >= 0") == 5
    lake.flush()
    assert held(table) == expected
    assert held(before) == ROWS[:4]
    lake.optimize("t")
    assert held(table) == expected
    with phalanx.open(lake.uri) as other:
        assert held(other["t"]) == expected
        if key:
            assert other["t"].get(5) == expected[5]


def test_a_writer_that_has_not_heard_of_it(lake: Lake) -> None:
    """Rows of the old columns are converted; a column that is gone is refused; a condition is planned again."""
    table = lake.create_table("t", SCHEMA, key="id")
    with phalanx.open(lake.uri) as other:
        late = other["t"]
        table.append(ROWS[:1])
        table.add_column("w", pa.int64(), expression="v + 1")
        late.append([ROWS[1]])
        assert table.get(1) == {**ROWS[1], "w": 2}
        table.rename_column("v", "value")
        late.append([{**ROWS[2], "w": 7}])
        assert table.get(2) == {"id": 2, "value": 2, "s": "s2", "w": 7}
        table.drop_column("s")
        with pytest.raises(InvalidInputError, match="no column 's'"):
            late.append([{"id": 3, "value": 3, "s": "lost?", "w": 0}])
        table.rename_column("w", "x")
        with pytest.raises(InvalidInputError, match="w"):
            late.delete("w = 7")
        late.update({"x": "x + 1"}, "id = 2")
        assert table.get(2) == {"id": 2, "value": 2, "x": 8}
        assert table.count() == 3


def test_a_bulk_change_staged_before_lands_after(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(ROWS)
    lake.flush()

    def rows() -> object:
        yield pa.RecordBatch.from_pylist([ROWS[1] | {"v": 50}], schema=SCHEMA)
        with phalanx.open(lake.uri) as other:
            other["t"].add_column("w", pa.int64(), expression="v + 1")
            other["t"].drop_column("s")
            other.flush()
        yield pa.RecordBatch.from_pylist([{"id": 9, "v": 9, "s": "nine"}], schema=SCHEMA)

    table.append(pa.RecordBatchReader.from_batches(SCHEMA, rows()), stage=True)
    expected = [{"id": n, "v": n, "w": n + 1} for n in (0, 2, 3, 4, 5, 9)]
    assert [row for row in held(table) if row["id"] != 1] == expected
    assert table.get(1) == {"id": 1, "v": 50, "w": 51}
    lake.flush()
    assert table.get(1) == {"id": 1, "v": 50, "w": 51}
    assert [row for row in held(table) if row["id"] != 1] == expected


@pytest.mark.parametrize("stage", [False, True])
def test_inside_a_transaction(lake: Lake, stage: bool) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(ROWS[:3])
    with lake.transaction() as txn:
        mine = txn["t"]
        mine.update({"v": "v + 10"}, "id = 0")
        mine.rename_column("id", "key")
        mine.add_column("w", pa.int64(), expression="v * 10")
        mine.append([{"key": 7, "v": 7, "s": "seven", "w": 1}], stage=stage)
        mine.delete("key = 1")
        assert mine.schema.names == ["key", "v", "s", "w"]
        assert table.schema.names == SCHEMA.names
    expected = [
        {"key": 0, "v": 10, "s": "s0", "w": 100},
        {"key": 2, "v": 2, "s": "s2", "w": 20},
        {"key": 7, "v": 7, "s": "seven", "w": 1},
    ]
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["key"]) == expected
    assert table.key == ("key",)
    assert table.get(7) == expected[2]
    assert table.version == 3
    lake.flush()
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["key"]) == expected
    assert table.get(7) == expected[2]


def test_transactions_meet_an_alteration(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(ROWS[:3])
    txn = lake.transaction()
    txn["t"].update({"v": 1}, "id = 0")
    table.add_column("w", pa.int64())
    with pytest.raises(SchemaChangedError, match="columns of table 't'"):
        txn.commit()
    other = lake.transaction()
    assert other["t"].count() == 3
    other["t"].drop_column("w")
    table.append([{**ROWS[5]}])  # rows may land meanwhile
    other.commit()
    assert table.count() == 4
    assert table.schema.names == SCHEMA.names
    third = lake.transaction()
    third["t"].drop_column("s")
    table.drop_column("v")
    with pytest.raises(ConflictError):
        third.commit()


def test_null_or_not(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append([{"id": 1, "v": 1}])
    with pytest.raises(InvalidInputError, match="'s' is null in some rows"):
        table.set_nullable("s", False)
    table.set_nullable("v", False)
    with pytest.raises(InvalidInputError, match="'v' is missing"):
        table.append([{"id": 2}])
    lake.flush()
    with pytest.raises(InvalidInputError, match="v"):
        table.append([{"id": 2}])
    table.set_nullable("v")
    table.append([{"id": 2}])
    lake.flush()
    assert table.get(2) == {"id": 2, "v": None, "s": None}


def test_rows_in_bulk_come_after_what_they_must_not_be(lake: Lake) -> None:
    """In one transaction; the other way round it could never be committed, so that is said at once."""
    table = lake.create_table("t", SCHEMA, key=())
    with lake.transaction() as txn:
        txn["t"].append(ROWS[:2], stage=True)
        with pytest.raises(InvalidInputError, match="set column 'v' to not null first"):
            txn["t"].set_nullable("v", False)
        txn.rollback()
    with lake.transaction() as txn:
        txn["t"].set_nullable("v", False)
        txn["t"].append(ROWS[:2], stage=True)
    assert held(table) == ROWS[:2]
    assert not table.schema.field("v").nullable


def test_indexes_follow_their_columns(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(ROWS)
    table.create_index("v")
    table.create_index("s", "inverted", name="words")
    table.rename_column("v", "n")
    assert [(index.name, index.column) for index in table.indexes()][1:] == [("v_btree", "n"), ("words", "s")]
    table.widen_column("n", pa.int64())
    lake.optimize("t")
    assert table.count("n = 3") == 1
    assert table.search(text="s3", k=1).to_pylist()[0]["id"] == 3
    table.rename_column("s", "words")
    assert table.search(text="s4", k=1, text_column="words").to_pylist()[0]["id"] == 4
    table.drop_column("words")
    assert [index.name for index in table.indexes()] == ["phalanx_key", "v_btree"]
    lake.optimize("t")
    assert table.count("n = 3") == 1


def test_a_writer_with_acknowledgements_goes_on(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    with phalanx.open(lake.uri) as other, other.writer("t") as writer:
        writer.upsert(ROWS[0]).result()
        table.add_column("w", pa.int64(), default=5)
        writer.upsert(ROWS[1]).result()
        writer.upsert({**ROWS[2], "w": 1}).result()
        table.drop_column("s")
        with pytest.raises(InvalidInputError, match="no column 's'"):
            writer.upsert(ROWS[3]).result()
        writer.upsert({"id": 4, "v": 4, "w": 2}).result()
    assert [row["w"] for row in held(table)] == [5, 5, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.add_column("v", pa.int64()), "already"),
        (lambda t: t.add_column("w"), "type"),
        (lambda t: t.add_column("w", pa.int64(), default=1, expression="v"), "one value"),
        (lambda t: t.add_column("w", pa.int64(), default="x"), "default"),
        (lambda t: t.add_column("w", pa.int64(), expression="10 / v"), "may fail"),
        (lambda t: t.add_column("w", pa.int64(), expression="nope + 1"), "nope"),
        (lambda t: t.add_column("w", pa.int64(), nullable=False), "default"),
        (lambda t: t.add_column("a.b", pa.int64()), "name"),
        (lambda t: t.drop_column("nope"), "no column"),
        (lambda t: t.drop_column("id"), "key"),
        (lambda t: t.widen_column("id", pa.int64()), "key"),
        (lambda t: t.widen_column("v", pa.int16()), "wider"),
        (lambda t: t.widen_column("v", pa.float32()), "wider"),
        (lambda t: t.widen_column("s", pa.int64()), "wider"),
        (lambda t: t.rename_column("v", "s"), "already"),
        (lambda t: t.order_columns(["id", "v"]), "every column"),
        (lambda t: t.set_nullable("id", False), "key"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(lake: Lake, change: object, message: str) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    version = lake.version
    with pytest.raises(InvalidInputError, match=message):
        change(table)  # type: ignore[operator]
    assert lake.version == version


def test_sql_and_search_see_the_new_columns_before_they_are_written_out(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, key="id")
    table.append(ROWS, stage=True)
    table.rename_column("v", "n")
    table.add_column("twice", pa.int64(), expression="n * 2")
    found = lake.sql("select id, twice from t where n >= 4 order by id").to_arrow().to_pylist()
    assert found == [{"id": 4, "twice": 8}, {"id": 5, "twice": 10}]


def test_a_rewrite_that_was_planned_before_an_alteration_does_not_bring_the_old_columns_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote has no values of the new column: it is given up, which is no failure (rule C5)."""
    table = lake.create_table("t", SCHEMA, key="id")
    for at in range(3):
        table.append(ROWS[2 * at : 2 * at + 2], stage=True)
    run = rewrite.run

    def meanwhile(*arguments: object) -> object:
        monkeypatch.undo()
        done = run(*arguments)  # type: ignore[arg-type]
        table.add_column("w", pa.int64(), expression="v + 1")
        lake.flush()
        return done

    monkeypatch.setattr(rewrite, "run", meanwhile)
    done = lake.optimize("t", budget=1)["t"]
    assert done.rewritten == 0
    assert "other columns" in done.skipped[0].reason
    assert [row["w"] for row in held(table)] == [1, 2, 3, 4, 5, 6]
    assert lake.optimize("t")["t"].rewritten == 1
    assert [row["w"] for row in held(table)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("once", [False, True])
def test_rows_in_bulk_that_meet_other_columns_are_made_ready_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    """Somebody adds a column after the rows were made ready: they get it; a stream that was read in part is refused."""
    with phalanx.open(tmp_path / "lake", create=True) as lake, phalanx.open(tmp_path / "lake") as other:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        inner = Statements._found
        altered: list[int] = []

        def found(statements: Statements) -> Any:
            if not altered:
                altered.append(other["t"].add_column("v", pa.int64(), default=7))
            return inner(statements)

        monkeypatch.setattr(Statements, "_found", found)
        rows = pa.table({"id": [1, 2]})
        if once:
            with pytest.raises(phalanx.SchemaChangedError, match="run it again"):
                table.append(rows.to_reader(), stage=True)
        else:
            table.append(rows, stage=True)
            assert table.to_arrow().to_pylist() == [{"id": 1, "v": None}, {"id": 2, "v": None}]
