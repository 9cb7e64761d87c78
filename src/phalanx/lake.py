"""A lake: many tables, one log. What users hold in their hands.

Every read looks at the log's end first, so it sees whatever was acknowledged to anybody before it began. Every change
is one transaction; those below are statements on their own. What may be in a change is decided by `txn/`.
"""

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

import msgspec
import pyarrow as pa

from phalanx.catalog import Catalog, State
from phalanx.clock import SYSTEM, Clock, Deadline
from phalanx.describe import TableInfo
from phalanx.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from phalanx.feed import changes, compared, counted
from phalanx.history import Change, Commit, commits, versions_of
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.log.check import Problem
from phalanx.log.log import Log
from phalanx.names import parse_name, parse_word
from phalanx.naming import Naming
from phalanx.objects import Store, open_store
from phalanx.restoring import restore
from phalanx.snapshot import Snapshot
from phalanx.table import Table
from phalanx.tail.effects import Counted
from phalanx.transaction import Transaction, create_table
from phalanx.txn.core import Core, find
from phalanx.txn.transaction import Isolation, Work, again
from phalanx.upkeep.background import Background
from phalanx.upkeep.check import check_tables
from phalanx.upkeep.flush import Flushed, flush
from phalanx.upkeep.optimize import Optimized, optimize
from phalanx.writer import Writer

if TYPE_CHECKING:
    from phalanx.sql import Answer

R = TypeVar("R")

TIMEOUT = 30.0
"""Seconds a commit may take by default."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
) -> "Lake":
    """Open the lake in a store, or create it with these settings if there is none."""
    try:
        lake = Lake(store, Log.open(store, Catalog(), clock), clock, timeout, carry=carry)
    except NotFoundError:
        if found is None:
            raise
        log = Log.begin(store, Catalog(), clock, Deadline.after(clock, timeout))
        lake = Lake(store, log, clock, timeout, carry=carry)
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


class Lake(Naming):
    """A handle on a lake. Safe to use from many threads; open one in each process."""

    def __init__(self, store: Store, log: Log[State], clock: Clock, timeout: float, *, carry: bool = True) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._core = Core(store, log, clock, timeout, carry=carry)
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

    def snapshot(
        self, *, version: int | None = None, tag: str | None = None, as_of: datetime | None = None
    ) -> Snapshot:
        """The lake at a version, a tag or a time; the newest without any."""
        if sum(given is not None for given in (version, tag, as_of)) > 1:
            msg = "give one of version, tag and as_of"
            raise InvalidInputError(msg)
        newest = self.refresh()
        if as_of is not None:
            if as_of.tzinfo is None:
                msg = "as_of needs a time zone, for example datetime.now(UTC)"
                raise InvalidInputError(msg)
            return Snapshot(self._log.as_of((as_of - _EPOCH) // timedelta(microseconds=1)), self._core)
        if tag is not None:
            version = newest.tags().get(tag)
            if version is None:
                msg = f"there is no tag {tag!r}; there is: {', '.join(newest.tags()) or 'none'}"
                raise NotFoundError(msg)
        return newest if version is None else Snapshot(self._log.at(version), self._core)

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

    def flush(self, name: str | None = None, *, timeout: float | None = None) -> dict[str, Flushed]:
        """Write out what is pending in one table, or in all. No row changes; readers get faster."""
        deadline = self._core.deadline(300.0 if timeout is None else timeout)
        return {one: flush(self._core, self[one].id, deadline) for one in ([name] if name else self.tables())}

    def optimize(self, name: str, *, timeout: float | None = None) -> Optimized:
        """Flush a table, and rewrite small fragments and those with many deleted rows. No row changes."""
        return optimize(self._core, self[name].id, self._core.deadline(300.0 if timeout is None else timeout))

    def check(self) -> list[Problem]:
        """What is wrong with the tables: versions that do not open, and what others wrote past the log."""
        return check_tables(self._core)

    def describe(self, name: str) -> TableInfo:
        """A table's columns, key, rows, head and tail; nothing is scanned."""
        return self.refresh().describe(name)

    def history(self, name: str, limit: int = 20, *, rows: bool = False) -> list[Change]:
        """The newest versions of a table, newest first, and which operation made each.

        With `rows`, also how many rows each inserted, updated and deleted: that is found by looking.
        """
        here = find(self._core.refresh(), name)
        landed = here.contents.versions.newest_first()
        kept = itertools.takewhile(lambda one: one.position >= self._log.oldest(), itertools.islice(landed, limit))
        found = list(versions_of(here.table.id, kept, self._log.read))
        if not rows or not found:
            return found
        many = counted(self._core, here.table.id, found[-1].lake_version - 1, found[0].lake_version)
        nothing = Counted(0, 0, 0)
        return [msgspec.structs.replace(one, rows=many.get((one.lake_version, one.place), nothing)) for one in found]

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

    def log(self, limit: int = 20, *, before: int | Commit | None = None) -> list[Commit]:
        """The newest commits, newest first; `before` a version, or the last commit of a page, to page back."""
        above = (before.version, before.place) if isinstance(before, Commit) else (before or self.version + 1, 0)
        found: list[Commit] = []
        for position in range(min(above[0], self.version), self._log.oldest() - 1, -1):
            if len(found) >= limit:
                break
            landed = reversed(commits(position, self._log.read(position), self._names()))
            found += [commit for commit in landed if (commit.version, commit.place) < above]
        return found[:limit]

    def changes(self, name: str, since: int, until: int | None = None) -> pa.RecordBatchReader:
        """Rows of a table that were inserted, updated or deleted after version `since` of the lake, up to `until`.

        A stream of Arrow batches, in the order of the log, with `_change_type`, `_commit_version`, `_commit_timestamp`.
        """
        end = self.refresh()
        upto = end if until is None or until == end.version else self.snapshot(version=until)
        return changes(self._core, upto.found(name), since, upto.version)

    def diff(self, name: str, old: int, new: int | None = None) -> pa.Table:
        """The rows of a table that differ between two versions of the lake, with `_change_type`."""
        return compared(self._core, self.snapshot(version=old).found(name), self.snapshot(version=new).found(name))

    def restore(
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        as_of: datetime | None = None,
        tables: Sequence[str] | None = None,
        note: str = "",
        timeout: float | None = None,
    ) -> int:
        """Bring back all tables, or some, as they were at a version, a tag or a time; the version it landed on.

        It is a change like any other: what happened since stays in the log, and can be brought back too.
        """
        if version is None and tag is None and as_of is None:
            raise InvalidInputError("say what to go back to: give one of version, tag and as_of")
        past = self.snapshot(version=version, tag=tag, as_of=as_of)
        return restore(self._core, past.view, tables, note=note, timeout=timeout)

    def follow(self, since: int | None = None, *, poll: float = 0.2) -> Iterator[Commit]:
        """Commits as they land, oldest first, from the one after `since` on (the end of the log by default). Never ends."""
        return self._follow(self.version if since is None else since, poll)

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
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self.uri} at version {self._log.view.position}>"

    def _follow(self, position: int, poll: float) -> Iterator[Commit]:
        while True:
            end = self.version
            while position < end:
                position += 1
                yield from commits(position, self._log.read(position), self._names())
            self._clock.sleep(poll)

    def _names(self) -> Mapping[str, tuple[str, ...]]:
        return self._log.view.state.names
