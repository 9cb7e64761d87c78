"""Opening, creating, closing and forking: one lake, whoever comes first."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

import phalanx
from phalanx.catalog import Catalog
from phalanx.clock import SYSTEM, Deadline
from phalanx.errors import InvalidInputError, NotFoundError, StateError
from phalanx.lake import join
from phalanx.log.action import Settings
from phalanx.log.log import Log
from phalanx.objects import Blob, Listed, Put, layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore, Process

T = TypeVar("T")


def test_a_lake_opens_where_it_was_created(tmp_path: Path) -> None:
    """By path, by text and by file URI, it is the same lake."""
    place = tmp_path / "deep" / "lake"
    with phalanx.open(place, create=True) as lake:
        lake.set_property("k", "v")
        identity = lake.id
    for uri in (place, str(place), f"file://{place}"):
        with phalanx.open(uri) as again:
            assert (again.id, again.version, again.properties(), again.uri) == (identity, 2, {"k": "v"}, str(place))


def test_memory_is_shared_by_name_within_the_process() -> None:
    """`memory://a` is one lake for all, and `memory://b` another."""
    with phalanx.open("memory://opening-a", create=True) as first, phalanx.open("memory://opening-a") as second:
        first.set_property("k", "v")
        assert second.properties() == {"k": "v"}
        with phalanx.open("memory://opening-b", create=True) as other:
            assert other.id != first.id
            assert other.properties() == {}


def test_creating_is_asked_for(tmp_path: Path) -> None:
    """Without `create`, a mistyped path is an error that says what to do, and leaves nothing behind."""
    with pytest.raises(NotFoundError, match=r"there is no lake at .*create=True"):
        phalanx.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_creating_what_exists_opens_it(tmp_path: Path) -> None:
    """So a job can say `create=True` each time it runs."""
    with phalanx.open(tmp_path, create=True) as lake, phalanx.open(tmp_path, create=True) as again:
        assert (again.id, again.version) == (lake.id, 1)


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({"grace": -1}, None),
        ({"grace": "long"}, None),
        ({"checkpoint_every": 0}, None),
        ({"remembered": 1.5}, None),
        ({"no_such_setting": 1}, None),
        ({"durability": "tape"}, None),
        (None, "tape"),
    ],
)
def test_a_setting_that_cannot_be_used_creates_nothing(
    settings: dict[str, object] | None, durability: str | None, tmp_path: Path
) -> None:
    """The error names the setting, before anything is written."""
    with pytest.raises(InvalidInputError, match="these settings cannot be used"):
        phalanx.open(tmp_path / "lake", create=True, settings=settings, durability=durability)  # type: ignore[arg-type]
    assert not (tmp_path / "lake").exists()


def test_settings_given_for_a_lake_that_exists_must_agree(tmp_path: Path) -> None:
    """They were decided when it was created; those that are left out are not compared."""
    phalanx.open(tmp_path, create=True, durability="os", settings={"grace": 60}).close()
    for agreeing in ({}, {"durability": "os"}, {"settings": {"grace": 60.0}}):
        with phalanx.open(tmp_path, create=True, **agreeing) as lake:
            assert lake.settings == Settings(durability="os", grace=60.0)
    for disagreeing in ({"durability": "disk"}, {"settings": {"grace": 61}}):
        with pytest.raises(InvalidInputError, match="leave that setting out"):
            phalanx.open(tmp_path, **disagreeing)


@pytest.mark.parametrize("uri", ["", "a\0b", "ftp://host/lake", "nosuch://x"])
def test_a_place_that_cannot_be_is_refused(uri: str) -> None:
    """Before anything is read or written."""
    with pytest.raises(InvalidInputError):
        phalanx.open(uri, create=True)


def test_no_place_is_not_the_place_called_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that was not set does not create a folder with that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError):
        phalanx.open(None, create=True)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_two_handles_see_each_others_commits_at_once(tmp_path: Path) -> None:
    """Every read begins after whatever was acknowledged to anybody before it."""
    with phalanx.open(tmp_path, create=True) as first, phalanx.open(tmp_path) as second:
        for number in range(20):
            writer, reader = (first, second) if number % 2 else (second, first)
            at = writer.set_property("k", str(number))
            assert (reader.version, reader.properties()["k"], reader.log(1)[0].version) == (at, str(number), at)


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_eight_threads_create_one_lake(kind: str, tmp_path: Path) -> None:
    """F2: whoever puts entry 1 creates it, everybody else joins, and all can commit at once."""
    barrier = Barrier(8)
    uri = str(tmp_path) if kind == "disk" else f"memory://threads-{tmp_path}"

    def create(number: int) -> str:
        barrier.wait()
        with phalanx.open(uri, create=True) as lake:
            lake.record_progress(f"thread-{number}", 1, expected=None)
            return lake.id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(create, range(8)))
    with phalanx.open(uri) as lake:
        assert ids == {lake.id}
        assert len(lake.refresh().state.progress) == 8
        assert [commit.changes for commit in lake.log(100) if commit.version == 1] == [
            ("create the lake (durability disk)",)
        ]


CREATE = """
import sys, phalanx
print("ready", flush=True)
sys.stdin.readline()
with phalanx.open(sys.argv[1], create=True) as lake:
    lake.set_property("by", sys.argv[2])
    print(lake.id)
