"""Flushes that nobody asked for: if one fails it is logged and tried again, and writers wait only at the hard limit."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import phalanx
from phalanx.clock import SYSTEM
from phalanx.errors import StateError, UnavailableError
from phalanx.lake import Lake, join
from phalanx.objects import layout, open_store
from phalanx.tables.dataset import Datasets
from phalanx.testing import Fault, FaultyStore
from phalanx.upkeep import flush as flushing

FAILED = "a background flush failed; nothing is lost, it will be tried again"
WAITS = "is at its hard limit: this writer waits for a flush"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A lake whose tails are long after two rows, and too long after six."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.create_table("t", {"id": [0]})
        lake.flush()
        lake.set_property("flush.rows", "2")
        lake.set_property("flush.hard", "3")
    return tmp_path / "lake"


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What upkeep says."""
    with caplog.at_level(logging.WARNING, "phalanx.upkeep"):
        yield caplog


def ids(lake: Lake) -> list[int]:
    found: list[int] = lake["t"].to_arrow()["id"].to_pylist()
    return sorted(found)


def held_by(path: Path) -> list[int]:
    with phalanx.open(path) as lake:
        return ids(lake)


def settle(lake: Lake) -> None:
    """Wait for what runs in the background."""
    for thread in list(lake._background._running.values()):
        thread.join()


def no_space(*_: object) -> None:
    raise UnavailableError("cannot go on staging a version: No space left on device; nothing was committed")


def no_sense(*_: object) -> None:
    raise RuntimeError("a mistake")


@pytest.mark.parametrize("failure", [no_space, no_sense])
def test_a_background_flush_that_fails_is_logged_and_tried_again(
    failure: Callable[..., None], path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is not told, the log is; the next multiple of the limit tries again, and nothing is lost."""
    with phalanx.open(path) as lake:
        with monkeypatch.context() as patch:
            patch.setattr(flushing, "write_out", failure)
            lake["t"].append({"id": [1, 2]})
            settle(lake)
        assert told.text.count(FAILED) == 1
        assert ids(lake) == held_by(path) == [0, 1, 2]
        assert lake.describe("t").tail.items == 1
        lake["t"].append({"id": [3, 4]})
        settle(lake)
        assert told.text.count(FAILED) == 1
        assert lake.describe("t").tail.items == 0
        assert ids(lake) == held_by(path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("background", ["on", "off"])
def test_a_writer_at_the_hard_limit_is_told_if_no_flush_can_work_and_nothing_is_lost(
    background: str, path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits, says so, and gives up at its deadline with an error that says what to look for; then it goes on."""
    with phalanx.open(path) as lake:
        lake.set_property("flush.background", background)
        with monkeypatch.context() as patch:
            patch.setattr(Datasets, "commit", no_space)
            for number in (1, 3, 5):
                lake["t"].append({"id": [number, number + 1]})
            began = time.monotonic()
            with pytest.raises(UnavailableError, match=r"at its hard limit.*nothing was committed") as raised:
                lake["t"].append({"id": [7]}, timeout=0.4)
            assert raised.value.committed is False
            assert 0.4 <= time.monotonic() - began < 20
            assert told.text.count(WAITS) == 1
            assert FAILED in told.text
            assert ids(lake) == held_by(path) == list(range(7))
            settle(lake)
        lake["t"].append({"id": [7]})
        settle(lake)
        assert ids(lake) == held_by(path) == list(range(8))
        assert lake.describe("t").tail.items <= 1
        assert lake.check().whole


@pytest.mark.parametrize("background", ["on", "off"])
def test_a_writer_at_the_hard_limit_goes_on_as_soon_as_there_is_room(
    background: str, path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is not there while it waits, and once when it is acknowledged; other tables do not wait."""
    gate = threading.Event()
    write_out = flushing.write_out

    def slow(*arguments: object) -> object:
        assert gate.wait(60)
        return write_out(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(flushing, "write_out", slow)
    with phalanx.open(path) as lake:
        lake.create_table("other", {"id": [0]})
        lake.set_property("flush.background", "off")
        for number in (1, 3, 5):
            lake["t"].append({"id": [number, number + 1]})
        lake.set_property("flush.background", background)
        writer = threading.Thread(target=lambda: lake["t"].append({"id": [7]}, timeout=60))
        writer.start()
        while WAITS not in told.text:
            time.sleep(0.005)
        assert lake["other"].append({"id": [1]}) == lake.version
        assert ids(lake) == list(range(7))
        gate.set()
        writer.join(60)
        settle(lake)
        assert ids(lake) == held_by(path) == list(range(8))


def test_a_writer_that_helps_keeps_its_deadline_whatever_the_store_does(path: Path) -> None:
    """It flushes itself, the entry's put is never answered: it gives up at its own deadline, not at the flush's."""
    plan = {"deaf": False}
    store = FaultyStore(
        open_store(path),
        lambda call, name: Fault.ERROR_BEFORE if plan["deaf"] and call == "put" and layout.LOG in name else None,
    )
    with join(store, SYSTEM, None, timeout=30) as lake:
        lake.set_property("flush.background", "off")
        for number in (1, 3, 5):
            lake["t"].append({"id": [number, number + 1]})
        plan["deaf"] = True
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="at its hard limit"):
            lake["t"].append({"id": [7]}, timeout=0.4)
        assert time.monotonic() - began < 20
        plan["deaf"] = False
        assert ids(lake) == list(range(7))
        lake["t"].append({"id": [7]})
    assert held_by(path) == list(range(8))


def test_attempts_at_the_hard_limit_become_rare(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one that fails leaves files behind: a writer that waits on a full disk does not fill it up further."""
    tried = []

    def count(*_: object) -> None:
        tried.append(1)
        no_space()

    monkeypatch.setattr(flushing, "write_out", count)
    with phalanx.open(path) as lake:
        lake.set_property("flush.background", "off")
        for number in (1, 3, 5):
            lake["t"].append({"id": [number, number + 1]})
        with pytest.raises(UnavailableError, match="at its hard limit"):
            lake["t"].append({"id": [7]}, timeout=1.5)
    assert 2 <= len(tried) <= 10


def test_a_transaction_is_held_to_the_same_limits(
    path: Path, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts a flush at the soft limit, waits at the hard one, and changes nothing if there is no room in time."""
    with phalanx.open(path) as lake:
        for number in range(1, 13):
            with lake.transaction() as txn:
                txn["t"].append({"id": [number]})
        settle(lake)
        assert lake.describe("t").tail.items <= 6
        assert lake.describe("t").head.rows > 1
        lake.flush()
        with monkeypatch.context() as patch:
            patch.setattr(flushing, "write_out", no_space)
            for number in range(13, 19):
                lake.run(lambda txn, number=number: txn["t"].append({"id": [number]}))
            with (
                pytest.raises(UnavailableError, match=r"at its hard limit.*nothing was committed"),
                lake.transaction(timeout=0.2) as txn,
            ):
                txn["t"].append({"id": [19]})
            assert WAITS in told.text
            settle(lake)
        with pytest.raises(StateError, match="rolled back"):
            txn.commit()
        with lake.transaction() as txn:
            txn["t"].append({"id": [19]})
        settle(lake)
        assert ids(lake) == held_by(path) == list(range(20))
