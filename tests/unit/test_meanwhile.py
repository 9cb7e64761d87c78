"""What others do while a change is made ready: rows are never taken for those of other columns, tokens never for new ones."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.errors import CommitUnknownError, ConflictError, InvalidInputError, NotFoundError, SchemaChangedError

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os", settings={"remembered": 5}) as lake:
        lake.set_property("flush.background", "off")
        yield lake


def add(lake: Lake) -> None:
    lake["t"].add_column("c", pa.int64())


def drop(lake: Lake) -> None:
    lake["t"].drop_column("b")


def swap(lake: Lake) -> None:
    """The same names and types in the same order, with another meaning."""
    with lake.transaction() as txn:
        for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
            txn["t"].rename_column(old, new)
        txn["t"].order_columns(["id", "a", "b"])


CHANGES = pytest.mark.parametrize("change", [add, drop, swap])


@CHANGES
@pytest.mark.parametrize("what", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("key", ["", "id"])
def test_columns_change_while_rows_are_read(lake: Lake, change: Any, what: str, key: str) -> None:
    """A generator is asked for its rows, and in the middle of it the table gets other columns, known to this very handle."""
    table = lake.create_table("t", SCHEMA, key=key or ())
    table.append([{"id": 0, "a": 1, "b": 2}])

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": 1, "a": 10, "b": 20}], SCHEMA)
        change(lake)
        yield pa.RecordBatch.from_pylist([{"id": 2, "a": 11, "b": 21}], SCHEMA)

    if what == "upsert" and not key:
        return
    try:
        getattr(table, what)(pa.RecordBatchReader.from_batches(SCHEMA, rows()))
    except InvalidInputError:  # it has a column that is no longer there
        assert change is drop
        assert table.count() == 1
        return
    found = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
    assert found[1] == {add: {"a": 10, "b": 20, "c": None}, swap: {"a": 20, "b": 10}, drop: {"a": 10}}[change]
    lake.flush()
    assert {row.pop("id"): row for row in table.to_arrow().to_pylist()} == found


@CHANGES
def test_columns_change_between_the_parcels_of_a_writer(lake: Lake, change: Any) -> None:
    """One batch is several commits; after the first the writer learns of other columns. Every acknowledged row is there."""
    lake.create_table("t", pa.schema([*SCHEMA, ("text", pa.string())]), key="id")
    with phalanx.open(lake.uri) as other, lake.writer("t") as writer:
        acks = [writer.upsert({"id": 0, "a": 1, "b": 2, "text": ""})]
        acks[0].result(10)
        if change is swap:
            with other.transaction() as txn:
                for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
                    txn["t"].rename_column(old, new)
                txn["t"].order_columns(["id", "a", "b", "text"])
        else:
            change(other)
        batch = [writer.upsert({"id": at, "a": 10, "b": 20, "text": "x" * (1 << 20)}) for at in range(1, 13)]
        landed = []
        for at, ack in enumerate(batch, 1):
            try:
                ack.result(30)
                landed.append(at)
            except phalanx.PhalanxError:
                continue
    assert set(lake["t"].to_arrow(columns=["id"])["id"].to_pylist()) == {0, *landed}


@pytest.mark.parametrize("what", ["append", "overwrite"])
@pytest.mark.parametrize("count", [3, 6_000])
@CHANGES
def test_columns_change_before_a_transaction_looks(lake: Lake, change: Any, what: str, count: int) -> None:
    """Its first statement has rows that were made ready by what was known: it lands by their meaning, or is to be run again."""
    lake.create_table("t", SCHEMA)
    with phalanx.open(lake.uri) as other:
        assert other["t"].count() == 0
        change(lake)
        try:
            with other.transaction() as txn:
                getattr(txn["t"], what)([{"id": at, "a": 10, "b": 20} for at in range(count)])
        except SchemaChangedError:
            assert other["t"].count() == 0
            return
        row = other["t"].to_arrow(limit=1).to_pylist()[0]
        assert (row["a"], row.get("b", 20)) == {swap: (20, 10)}.get(change, (10, 20))


def test_a_token_that_others_have_forgotten_is_not_new(lake: Lake) -> None:
    """A handle that has not looked for long repeats a transaction: it is not known whether it landed, so it does not land."""
    lake.create_table("t", SCHEMA)
    with phalanx.open(lake.uri) as idle:
        assert idle["t"].count() == 0
        token = lake.token()
        with lake.transaction(token=token) as txn:
            txn["t"].append([{"id": 1, "a": 1, "b": 1}])
        with idle.transaction(token=token) as txn:  # a repetition in time is the same transaction
            txn["t"].append([{"id": 1, "a": 1, "b": 1}])
        assert lake["t"].count() == 1
    token = lake.token()
    with phalanx.open(lake.uri, carry=False) as idle:
        with lake.transaction(token=token) as txn:
            txn["t"].append([{"id": 2, "a": 1, "b": 1}])
        for number in range(12):
            lake["t"].append([{"id": 10 + number, "a": 1, "b": 1}])
        again = idle.transaction(token=token)
        again["t"].append([{"id": 2, "a": 1, "b": 1}])
        with pytest.raises(CommitUnknownError):
            again.commit()
    assert lake["t"].count("id = 2") == 1
    assert lake["t"].count("id = 1") == 1


def test_what_matches_in_any_case_matches_on_disk_as_well(lake: Lake) -> None:
    """Lance is not told ILIKE as if it were LIKE."""
    rows = [{"id": at, "s": text} for at, text in enumerate(("Apple", "apple", "pear", None))]
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    for name in ("disk", "memory", "keyed"):
        lake.create_table(name, schema, key="id" if name == "keyed" else ()).append(rows)
    lake.flush("disk")
    lake.flush("keyed")
    for where, count in (("s ilike 'a%'", 2), ("s not ilike 'a%'", 1), ("s like 'a%'", 1), ("s not like 'a%'", 2)):
        assert [lake[name].count(where) for name in ("disk", "memory", "keyed")] == [count] * 3
    with lake.transaction() as txn:
        assert txn["keyed"].delete("s ilike 'APP%'") == 2
    assert lake["keyed"].count() == 2


def test_a_serializable_transaction_sees_rows_that_come_to_match(lake: Lake) -> None:
    """What a condition means may change with time: then whatever changes in the table counts."""
    lake.create_table("t", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    lake.create_table("out", SCHEMA)
    txn = lake.transaction(isolation="serializable")
    assert txn["t"].count("at > now()") == 0
    lake["t"].append([{"id": 1, "at": datetime(2020, 1, 1, tzinfo=UTC)}])
    txn["out"].append([{"id": 1, "a": 0, "b": 0}])
    with pytest.raises(ConflictError, match="it was read, and changed"):
        txn.commit()


def test_a_serializable_transaction_holds_on_to_names(lake: Lake) -> None:
    """A name that it asked for means the same table, or none, when it lands."""
    lake.create_table("t", SCHEMA)
    lake.create_table("u", SCHEMA)
    lake.create_table("out", SCHEMA)
    first, second = (lake.transaction(isolation="serializable") for _ in range(2))
    assert first["t"].count() == 0
    with pytest.raises(NotFoundError):
        _ = second["nope"]
    assert second["u"].count() == 0
    for old, new in (("t", "x"), ("u", "t"), ("x", "nope")):
        lake.rename_table(old, new)
    for one in (first, second):
        one["out"].append([{"id": 1, "a": 0, "b": 0}])
        with pytest.raises(ConflictError, match="was asked for, and is another one now"):
            one.commit()
