"""Whoever looks while a flush is under way sees every acknowledged row once, and the newest value of a key (26).

A table is sealed, written, staged, synced and announced. Before each of these steps others look at it: another handle
of the same process, a handle that was opened just now, another process. In one of the windows, each in turn, somebody
also writes.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import phalanx
from phalanx import contents
from phalanx.contents import Contents
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.tail.memory import Memory
from phalanx.testing import Process
from tests.crash.steps import AFTER, Steps, rows_of, stepping

SEALED = {
    "k": [(0, 0), (1, 11), (3, 113), (4, 4), (5, 5), (7, 17), (8, 18)],
    "t": [(0, 0), (1, 1), (1, 11), (3, 3), (4, 104), (5, 5), (7, 17), (8, 18)],
}
"""What the tables hold when the flush begins."""
WRITTEN = {
    "k": [(0, 0), (1, 21), (2, 22), (3, 213), (5, 5), (7, 27), (9, 29)],
    "t": [(0, 0), (1, 1), (1, 11), (1, 21), (3, 3), (4, 204), (5, 5), (7, 17), (7, 27), (9, 29)],
}
"""What they hold once somebody has written in a window."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake to be copied: rows in the heads, and every kind of change in the tails."""
    path = tmp_path_factory.mktemp("source") / "lake"
    with phalanx.open(path, create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        lake.create_table("k", {"id": list(range(6)), "v": list(range(6))}, key="id")
        lake.create_table("t", {"id": list(range(6)), "v": list(range(6))})
        lake.flush()
        for name, one in (("k", "id = 3"), ("t", "id = 4")):
            lake[name].append({"id": [7, 1], "v": [17, 11]})
            if name == "k":
                lake[name].upsert({"id": [3], "v": [13]})
            lake[name].append({"id": [8], "v": [18]}, stage=True)
            lake[name].update({"v": "v + 100"}, one)
            lake[name].delete("id = 2")
        assert look(lake) == SEALED
    yield path
    shutil.rmtree(path)


def write(lake: Lake) -> None:
    """One key in head, sealed and active tail; a key that was deleted; rows of every kind updated and deleted."""
    lake["k"].upsert({"id": [1, 2, 7, 9], "v": [21, 22, 27, 29]})
    lake["k"].update({"v": "v + 100"}, "id = 3")
    lake["k"].delete("id = 8 or id = 4")
    lake["t"].append({"id": [1, 7, 9], "v": [21, 27, 29]})
    lake["t"].update({"v": "v + 100"}, "id = 4")
    lake["t"].delete("id = 8")


def look(lake: Lake) -> dict[str, list[tuple[int, int]]]:
    snapshot = lake.refresh()
    held = {name: rows_of(snapshot[name].to_arrow().to_pylist()) for name in ("k", "t")}
    assert snapshot["k"].get(1) == {"id": 1, "v": dict(held["k"])[1]}
    assert {name: snapshot[name].count() for name in held} == {name: len(found) for name, found in held.items()}
    return held


def flush_with_a_writer_in(
    window: int, path: Path, table: str, also: Callable[[dict[str, list[tuple[int, int]]]], None] | None = None
) -> list[str]:
    """Flush a table; before each step others look, before that of this number one of them writes."""
    expected = SEALED

    def before(number: int, name: str) -> None:
        nonlocal expected
        assert look(other) == expected, f"before step {number}, {name}"
        if number == window:
            write(other)
            expected = WRITTEN
            assert look(other) == expected, f"in step {number}, {name}"
        with phalanx.open(path) as fresh:
            assert look(fresh) == expected, f"in step {number}, {name}"
        if also is not None:
            also(expected)

    steps = Steps(before)
    with phalanx.open(path) as other, stepping(path, steps) as lake:
        flushed = lake.flush(table)[table]
        assert flushed.version is not None
        assert look(lake) == look(other) == expected
    with phalanx.open(path) as lake:
        lake.flush()
        assert look(lake) == expected
        assert lake.check().whole
    return steps.names


@pytest.mark.parametrize("table", ["k", "t"])
def test_a_reader_sees_every_row_once_in_every_window_of_a_flush(table: str, source: Path, tmp_path: Path) -> None:
    """Known bug 26: whatever was written before, and whenever somebody writes meanwhile, the newest value wins."""
    window, steps = 1, [""]
    while window <= len(steps) + 1:  # the last time, nobody writes before the flush is over
        steps = flush_with_a_writer_in(window, shutil.copytree(source, tmp_path / f"{window}"), table)
        window += 1
    staged = ["commit", "persist", "put tables"]  # a version, its files made durable, and their checksums
    assert steps == ["write", *staged, *staged, "put log", AFTER]


_READER = """
import json, sys
import phalanx
from tests.crash.test_flush_windows import look
with phalanx.open(sys.argv[1]) as lake:
    print("ready", flush=True)
    for line in sys.stdin:
        with phalanx.open(sys.argv[1]) as fresh:
            print(json.dumps([look(lake), look(fresh)]), flush=True)
"""


def test_another_process_sees_every_row_once_in_every_window_of_a_flush(source: Path, tmp_path: Path) -> None:
    """Known bug 26, from outside: a process that has the lake open, and opens it again in each window."""
    path = shutil.copytree(source, tmp_path / "lake")
    asked = 0
    with Process(_READER, path) as reader:
        assert reader.line() == "ready"

        def ask(expected: dict[str, list[tuple[int, int]]]) -> None:
            nonlocal asked
            asked += 1
            reader.tell("look")
            assert json.loads(reader.line()) == 2 * [json.loads(json.dumps(expected))]

        flush_with_a_writer_in(3, path, "k", ask)
    assert asked >= 7


def takes_too_much(held: Contents, landing: Landing, action: it.Flush) -> Contents:
    """Planted: a flush consumes the whole tail, what landed behind it included."""
    return FLUSH(held, landing, msgspec.structs.replace(action, until=held.until))


def keeps_the_old(self: Memory, values: object, key: object) -> Memory:
    """Planted: a row in memory is not replaced by a newer one of its key."""
    return self


FLUSH = contents.flush


@pytest.mark.parametrize(
    ("where", "name", "planted"),
    [(contents._STEPS, it.Flush, takes_too_much), (Memory, "kill_keys", keeps_the_old)],
    ids=["what lands in a window is lost", "a sealed value stays beside the newer one"],
)
def test_rows_that_hide_in_a_window_would_be_found(
    where: Any, name: Any, planted: object, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted versions of known bug 26: a look in one of the windows finds them."""
    plant = monkeypatch.setattr if isinstance(where, type) else monkeypatch.setitem
    plant(where, name, planted)
    with pytest.raises(AssertionError):
        flush_with_a_writer_in(3, shutil.copytree(source, tmp_path / "lake"), "k")


@pytest.mark.parametrize("window", range(1, 8))
def test_a_transaction_that_began_in_any_window_lands_on_the_rows_it_saw(
    window: int, source: Path, tmp_path: Path
) -> None:
    """A flush gives rows new row ids: what was resolved before it, or in the middle, is still meant (rule D2)."""
    path = shutil.copytree(source, tmp_path / "lake")
    with phalanx.open(path) as other:
        begun = []

        def before(number: int, name: str) -> None:
            if number == window:
                txn = other.transaction()
                assert txn["t"].delete("id = 1 or id = 8") == 3
                assert txn["t"].update({"v": "v + 1"}, "id = 7 or id = 4") == 2
                begun.append(txn)

        with stepping(path, Steps(before)) as lake:
            lake.flush("t")
        begun[0].commit()
        expected = [(0, 0), (3, 3), (4, 105), (5, 5), (7, 18)]
        assert look(other)["t"] == expected
        other.flush()
        assert look(other)["t"] == expected
