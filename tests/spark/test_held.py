"""What frames and views read, long after they were made: it is held, or said to be gone."""

import collections
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError, SnapshotExpiredError
from phalanx.spark import SparkLake, read
from phalanx.spark.parts import Scan, plan_scan
from phalanx.spark.reach import reach
from tests.spark.rows import EVENTS, events
from tests.spark.test_quiet import forget_pins


class Slow(collections.deque[Any]):
    """A queue whose readers are interrupted by others."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        SYSTEM.sleep(0.05)
        return found


@pytest.fixture
def table(lake: phalanx.Lake) -> phalanx.Table:
    """Rows in files."""
    made = lake.create_table("events", EVENTS)
    made.append(events(0, 9_000), stage=True)
    return made


def an_hour_passes(lake: phalanx.Lake, table: phalanx.Table) -> None:
    """Nothing is held because of its age any more; all rows are replaced, and what may be pruned is."""
    read._held.clear()
    gc.collect()
    table.overwrite(events(0, 9_000, "new"), stage=True)
    lake.core.pins.renew()
    lake.prune(keep=1, unconditional=True)


def scan_of(lake: phalanx.Lake) -> Scan:
    return plan_scan(lake.core, reach(lake), lake.refresh().found("events"), None, None, 1).scan


def test_views_are_held_for_as_long_as_their_session_is_there(there: SparkLake, table: phalanx.Table) -> None:
    """They are asked by name after hours, and have the rows of then; those of the same name that were before are let go."""
    there.views(["events"])
    held = read._views[there.spark]["events"]
    an_hour_passes(there.lake, table)
    assert there.spark.sql("select kind, count(*) from events group by kind").collect() == [("a", 9_000)]
    there.views(["events"])
    assert read._views[there.spark]["events"] is not held
    assert there.spark.sql("select kind, count(*) from events group by kind").collect() == [("new", 9_000)]
    there.spark.catalog.dropTempView("events")


def test_a_version_that_was_pruned_is_not_said_to_be_damaged(lake: phalanx.Lake, table: phalanx.Table) -> None:
    """A task reads it after everybody let go of it."""
    scan = scan_of(lake)
    an_hour_passes(lake, table)
    forget_pins(lake)
    with phalanx.open(lake.uri) as other:
        other.prune(keep=1, unconditional=True)
    with pytest.raises(SnapshotExpiredError, match="was pruned"):
        list(scan.rows(0))


def test_a_version_that_is_damaged_is_not_said_to_be_pruned(lake: phalanx.Lake, table: phalanx.Table) -> None:
    """It is there, and files of it are not."""
    scan = scan_of(lake)
    for path in Path(lake.uri).glob("tables/*/data/*.lance"):
        path.unlink()
    with pytest.raises(CorruptionError):
        list(scan.rows(0))


def test_threads_that_make_frames_at_once_let_go_of_nothing_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two see that the first has had its time, and one of them takes it away."""
    good = (SYSTEM.steady() + 60.0, "good")
    held = Slow([(0.0, "old"), good])
    monkeypatch.setattr(read, "_held", held)
    threads = [threading.Thread(target=read._hold, args=(at,)) for at in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [what for _, what in held] == ["good", 0, 1] or [what for _, what in held] == ["good", 1, 0]
