"""How others lost or changed what was handed to them (docs/known-bugs.md, numbers 28, 31 and 36): arranged here."""

import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx import data
from phalanx.errors import InvalidInputError, PhalanxError
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.tables import index, stage
from phalanx.tail.keys import superseded
from phalanx.transaction import Transaction
from phalanx.txn import bulk
from phalanx.txn.transaction import Work
from phalanx.upkeep.cover import cover

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
BATCHES = 6


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with a table without a key and one with."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.set_property("flush.background", "off")
        made.create_table("t", {"id": [-1], "v": [-1]})
        made.create_table("k", {"id": [-1], "v": [-1]}, key="id")
        made.flush()
        yield made


@pytest.fixture
def other(lake: Lake) -> Iterator[Lake]:
    """Another handle on it."""
    with phalanx.open(lake.uri) as opened:
        yield opened


def rows_of(readable: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in readable.to_arrow().to_pylist())


def everywhere(lake: Lake, name: str) -> Iterator[list[tuple[Any, ...]]]:
    """What a table holds: in the log, flushed, rewritten, and to whoever opens it then."""
    yield rows_of(lake[name])
    lake.flush(name)
    yield rows_of(lake[name])
    lake.optimize(name)
    yield rows_of(lake[name])
    with phalanx.open(lake.uri) as fresh:
        yield rows_of(fresh[name])
        assert fresh.check().whole


def batches(pulled: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    for number in range(BATCHES):
        if pulled is not None:
            pulled.append(number)
        yield pa.record_batch({"id": range(10 * number, 10 * number + 10), "v": [number] * 10}, schema=SCHEMA)


def reader(pulled: list[int] | None = None) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(pulled))


