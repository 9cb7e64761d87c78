"""Two handles on one lake, each over a store that can be told to fail, and what is needed to compare them with a model."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from phalanx.catalog import Catalog
from phalanx.clock import SYSTEM
from phalanx.lake import Lake, join
from phalanx.log import base as bases
from phalanx.log.action import Settings
from phalanx.log.cursor import Cursor
from phalanx.objects import open_store
from phalanx.snapshot import Snapshot
from phalanx.testing import Fault, FaultyStore, nth
from tests.model.questions import ask, rows_in, same
from tests.model.statements import rows_of
from tests.model.words import Row
from tests.model.world import Frozen, Held

_TYPES: tuple[tuple[str, pa.DataType], ...] = (
    ("id", pa.int64()),
    ("g", pa.string()),
    ("v", pa.int64()),
    ("s", pa.string()),
    ("x", pa.list_(pa.float32(), 2)),
)
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _TYPES])
FAULTS = (Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.LATE, Fault.FALSE_EXISTS, Fault.OWN_EXISTS, Fault.REFUSED)


class Begun(BaseException):
    """A change is ready to land; it was stopped right before."""

    def __init__(self, intent: Any) -> None:
        self.intent = intent


class Pair:
    """The lakes of one run."""

    def __init__(self, uri: str, settings: Settings) -> None:
        self._uri = uri
        self._settings = settings
        self.lakes = [self.join(), self.join()]

    def join(self) -> Lake:
        """One more handle."""
        return join(FaultyStore(open_store(self._uri), lambda *_: None), SYSTEM, self._settings, timeout=30.0)

    def replace(self, at: int) -> None:
        """Another handle instead of this one, which is left as it is: closed, or as if its process were asleep."""
        self.lakes[at] = self.join()

    def compare(self, name: str, held: Held, chance: random.Random) -> str:
        """A table is what the model says, read through both handles and asked through one; what was asked."""
        still = held.still()
        tables = [lake[name] for lake in self.lakes]
        for at, table in enumerate(tables):
            same(still.rows, rows_in(table), f"{name} through lake {at}")
            same(still.rows.total(), table.count(), f"count of {name} through lake {at}")
        return ask(chance.choice(tables), still, chance, name)

    def reread(self, past: Mapping[int, Frozen]) -> None:
        """Every version there ever was, through a handle that has seen nothing of it."""
        fresh = self.join()
        seen: dict[str, object] = {}
        cursor = Cursor(bases.empty(Catalog()), Catalog())
        for version, frozen in past.items():
            cursor.advance(version, fresh._log.read(version))
            snapshot = Snapshot(cursor.view(), fresh._core)
            if version % 5 == 0:  # the way of users is long: it must lead to the same place
                same(Catalog().dump(cursor.state), Catalog().dump(fresh.snapshot(version=version).state), "the fold")
            same(sorted(frozen), snapshot.tables(), f"tables at version {version}")
            for name, still in frozen.items():
                contents = snapshot.state.contents[snapshot[name].id]
                if seen.get(name) is not contents:
                    same(still.rows, rows_in(snapshot[name]), f"{name} at version {version}")
                    if version % 7 == 0:
                        ask(snapshot[name], still, random.Random(version), f"{name} at version {version}")
                seen[name] = contents
        for name in frozen:
            found = [change.version for change in fresh.history(name, 1 << 20)]
            same(list(range(len(found), 0, -1)), found, f"history of {name}")
        fresh.close()

    def land_late_puts(self) -> None:
        """Every put that was delayed takes effect."""
        for lake in self.lakes:
            store: Any = lake._store
            store.land_late_puts()

    def close(self) -> None:
        """Let go."""
        for lake in self.lakes:
            lake.close()


def trip(lake: Lake, fault: int) -> None:
    """The handle's next put into the log fails."""
    store: Any = lake._store
    store.struck = []
    store.plan = nth("put", 1, FAULTS[fault], "log/")


def tripped(lake: Lake) -> bool:
    """Whether the store has refused a put, as it was told to; asked once."""
    store: Any = lake._store
    struck = any(fault is Fault.REFUSED for fault, _ in store.struck)
    store.struck = []
    return struck


class _Before:
    """Stands before a committer; `first` is called with an intent before it goes there."""

    def __init__(self, inner: Any, first: Callable[[Any], None]) -> None:
        self._inner = inner
        self._first = first

    def commit(self, intent: Any) -> int:
        self._first(intent)
        return self._inner.commit(intent)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def _before(lake: Lake, first: Callable[[Any], None]) -> Iterator[None]:
    core: Any = lake._core
    inner = core.committer
    core.committer = _Before(inner, first)
    try:
        yield
    finally:
        core.committer = inner


def begun(lake: Lake, run: Callable[[], object]) -> Any:
    """The intent that `run` wants to land, stopped right before; None if it wants nothing."""

    def stop(intent: Any) -> None:
        raise Begun(intent)

    try:
        with _before(lake, stop):
            run()
    except Begun as stopped:
        return stopped.intent
    return None


@contextmanager
def meanwhile(lake: Lake, others: Callable[[], None]) -> Iterator[None]:
    """Others act right before this handle's next change lands, when all of it is staged and planned."""
    waiting = [others]

    def first(_: Any) -> None:
        if waiting:
            waiting.pop()()

    with _before(lake, first):
        yield


def arrow(rows: tuple[Row, ...]) -> pa.Table | pa.Schema:
    """Rows to make a table from, or only their schema if there are none."""
    return pa.Table.from_pylist(rows_of(rows), SCHEMA) if rows else SCHEMA
