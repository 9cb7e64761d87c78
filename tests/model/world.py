"""What a lake should hold, said as plainly as Python can: dictionaries, copied for every version.

A row is known by its key, or on a table without one by a number of its own. Each change says which rows it touched; a
transaction may land if nobody touched its rows since it began. That is all there is to it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.model.words import NAMES, Change, Fails, Row, Words, changed

_fresh = itertools.count()


class Still(NamedTuple):
    """A table at one version: its rows without order, and whether words can be searched for (None if nobody knows)."""

    key: tuple[str, ...]
    rows: Counter[Row]
    searchable: bool | None
    identity: int = -1


Frozen = dict[str, Still]
"""Every table at one version."""


class Refused(Exception):  # noqa: N818 - an answer
    """What the lake should answer instead of doing it: the name of an error."""


@dataclass
class Held:
    """One table. `log` says at which version of the lake which rows were touched; indexes are kinds by name.

    None stands for whatever rows there are: a restore.
    """

    key: tuple[str, ...]
    identity: int = field(default_factory=lambda: next(_fresh))
    rows: dict[Hashable, Row] = field(default_factory=dict)
    log: list[tuple[int, frozenset[Hashable] | None]] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)
    searchable: bool | None = False

    def copy(self) -> Held:
        """A copy that can be changed by itself."""
        return Held(self.key, self.identity, dict(self.rows), list(self.log), dict(self.indexes), self.searchable)

    def still(self) -> Still:
        """The table now."""
        rows = Counter(self.rows.values())
        return Still(self.key, rows, self.searchable, self.identity)

    def of(self, row: Row) -> Hashable:
        """What a new row is known by."""
        return tuple(row[NAMES.index(name)] for name in self.key) if self.key else next(_fresh)

    def put(self, rows: Iterable[Row]) -> set[Hashable]:
        """Add rows, or replace those of the same key; what was touched."""
        new = {self.of(row): row for row in rows}
        self.rows.update(new)
        return set(new)

    def insert(self, rows: Sequence[Row]) -> set[Hashable]:
        """Add rows of keys that must be new."""
        if not self.key:
            raise Refused("InvalidInputError")
        new = {self.of(row) for row in rows}
        if len(new) < len(rows):
            raise Refused("InvalidInputError")
        if new & set(self.rows):
            raise Refused("AlreadyExistsError")
        return self.put(rows)

    def overwrite(self, rows: Iterable[Row]) -> set[Hashable]:
        """All rows go, then these are added."""
        gone = set(self.rows)
        self.rows = {}
        return gone | self.put(rows)

    def restore(self, then: Still) -> None:
        """What it held at another time; on a table without a key these are other rows than those that were left."""
        self.rows = {}
        self.put(then.rows.elements())
        self.searchable = None

    def matching(self, where: Words | None, n: int, m: int) -> list[Hashable]:
        """The rows that match."""
        try:
            return [one for one, row in self.rows.items() if where is None or where.means(row, n, m)]
        except Fails:
            raise Refused("InvalidInputError") from None

    def delete(self, where: Words, n: int, m: int) -> set[Hashable]:
        """The rows that match go."""
        gone = set(self.matching(where, n, m))
        self.rows = {one: row for one, row in self.rows.items() if one not in gone}
        return gone

    def update(self, change: Change, where: Words | None, n: int, m: int) -> set[Hashable]:
        """Rows get new values, and on a keyed table possibly a new key, which must be free."""
        old = self.matching(where, n, m)
        try:
            new = [changed(change, self.rows[one], n, m) for one in old]
        except Fails:
            raise Refused("InvalidInputError") from None
        if not {name for name, _ in change} & set(self.key):
            self.rows.update(zip(old, new, strict=True))
            return set(old)
        keys = [self.of(row) for row in new]
        if len(set(keys)) < len(keys) or set(keys) & (set(self.rows) - set(old)):
            raise Refused("AlreadyExistsError")
        self.rows = {one: row for one, row in self.rows.items() if one not in set(old)}
        self.rows.update(zip(keys, new, strict=True))
        return set(old) | set(keys)


@dataclass
class World:
    """The newest version of a lake, and what every version held."""

    tables: dict[str, Held] = field(default_factory=dict)
    past: dict[int, Frozen] = field(default_factory=dict)

    def copy(self) -> World:
        """A copy that can be changed by itself, with the same past."""
        return World({name: held.copy() for name, held in self.tables.items()}, self.past)

    def frozen(self) -> Frozen:
        """Every table now."""
        return {name: held.still() for name, held in self.tables.items()}

    def find(self, name: str) -> Held:
        """A table that must exist."""
        if name not in self.tables:
            raise Refused("NotFoundError")
        return self.tables[name]

    def create(self, name: str, held: Held) -> None:
        """A new table."""
        if name in self.tables:
            raise Refused("AlreadyExistsError")
        self.tables[name] = held

    def rename(self, name: str, to: str) -> None:
        """Another name."""
        held = self.find(name)
        if to in self.tables:
            raise Refused("AlreadyExistsError")
        del self.tables[name]
        self.tables[to] = held

    def by_identity(self, identity: int) -> Held | None:
        """A table under whatever name it has by now."""
        return next((held for held in self.tables.values() if held.identity == identity), None)


class Private:
    """A transaction: the world as it began, with its own changes, and what it touched."""

    def __init__(self, world: World, position: int) -> None:
        self.world = world.copy()
        self.began = position
        self._first = {held.identity: set(held.rows) for held in world.tables.values()}
        self.touched: dict[int, set[Hashable]] = {}
        self.whole: set[int] = set()
        self._born: set[int] = set()
        self._catalog: list[Callable[[World], None]] = []

    def touch(self, held: Held, rows: Iterable[Hashable], *, whole: bool = False) -> None:
        """One more statement on a table."""
        self.touched.setdefault(held.identity, set()).update(rows)
        if whole:
            self.whole.add(held.identity)

    def create(self, name: str, held: Held) -> None:
        """A new table."""
        self.world.tables[name] = held
        self._born.add(held.identity)
        self.touch(held, held.rows)
        self._catalog.append(lambda world: world.create(name, Held(held.key, held.identity)))

    def rename(self, name: str, to: str) -> None:
        """Another name."""
        held = self.world.tables.pop(name)
        self.world.tables[to] = held

        def rename(world: World) -> None:
            _require(world, name, held)
            world.rename(name, to)

        self._catalog.append(rename)

    def drop(self, name: str) -> None:
        """The table goes; that touches all of it."""
        held = self.world.tables.pop(name)
        self.touch(held, (), whole=True)

        def drop(world: World) -> None:
            _require(world, name, held)
            del world.tables[name]

        self._catalog.append(drop)

    def land(self, world: World, position: int) -> None:
        """Bring the changes into the world, or be refused; nothing is changed then."""
        if self._came_to_nothing():
            return
        for identity in set(self.touched) - self._born:
            self._judge(world.by_identity(identity), identity)
        after = World(dict(world.tables))
        for change in self._catalog:
            change(after)
        world.tables = after.tables
        for now in after.tables.values():
            mine = self.world.by_identity(now.identity)
            if mine is not None and now.identity in self.touched:
                self._merge(now, mine, position)

    def _came_to_nothing(self) -> bool:
        """Whether there is nothing to log: then nobody is asked, whatever others did."""
        if self._catalog or self.whole:
            return False
        mine = {held.identity: held for held in self.world.tables.values()}
        return not any(
            mine[identity].key or one in self._first[identity] or one in mine[identity].rows
            for identity, touched in self.touched.items()
            for one in touched
        )

    def _judge(self, now: Held | None, identity: int) -> None:
        if now is None:
            raise Refused("ConflictError")
        since = [touched for position, touched in now.log if position > self.began]
        if since and (identity in self.whole or any(one is None or one & self.touched[identity] for one in since)):
            raise Refused("ConflictError")

    def _merge(self, now: Held, mine: Held, position: int) -> None:
        touched = self.touched[now.identity]
        if now.identity in self.whole:
            touched = set(now.rows) | set(mine.rows)
        elif not now.key:
            touched = {one for one in touched if one in now.rows or one in mine.rows}  # not what came and went inside
        for one in touched:
            now.rows.pop(one, None)
            if one in mine.rows:
                now.rows[one] = mine.rows[one]
        if touched or now.identity in self.whole or now.identity in self._born:
            now.log.append((position, frozenset(touched)))


def _require(world: World, name: str, held: Held) -> None:
    if world.find(name).identity != held.identity:
        raise Refused("ConflictError")
