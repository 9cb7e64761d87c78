"""Small lakes for tests: several handles on one store, each like a process of its own."""

from phalanx.clock import Clock, Deadline
from phalanx.lake import Lake, join
from phalanx.log.action import Progress, Settings
from phalanx.log.floor import Trimmed
from phalanx.objects import Store
from phalanx.testing import ManualClock

SMALL = Settings(checkpoint_every=5, remembered=50, grace=600.0)


def handle(store: Store, clock: Clock, settings: Settings = SMALL, timeout: float = 10.0) -> Lake:
    """One more process with the lake in `store` open; it is created if there is none."""
    return join(store, clock, settings, timeout=timeout)


def commit(lake: Lake, name: str) -> int:
    """A commit that can be found by its name, in the log and in the state."""
    return lake.commit([Progress(name, None, 1)], note=name)


def fill(lake: Lake, count: int, prefix: str = "fill") -> None:
    """Several commits."""
    for number in range(count):
        commit(lake, f"{prefix}-{number}")


def trim(lake: Lake, floor: int, keep: tuple[int, ...] = ()) -> Trimmed:
    """Raise the floor."""
    return lake._log.trim(floor, Deadline.after(lake._clock, 1e6), keep)


def names(lake: Lake) -> set[str]:
    """What the state says was committed."""
    return set(lake.refresh().state.progress)


def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()
