"""Prune next to a model in which time passes: windows end, and processes that sleep are taken for gone when pins expire.

Rules E2 to E5. What is there grows older by moving the stamps of all files; who is awake renews its pins afterwards.
"""

import os
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from phalanx import Lake
from phalanx.errors import SnapshotExpiredError, VersionDeletedError
from phalanx.pins import LIFE
from phalanx.snapshot import Snapshot
from tests.unit.test_prune_model import MODES, Pruning

WINDOW = 1000.0


class Reader(NamedTuple):
    """A process of its own that reads a version, and for how long it has slept.

    It also holds the version that was the newest when it last looked, and all since.
    """

    lake: Lake
    snapshot: Snapshot
    version: int
    slept: float | None = None
    newest: int = 0

    @property
    def counts(self) -> bool:
        """Whether its pins still hold."""
        return self.slept is None or self.slept < LIFE


class PruningInTime(Pruning):
    """As without time; a version may go only if it was replaced long enough ago."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.replaced: dict[int, float] = {}
        self.readers: list[Reader] = []

    def _pruned(self, keep: int, *, anchor: bool, window: float = 0.0) -> None:
        for version in self.live[:-1]:
            self.replaced.setdefault(version, self.time)
        needed = {*self.live[-keep:], *self.tags.values(), *(version for _, version in self.held)}
        for one in self.readers:
            if one.counts:
                needed |= {one.version, *(version for version in self.live if version >= one.newest)}
        going = [
            version
            for version in self.live
            if version not in needed and (not window or self.time - self.replaced[version] >= window)
        ]
        if anchor:
            going = going[:-1]
        self.live = [version for version in self.live if version not in going]

    def _awake(self) -> None:
        """Whoever is awake says what it still needs."""
        for at, one in enumerate(self.readers):
            if one.slept is None:
                one.lake.core.pins.renew()
                self.readers[at] = one._replace(newest=self.newest)

    @rule(bulk=st.booleans(), prune=st.none() | MODES)
    def write(self, bulk: bool, prune: Any) -> None:
        """See `Pruning`."""
        self._awake()
        self.replaced[self.newest] = self.time
        super().write(bulk, prune)

    @rule(keep=st.integers(1, 4), mode=MODES, how=st.sampled_from(["window", "no window", "unconditional"]))
    def prune(self, keep: int, mode: Any, how: str) -> None:
        """Of the lake, with a window or without."""
        self._awake()
        if how == "unconditional":
            self.lake.prune(keep=keep, unconditional=True, mode=mode)
        else:
            self.lake.prune(keep=keep, protect=WINDOW if how == "window" else 0, mode=mode)
        anchor = mode == "eager" and how != "unconditional"
        self._pruned(keep, anchor=anchor, window=WINDOW if how == "window" else 0.0)

    @rule(seconds=st.sampled_from([250.0, 1500.0]))
    def pass_time(self, seconds: float) -> None:
        """Everything that is there is older by so much."""
        self.time += seconds
        for path in self.ground.folder.rglob("*"):
            with suppress(FileNotFoundError):  # what goes in the background has no stamp to move
                if path.is_file():
                    stamp = path.stat().st_mtime - seconds
                    os.utime(path, (stamp, stamp))
        self.lake.core.pins.renew()
        self._awake()
        for at, one in enumerate(self.readers):
            if one.slept is not None:
                self.readers[at] = one._replace(slept=one.slept + seconds)
                for pin in list(one.lake.core.pins._alive.values()):
                    pin.renewed -= seconds

    @precondition(lambda self: len(self.readers) < 3)
    @rule()
    def read_elsewhere(self) -> None:
        """Another process reads the newest version."""
        other = self.ground.process()
        self.readers.append(Reader(other, other.snapshot(), self.newest, newest=self.newest))

    @precondition(lambda self: any(one.slept is None for one in self.readers))
    @rule()
    def fall_asleep(self) -> None:
        """It does not renew its pins any more."""
        at = next(at for at, one in enumerate(self.readers) if one.slept is None)
        one = self.readers[at]
        one.lake.core.pins.renew()
        one.lake.core.pins._closed = True  # its thread ends
        self.readers[at] = one._replace(slept=0.0, newest=self.newest)

    @precondition(lambda self: self.readers)
    @rule()
    def look_and_go(self) -> None:
        """Whoever was let in finds its rows; if its pins have expired, them or an error that says so."""
        one = self.readers.pop(0)
        one.lake.core.pins._closed = False
        try:
            assert one.snapshot["t"].count() == one.version - 1
            assert one.snapshot["t"].to_arrow().num_rows == one.version - 1
        except (SnapshotExpiredError, VersionDeletedError):
            assert not one.counts
        one.lake.close()

    def teardown(self) -> None:
        """See `Pruning`: and nobody else is there."""
        for one in self.readers:
            one.lake.close()
        super().teardown()


PruningInTime.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPruningInTime = PruningInTime.TestCase
