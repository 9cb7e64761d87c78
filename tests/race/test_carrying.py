"""Processes that carry each other's changes into the log: nothing is lost or doubled, whatever becomes of the carrier."""

import contextlib
import multiprocessing as mp
import os
import shutil
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx import Lake
from phalanx.log import action as do
from phalanx.txn import carrying, passenger
from phalanx.txn.carrying import meeting_place

PATIENCE = 60


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "lake")
    with phalanx.open(path, create=True, durability="os") as lake:
        lake.create_table("t", {"id": [0], "v": [0]})
    return path


@pytest.fixture
def pair(uri: str) -> Iterator[tuple[Lake, Lake]]:
    """Two handles: the first is the carrier, and has carried something for the second."""
    with phalanx.open(uri) as first, phalanx.open(uri) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert first._committer._passenger._carrier is not None
        assert second._committer._passenger._connection is not None
        yield first, second


def crowded(lake: Lake) -> Any:
    """The table, as a process sees it that has just lost a position."""
    lake._committer._passenger.lost()
    return lake["t"]


def ids(lake: Lake) -> list[int]:
    return sorted(lake["t"].to_arrow()["id"].to_pylist())


def test_what_is_carried_is_where_the_answer_says_and_is_its_own_writers(pair: tuple[Lake, Lake]) -> None:
    """Position, history and rows, for both; the carrier's own commits are its own."""
    first, second = pair
    at = [second["t"].append([{"id": 3, "v": 0}]), first["t"].append([{"id": 4, "v": 0}])]
    assert ids(first) == ids(second) == [0, 1, 2, 3, 4]
    writers = {change.lake_version: change.writer for change in first.history("t")}
    mine, others = (lake._committer._writer for lake in (first, second))
    assert (writers[at[0]], writers[at[1]]) == (others, mine)
    assert {commit.version: commit.writer for commit in second.log()}[at[0]] == others


def test_many_processes_share_entries(uri: str) -> None:
    """Ten processes, twenty appends each, in far fewer entries; all rows once."""
    before = _version(uri)
    crew = [_context().Process(target=_appends, args=(uri, number, 20, None)) for number in range(10)]
    for process in crew:
        process.start()
    for process in crew:
        process.join(PATIENCE)
    assert [process.exitcode for process in crew] == [0] * 10
    with phalanx.open(uri) as lake:
        assert ids(lake) == sorted([0, *(1000 * number + turn for number in range(10) for turn in range(1, 21))])
        assert lake.version - before < 200
        assert any(change.place for change in lake.history("t", 200))


