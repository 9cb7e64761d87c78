"""A writer whose clock runs ahead of the store's is refused, before anything is written (rule J3)."""

import time
from pathlib import Path

import pytest

from phalanx.clock import SYSTEM, SystemClock
from phalanx.errors import StateError
from phalanx.lake import Lake, join
from phalanx.log.action import Settings
from phalanx.objects import open_store
from phalanx.testing.wrapping import WrappedStore

SETTINGS = Settings(durability="os")


class Skewed(SystemClock):
    """A wall clock that is set wrong."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def now(self) -> int:
        """See `Clock`."""
        return super().now() + int(self.ahead * 1e6)


class Remote(WrappedStore):
    """Looks as if asking took requests."""

    probes = False


def opened(path: Path, ahead: float, *, remote: bool = False) -> Lake:
    store = open_store(path)
    return join(Remote(store) if remote else store, Skewed(ahead), None, timeout=10.0, carry=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with join(open_store(tmp_path / "lake"), SYSTEM, SETTINGS, timeout=10.0, carry=False) as lake:
        lake.create_table("t", [{"id": 1}])
    return tmp_path / "lake"


@pytest.mark.parametrize("remote", [False, True])
def test_a_clock_that_is_ahead_reads_and_does_not_write(path: Path, remote: bool) -> None:
    """Everything can be read; a write says what is wrong, and nothing of it is there."""
    with opened(path, 90.0, remote=remote) as lake:
        assert lake["t"].count() == 1
        wait_for(lambda: lake._core.pins.ahead > 60)
        with pytest.raises(StateError, match=r"the clock here is (89|90) seconds ahead .*set the clock"):
            lake["t"].append([{"id": 2}])
        with pytest.raises(StateError, match="ahead"), lake.transaction() as txn:
            txn["t"].append([{"id": 3}])
        assert lake["t"].count() == 1
        assert lake.refresh().version == 2


@pytest.mark.parametrize("ahead", [-86_400.0, 45.0])
def test_a_clock_that_is_behind_or_nearly_right_writes(path: Path, ahead: float) -> None:
    """Entries never go back in time, whatever a clock says; so one that is behind does no harm."""
    with opened(path, ahead) as lake:
        before = lake._core.refresh().time
        lake["t"].append([{"id": 2}])
        assert lake._core.refresh().time >= before
        assert lake["t"].count() == 2


def test_a_clock_that_is_set_right_is_believed_at_the_next_renewal(path: Path) -> None:
    """Nobody has to begin again for it."""
    with opened(path, 90.0) as lake:
        assert lake["t"].count() == 1
        with pytest.raises(StateError, match="ahead"):
            lake["t"].append([{"id": 2}])
        clock = lake._core.clock
        assert isinstance(clock, Skewed)
        clock.ahead = 0.0
        lake._core.pins.renew()
        lake["t"].append([{"id": 2}])
        assert lake["t"].count() == 2


def wait_for(what: object) -> None:
    assert callable(what)
    for _ in range(500):
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("it never was so")
