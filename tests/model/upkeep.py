"""Upkeep as steps: what changes no row, whenever it is begun and wherever it lands. Flushes, rewrites, indexes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.lake import Lake
from tests.model.ground import Ground, Land
from tests.model.pair import begun
from tests.model.questions import same
from tests.model.steps import Step
from tests.model.world import Refused, World
from tests.unit.covering import covered

_AS_WRITTEN = {"stem": False, "remove_stop_words": False}
INDEXES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("s", "inverted", _AS_WRITTEN),
    ("x", "ivf_flat", {"num_partitions": 1}),
    ("s", "inverted", _AS_WRITTEN),
    ("x", "ivf_flat", {"num_partitions": 1, "metric": "dot"}),
    ("id", "btree", {}),
    ("v", "btree", {}),
    ("g", "bitmap", {}),
)
"""The first four are those that searches use."""

Names = Iterable[str] | None
"""The tables to compare after a step; None if there was nothing to do."""


@dataclass
class Pledge:
    """Work that was begun and has not landed; upkeep may find that what it was staged on is gone."""

    lake: Lake
    intent: Any
    land: Land
    upkeep: bool = False


class Upkeep(Ground):
    """Steps that change no row."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self._pledges: list[Pledge] = []

    def _flush(self, lake: Lake, step: Step) -> Names:
        return self._keep_up(lake, step, lake.flush)

    def _optimize(self, lake: Lake, step: Step) -> Names:
        return self._keep_up(lake, step, lake.optimize)

    def _cover(self, lake: Lake, step: Step) -> Names:
        return self._keep_up(lake, step, lambda name: cover_all(lake, name))

    def _keep_up(self, lake: Lake, step: Step, run: Callable[[str], object]) -> Names:
        name = self._pick(step)
        if name is None:
            return None
        self._upkeep(lake, lambda: run(name))
        return [name]

    # Begun early, to land late.

    def _early_flush(self, lake: Lake, step: Step) -> Names:
        return self._early_upkeep(lake, step, lake.flush)

    def _early_rewrite(self, lake: Lake, step: Step) -> Names:
        self._flush(lake, step)
        return self._early_upkeep(lake, step, lake.optimize)

    def _early_cover(self, lake: Lake, step: Step) -> Names:
        return self._early_upkeep(lake, step, lambda name: cover_all(lake, name))

    def _early_upkeep(self, lake: Lake, step: Step, run: Callable[[str], object]) -> Names:
        name = self._pick(step)
        if name is None:
            return None
        intent = begun(lake, lambda: run(name))
        self._pledges += [] if intent is None else [Pledge(lake, intent, lambda *_: None, upkeep=True)]
        return [name]

    # Indexes that are wanted, and no longer.

    def _index(self, lake: Lake, step: Step) -> Names:
        name = self._pick(step)
        if name is None:
            return None
        column, kind, options = INDEXES[step.more % len(INDEXES)]
        called = "spare" if step.more % 3 == 0 else f"{column}_{kind}"
        held = self._world.tables[name]
        before = set(held.indexes)

        def plainly() -> None:
            if called in before:
                raise Refused("AlreadyExistsError")

        made = self._answers_alike(plainly, lambda: lake[name].create_index(column, kind, name=called, **options), lake)
        there = {info.name for info in lake[name].indexes()} - {"phalanx_key"}
        if made is None and called not in before and called in there:
            before.add(called)  # the store refused what came after the declaration
        elif made is not None:
            before.add(called)
        same(before, there, f"indexes of {name}")
        if called in before and called not in held.indexes:
            held.indexes[called] = kind
            self._searchable_from(name, sure=made is not None)
        self._freeze()
        return [name]

    def _learn_indexes(self, lake: Lake, name: str) -> None:
        """Which indexes a restored table wants: several commits declare and build one, and the model counts them as one."""
        there = {info.name: info.kind for info in lake[name].indexes() if info.name != "phalanx_key"}
        self._world.tables[name].indexes = there
        self._freeze()

    def _searchable_from(self, name: str, *, sure: bool) -> None:
        """A full-text index was declared: until it is built, a search by words may be refused."""
        held = self._world.tables[name]
        if "inverted" in held.indexes.values() and not held.searchable:
            held.searchable = None
            self._freeze(self._pair.lakes[0].version - 1)
            held.searchable = True if sure else None

    def _unindex(self, lake: Lake, step: Step) -> Names:
        name = self._pick(step)
        if name is None:
            return None
        identity = self._world.tables[name].identity
        names = [*sorted(self._world.tables[name].indexes), "absent"]
        called = names[step.more % len(names)]

        def land(world: World, _: int) -> None:
            held = world.by_identity(identity)
            if held is None or held.indexes.pop(called, None) is None:
                raise Refused("NotFoundError")
            if held.searchable and "inverted" not in held.indexes.values():
                held.searchable = None  # until upkeep takes it away

        self._commit_one(lake, land, lambda: lake[name].drop_index(called))
        return [name]


def cover_all(lake: Lake, name: str) -> None:
    """Every index covers every row that is written out; none of them fails."""
    same({}, covered(lake, name).failed, f"indexes of {name} that cannot be built")