def test_a_carrier_that_stops_answering_is_left_and_does_no_harm_when_it_goes_on(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is halted with a request in its hands: the passenger goes by itself, and what the carrier does later is nothing."""
    begun = _context().Event()
    carrier = _context().Process(target=_carries, args=(uri, begun), daemon=True)
    carrier.start()
    assert begun.wait(PATIENCE)
    with phalanx.open(uri) as lake:
        crowded(lake).append([{"id": 10, "v": 0}])
        assert lake._committer._passenger._connection is not None
        monkeypatch.setattr(passenger, "_PATIENCE", 0.2)
        os.kill(carrier.pid or 0, signal.SIGSTOP)
        began = time.monotonic()
        lake["t"].append([{"id": 11, "v": 0}])
        assert lake._committer._passenger._connection is None
        crowded(lake).append([{"id": 12, "v": 0}])
        assert lake._committer._passenger._connection is None, "it is asked again at once"
        assert time.monotonic() - began < 20
        os.kill(carrier.pid or 0, signal.SIGCONT)
        monkeypatch.undo()
        end = time.monotonic() + PATIENCE
        with phalanx.open(uri) as other:
            while 13 not in ids(other):  # the carrier answers again: it has read the request that nobody waits for
                assert time.monotonic() < end
                crowded(other).append([{"id": 13, "v": 0}])
        assert ids(lake) == [0, 10, 11, 12, 13]
    carrier.kill()


@pytest.mark.parametrize("welcomes", [False, True])
def test_a_carrier_that_never_reads_is_left(uri: str, monkeypatch: pytest.MonkeyPatch, *, welcomes: bool) -> None:
    """What is sent to it fills the socket: its passenger does not hang, and goes by itself."""
    monkeypatch.setattr(passenger, "_PATIENCE", 0.2)
    with phalanx.open(uri) as lake, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(meeting_place(lake._store.place() or "", lake._log.lake))
        listener.listen(8)
        held = []

        def welcome() -> None:
            held.append(listener.accept()[0])
            if welcomes:
                held[0].sendall(carrying.framed(carrying.Welcome()))

        host = threading.Thread(target=welcome)
        host.start()
        began = time.monotonic()
        crowded(lake).append({"id": list(range(10, 30_010)), "v": [0] * 30_000}, stage=False)
        assert time.monotonic() - began < 30
        host.join()
        assert lake._committer._passenger._connection is None
        lake["t"].append([{"id": 1, "v": 0}])
        assert lake["t"].count() == 30_002
        for one in held:
            one.close()


def test_a_killed_carrier_is_replaced(uri: str, tmp_path: Path) -> None:
    """Six processes write, and whoever carries is killed, three times; what was acknowledged is there, once."""
    told = tmp_path / "told"
    told.touch()
    crew = [_context().Process(target=_appends, args=(uri, number, 60, told), daemon=True) for number in range(6)]
    for process in crew:
        process.start()
    killed = 0
    end = time.monotonic() + PATIENCE
    while killed < 3 and time.monotonic() < end and any(process.is_alive() for process in crew):
        found = _carrier_of(uri)
        if found is not None:
            os.kill(found, signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    for process in crew:
        process.join(PATIENCE)
    acknowledged = set(map(int, told.read_text().split()))
    with phalanx.open(uri) as lake:
        found_ids = ids(lake)
    assert killed >= 1, "nobody ever carried"
    assert len(found_ids) == len(set(found_ids))
    assert acknowledged <= set(found_ids)
    assert len(found_ids) - 1 - len(acknowledged) <= killed  # what a killed process had under way may be there, or not


def test_a_child_does_not_hold_the_meeting_place(uri: str) -> None:
    """The carrier forks and lets go: another process carries, though the child lives."""
    with phalanx.open(uri) as first:
        crowded(first).append([{"id": 1, "v": 0}])
        ready, done = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lance warns of forks: the child does not touch it
            child = os.fork()
        if child == 0:
            os.write(ready[1], b"x")
            os.read(done[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
    try:
        with phalanx.open(uri) as second:
            crowded(second).append([{"id": 2, "v": 0}])
            assert second._committer._passenger._carrier is not None
            assert ids(second) == [0, 1, 2]
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)


def test_only_changes_of_rows_ride(pair: tuple[Lake, Lake]) -> None:
    """Names, tags and transactions that have looked at something go by themselves, through the same door."""
    _, second = pair
    before = _carried(second)
    second.create_namespace("n")
    second.tag("now")
    with second.transaction() as txn:
        txn["t"].update({"v": "v + 1"}, "id = 0")
    assert _carried(second) == before
    second["t"].delete("id = 1")
    assert _carried(second) == before + 1
    assert ids(second) == [0, 2]


def test_a_transaction_that_only_adds_rows_rides_with_the_names_of_its_tables(pair: tuple[Lake, Lake]) -> None:
    """It lands as a whole, in one entry; if a name means another table by now, it is in the way, whoever brings it in."""
    first, second = pair
    first.create_table("u", {"id": [0], "v": [0]}, key="id")
    second.refresh()
    before = _carried(second)

    def write(number: int) -> None:
        with second.transaction() as txn:
            txn["t"].append([{"id": number, "v": 0}])
            txn["u"].upsert([{"id": number, "v": number}])

    write(5)
    assert _carried(second) == before + 1
    assert (ids(first), first["u"].get(5)) == ([0, 1, 2, 5], {"id": 5, "v": 5})
    first.rename_table("u", "old")
    first.create_table("u", {"id": [0], "v": [0]}, key="id")
    with pytest.raises(phalanx.ConflictError, match="'u' is another one by now"):
        write(6)
    write(7)
    assert ids(first) == [0, 1, 2, 5, 7]
    assert [first[name].get(7) for name in ("u", "old")] == [{"id": 7, "v": 7}, None]


def test_who_only_writes_for_long_is_carried_all_the_same(tmp_path: Path) -> None:
    """It never reads the log, which remembers the last ids only: what is new to the log was never forgotten by it."""
    path = tmp_path / "short"
    with phalanx.open(path, create=True, durability="os", settings={"remembered": 20}) as first:
        first.create_table("t", {"id": [0], "v": [0]})
        table = first["t"]
        with phalanx.open(path) as second:
            mine = second["t"]
            crowded(first).append([{"id": 1, "v": 0}])
            second._committer._passenger.lost()
            for number in range(2, 60):
                mine.append([{"id": number, "v": 0}])  # each is answered, and the next is sent with what that says
            assert _carried(second) >= 58
            for number in range(60, 100):
                table.append([{"id": number, "v": 0}])  # by others, while it is idle
            mine.append([{"id": 100, "v": 0}])
            assert ids(first) == list(range(101))


def test_a_large_change_goes_by_itself(pair: tuple[Lake, Lake]) -> None:
    """Copying it to another process gains nothing."""
    _, second = pair
    before = _carried(second)
    second["t"].append({"id": list(range(100, 100_100)), "v": [0] * 100_000}, stage=False)
    assert _carried(second) == before
    assert second["t"].count() == 100_003


def test_a_full_tail_is_its_own_processes_business(pair: tuple[Lake, Lake]) -> None:
    """The carrier leaves it, the process finds out, and waits for a flush like everybody."""
    first, second = pair
    first.set_property("flush.background", "off")
    first.set_property("flush.rows", "1")
    first.set_property("flush.hard", "3")
    first.refresh()
    for number in range(10, 14):
        second["t"].append([{"id": number, "v": 0}])
    assert ids(first) == [0, 1, 2, 10, 11, 12, 13]
    assert first.describe("t").tail.rows <= 4


def test_a_dropped_table_is_said_to_be_gone(pair: tuple[Lake, Lake]) -> None:
    """What the carrier refuses is judged again by the process itself, which knows how to say it."""
    first, second = pair
    table = second["t"]
    first.drop_table("t")
    with pytest.raises(phalanx.NotFoundError, match="does no longer exist"):
        table.append([{"id": 9, "v": 0}])


def test_rubbish_is_not_taken(pair: tuple[Lake, Lake]) -> None:
    """Whatever a process of the same user sends: the connection is closed, and the others are served."""
    first, second = pair
    name = meeting_place(first._store.place() or "", first._log.lake)
    for rubbish in (b"\xff" * 8, b"\x04\0\0\0\xc1\xc1\xc1\xc1", b"\x05\0\0\0\x93\x01\xa1w\x90", _create_table(first)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(name)
            stranger.settimeout(10)
            stranger.sendall(rubbish)
            heard = b""
            with contextlib.suppress(ConnectionError):
                while part := stranger.recv(100):
                    heard += part
            assert heard == carrying.framed(carrying.Welcome())
    second["t"].append([{"id": 3, "v": 0}])
    assert _carried(second) >= 2
    assert ids(first) == [0, 1, 2, 3]
    assert first.tables() == ["t"]


def test_others_are_not_served_and_not_trusted(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends ask the kernel who is there: another user's process can bind or connect, and gets nothing."""
    mine, theirs = socket.socketpair()
    assert carrying.same_user(mine)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not carrying.same_user(mine)
    mine.close()
    theirs.close()
    with phalanx.open(uri) as first, phalanx.open(uri) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        assert first._committer._passenger._carrier is not None
        crowded(second).append([{"id": 2, "v": 0}])
        assert second._committer._passenger._connection is None
        assert ids(second) == [0, 1, 2]


def test_a_copy_of_a_lake_is_another_place(uri: str, tmp_path: Path) -> None:
    """It has the same id, and a commit to it must not land in the original."""
    shutil.copytree(uri, tmp_path / "copy")
    with phalanx.open(uri) as first, phalanx.open(tmp_path / "copy") as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert ids(first) == [0, 1]
        assert ids(second) == [0, 2]


def test_a_handle_that_does_not_carry_is_alone(uri: str) -> None:
    """As asked."""
    with phalanx.open(uri) as first, phalanx.open(uri, carry=False) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert second._committer._passenger._connection is None
        assert ids(first) == [0, 1, 2]


def test_a_carrier_that_closes_answers_what_it_took(uri: str) -> None:
    """Threads write through a handle that is carried, while carriers come and go."""
    wrong: list[BaseException] = []
    with phalanx.open(uri) as lake:

        def write(number: int) -> None:
            try:
                for turn in range(60):
                    crowded(lake).append([{"id": 1000 * number + turn, "v": 0}])
            except BaseException as error:  # noqa: BLE001 - the test has to hear of it
                wrong.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with phalanx.open(uri) as other:
                crowded(other).append([{"id": -1, "v": 0}])
        for thread in threads:
            thread.join()
        assert not wrong
        found = [one for one in ids(lake) if one > 0]
        assert found == [1000 * number + turn for number in range(1, 5) for turn in range(60)]


def _context() -> Any:
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["phalanx", "tests.race.test_carrying"])
    return context


