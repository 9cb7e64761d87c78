"""What every step stands on: do something in the model and for real, compare, and let the model go on from there."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from phalanx.errors import ConflictError, NotFoundError, PhalanxError, UnavailableError
from phalanx.lake import Lake
from phalanx.log.action import Settings
from phalanx.table import Readable
from tests.model.pair import Pair, tripped
from tests.model.questions import Diverged, ask, same
from tests.model.steps import Step
from tests.model.world import Refused, Still, World

Land = Callable[[World, int], None]
"""What a change does to the model when it lands at a position; or it is refused."""


class Ground:
    """One lake, two handles, one model."""

    def __init__(self, folder: Path, seed: int) -> None:
        every = random.Random(seed).choice((3, 7, 20))
        self._pair = Pair(str(folder), Settings(durability="os", checkpoint_every=every))
        self._world = World()
        self._end = 1
        self._versions: dict[int, int] = {}
        self.taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._pair.lakes[0].set_property("flush.background", "off")  # a run is the same every time
        self._freeze()

    def _check(self, kind: str, touched: Iterable[str], chance: random.Random) -> None:
        self.taken[kind] += 1
        self._freeze()
        for name in touched:
            if name in self._world.tables:
                self.asked[self._pair.compare(name, self._world.tables[name], chance)] += 1
        same(sorted(self._world.tables), chance.choice(self._pair.lakes).tables(), "tables")

    def _commit_one(self, lake: Lake, land: Land, really: Callable[[], Any], began: int = -1) -> list[str]:
        """Do it in the model and for real; the tables that it changed."""
        trial: list[World] = []

        def plainly() -> None:
            trial.append(self._world.copy())  # when it landed: others may have been quicker
            land(trial[0], self._end + 1)

        position = self._answers_alike(plainly, really, lake)
        if position is None:
            return []
        now = lake.version
        if position not in {now, began} or not self._end <= now <= self._end + 1:
            raise Diverged(f"landed at {position}, the lake is at {now} and was at {self._end}")
        return self._adopt(lake, trial[0])

    def _answers_alike(self, plainly: Callable[[], object], really: Callable[[], Any], lake: Lake | None = None) -> Any:
        """Both do it, or both refuse for the same reason; what the lake answers."""
        answer, error = None, None
        try:
            answer = really()
        except PhalanxError as raised:
            if type(raised) is UnavailableError and lake is not None and tripped(lake):
                return None
            error = raised
        expected = refusal(plainly)
        if expected != (None if error is None else type(error).__name__):
            raise Diverged(f"expected {expected or 'success'}, got {error or answer!r}") from error
        if expected is not None:
            self.refused[expected] += 1
        return answer

    def _adopt(self, lake: Lake, trial: World) -> list[str]:
        """The model goes on from here; a table's version grows by one with each change, and by nothing else."""
        touched = []
        for name, held in trial.tables.items():
            landed = sum(position > self._end for position, _ in held.log)
            if not landed:
                continue
            touched.append(name)
            old, before = self._world.by_identity(held.identity), self._versions.get(held.identity, 0)
            now = lake[name].version
            if now == before and old is not None and old.rows == held.rows:
                held.log = held.log[:-landed]  # it came to nothing, and was not logged
            elif now != before + (landed if old is not None else 1):
                raise Diverged(f"version of {name} went from {before} to {now} by {landed} changes")
            self._versions[held.identity] = now
        self._world = trial
        self._freeze()
        return touched

    def _upkeep(self, lake: Lake, run: Callable[[], object]) -> None:
        try:
            run()
        except (ConflictError, NotFoundError):
            self.refused["upkeep"] += 1
        except UnavailableError:
            if not tripped(lake):
                raise
        self._freeze()

    def _ask(
        self, table: Readable, still: Still, chance: random.Random, whose: str, kinds: Sequence[str] | None = None
    ) -> None:
        self.asked[ask(table, still, chance, whose, kinds)] += 1

    def _freeze(self, until: int | None = None) -> None:
        """What the model holds now is what every version held that has come since, or those until one of them."""
        end = self._pair.lakes[0].version if until is None else until
        for version in range(len(self._world.past) + 1, end + 1):
            self._world.past[version] = self._world.frozen()
        self._end = end

    def _names_of(self, intents: Iterable[Any]) -> list[str]:
        tables = {getattr(action, "table", None) for intent in intents for action in intent.transaction.actions}
        return [name for name in self._world.tables if self._pair.lakes[0][name].id in tables]

    def _pick(self, step: Step) -> str | None:
        names = sorted(self._world.tables)
        return names[step.pick % len(names)] if names else None


def refusal(run: Callable[[], object]) -> str | None:
    """Why the model refuses, or None."""
    try:
        run()
    except Refused as refused:
        return str(refused)
    return None
