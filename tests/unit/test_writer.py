"""Ingest: single rows from many producers, each acknowledged when it is durable and readable, or told why not."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx import writer as writing
from phalanx.clock import SYSTEM
from phalanx.errors import (
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    StateError,
    UnavailableError,
)
from phalanx.lake import join
from phalanx.log.ack import Ack
from phalanx.log.action import Settings
from phalanx.objects import Blob, Put, layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Process
from phalanx.testing.wrapping import WrappedStore
from phalanx.writer import Writer
from tests.unit.covering import found

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SOON = 30


class GatedStore(WrappedStore):
    """Puts of entries wait while the gate is shut."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Semaphore(0)

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        if name.startswith(layout.LOG):
            self.reached.release()
            assert self.gate.wait(SOON)
        return super()._create(blob, name, data)


class Setting:
    """A table with a key and one without, in a lake whose commits can be held."""

    def __init__(self, timeout: float = 10.0) -> None:
        self.store = GatedStore()
        self.lake = join(self.store, SYSTEM, Settings(), timeout=timeout)
        self.lake.set_property("flush.background", "off")
        self.lake.create_table("t", SCHEMA, key="id")
        self.lake.create_table("bare", SCHEMA)

    def hold(self, writer: Writer) -> Ack:
        """Hold the commit of one row, so that what comes now gathers behind it."""
        while self.store.reached.acquire(blocking=False):
            pass
        self.store.gate.clear()
        ack = writer.append({"id": -1, "v": -1})
        assert self.store.reached.acquire(timeout=SOON)
        return ack

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.store.gate.set()

    def rows(self, name: str = "t") -> list[tuple[int, int]]:
        """The ids and values that are there, in order."""
        return sorted((row["id"], row["v"]) for row in self.lake[name].to_arrow().to_pylist() if row["id"] >= 0)


@pytest.fixture
def setting() -> Iterator[Setting]:
    made = Setting()
    yield made
    made.let_go()
    made.lake.close()


def outcome(ack: Ack) -> int | type[PhalanxError]:
    try:
        return ack.result(SOON)
    except PhalanxError as error:
        return type(error)


def test_an_acknowledged_row_is_there(setting: Setting) -> None:
    """By `.result()` and by `await` alike it gives the version it landed on, and the row is readable by then."""
    with setting.lake.writer("t") as writer:
        for number in range(20):
            at = writer.upsert({"id": number, "v": number}).result(SOON)
            assert at == setting.lake.version
            assert setting.lake["t"].get(number) == {"id": number, "v": number, "s": None}

        async def one(number: int) -> int:
            ack = writer.append({"id": number, "v": number})
            at = await ack
            assert setting.lake._log.view.position >= at == await ack == ack.result(0)
            return at

        async def many() -> list[int]:
            return await asyncio.gather(*(one(number) for number in range(100, 200)))

        assert max(asyncio.run(many())) == setting.lake.version
    assert setting.rows() == [(number, number) for number in (*range(20), *range(100, 200))]


def test_what_gathers_is_one_transaction_and_keeps_its_order(setting: Setting) -> None:
    """Appends and deletes of the same keys: what was handed in last counts."""
    with setting.lake.writer("t") as writer:
        held = setting.hold(writer)
        acks = []
        for number in range(30):
            acks += [
                writer.append({"id": number, "v": 1}),
                writer.delete(number),
                writer.append({"id": number, "v": 2}),
            ]
            acks.append(writer.append({"id": number, "v": 3}) if number % 3 else writer.delete(number))
        setting.let_go()
        assert {ack.result(SOON) for ack in acks} == {held.result(SOON) + 1}
    assert setting.rows() == [(number, 3) for number in range(30) if number % 3]
    [commit, _] = setting.lake.log(2)
    assert commit.version == acks[0].result(0)


def test_a_table_without_a_key_keeps_every_row(setting: Setting) -> None:
    """Equal rows are several rows; what needs a key is refused at once."""
    with setting.lake.writer("bare") as writer:
        for ack in [writer.append({"id": 1, "v": 2}) for _ in range(5)]:
            ack.result(SOON)
        for act in (lambda: writer.upsert({"id": 1}), lambda: writer.delete(1)):
            with pytest.raises(InvalidInputError, match="key"):
                act()
    assert setting.rows("bare") == [(1, 2)] * 5


def test_a_key_of_several_columns_is_a_tuple(setting: Setting) -> None:
    """For deletes as for `get`; anything else is no key of this table."""
    table = setting.lake.create_table("pair", SCHEMA, key=("id", "s"))
    with setting.lake.writer("pair") as writer:
        acks = [writer.append({"id": number, "s": text, "v": 0}) for number in (1, 2) for text in "ab"]
        assert writer.delete((1, "b")).result(SOON)
        assert {type(ack.result(SOON)) for ack in acks} == {int}
        for key in (1, "1b", (1,), (1, "b", 3), (1, None), None, {1, "b"}):
            assert outcome(writer.delete(key)) is InvalidInputError
    assert (table.count(), table.get((1, "b")), table.get((2, "b"))) == (3, None, {"id": 2, "v": 0, "s": "b"})