def _version(uri: str) -> int:
    with phalanx.open(uri) as lake:
        return lake.version


def _appends(uri: str, number: int, count: int, told: Path | None) -> None:
    fd = None if told is None else os.open(told, os.O_WRONLY | os.O_APPEND)
    with phalanx.open(uri, timeout=PATIENCE) as lake:
        table = lake["t"]
        for turn in range(1, count + 1):
            table.append([{"id": 1000 * number + turn, "v": 0}])
            if fd is not None:
                os.write(fd, b"%d\n" % (1000 * number + turn))


def _carries(uri: str, begun: Any) -> None:
    with phalanx.open(uri) as lake:
        lake._committer._passenger.lost()
        lake.create_namespace("never mind")
        lake["t"].update({"v": "v"}, "id = 0")
        assert lake._committer._passenger._carrier is not None
        begun.set()
        time.sleep(PATIENCE)


def _carrier_of(uri: str) -> int | None:
    with phalanx.open(uri) as lake:
        name = meeting_place(lake._store.place() or "", lake._log.lake)
    with socket.socket(socket.AF_UNIX) as found:
        try:
            found.connect(name)
        except OSError:
            return None
        credentials = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], "little")


def _carried(lake: Lake) -> int:
    """How many of a handle's changes others have put."""
    mine = lake._committer._writer
    entries = [lake._log.read(position) for position in range(1, lake.version + 1)]
    return sum(len(entry.extra.get("by", {}).get(mine, ())) for entry in entries)


def _create_table(lake: Lake) -> bytes:
    """A well-formed request for something that is not carried."""
    intent = lake._core.intent([do.CreateNamespace(("sly",), {})], lake._core.deadline(1))
    parcel = carrying.Parcel(intent.sealed.encoded, intent.sealed.payloads, 1.0)
    return carrying.framed(carrying.Request(1, "sly", (parcel,)))
