"""The machine that takes steps: two handles on one lake, side by side with the model, compared after every step."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.lake import Lake
from phalanx.transaction import Transaction
from tests.model import statements
from tests.model.ground import refusal
from tests.model.handles import Handles
from tests.model.pair import arrow, begun, meanwhile
from tests.model.questions import rows_in, same
from tests.model.steps import KEYS, Do, Step
from tests.model.upkeep import Names, Pledge, cover_all
from tests.model.words import Row
from tests.model.world import Private, Refused, World

_NAMES = ("keyed", "wide", "plain", "simple", "fifth", "sixth")
_OPEN = 3


class Machine(Handles):
    """Takes steps."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        for name, key in zip(_NAMES[:4], (*KEYS[1:], (), ()), strict=True):
            self._make(self._pair.lakes[0], name, key, ())

    def take(self, step: Step) -> None:
        """Take one step, then compare."""
        touched = getattr(self, f"_{step.kind}")(self._pair.lakes[step.lake], step)
        if touched is not None:
            self._check(step.kind, touched, random.Random(step.chance))

    def close(self) -> None:
        """Compare everything there ever was, through a handle that has seen nothing of it."""
        self._look_back(self._pair.lakes[0], None)
        self._pair.land_late_puts()
        self._pair.reread(self._world.past)
        self._pair.close()

    # Statements on their own, once or the same one several times in a row.

    def _state(self, lake: Lake, step: Step) -> Names:
        name = self._pick(step)
        return None if name is None else self._statement(lake, name, step.do[0])

    def _again(self, lake: Lake, step: Step) -> Names:
        name = self._pick(step)
        for number in range(step.more if name else 0):
            taking = self._pair.lakes[(step.lake + number * (step.chance % 2)) % 2]
            self._check(step.kind, self._statement(taking, str(name), step.do[0]), random.Random(step.chance + number))
        return None

    def _prune(self, lake: Lake, step: Step) -> Names:
        """Rows go that an index has, and what is left is written anew: the index must not find them instead of others."""
        name = self._pick(step)
        if name is None:
            return None
        self._index(lake, step)
        self._optimize(lake, step)
        self._statement(lake, name, step.do[0])
        self._optimize(lake, step)
        still, chance = self._world.tables[name].still(), random.Random(step.chance)
        for _ in range(3):
            self._ask(lake[name], still, chance, name, ("near", "words"))
        return [name]

    def _statement(self, lake: Lake, name: str, do: Do) -> list[str]:
        land = statements.landing(self._world.tables[name].identity, do)
        self._commit_one(lake, land, lambda: statements.really(lake[name], do))
        return [name]

    # Transactions, in one go or across other steps.

    def _transact(self, lake: Lake, step: Step) -> Names:
        private = Private(self._world, self._end)
        with lake.transaction() as txn:
            for number, do in enumerate(step.do):
                self._inside_one(txn, private, step.pick + number * (step.chance % 3), do, step.more[number])
            return self._commit_one(lake, private.land, txn.commit, private.began)

    def _begin(self, lake: Lake, step: Step) -> Names:
        if len(self._open) >= _OPEN:
            return None
        txn = lake.transaction()
        assert txn.snapshot_version == self._end  # from now on it sees this, whatever others do
        self._open.append((lake, txn, Private(self._world, self._end)))
        return []

    def _inside(self, lake: Lake, step: Step) -> Names:
        if not self._open:
            return None
        _, txn, private = self._open[step.pick % len(self._open)]
        self._inside_one(txn, private, step.pick, step.do[0], step.more[0])
        return []

    def _inside_one(self, txn: Transaction, private: Private, pick: int, do: Do, what: int) -> None:
        names = sorted(private.world.tables)
        name = names[pick % len(names)] if names else None
        spare = next((one for one in _NAMES if one not in private.world.tables), None)
        if what == 0 and do.n < 3 and spare is not None:
            private.create(spare, statements.filled(KEYS[do.m % 3], do.rows))
            txn.create_table(spare, arrow(do.rows), key=KEYS[do.m % 3])
            name = spare
        elif what == 1 and do.n < 3 and name is not None and spare is not None:
            private.rename(name, spare)
            txn.rename_table(name, spare)
            name = spare
        elif what == 1 and do.n == 3 and name is not None:
            private.drop(name)
            txn.drop_table(name)
        elif name is not None:
            self._answers_alike(lambda: statements.inside(private, name, do), lambda: statements.really(txn[name], do))
        same(sorted(private.world.tables), txn.tables(), "tables inside a transaction")
        if name is not None and name in private.world.tables:
            mine = private.world.tables[name].still()
            same(mine.rows, rows_in(txn[name]), f"{name} inside a transaction after {do}")
            same(mine.rows.total(), txn[name].count(), f"count of {name} inside a transaction")
            if what % 4 == 1:
                self._ask(txn[name], mine, random.Random(pick), f"{name} inside a transaction after {do}")

    def _commit(self, lake: Lake, step: Step) -> Names:
        if not self._open:
            return None
        lake, txn, private = self._open.pop(step.pick % len(self._open))
        return self._commit_one(lake, private.land, txn.commit, private.began)

    def _rollback(self, lake: Lake, step: Step) -> Names:
        if not self._open:
            return None
        self._open.pop(step.pick % len(self._open))[1].rollback()
        return []

    # What others do right before something lands: it is tried again as often as needed.

    def _meanwhile(self, lake: Lake, step: Step) -> Names:
        name, outer, inner = self._pick(step), step.more[0], step.more[1:]
        if name is None:
            return None
        if outer.kind in {"optimize", "cover"} or step.chance % 3 == 0:
            self._flush(lake, step)
        other = self._pair.lakes[1 - step.lake]
        touched: list[str] = [name]

        def others() -> None:
            for one in inner:
                touched.extend(getattr(self, f"_{one.kind}")(other, one) or ())
                self.taken[f"meanwhile {one.kind}"] += 1

        with meanwhile(lake, others):
            if outer.kind in {"flush", "optimize"}:
                self._upkeep(lake, lambda: getattr(lake, outer.kind)(name))
            elif outer.kind == "cover":
                self._upkeep(lake, lambda: cover_all(lake, name))
            elif outer.kind == "state":
                held = self._world.tables[name]
                land = statements.landing(held.identity, outer.do[0])
                if statements.resolved(held, outer.do[0]):
                    land = statements.retried(
                        self._world, self._end, lambda world: world.by_identity(held.identity), outer.do
                    )
                self._commit_one(lake, land, lambda: statements.really(lake[name], outer.do[0]))
            else:
                land = statements.retried(self._world, self._end, lambda world: world.tables.get(name), outer.do)
                self._commit_one(lake, land, lambda: lake.run(lambda txn: _all(txn, name, outer.do)).version)
        return touched

    def _restore(self, lake: Lake, step: Step) -> Names:
        """A table becomes what it was at some version at which it was there."""
        name = self._pick(step)
        if name is None:
            return None
        identity = self._world.tables[name].identity
        there = [(version, still) for version, past in self._world.past.items() for still in past.values()]
        mine = [(version, still) for version, still in there if still.identity == identity]
        if not mine:
            return None
        version, still = mine[step.chance % len(mine)]
        table = lake[name].id
        then, now = (lake.snapshot(version=at).state.contents[table] for at in (version, lake.version))
        if (then.changed, then.place) == (now.changed, now.place):
            return None

        def land(world: World, position: int) -> None:
            held = world.by_identity(identity)
            if held is None:
                raise Refused("NotFoundError")
            held.restore(still)
            held.log.append((position, None))

        self._commit_one(lake, land, lambda: lake.restore(version=version, tables=[name]))
        self._learn_indexes(lake, name)
        return [name]

    # Work that is begun early and lands late, by itself or in one entry with others.

    def _early(self, lake: Lake, step: Step) -> Names:
        name, do = self._pick(step), step.do[0]
        if name is None:
            return None
        held = self._world.tables[name]
        private = Private(self._world, self._end)
        land = private.land if statements.resolved(held, do) else statements.landing(held.identity, do)
        found: list[Any] = []
        self._answers_alike(
            lambda: statements.inside(private, name, do),
            lambda: found.append(begun(lake, lambda: statements.really(lake[name], do))),
            lake,
        )
        self._pledges += [Pledge(lake, intent, land) for intent in found if intent is not None]
        return []

    def _early_commit(self, lake: Lake, step: Step) -> Names:
        if not self._open:
            return None
        return self._pledge_one(*self._open.pop(step.pick % len(self._open)))

    def _pledge(self, lake: Lake, step: Step) -> Names:
        txn, private = lake.transaction(), Private(self._world, self._end)
        for number, do in enumerate(step.do):
            self._inside_one(txn, private, step.pick, do, step.more[number])
        return self._pledge_one(lake, txn, private)

    def _pledge_one(self, lake: Lake, txn: Transaction, private: Private) -> Names:
        intent = begun(lake, txn.commit)
        self._pledges += [] if intent is None else [Pledge(lake, intent, private.land)]
        return []

    def _late(self, lake: Lake, step: Step) -> Names:
        if not self._pledges:
            return None
        pledge = self._pledges.pop(step.pick % len(self._pledges))
        if not pledge.upkeep:
            committer = pledge.lake._core.committer
            return self._commit_one(pledge.lake, pledge.land, lambda: committer.commit(pledge.intent))
        self._upkeep(pledge.lake, lambda: pledge.lake._core.committer.commit(pledge.intent))
        return self._names_of([pledge.intent])

    def _together(self, lake: Lake, step: Step) -> Names:
        """Several of them go through one handle at once, as those of several threads do."""
        if step.chance % 2:
            self._flush(lake, step)
        for one in step.more:
            getattr(self, f"_{one.kind}")(lake, one)
            self.taken[one.kind] += 1
        batch, self._pledges = self._pledges[-4:], self._pledges[:-4]
        if not batch:
            return None
        lake._store.plan = lambda *_: None  # type: ignore[attr-defined]
        lake._core.committer._commit([pledge.intent for pledge in batch])
        self._landed_together(lake, {pledge.intent.id: pledge for pledge in batch})
        return self._names_of(pledge.intent for pledge in batch)

    def _landed_together(self, lake: Lake, batch: dict[bytes, Pledge]) -> None:
        trial = self._world.copy()
        for position in range(self._end + 1, lake.version + 1):
            for transaction in lake._log.read(position).transactions:
                pledge = batch.pop(transaction.id)
                same(position, pledge.intent.ack.result(), "acknowledged")
                same(None, refusal(lambda: pledge.land(trial, position)), "refused, and landed with others")  # noqa: B023
            self._world.past[position] = trial.frozen()
        for pledge in batch.values():  # those that did not land
            try:
                found = f"landed at {pledge.intent.ack.result()}"
            except PhalanxError as error:
                found = type(error).__name__
            if not (pledge.upkeep and found in {"ConflictError", "NotFoundError"}):
                same(refusal(lambda: pledge.land(trial.copy(), self._end + 1)), found, "refused with others")  # noqa: B023
                self.refused[found] += 1
        self._adopt(lake, trial)

    # Names.

    def _create(self, lake: Lake, step: Step) -> Names:
        return self._make(lake, _NAMES[step.more], KEYS[step.chance % 3], step.do[0].rows)

    def _make(self, lake: Lake, name: str, key: tuple[str, ...], rows: tuple[Row, ...]) -> Names:
        def really() -> int:
            lake.create_table(name, arrow(rows), key=key)
            return lake.version

        def land(world: World, position: int) -> None:
            held = statements.filled(key, rows)
            world.create(name, held)
            held.log.append((position, frozenset(held.rows)))

        self._commit_one(lake, land, really)
        return [name]

    def _drop(self, lake: Lake, step: Step) -> Names:
        name = self._pick(step)
        if name is None or len(self._world.tables) < 2:
            return None
        self._commit_one(lake, lambda world, _: (world.tables.pop(name), None)[1], lambda: lake.drop_table(name))
        return [name]

    def _rename(self, lake: Lake, step: Step) -> Names:
        name, to = self._pick(step), _NAMES[step.more]
        if name is None:
            return None
        self._commit_one(lake, lambda world, _: world.rename(name, to), lambda: lake.rename_table(name, to))
        return [name, to]


def _all(txn: Transaction, name: str, done: Iterable[Do]) -> Transaction:
    for do in done:
        statements.really(txn[name], do)
    return txn