ALL = [(at, at // 10) for at in range(10 * BATCHES)]
WRITES: dict[str, tuple[Callable[[Lake, Any], object], str, bool]] = {
    "append": (lambda lake, rows: lake["t"].append(rows, stage=True), "t", True),
    "upsert": (lambda lake, rows: lake["k"].upsert(rows, stage=True), "k", True),
    "overwrite": (lambda lake, rows: lake["t"].overwrite(rows, stage=True), "t", False),
}


def fail_after(count: int, patch: pytest.MonkeyPatch) -> None:
    """The disk is full after so many batches."""

    def full(rows: pa.RecordBatchReader, *_: object, **__: object) -> None:
        for _ in range(count):
            rows.read_next_batch()
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(stage, "write_fragments", full)


def write_again(lake: Lake, what: str, give: Callable[[], Any], count: int) -> None:
    """A write fails after some batches; what is left of its stream is not taken for all; a new one is."""
    write, name, adds = WRITES[what]
    before, rows = rows_of(lake[name]), give()
    with pytest.MonkeyPatch.context() as patch:
        fail_after(count, patch)
        with pytest.raises(PhalanxError, match="No space left"):
            write(lake, rows)
    assert rows_of(lake[name]) == before
    try:
        write(lake, rows)
    except InvalidInputError as error:
        assert "read from before" in str(error)  # noqa: PT017 - the other way out is looked at as well
    assert rows_of(lake[name]) == before, "half of the rows"
    write(lake, give())
    assert rows_of(lake[name]) == sorted([*ALL, *(before if adds else [])])


@pytest.mark.parametrize("give", [reader, batches], ids=["reader", "generator"])
@pytest.mark.parametrize("what", WRITES)
def test_28_what_is_left_of_a_stream_is_never_taken_for_all_of_it(
    lake: Lake, what: str, give: Callable[[], Any]
) -> None:
    """Known bug 28: fail after n batches, retry with the same stream: refused; with a new one: every row, once."""
    for count in (1, BATCHES // 2, BATCHES):
        lake["t"].overwrite({"id": [-1], "v": [-1]})
        lake["k"].overwrite({"id": [-1], "v": [-1]})
        write_again(lake, what, give, count)


@pytest.mark.parametrize("what", WRITES)
def test_28_would_be_found_if_a_stream_could_be_given_twice(
    lake: Lake, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: nobody remembers which streams were read from; an overwrite even empties the table."""
    monkeypatch.setattr(data, "_once", lambda _, parts: iter(parts))
    with pytest.raises(AssertionError, match="half of the rows"):
        write_again(lake, what, reader, BATCHES // 2)


def test_28_a_change_that_has_to_land_again_reads_its_stream_once(lake: Lake, other: Lake) -> None:
    """Others land while it is staged: it is written once, and every row counts once."""
    pulled: list[int] = []
    lake["k"].upsert(reader(pulled), stage=True, progress=lambda _: other["k"].upsert({"id": [3], "v": [999]}))
    assert pulled == list(range(BATCHES))
    assert rows_of(lake["k"]) == [(-1, -1), *ALL]


def test_28_a_transaction_that_runs_again_is_refused_a_stream_it_has_read(lake: Lake, other: Lake) -> None:
    """The retry is Phalanx's own here: it must not commit what is left of a stream, which is nothing."""
    rows = reader()

    def work(txn: Transaction) -> None:
        txn["k"].overwrite(rows)
        other["k"].upsert({"id": [-2], "v": [-2]})

    with pytest.raises(InvalidInputError, match="read from before"):
        lake.run(work)
    assert rows_of(lake["k"]) == [(-2, -2), (-1, -1)]


TWICE = {"id": [1, 2, 1, 3, 2, 1], "v": [10, 20, 11, 30, 21, 12]}
LONG = {"id": [1, 2, *range(4, 4000), 1, 3, 2, 1], "v": [10, 20, *range(4, 4000), 11, 30, 21, 12]}


def in_a_transaction(lake: Lake, rows: dict[str, list[int]], *, staged: bool) -> None:
    with lake.transaction() as txn:
        for at in range(0, len(rows["id"]), 2):
            txn["k"].upsert({name: values[at : at + 2] for name, values in rows.items()}, stage=staged and at % 4 == 0)


def by_a_writer(lake: Lake, rows: dict[str, list[int]]) -> None:
    with lake.writer("k") as writer:
        acks = [writer.upsert({"id": key, "v": v}) for key, v in zip(rows["id"], rows["v"], strict=True)]
        assert all(ack.result() for ack in acks)


def in_batches(lake: Lake, rows: dict[str, list[int]]) -> None:
    table = pa.table(rows, schema=SCHEMA)
    parts = [table.slice(at, 2).to_batches()[0] for at in range(0, table.num_rows, 2)]
    lake["k"].upsert(pa.RecordBatchReader.from_batches(SCHEMA, parts), stage=True)


WAYS: dict[str, Callable[[Lake, dict[str, list[int]]], object]] = {
    "logged": lambda lake, rows: lake["k"].upsert(rows, stage=False),
    "staged": lambda lake, rows: lake["k"].upsert(rows, stage=True),
    "appended": lambda lake, rows: lake["k"].append(rows),
    "overwritten": lambda lake, rows: lake["k"].overwrite({"id": [-1, *rows["id"]], "v": [-1, *rows["v"]]}, stage=True),
    "in batches": in_batches,
    "in a transaction": lambda lake, rows: in_a_transaction(lake, rows, staged=False),
    "staged in a transaction": lambda lake, rows: in_a_transaction(lake, rows, staged=True),
    "by a writer": by_a_writer,
    "one by one": lambda lake, rows: [
        lake["k"].upsert({"id": [key], "v": [v]}) for key, v in zip(rows["id"], rows["v"], strict=True)
    ],
}


def put_twice(lake: Lake, way: str, rows: dict[str, list[int]]) -> None:
    WAYS[way](lake, rows)
    expected = sorted({-1: -1, **dict(zip(rows["id"], rows["v"], strict=True))}.items())
    for found in everywhere(lake, "k"):
        assert found == expected, "the last of each key"


@pytest.mark.parametrize("way", WAYS)
def test_31_of_equal_keys_the_last_one_counts(lake: Lake, way: str) -> None:
    """Known bug 31: one key several times, in a batch and across; in the log, in the overlay, flushed, rewritten."""
    put_twice(lake, way, TWICE)


@pytest.mark.parametrize("way", ["logged", "staged"])
def test_31_of_equal_keys_among_many_the_last_one_counts(lake: Lake, way: str) -> None:
    """The same in a batch that is long enough to be grouped, not looked up."""
    put_twice(lake, way, LONG)


def test_31_would_be_found_if_the_first_counted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: of equal keys in a batch, the first one is kept."""

    def first_of_each(rows: pa.Table, key: Iterable[str]) -> pa.Table:
        turned = rows.take(list(reversed(range(rows.num_rows))))
        return turned.take([at for at in range(rows.num_rows) if at not in set(superseded(turned, list(key)).tolist())])

    monkeypatch.setattr(bulk, "last_of_each", first_of_each)
    with pytest.raises(AssertionError, match="the last of each key"):
        put_twice(lake, "logged", TWICE)


def commit_stale(lake: Lake, other: Lake) -> None:
    """Settings are changed while one writes on what it knew before: transactions, a flush, a rewrite, an index."""
    lake.set_property("colour", "red")
    lake.set_property("gone", "soon")
    lake["k"].create_index("v", name="by_v")
    lake["k"].append({"id": [1, 2], "v": [1, 2]})
    txn = other.transaction()
    txn["k"].upsert({"id": [3], "v": [3]}, stage=True)
    txn["t"].append({"id": [3], "v": [3]})
    lake.set_property("colour", "blue")
    lake.set_property("gone", None)
    lake["k"].drop_index("by_v")
    txn.commit()
    other.flush()
    other.optimize("k")
    for here in (lake, other):
        assert here.properties() == {"colour": "blue", "flush.background": "off"}, "what was changed"
        assert [one.name for one in here["k"].indexes()] == ["phalanx_key"], "what was changed"
    assert rows_of(lake["k"]) == [(-1, -1), (1, 1), (2, 2), (3, 3)]


def test_36_a_setting_that_was_changed_does_not_come_back_with_a_stale_writer(lake: Lake, other: Lake) -> None:
    """Known bug 36: properties are changed and removed, and an index is dropped, while others commit what they began."""
    commit_stale(lake, other)
    lake._log.close()
    with phalanx.open(lake.uri) as fresh:
        assert fresh.properties() == {"colour": "blue", "flush.background": "off"}


def test_36_would_be_found_if_a_commit_carried_the_settings_it_knew(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a transaction writes the properties of its snapshot along with its changes."""
    built = Work._built

    def carrying(self: Work, *arguments: Any) -> Any:
        made = built(self, *arguments)
        known = [do.SetProperty(key, value) for key, value in self.began.state.properties.items()]
        return type(made)((*made.actions, *known), made.payloads)

    monkeypatch.setattr(Work, "_built", carrying)
    with pytest.raises(AssertionError, match="what was changed"):
        commit_stale(lake, other)


@pytest.mark.parametrize("window", ["built", "announced"])
def test_36_an_index_that_is_dropped_while_it_is_built_does_not_come_back(
    lake: Lake, other: Lake, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever builds it learns of that at the latest with the next upkeep; one of the same name is another one."""
    lake["k"].upsert({"id": [1, 2], "v": [1, 2]})
    lake.flush("k")
    work = index.build if window == "built" else index.announce
    todo = [lambda: other["k"].drop_index("by_v")]

    def dropping(*arguments: Any) -> Any:
        done = work(*arguments)
        if todo:
            todo.pop()()
        return done

    monkeypatch.setattr(index, "build" if window == "built" else "announce", dropping)
    lake["k"].create_index("v", name="by_v")
    monkeypatch.undo()
    assert not todo
    assert [one.name for one in lake["k"].indexes()] == ["phalanx_key"]
    cover(lake._core, lake["k"].id, lake._core.deadline(30), least_rows=1)
    head = lake._core.datasets.open(lake["k"].id, lake.refresh().state.contents[lake["k"].id].head.manifest)
    assert {one.name.partition("-")[0] for one in index.segments(head)} <= {"phalanx_key"}
    other["k"].create_index("v", "bitmap", name="by_v")
    assert [one.kind for one in lake["k"].indexes()] == ["btree", "bitmap"]
    assert lake["k"].to_arrow(where="v = 2").num_rows == 1
