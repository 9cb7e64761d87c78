"""Carriers that are halted, killed, forked, closed, deaf or foreign: nothing is lost or doubled, and nobody hangs."""

import contextlib
import os
import signal
import socket
import threading
import time
import warnings
from pathlib import Path

import pytest

import phalanx
from phalanx import Lake
from phalanx.testing import Process
from phalanx.testing.processes import halt
from phalanx.txn import carrying, passenger
from phalanx.txn.carrying import meeting_place
from tests.race.carriers import (
    MOST_TURNS,
    PATIENCE,
    appends,
    carried,
    carrier_of,
    carries,
    context,
    create_table,
    crowded,
    ids,
)


def test_a_carrier_that_stops_answering_is_left_and_does_no_harm_when_it_goes_on(
    uri: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It is halted with a request in its hands: the passenger goes by itself, and what the carrier does later is nothing."""
    begun = context().Event()
    carrier = context().Process(target=carries, args=(uri, begun), daemon=True)
    carrier.start()
    request.addfinalizer(carrier.kill)  # also if this fails while it is halted
    assert begun.wait(PATIENCE)
    with phalanx.open(uri) as lake:
        crowded(lake).append([{"id": 10, "v": 0}])
        assert lake._committer._passenger._connection is not None
        monkeypatch.setattr(passenger, "_PATIENCE", 0.2)
        halt(carrier.pid or 0)
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
    told, enough = tmp_path / "told", tmp_path / "enough"
    told.touch()
    given = [(uri, number, MOST_TURNS - 1, told, enough) for number in range(6)]
    crew = [context().Process(target=appends, args=one, daemon=True) for one in given]
    for process in crew:
        process.start()
    killed = 0
    end = time.monotonic() + PATIENCE
    while killed < 3 and time.monotonic() < end:
        found = carrier_of(uri)
        if found is not None:
            os.kill(found, signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    enough.touch()
    for process in crew:
        process.join(PATIENCE)
    acknowledged = set(map(int, told.read_text().split()))
    with phalanx.open(uri) as lake:
        found_ids = ids(lake)
    assert killed == 3, "nobody carried"
    assert len(found_ids) == len(set(found_ids))
    assert acknowledged <= set(found_ids)
    assert len(found_ids) - 1 - len(acknowledged) <= killed  # what a killed process had under way may be there, or not


def test_a_child_does_not_hold_the_meeting_place(uri: str) -> None:
    """The carrier forks and lets go: another process carries, though the child lives.

    In a process of its own: some of what tests load here (LanceDB, DuckDB) does not survive a fork.
    """
    code = "import sys; from tests.race.test_carriers_in_trouble import forks; forks(sys.argv[1])"
    with Process(code, uri, environment={"PYTHONPATH": str(Path(__file__).parents[2])}) as process:
        process.finish()


def forks(uri: str) -> None:
    """What the test says."""
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


def test_a_child_of_a_carrier_closes_what_it_has_of_it(uri: str) -> None:
    """Without an error, and without an end to its parent's carrying; in a process of its own, as above."""
    code = "import sys; from tests.race.test_carriers_in_trouble import closes; closes(sys.argv[1])"
    with Process(code, uri, environment={"PYTHONPATH": str(Path(__file__).parents[2])}) as process:
        process.finish()


def closes(uri: str) -> None:
    """What the test says."""
    with phalanx.open(uri) as first, phalanx.open(uri) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lance warns of forks: the child does not touch it
            child = os.fork()
        if child == 0:
            try:
                first.close()
            except BaseException:  # noqa: BLE001 - told by how the child ends
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        crowded(second).append([{"id": 2, "v": 0}])
        assert first._committer._passenger._carrier is not None
        assert ids(second) == [0, 1, 2]


def test_rubbish_is_not_taken(pair: tuple[Lake, Lake]) -> None:
    """Whatever a process of the same user sends: the connection is closed, and the others are served."""
    first, second = pair
    name = meeting_place(first._store.place() or "", first._log.lake)
    for rubbish in (b"\xff" * 8, b"\x04\0\0\0\xc1\xc1\xc1\xc1", b"\x05\0\0\0\x93\x01\xa1w\x90", create_table(first)):
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
    assert carried(second) >= 2
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
