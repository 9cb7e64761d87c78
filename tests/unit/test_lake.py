"""What users do with a lake: read it at any version, change it, follow it."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from queue import Queue

import pyarrow as pa
import pytest

import phalanx
from phalanx.catalog import Table
from phalanx.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    StateError,
)
from phalanx.lake import Lake, join
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.objects.memory import MemoryStore
from phalanx.testing import ManualClock

A = "a" * 32
COLUMNS = pa.schema([("id", pa.int64())])
_numbers = count()


@pytest.fixture
def lake() -> Iterator[Lake]:
    """A new lake in memory."""
    with phalanx.open(f"memory://lake-{next(_numbers)}", create=True) as made:
        yield made


def test_a_snapshot_does_not_change(lake: Lake) -> None:
    """Whatever is committed later, it shows the lake at its version."""
    lake.set_property("k", "1")
    lake.create_namespace("crm")
    before = lake.refresh()
    lake.set_property("k", "2")
    lake.drop_namespace("crm")
    lake.commit([do.CreateTable(("t",), A, {})])
    assert (before.version, before.properties(), before.namespaces(), before.tables()) == (3, {"k": "1"}, ["crm"], [])


def test_every_version_can_be_read_again(lake: Lake) -> None:
    """By its number, from the first to the newest; others do not exist."""
    for number in range(2, 12):
        assert lake.set_property("k", str(number)) == number
    for number in range(2, 12):
        snapshot = lake.snapshot(version=number)
        assert (snapshot.version, snapshot.properties()) == (number, {"k": str(number)})
    for number in (0, -1, 12, 1 << 70):
        with pytest.raises(NotFoundError, match="the lake is at version 11"):
            lake.snapshot(version=number)


def test_tags_name_versions(lake: Lake) -> None:
    """The newest by default; a name is taken until it is moved or removed."""
    lake.set_property("k", "1")
    assert lake.tag("release.1") == 3
    assert lake.tag("begin", version=1) == 4
    assert lake.tags() == {"begin": 1, "release.1": 2}
    assert lake.snapshot(tag="release.1").properties() == {"k": "1"}
    with pytest.raises(AlreadyExistsError, match="names version 2 already: choose another name, or move it"):
        lake.tag("release.1", version=1)
    assert lake.tag("release.1", version=1, move=True) == 5
    assert lake.snapshot(tag="release.1").version == 1
    assert lake.untag("begin") == 6
    assert lake.tags() == {"release.1": 1}
    for missing in (lambda: lake.untag("begin"), lambda: lake.snapshot(tag="begin"), lambda: lake.tag("x", version=99)):
        with pytest.raises(NotFoundError):
            missing()


def test_tagging_the_same_version_again_changes_nothing(lake: Lake) -> None:
    """It answers where the tag was set, so a job that is run twice is fine."""
    at = lake.tag("v", version=1)
    assert lake.tag("v", version=1) == at == lake.tag("v", version=1, move=True) == lake.version


def test_as_of_is_the_last_version_not_after_that_time() -> None:
    """J3: between, at, before the beginning and in the future, in any time zone; never after a clock that ran back."""
    clock = ManualClock(start=2_150_000_000.000_001)  # beyond 2038, where a float of seconds no longer holds it
    lake = join(MemoryStore(clock=clock), clock, Settings(), timeout=10)
    times = {1: lake.refresh().time}
    for number in range(2, 30):
        clock.advance(0.000_003 if number % 2 else 60)
        lake.set_property("k", str(number))
        times[number] = lake.refresh().time
    for number, moment in times.items():
        assert lake.snapshot(as_of=moment).version == number
        assert lake.snapshot(as_of=moment.astimezone(timezone(timedelta(hours=-7)))).version == number
        assert lake.snapshot(as_of=moment + timedelta(microseconds=1)).version == number
    assert lake.snapshot(as_of=times[29] + timedelta(days=9999)).version == 29
    for early in (
        times[1] - timedelta(microseconds=1),
        datetime(1900, 1, 1, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
    ):
        with pytest.raises(NotFoundError, match="did not exist at that time"):
            lake.snapshot(as_of=early)
    clock.set_wall(1_000_000_000)
    lake.set_property("k", "from a clock that ran back")
    assert lake.refresh().time == times[29]
    assert lake.snapshot(as_of=times[29]).version == 30


def test_a_time_without_a_zone_is_refused(lake: Lake) -> None:
    """It would mean something else on another machine."""
    with pytest.raises(InvalidInputError, match="time zone"):
        lake.snapshot(as_of=datetime(2030, 1, 1))  # noqa: DTZ001


def test_a_snapshot_is_asked_for_in_one_way(lake: Lake) -> None:
    """Two ways at once could disagree."""
    lake.tag("v")
    with pytest.raises(InvalidInputError, match="one of version, tag and as_of"):
        lake.snapshot(version=1, tag="v")


def test_namespaces_hold_namespaces_and_tables(lake: Lake) -> None:
    """Inside one, directly inside it, and with properties that can be set and removed."""
    lake.create_namespace("crm", {"owner": "ann"})
    lake.create_namespace("crm.eu")
    for name in ("t", "crm.a", "crm.eu.b"):
        lake.create_table(name, COLUMNS)
    assert lake.namespaces() == ["crm", "crm.eu"]
    assert lake.namespaces("crm") == ["crm.eu"]
    assert (lake.tables(), lake.tables("crm"), lake.tables("crm.eu")) == (
        ["crm.a", "crm.eu.b", "t"],
        ["crm.a"],
        ["crm.eu.b"],
    )
    lake.alter_namespace("crm", {"owner": None, "team": "blue"})
    assert lake.refresh().namespace("crm").properties == {"team": "blue"}
    with pytest.raises(StateError, match=r"'crm' is not empty: crm.eu is in it"):
        lake.drop_namespace("crm")
    lake.drop_table("crm.eu.b")
    lake.drop_namespace("crm.eu")
    assert lake.namespaces() == ["crm"]


def test_tables_are_renamed_and_dropped(lake: Lake) -> None:
    """A table keeps its incarnation under a new name, and older versions still have it under the old one."""
    lake.create_namespace("crm")
    lake.create_table("t", COLUMNS, properties={"p": "q"})
    made = lake.version
    lake.rename_table("t", "crm.turns")
    (_, table), (_, before) = lake.refresh().table("crm.turns"), lake.snapshot(version=made).table("t")
    assert table == before
    assert table.properties == {"p": "q"}
    lake.drop_table("crm.turns")
    assert lake.tables() == []
    assert lake.snapshot(version=made).tables() == ["t"]
    for missing in (lambda: lake.drop_table("t"), lambda: lake.rename_table("t", "u"), lambda: lake.tables("none")):
        with pytest.raises(NotFoundError):
            missing()


def test_properties_are_set_and_removed(lake: Lake) -> None:
    """The last one counts, and removing what is not there is no error."""
    lake.set_property("prune.protect", "60")
    lake.set_property("empty", "")
    lake.set_property("prune.protect", "600")
    assert lake.properties() == {"empty": "", "prune.protect": "600"}
    lake.set_property("empty", None)
    lake.set_property("never", None)
    assert lake.properties() == {"prune.protect": "600"}


def test_progress_is_recorded_once(lake: Lake) -> None:
    """B7: the same step again answers the same; from elsewhere it is a conflict that says where the source is."""
    assert lake.progress("feed") is None
    at = lake.record_progress("feed", 7, expected=None)
    assert lake.record_progress("feed", 7, expected=None) == at == lake.version
    lake.record_progress("feed", 9, expected=7)
    with pytest.raises(ConflictError, match=r"'feed' is at 9 \(version 3\), .* expects it at 7") as caught:
        lake.record_progress("feed", 8, expected=7)
    assert (caught.value.position, lake.progress("feed"), lake.version) == (3, 9, 3)


def test_a_transaction_lands_whole_or_not_at_all(lake: Lake) -> None:
    """One action that may not land keeps back all of them."""
    with pytest.raises(NotFoundError):
        lake.commit([do.SetProperty("k", "v"), do.CreateTable(("none", "t"), A, {})])
    assert (lake.properties(), lake.version) == ({}, 1)
    lake.commit([do.CreateNamespace(("n",), {}), do.CreateTable(("n", "t"), A, {}), do.PutTag("v", 1, False)])
    assert (lake.tables(), lake.tags(), lake.version) == (["n.t"], {"v": 1}, 2)


def test_a_table_without_columns_can_be_named(lake: Lake) -> None:
    """What is only a name in the log is listed, described, renamed and dropped like any other table."""
    lake.commit([do.CreateTable(("t",), A, {})])
    lake.rename_table("t", "u")
    assert (lake.tables(), lake["u"].schema.names, lake.refresh()["u"].name) == (["u"], [], "u")
    assert lake.history("u") == []  # it has no version until it holds something
    lake.drop_table("u")
    described = [change for commit in lake.log() for change in commit.changes][:3]
    assert described == ["drop table u", "rename table t to u", "create table t"]


def test_what_was_committed_is_a_copy(lake: Lake) -> None:
    """What the caller does with its own lists and dictionaries afterwards changes no state."""
    properties, name = {"k": "v"}, ["t"]
    lake.commit([do.CreateTable(name, A, properties)])  # type: ignore[arg-type]
    properties["k"] = "changed"
    name.append("changed")
    assert lake.refresh().table("t") == (("t",), Table(A, 2, {"k": "v"}))


def test_the_log_is_read_back_page_by_page(lake: Lake) -> None:
    """Newest first, every commit once, with who, when, why and what."""
    for number in range(2, 25):
        lake.commit([do.SetProperty("k", str(number))], note=f"n{number}")
    pages, before = [], None
    while page := lake.log(10, before=before):
        pages.append([commit.version for commit in page])
        before = page[-1].version
    assert pages == [list(range(24, 14, -1)), list(range(14, 4, -1)), list(range(4, 0, -1))]
    newest = lake.log(1)[0]
    assert (newest.note, newest.changes, newest.place) == ("n24", ("set property k",), 0)
    assert newest.time <= datetime.now(UTC)  # noqa: TID251
    assert (lake.log(0), lake.log(before=1), lake.log(before=-5)) == ([], [], [])
    assert len(lake.log(100, before=10_000)) == 24


def test_following_begins_where_it_was_asked_for(lake: Lake) -> None:
    """By default with what is committed after the call, not after the first look."""
    lake.commit([], note="before")
    following, whole = lake.follow(poll=0.001), lake.follow(since=0, poll=0.001)
    lake.commit([], note="after")
    assert next(following).note == "after"
    assert [next(whole).version for _ in range(3)] == [1, 2, 3]


def test_following_gives_every_commit_once_in_order(lake: Lake) -> None:
    """To a thread that waits, until the lake is closed."""
    seen: Queue[object] = Queue()

    def follow(commits: Iterator[phalanx.Commit]) -> None:
        try:
            for commit in commits:
                seen.put(commit.note)
        except StateError as error:
            seen.put(error)

    thread = threading.Thread(target=follow, args=(lake.follow(poll=0.001),))
    thread.start()
    for number in range(20):
        lake.commit([], note=str(number))
    assert [seen.get(timeout=5) for _ in range(20)] == [str(number) for number in range(20)]
    lake.close()
    assert isinstance(seen.get(timeout=5), StateError)
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_two_hundred_tasks_share_entries(where: str, tmp_path: Path) -> None:
    """Each is acknowledged at the position where it stands, and together they take far fewer entries."""
    uri = str(tmp_path) if where == "disk" else f"memory://tasks-{tmp_path}"

    async def run(lake: Lake) -> list[int]:
        return await asyncio.gather(*(lake.commit_async([], note=str(number)) for number in range(200)))

    with phalanx.open(uri, create=True) as lake:
        positions = asyncio.run(run(lake))
        stands = {commit.note: commit.version for commit in lake.log(1000)}
        assert [stands[str(number)] for number in range(200)] == positions
        assert lake.version < 100


def test_a_very_long_timeout_is_no_timeout(lake: Lake) -> None:
    """Infinity waits as long as it takes, in threads and on a loop."""
    assert lake.commit([], timeout=float("inf")) == 2
    assert asyncio.run(lake.commit_async([], timeout=float("inf"))) == 3


def test_a_commit_that_is_refused_takes_no_time(lake: Lake) -> None:
    """Waiting does not make a conflict go away."""
    began = time.monotonic()
    with pytest.raises(PhalanxError):
        lake.commit([do.Untag("none")], timeout=60)
    assert time.monotonic() - began < 5
