"""Prune next to a model that is a list of versions: what is live after any steps, in every mode; each is read by its number.

Known bugs 12 and 37, rules E5 and E6.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from phalanx.snapshot import Snapshot
from tests.unit.pruning import SCHEMA, Ground, few, live

MODES = st.sampled_from(["eager", "background"])


class Pruning(RuleBasedStateMachine):
    """One table, whose version n holds n - 1 rows; no window."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.ground = Ground(self.folder)
        self.lake = self.ground.lake
        self.lake.set_property("prune.protect", "0")
        self.table = self.lake.create_table("t", SCHEMA, key="id")
        self.newest = 1
        self.live = [1]
        self.tags: dict[str, int] = {}
        self.held: list[tuple[Snapshot, int]] = []

    def _pruned(self, keep: int, *, anchor: bool) -> None:
        """What the rules leave."""
        needed = {*self.live[-keep:], *self.tags.values(), *(version for _, version in self.held)}
        going = [version for version in self.live if version not in needed]
        if anchor:
            going = going[:-1]
        self.live = [version for version in self.live if version not in going]

    @rule(bulk=st.booleans(), prune=st.none() | MODES)
    def write(self, bulk: bool, prune: Any) -> None:
        """One more row, which prunes what came before it, or not."""
        self.table.append(few(self.newest), stage=bulk, prune_previous=prune or False)
        self.newest += 1
        self.live.append(self.newest)
        if prune is not None:
            self._pruned(1, anchor=prune == "eager")

    @rule(keep=st.integers(1, 4), mode=MODES, unconditional=st.booleans(), alone=st.booleans())
    def prune(self, keep: int, mode: Any, unconditional: bool, alone: bool) -> None:
        """A prune of the lake, or of the table."""
        self.lake.prune("t" if alone else None, keep=keep, protect=0, mode=mode, unconditional=unconditional)
        self._pruned(keep, anchor=mode == "eager" and not unconditional)

    @rule()
    def sweep(self) -> None:
        """What was marked goes, and nothing else."""
        self.lake._background.close()
        self.lake._background._closed = False
        self.lake.prune(mode="sweep", protect=0)

    @rule()
    def flush(self) -> None:
        """Another head."""
        self.lake.flush()

    @rule(name=st.sampled_from("ab"))
    def tag(self, name: str) -> None:
        """The newest version has a name."""
        self.lake.tag(name, move=True)
        self.tags[name] = self.newest

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def untag(self, data: st.DataObject) -> None:
        """A name less."""
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.lake.untag(name)
        del self.tags[name]

    @rule()
    def hold(self) -> None:
        """Somebody reads the newest version, for a while."""
        self.held.append((self.lake.snapshot(), self.newest))

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        """Somebody is done."""
        self.held.pop(0)

    @invariant()
    def exactly_those_are_live(self) -> None:
        """Each can be read by its number, has the rows it had, and so have tags and snapshots."""
        assert live(self.lake, "t") == self.live
        for version in self.live:
            assert self.table.at(version).count() == version - 1
        for name, version in self.tags.items():
            assert self.lake.snapshot(tag=name)["t"].count() == version - 1
        for snapshot, version in self.held:
            assert snapshot["t"].count() == version - 1

    def teardown(self) -> None:
        """In the end nobody needs anything, and nothing is left but the newest."""
        self.held.clear()
        for name in list(self.tags):
            self.lake.untag(name)
        self.lake._background.close()
        self.lake.optimize()
        self.lake.prune(keep=1, unconditional=True)
        again = self.lake.prune(keep=1, unconditional=True)
        assert (again.version, again.files) == (None, 0)
        assert live(self.lake, "t") == [self.newest]
        assert self.lake.check(deep=True).problems == ()
        self.ground.close()
        shutil.rmtree(self.folder)


Pruning.TestCase.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPruning = Pruning.TestCase