"""


def test_four_processes_create_one_lake(tmp_path: Path) -> None:
    """F2: as with threads."""
    processes = [Process(CREATE, tmp_path, number) for number in range(4)]
    for process in processes:
        assert process.line() == "ready"
    for process in processes:
        process.tell("go")
    ids = {process.finish().strip() for process in processes}
    with phalanx.open(tmp_path) as lake:
        assert ids == {lake.id}
        assert lake.version == 5


@pytest.mark.parametrize("remote", [False, True])
def test_a_lake_that_appears_while_it_is_opened_is_not_damaged(remote: bool) -> None:
    """F2: entry 1 was not there when it was looked for, and is there a moment later."""
    inner = MemoryStore()
    Log.begin(inner, Catalog(), SYSTEM, Deadline.after(SYSTEM, 5))
    created: list[phalanx.Lake] = []

    class Early(CountingStore):
        """Another process puts entry 1 right after this one has looked for it."""

        def _get(self, name: str, limit: int) -> bytes | None:
            return self._afterwards(name == layout.entry(1), super()._get(name, limit))

        def _list(self, prefix: str, after: str, before: str) -> list[Listed]:
            return self._afterwards(prefix == layout.LOG, super()._list(prefix, after, before))

        def _afterwards(self, looked: bool, seen: T) -> T:
            if looked and not seen and not created:
                created.append(join(inner, SYSTEM, Settings(), timeout=5))
            return seen

    with join(Early(inner, remote=remote), SYSTEM, None, timeout=5) as lake:
        assert lake.id == created[0].id


def test_whoever_joins_while_creating_obeys_the_settings_that_won() -> None:
    """The loser of the race works as if it had opened the lake: no request more for each commit."""
    inner = MemoryStore()

    class Late(CountingStore):
        """Another process creates the lake while this one still believes that there is none."""

        def _create(self, blob: Blob, name: str, data: bytes) -> Put:
            join(inner, SYSTEM, Settings(grace=300.0), timeout=5).close()
            return super()._create(blob, name, data)

    store = Late(inner, remote=True)
    with join(store, SYSTEM, Settings(), timeout=5) as lake:
        assert lake.settings.grace == 300.0
        assert ("put", layout.entry(1)) in store.calls
        with store.counted() as counts:
            lake.commit([])
    assert counts == {"put": 1}


def test_a_closed_lake_says_so() -> None:
    """Reading, writing and following; closing again is fine, and so is a snapshot that was taken before."""
    lake = phalanx.open("memory://closed", create=True)
    lake.tag("v")
    before = lake.refresh()
    following = lake.follow(since=0, poll=0.001)
    next(following)
    with lake:
        pass
    lake.close()
    for use in (
        lambda: lake.commit([]),
        lambda: lake.version,
        lake.refresh,
        lake.tags,
        lake.log,
        lambda: lake.snapshot(version=1),
        lambda: lake.tag("w"),
        lambda: list(following),
    ):
        with pytest.raises(StateError, match="closed: open it again") as caught:
            use()
        assert caught.value.committed is False
    assert before.tags() == {"v": 1}


FORK = """
import asyncio, os, sys, phalanx
lake = phalanx.open(sys.argv[1], create=True)
asyncio.run(lake.commit_async([], note="a worker thread is there"))
lake._log._lock.acquire()
child = os.fork()
if child == 0:
    for use in (lambda: lake.commit([]), lambda: lake.version, lambda: asyncio.run(lake.commit_async([]))):
        try:
            print("worked", use())
        except phalanx.StateError as error:
            print(error)
    lake.close()
    with phalanx.open(sys.argv[1]) as own:
        own.set_property("child", "yes")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
lake._log._lock.release()
lake.set_property("parent", "yes")
print(lake.properties(), flush=True)
lake.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_handle_does_not_cross_a_fork(tmp_path: Path) -> None:
    """The child is told to open the lake again, never hangs on a lock that nobody holds there, and the parent goes on."""
    with Process(FORK, tmp_path) as process:
        lines = process.finish(timeout=30).splitlines()
    told = "this lake was opened before the process forked: open it again in the child process"
    assert lines == [told, told, told, "{'child': 'yes', 'parent': 'yes'}"]
