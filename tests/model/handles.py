"""What is held open, and what it is asked: handles that are closed, left behind and lied to, transactions, snapshots."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.transaction import Transaction
from tests.model.pair import trip
from tests.model.questions import rows_in, same
from tests.model.steps import Step
from tests.model.upkeep import Names, Upkeep

if TYPE_CHECKING:
    from tests.model.world import Private


class Handles(Upkeep):
    """Steps that open, lose and ask."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self._open: list[tuple[Lake, Transaction, Private]] = []
        self._kept: list[Snapshot] = []

    def _reopen(self, lake: Lake, step: Step) -> Names:
        lake.close()
        self._open = [one for one in self._open if one[0] is not lake]
        self._pledges = [one for one in self._pledges if one.lake is not lake]
        self._pair.replace(step.lake)
        return list(self._world.tables)

    def _crash(self, lake: Lake, step: Step) -> Names:
        """The handle is left where it is; what it had under way may still land."""
        self._pair.replace(step.lake)
        return list(self._world.tables)

    def _fault(self, lake: Lake, step: Step) -> Names:
        trip(lake, step.more)
        return []

    def _keep(self, lake: Lake, step: Step) -> Names:
        self._kept.append(lake.snapshot())
        return []

    def _look_back(self, lake: Lake, step: Step | None) -> Names:
        for snapshot in self._kept:
            for number, (name, still) in enumerate(self._world.past[snapshot.version].items()):
                whose = f"{name} in a snapshot of version {snapshot.version}"
                same(still.rows, rows_in(snapshot[name]), whose)
                if step is not None:
                    self._ask(snapshot[name], still, random.Random(step.chance + number), whose)
        return []

    def _question(self, lake: Lake, step: Step) -> Names:
        """Several in a row, to one table as it is now, as a transaction has it, or as a snapshot keeps it."""
        chance = random.Random(step.chance)
        table, still = self._some_table(lake, step)
        for _ in range(step.more // 2 if table is not None else 0):
            self._ask(table, still, chance, f"{table!r}")
        return None if table is None else []

    def _some_table(self, lake: Lake, step: Step) -> tuple[Any, Any]:
        if step.chance % 3 == 1 and self._open:
            _, txn, private = self._open[step.pick % len(self._open)]
            name = _any_of(private.world.tables, step)
            return (None, None) if name is None else (txn[name], private.world.tables[name].still())
        if step.chance % 3 == 2 and self._kept:
            snapshot = self._kept[step.pick % len(self._kept)]
            past = self._world.past[snapshot.version]
            name = _any_of(past, step)
            return (None, None) if name is None else (snapshot[name], past[name])
        name = self._pick(step)
        return (None, None) if name is None else (lake[name], self._world.tables[name].still())


def _any_of(tables: Iterable[str], step: Step) -> str | None:
    names = sorted(tables)
    return names[step.pick % len(names)] if names else None
