"""What the tests of carrying share: lakes whose processes carry each other, and the processes."""

import multiprocessing as mp
import os
import socket
import time
from pathlib import Path
from typing import Any

import phalanx
from phalanx import Lake
from phalanx.log import action as do
from phalanx.txn import carrying
from phalanx.txn.carrying import meeting_place

PATIENCE = 60
MOST_TURNS = 100_000


def crowded(lake: Lake) -> Any:
    """The table, as a process sees it that has just lost a position."""
    lake._committer._passenger.lost()
    return lake["t"]


def ids(lake: Lake) -> list[int]:
    return sorted(lake["t"].to_arrow()["id"].to_pylist())


def context() -> Any:
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["phalanx.lake", "tests.race.carriers"])
    return context


def version(uri: str) -> int:
    with phalanx.open(uri) as lake:
        return lake.version


def appends(
    uri: str, number: int, count: int, told: Path | None, enough: Path | None = None, begin: Any = None
) -> None:
    """Append rows one by one and tell of each: so many, or as long as there is no file called `enough`.

    With a barrier to `begin` at, all start at once: who commits in turn never meets another.
    """
    fd = None if told is None else os.open(told, os.O_WRONLY | os.O_APPEND)
    with phalanx.open(uri, timeout=PATIENCE) as lake:
        table = lake["t"]
        if begin is not None:
            begin.wait(PATIENCE)
        for turn in range(1, count + 1):
            if enough is not None and enough.exists():
                break
            table.append([{"id": MOST_TURNS * number + turn, "v": 0}])
            if fd is not None:
                os.write(fd, b"%d\n" % (MOST_TURNS * number + turn))


def carries(uri: str, begun: Any) -> None:
    with phalanx.open(uri) as lake:
        lake._committer._passenger.lost()
        lake.create_namespace("never mind")
        lake["t"].update({"v": "v"}, "id = 0")
        assert lake._committer._passenger._carrier is not None
        begun.set()
        time.sleep(PATIENCE)


def carrier_of(uri: str) -> int | None:
    with phalanx.open(uri) as lake:
        name = meeting_place(lake._store.place() or "", lake._log.lake)
    with socket.socket(socket.AF_UNIX) as found:
        try:
            found.connect(name)
        except OSError:
            return None
        credentials = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], "little")


def carried(lake: Lake) -> int:
    """How many of a handle's changes others have put."""
    mine = lake._committer._writer
    entries = [lake._log.read(position) for position in range(1, lake.version + 1)]
    return sum(len(entry.extra.get("by", {}).get(mine, ())) for entry in entries)


def create_table(lake: Lake) -> bytes:
    """A well-formed request for something that is not carried."""
    intent = lake._core.intent([do.CreateNamespace(("sly",), {})], lake._core.deadline(1))
    parcel = carrying.Parcel(intent.sealed.encoded, intent.sealed.payloads, 1.0)
    return carrying.framed(carrying.Request(1, "sly", (parcel,)))
