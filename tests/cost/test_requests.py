"""Cost as a test: requests to an object store, counted at the port, flat as history grows (I11)."""

import pytest

from phalanx.log.action import CreateTable, Settings
from phalanx.objects import layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore, ManualClock
from tests.lakes import commit, fill, handle, trim

DEFAULT = Settings()


def two(settings: Settings = DEFAULT) -> tuple[CountingStore, CountingStore, ManualClock]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    handle(store, clock, settings).close()
    return CountingStore(store, remote=True), CountingStore(store, remote=True), clock


def test_an_uncontended_commit_is_one_write_and_no_read() -> None:
    """The fast path: put at the end, blindly."""
    store, _, clock = two()
    lake = handle(store, clock)
    for _ in range(20):
        with store.counted() as counts:
            lake.set_property("k", "v")
        assert counts == {"put": 1}
        clock.advance(200)


def test_a_commit_after_a_long_pause_reads_the_floor_once() -> None:
    """Rule A7: after half of the grace time the floor has to be asked."""
    store, _, clock = two()
    lake = handle(store, clock)
    clock.advance(301)
    with store.counted() as counts:
        lake.set_property("k", "v")
    assert counts == {"put": 1, "list": 1}


@pytest.mark.parametrize("newer", [1, 2, 7, 60])
def test_a_commit_that_meets_newer_entries_reads_those_and_puts_once_more(newer: int) -> None:
    """With k newer entries: k reads, one listing for the end, two puts."""
    store, others, clock = two()
    lake, other = handle(store, clock), handle(others, clock)
    fill(other, newer)
    with store.counted() as counts:
        commit(lake, "mine")
    assert counts == {"put": 2, "get": newer, "list": 1}


def test_a_refresh_with_nothing_new_is_one_request() -> None:
    """Finding the end costs the same however long the log is."""
    store, _, clock = two()
    lake = handle(store, clock)
    with store.counted() as counts:
        assert lake.version == 1
    assert counts == {"list": 1}


def test_the_cost_of_a_commit_does_not_depend_on_how_much_it_changes() -> None:
    """A hundred tables in one commit are one request."""
    store, _, clock = two()
    lake = handle(store, clock)
    with store.counted() as counts:
        lake.commit([CreateTable((f"t{number}",), f"{number:032x}", {}) for number in range(100)])
    assert counts == {"put": 1}


def test_opening_costs_four_requests_and_the_entries_since_the_last_checkpoint() -> None:
    """With 100,000 entries: checkpoints, one of them, the log's end, the floor; then what came after."""
    store, _, clock = two(Settings(checkpoint_every=500))
    lake = handle(store, clock)
    while lake._log.view.position < 100_000 - 63:
        lake.commit([])
    lake._log.close()
    newest = max(layout.checkpoint_position(found.name) or 0 for found in store.list(layout.CHECKPOINT))
    since = lake._log.view.position - newest + 1
    assert since <= 500
    with store.counted() as counts:
        handle(store, clock)
    assert counts.total() <= 4 + since
    assert counts["get"] == 1 + since
    assert len(store.inner.list(layout.CHECKPOINT)) <= 24
    with store.counted() as counts:
        lake.commit([])
        lake.refresh()
    assert counts == {"put": 1, "list": 1}


def test_trimming_lists_only_what_lies_below_the_floor() -> None:
    """The requests of a trim follow what it deletes, not the log."""
    store, _, clock = two(Settings(checkpoint_every=10))
    lake = handle(store, clock)
    fill(lake, 100)
    lake._log.close()
    trim(lake, 50)
    clock.advance(700)
    with store.counted() as counts:
        assert trim(lake, 50).entries == 49
    assert counts["get"] <= 1
    assert counts["list"] <= 6