class Odd(Mapping[str, Any]):
    """A row whose own methods fail."""

    def __getitem__(self, name: str) -> object:
        raise ArithmeticError("odd")

    def __iter__(self) -> Iterator[str]:
        return iter(["id"])

    def __len__(self) -> int:
        return 1


BAD: dict[str, Any] = {
    "wrong type": {"id": "one"},
    "a fraction": {"id": 1.5},
    "too large": {"id": 1 << 63},
    "unknown column": {"id": 1, "w": 2},
    "no key": {"v": 1},
    "null key": {"id": None},
    "not a dict": 7,
    "a list": [1, 2, 3],
    "a batch": pa.record_batch({"id": [1, 2]}),
    "nothing": None,
    "a column that is no text": {"id": 1, 5: 3},
    "half a character": {"id": 1, "s": "\ud800"},
    "odd": Odd(),
}


def test_one_bad_row_fails_alone(setting: Setting) -> None:
    """Among many that are good, in the same batch: those land together, each bad one says what is wrong with it."""
    with setting.lake.writer("t") as writer:
        held = setting.hold(writer)
        good, bad = [], {}
        for at, (what, value) in enumerate(BAD.items()):
            good += [writer.append({"id": 1000 * at + number, "v": at}) for number in range(20)]
            bad[what] = writer.append(value)
        bad["delete"] = writer.delete("x")
        good.append(writer.append({"id": 5, "v": 5}))
        setting.let_go()
        assert {ack.result(SOON) for ack in good} == {held.result(SOON) + 1}
        assert {what: outcome(ack) for what, ack in bad.items()} == dict.fromkeys(bad, InvalidInputError)
    assert len(setting.rows()) == 20 * len(BAD)
    assert (5, 5) in setting.rows()


def test_a_batch_of_bad_rows_alone_writes_nothing(setting: Setting) -> None:
    """And the writer goes on."""
    with setting.lake.writer("t") as writer:
        before = setting.lake.version
        assert {outcome(ack) for ack in [writer.append({"w": 1}) for _ in range(9)]} == {InvalidInputError}
        assert setting.lake.version == before
        assert writer.append({"id": 1, "v": 1}).result(SOON) == before + 1


def test_columns_that_are_missing_are_null_unless_they_must_not_be(setting: Setting) -> None:
    """Rows of one batch may differ in what they say."""
    strict = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64(), nullable=False), ("s", pa.string())])
    table = setting.lake.create_table("strict", strict, key="id")
    with setting.lake.writer("strict") as writer:
        held = setting.hold(writer)
        acks = [
            writer.append(row)
            for row in ({"id": 1, "v": 1}, {"id": 2}, {"v": 3, "s": "x", "id": 3}, {"id": 4, "v": None})
        ]
        setting.let_go()
        assert [outcome(ack) for ack in (held, *acks)][2::2] == [InvalidInputError] * 2
    assert sorted((row["id"], row["s"]) for row in table.to_arrow().to_pylist()) == [(-1, None), (1, None), (3, "x")]


