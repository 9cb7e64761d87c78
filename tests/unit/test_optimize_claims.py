"""Claims that no honest clock makes hold up nobody; those of clocks that differ a little are minded."""

import pytest

from phalanx.clock import SYSTEM
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.pins import AHEAD
from phalanx.upkeep import groups as grouping
from phalanx.upkeep.groups import CLAIM_SECONDS
from tests.unit.covering import found, head
from tests.unit.test_optimize import filled, lake

__all__ = ["lake"]


def claimed(lake: Lake, seconds: float) -> None:
    """A claim for all of a table, by a process elsewhere, that ends so many seconds from now."""
    now = SYSTEM.now()
    until = now + int(seconds * 1e6)
    since = until - int(CLAIM_SECONDS * 1e6)
    lake.commit([it.Claim(lake["t"].id, 0, tuple(head(lake, "t").fragments), "ann@elsewhere:1/ab", since, until)])


def test_a_claim_of_a_clock_that_is_a_day_ahead_holds_up_nobody(lake: Lake) -> None:
    """It would be waited for until tomorrow, or until the time is spent; it goes with the first group."""
    filled(lake)
    claimed(lake, 86_400.0 + CLAIM_SECONDS)
    done = lake.optimize("t", max_time=20)["t"]
    assert (done.rewritten, done.skipped) == (1, ())
    assert found(lake, "t").contents.claims == ()
    assert lake["t"].count() == 80


def test_a_claim_of_a_clock_that_is_a_little_ahead_is_minded(lake: Lake) -> None:
    """Writers' clocks may be so far ahead (rule J3)."""
    filled(lake)
    claimed(lake, AHEAD + CLAIM_SECONDS - 1)
    done = lake.optimize("t", max_time=0.2)["t"]
    assert done.rewritten == 0
    assert "claimed by ann@elsewhere" in done.skipped[0].reason


def test_a_claim_of_many_bytes_lasts_longer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are those of the fragments that are still there."""
    filled(lake)
    claimed(lake, 86_400.0)
    monkeypatch.setattr(grouping, "CLAIM_BYTES", 0.001)
    assert lake.optimize("t", max_time=0.2)["t"].rewritten == 0
    monkeypatch.undo()
    assert lake.optimize("t", max_time=20)["t"].rewritten == 1
