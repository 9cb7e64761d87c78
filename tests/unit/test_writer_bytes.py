"""Ingest of rows that are large, or that are filled again: a writer owns what it was given, and holds so much of it."""

import asyncio
import collections
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from phalanx import writer as writing
from phalanx.errors import UnavailableError
from phalanx.lake import Lake
from phalanx.owned import little, owned
from phalanx.writer import Writer
from tests.unit.covering import opened

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.list_(pa.float32(), 2)),
        ("tags", pa.list_(pa.list_(pa.string()))),
        ("at", pa.struct([("place", pa.list_(pa.int64()))])),
        ("data", pa.binary()),
    ]
)
SOON = 30


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        lake.create_table("t", SCHEMA, key="id")
        yield lake


class Gate:
    """Holds what a writer is about to commit."""

    def __init__(self, writer: Writer) -> None:
        self.open = threading.Event()
        self.sizes: list[int] = []
        self._parcels = writer._parcels
        writer._parcels = self._held  # type: ignore[method-assign]

    def _held(self, batch: Any) -> Iterator[Any]:
        assert self.open.wait(SOON)
        self.sizes.append(len(batch))
        yield from self._parcels(batch)


class Line(Mapping[str, Any]):
    """A row that is no dict."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values_of = values

    def __getitem__(self, name: str) -> object:
        return self.values_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, lambda row: collections.defaultdict(int, row), Line])
def test_a_row_that_is_filled_again_is_written_as_it_was(lake: Lake, kind: Callable[[dict[str, Any]], Any]) -> None:
    """Whatever kind of mapping it is, and whatever is in it: arrays, lists, lists of lists, dicts, bytes."""
    values = {"id": 0, "x": np.zeros(2, np.float32), "tags": [[""]], "at": {"place": [0]}, "data": bytearray(b"a")}
    row, inner = kind(values), values if kind is Line else None
    with lake.writer("t") as writer:
        gate, acks = Gate(writer), []
        for number in range(5):
            (row if inner is None else inner)["id"] = number
            values["x"][:] = number
            values["tags"][0][0], values["at"]["place"][0] = str(number), number
            values["data"][0] = number
            acks.append(writer.append(row))
        gate.open.set()
        for ack in acks:
            ack.result(SOON)
    assert sorted(lake["t"].to_arrow().to_pylist(), key=lambda one: one["id"]) == [
        {
            "id": number,
            "x": [number, number],
            "tags": [[str(number)]],
            "at": {"place": [number]},
            "data": bytes([number]),
        }
        for number in range(5)
    ]


def test_many_bytes_wait_for_room_however_few_the_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are turned into Arrow a part at a time, and an acknowledgement that is kept does not keep its row."""
    monkeypatch.setattr(writing, "MOST_HELD", 1_000_000)
    monkeypatch.setattr(writing, "MOST_AT_ONCE", 250_000)
    with lake.writer("t") as writer, ThreadPoolExecutor(1) as pool:
        gate = Gate(writer)
        pushing = pool.submit(lambda: [writer.append({"id": number, "data": bytes(100_000)}) for number in range(50)])
        time.sleep(0.1)
        assert not pushing.done()
        assert 1_000_000 <= writer._held < 1_200_000
        gate.open.set()
        acks = pushing.result(SOON)
        for ack in acks:
            ack.result(SOON)
        assert max(gate.sizes) <= 2
        assert {ack.value for ack in acks} == {None}
    assert writer._held == 0
    assert lake["t"].count() == 50


def test_an_event_loop_goes_on_while_there_is_no_room(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks wait for room by `await`; a row that is handed in without is refused, not waited for."""
    monkeypatch.setattr(writing, "MOST_HELD", 300_000)

    async def produce(writer: Writer, number: int) -> int:
        await writer.room()
        return await writer.append({"id": number, "data": bytes(100_000)})

    async def run(writer: Writer) -> None:
        gate = Gate(writer)
        tasks = [asyncio.ensure_future(produce(writer, number)) for number in range(20)]
        await asyncio.sleep(0.05)  # the loop goes on
        assert not any(task.done() for task in tasks)
        assert writer._held < 500_000
        with pytest.raises(UnavailableError, match=r"await writer\.room"):
            writer.append({"id": 99, "data": bytes(100_000)})
        gate.open.set()
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)

    with lake.writer("t") as writer:
        asyncio.run(run(writer))
    assert lake["t"].count() == 20


def test_who_awaits_room_does_not_wait_for_ever(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for as long as a commit may take."""
    monkeypatch.setattr(lake._core, "timeout", 0.1)
    monkeypatch.setattr(writing, "MOST_HELD", 1)
    with lake.writer("t") as writer:
        gate = Gate(writer)
        ack = writer.append({"id": 1, "data": bytes(2000)})
        with pytest.raises(UnavailableError, match="no room"):
            asyncio.run(writer.room())
        gate.open.set()
        ack.result(SOON)


def test_the_bytes_of_a_row_are_about_right() -> None:
    """Rows of few plain values count as none."""
    assert little({"id": 1, "s": "text", "v": 1.5, "n": None}) is not None
    vector = np.zeros(1000)
    for value, least, most in [
        (b"x" * 5000, 5000, 6000),
        (vector, 8000, 9000),
        (vector.tolist(), 8000, 40_000),
        ([vector, vector], 16_000, 17_000),
        ({"a": "x" * 5000}, 5000, 6000),
    ]:
        row = {"id": 1, "v": value}
        assert little(row) is None
        assert least <= owned(row)[1] <= most