def test_large_rows_become_several_transactions(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one entry holds is never put together; the order is kept; one row that is too large fails alone."""
    monkeypatch.setattr(writing, "MOST_BYTES", 10_000)
    with setting.lake.writer("t") as writer:
        held = setting.hold(writer)
        acks = [writer.append({"id": number % 25, "v": number, "s": "x" * 1000}) for number in range(50)]
        acks.append(writer.delete(3))
        large = writer.append({"id": 99, "s": "x" * (65 << 20)})
        acks.append(writer.append({"id": 99, "v": 1}))
        setting.let_go()
        landed = [ack.result(SOON) for ack in acks]
        assert outcome(large) is InvalidInputError
    assert landed == sorted(landed)
    assert landed[0] == held.result(0) + 1
    assert 5 <= len(set(landed)) <= 12
    assert setting.rows() == [(number, number + 25) for number in range(25) if number != 3] + [(99, 1)]


def test_a_producer_that_is_too_quick_waits(setting: Setting) -> None:
    """The queue is bounded: the next row is taken when there is room, and all of them land."""
    writer = Writer(setting.lake._core, setting.lake._background, found(setting.lake, "t"), most_waiting=10)
    setting.hold(writer)
    with ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(lambda: [writer.append({"id": number, "v": 0}) for number in range(500)])
        time.sleep(0.1)
        assert not pushing.done()
        assert writer._group.waiting() == 10
        setting.let_go()
        for ack in pushing.result(SOON):
            ack.result(SOON)
    writer.close()
    assert len(setting.rows()) == 500


def test_a_producer_does_not_wait_for_ever() -> None:
    """When there was no room for as long as a commit may take, the row is not taken, and the producer is told so."""
    setting = Setting(timeout=0.3)
    writer = Writer(setting.lake._core, setting.lake._background, found(setting.lake, "t"), most_waiting=3)
    setting.hold(writer)
    acks = [writer.append({"id": number, "v": 0}) for number in range(3)]
    with pytest.raises(UnavailableError, match="was not taken"):
        writer.append({"id": 3, "v": 0})
    setting.let_go()
    writer.close()
    assert {type(outcome(ack)) for ack in acks} <= {int, type}
    assert (3, 0) not in setting.rows()
    setting.lake.close()


@pytest.mark.parametrize("close", ["writer", "lake"])
def test_closing_finishes_what_was_handed_in(setting: Setting, close: str) -> None:
    """And takes no more."""
    writer = setting.lake.writer("t")
    setting.hold(writer)
    acks = [writer.append({"id": number, "v": 0}) for number in range(50)]
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(writer.close if close == "writer" else setting.lake.close)
        time.sleep(0.05)
        assert not closing.done()
        setting.let_go()
        closing.result(SOON)
    assert all(ack.done() for ack in acks)
    assert {type(outcome(ack)) for ack in acks} == {int}
    for act in (lambda: writer.append({"id": 1}), lambda: writer.delete(1)):
        with pytest.raises(StateError, match="closed"):
            act()
    writer.close()


def test_a_dropped_table_takes_no_rows(setting: Setting) -> None:
    """Those that were handed in before and those after are told, also when another one has its name by then."""
    with setting.lake.writer("t") as writer, setting.lake.writer("bare") as other:
        writer.append({"id": 1, "v": 1}).result(SOON)
        setting.lake.drop_table("t")
        assert {outcome(ack) for ack in [writer.append({"id": number}) for number in range(9)]} == {NotFoundError}
        setting.lake.create_table("t", SCHEMA, key="id")
        assert outcome(writer.append({"id": 2, "v": 2})) is NotFoundError
        assert isinstance(outcome(other.append({"id": 3, "v": 3})), int)
    assert setting.rows() == []
    with pytest.raises(NotFoundError):
        setting.lake.writer("none")


def test_a_renamed_table_takes_them_still(setting: Setting) -> None:
    """A writer is bound to the table, not to its name."""
    with setting.lake.writer("t") as writer:
        setting.lake.rename_table("t", "u")
        writer.append({"id": 1, "v": 1}).result(SOON)
    assert setting.rows("u") == [(1, 1)]


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (RuntimeError("a bug"), CommitUnknownError),
        (KeyboardInterrupt(), CommitUnknownError),
        (MemoryError(), CommitUnknownError),
    ],
    ids=["bug", "interrupt", "memory"],
)
def test_whatever_breaks_a_commit_every_row_is_told_and_the_writer_goes_on(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, trouble: BaseException, told: type[PhalanxError]
) -> None:
    """It may have landed or not: nobody is told that it certainly did not."""
    commit = setting.lake._core.committer.commit

    def broken(*_: object) -> int:
        monkeypatch.setattr(setting.lake._core.committer, "commit", commit)
        raise trouble

    with setting.lake.writer("t") as writer:
        setting.hold(writer)
        acks = [writer.append({"id": number, "v": 0}) for number in range(9)]
        monkeypatch.setattr(setting.lake._core.committer, "commit", broken)
        setting.let_go()
        assert {outcome(ack) for ack in acks} == {told}
        assert isinstance(outcome(writer.append({"id": 100, "v": 0})), int)
    assert setting.rows() == [(100, 0)]


def test_cancelling_a_task_does_not_cancel_its_row(setting: Setting) -> None:
    """Rule B5: whoever gives up waiting is let go at once; the row lands all the same, for others who wait as well."""
    with setting.lake.writer("t") as writer:

        async def impatient() -> None:
            setting.hold(writer)
            ack = writer.append({"id": 1, "v": 1})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ack, 0.02)
            with pytest.raises(TimeoutError):
                ack.result(0.02)
            waiting = asyncio.ensure_future(_awaited(ack))
            await asyncio.sleep(0)
            setting.let_go()
            assert await waiting == await ack == ack.result(0)

        asyncio.run(impatient())
    assert setting.rows() == [(1, 1)]


async def _awaited(ack: Ack) -> int:
    return await ack


FORKS = """
import os, sys, phalanx
from phalanx.errors import StateError
with phalanx.open(sys.argv[1]) as lake, lake.writer("t") as writer:
    writer.append({"id": 1, "v": 1}).result(30)
    child = os.fork()
    if child == 0:
        try:
            writer.append({"id": 2, "v": 2})
        except StateError as error:
            print("refused" if "fork" in str(error) else error, flush=True)
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.append({"id": 3, "v": 3}).result(30)
    print(sorted(row["id"] for row in lake["t"].to_arrow().to_pylist()), flush=True)
"""


def test_a_writer_does_not_cross_a_fork(tmp_path: Path) -> None:
    """The child is refused, and what it does not finish is the parent's."""
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        lake.create_table("t", SCHEMA, key="id")
    with Process(FORKS, tmp_path / "lake") as process:
        assert process.finish().splitlines() == ["refused", "[1, 3]"]
