"""A lake: many tables, one log. What users hold in their hands.

Every read looks at the log's end first, so it sees whatever was acknowledged to anybody before it began. Every change
is one transaction; those below are statements on their own. What may be in a change is decided by `txn/`.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

import msgspec

from phalanx.catalog import Catalog, State
from phalanx.clock import SYSTEM, Clock, Deadline
from phalanx.describe import TableInfo
from phalanx.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.log.log import Log
from phalanx.names import parse_name, parse_word
from phalanx.naming import Naming
from phalanx.objects import Store, open_store
from phalanx.past import Past
from phalanx.pins import LIFE
from phalanx.snapshot import Snapshot
from phalanx.table import Table
from phalanx.transaction import Transaction, create_table
from phalanx.txn.core import Core, find
from phalanx.txn.transaction import Isolation, Work, again
from phalanx.upkeep.background import Background
from phalanx.upkeeping import Kept
from phalanx.writer import Writer

if TYPE_CHECKING:
    from phalanx.sql import Answer

R = TypeVar("R")

TIMEOUT = 30.0
"""Seconds a commit may take by default."""


def open_lake(
    uri: str | Path,
    *,
    create: bool = False,
    storage_options: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    durability: Literal["disk", "os"] | None = None,
    timeout: float = TIMEOUT,
    carry: bool = True,
) -> "Lake":
    """Open the lake at a path or URI; with `create`, make one if there is none.

    `settings` and `durability` are decided when the lake is created; given for a lake that exists, they must agree.
    With `carry`, processes of one user on one machine that contend bring each other's small changes into the log.
    """
    asked = dict(settings or {})
    if durability is not None and asked.setdefault("durability", durability) != durability:
        raise InvalidInputError(f"durability is {durability!r}, and {asked['durability']!r} in settings: give it once")
    try:
        wanted = msgspec.convert(asked, Settings)
    except msgspec.ValidationError as error:
        msg = f"these settings cannot be used: {error}"
        raise InvalidInputError(msg) from error
    store = open_store(uri, storage_options)
    return join(store, SYSTEM, wanted if create else None, agree=asked, timeout=timeout, carry=carry)


def join(
    store: Store,
    clock: Clock,
    found: Settings | None,
    *,
    agree: Mapping[str, object] | None = None,
    timeout: float,
    carry: bool = True,
    pin_life: float = LIFE,
) -> "Lake":
    """Open the lake in a store, or create it with these settings if there is none."""
    try:
        lake = Lake(store, Log.open(store, Catalog(), clock), clock, timeout, carry=carry, pin_life=pin_life)
    except NotFoundError:
        if found is None:
            raise
        log = Log.begin(store, Catalog(), clock, Deadline.after(clock, timeout))
        lake = Lake(store, log, clock, timeout, carry=carry, pin_life=pin_life)
        try:
            lake.commit([do.Found(found)])
        except AlreadyExistsError:
            lake.refresh()  # another process was quicker: this is its lake
    for key, value in (agree or {}).items():
        held = getattr(lake.settings, key)
        if held != value:
            lake.close()
            msg = f"the lake at {store.uri} was created with {key}={held!r}, not {value!r}: leave that setting out"
            raise InvalidInputError(msg)
    return lake


class Lake(Naming, Past, Kept):
    """A handle on a lake. Safe to use from many threads; open one in each process."""

    def __init__(
        self,
        store: Store,
        log: Log[State],
        clock: Clock,
        timeout: float,
        *,
        carry: bool = True,
        pin_life: float = LIFE,
    ) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._core = Core(store, log, clock, timeout, carry=carry, pin_life=pin_life)
        self._committer = self._core.committer
        self._background = Background(self._core)
        self._committer.upkeep = self._background
        self._writers: weakref.WeakSet[Writer] = weakref.WeakSet()

    @property
    def uri(self) -> str:
        """Where the lake is."""
        return self._store.uri

    @property
    def core(self) -> Core:
        """The handle without the words that users see."""
        return self._core

    @property
    def id(self) -> str:
        """Which lake this is, wherever it is copied to."""
        return self._log.lake.hex()

    @property
    def settings(self) -> Settings:
        """What was decided when the lake was created."""
        return self._log.settings

    @property
    def version(self) -> int:
        """The newest position of the log."""
        return self.refresh().version

    def refresh(self) -> Snapshot:
        """The newest snapshot."""
        return Snapshot(self._core.refresh(), self._core)

    def tables(self, namespace: str | None = None) -> list[str]:
        """The names of all tables, or of those directly inside a namespace."""
        return self.refresh().tables(namespace)

    def __getitem__(self, name: str) -> Table:
        """A table at the newest version."""
        return Table(self._core, self._background, find(self._core.refresh(), name))

    def sql(self, text: str, *, params: Sequence[object] | Mapping[str, object] | None = None) -> "Answer":
        """The answer to a statement that reads any tables, all at the newest version, as DuckDB speaks SQL."""
        return self.refresh().sql(text, params=params)

    def create_table(
        self,
        name: str,
        data: object,
        *,
        key: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        note: str = "",
        timeout: float | None = None,
    ) -> Table:
        """Create a table from a schema, or from rows: anything Arrow, pandas, polars, a list of dicts.

        With a key (one column or several) the table never holds two rows of the same key: new rows replace old ones.
        """
        with Work(self._core, timeout, note) as work:
            create_table(work, name, data, key, properties)
        return self[name]

    def transaction(
        self,
        note: str = "",
        *,
        token: str | None = None,
        timeout: float | None = None,
        isolation: Isolation = "snapshot",
    ) -> Transaction:
        """Begin a transaction: it reads the newest version and its own changes, and commits when its block ends well.

        With a `token` (see `token`), the same transaction run again commits once. With `isolation="serializable"`, it
        conflicts also if what it read was changed meanwhile, not only what it changes.
        """
        return Transaction(Work(self._core, timeout, note, token, isolation), self._background)

    def writer(self, name: str) -> Writer:
        """A writer that takes single rows of a table from thousands of producers, and acknowledges each."""
        made = Writer(self._core, self._background, find(self._core.refresh(), name))
        self._writers.add(made)
        return made

    def run(
        self,
        work: Callable[[Transaction], R],
        *,
        note: str = "",
        timeout: float | None = None,
        isolation: Isolation = "snapshot",
    ) -> R:
        """Run `work(txn)` and commit, again on a newer snapshot while it conflicts, until the deadline."""
        deadline = self._core.deadline(timeout)

        def attempt() -> R:
            with Transaction(Work(self._core, deadline, note, None, isolation), self._background) as txn:
                return work(txn)

        return again(self._core, deadline, attempt)

    def token(self) -> str:
        """A new idempotency token: keep it with your work, and give it to every attempt of the same transaction."""
        return f"{self.version}-{self._clock.token(16).hex()}"

    def describe(self, name: str) -> TableInfo:
        """A table's columns, key, rows, head and tail; nothing is scanned."""
        return self.refresh().describe(name)

    def drop_table(self, name: str, *, note: str = "", timeout: float | None = None) -> int:
        """Drop a table; snapshots and tags of earlier versions still have it."""
        parts, table = self.refresh().table(name)
        return self.commit([do.DropTable(parts, table.id)], note=note, timeout=timeout)

    def rename_table(self, name: str, to: str, *, note: str = "", timeout: float | None = None) -> int:
        """Give a table another name, possibly in another namespace. No file moves."""
        parts, table = self.refresh().table(name)
        return self.commit([do.RenameTable(parts, table.id, parse_name(to))], note=note, timeout=timeout)

    def tag(self, name: str, *, version: int | None = None, move: bool = False, timeout: float | None = None) -> int:
        """Name a version, the newest by default. With `move`, a tag of that name may point elsewhere until now."""
        snapshot = self.snapshot(version=version)
        action = do.PutTag(parse_word(name, "tag"), snapshot.version, move)
        return self.commit([action], timeout=timeout)

    def commit(self, actions: Sequence[do.Action], *, note: str = "", timeout: float | None = None) -> int:
        """Bring these actions into the log as one transaction; the position they landed on."""
        return self._core.commit(actions, timeout, note=note)

    async def commit_async(self, actions: Sequence[do.Action], *, note: str = "", timeout: float | None = None) -> int:
        """As `commit`, for asyncio: many callers share entries."""
        intent = self._core.intent(actions, self._core.deadline(timeout), note=note)
        return await self._committer.submit(intent)

    def close(self) -> None:
        """Finish what was submitted and let go."""
        for writer in list(self._writers):
            writer.close()
        self._background.close()
        self._committer.close()
        self._core.pins.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self.uri} at version {self._log.view.position}>"
