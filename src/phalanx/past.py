"""The part of a lake that is its past: snapshots, the log, versions of tables, what changed, and going back."""

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa

from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.feed import changes, compared, counted
from phalanx.history import Change, Commit, commits, versions_of
from phalanx.restoring import restore
from phalanx.snapshot import Snapshot
from phalanx.tail.effects import Counted
from phalanx.txn.core import Core, find

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Past(ABC):
    """What a lake knows of its earlier versions."""

    _core: Core

    @property
    @abstractmethod
    def version(self) -> int:
        """The newest position of the log."""

    @abstractmethod
    def refresh(self) -> Snapshot:
        """The newest snapshot."""

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
            return Snapshot(self._core.log.as_of((as_of - _EPOCH) // timedelta(microseconds=1)), self._core)
        if tag is not None:
            version = newest.tags().get(tag)
            if version is None:
                msg = f"there is no tag {tag!r}; there is: {', '.join(newest.tags()) or 'none'}"
                raise NotFoundError(msg)
        return newest if version is None else Snapshot(self._core.log.at(version), self._core)

    def history(self, name: str, limit: int = 20, *, rows: bool = False) -> list[Change]:
        """The newest versions of a table, newest first, and which operation made each.

        With `rows`, also how many rows each inserted, updated and deleted: that is found by looking.
        """
        here = find(self._core.refresh(), name)
        landed = here.contents.versions.newest_first()
        kept = itertools.takewhile(
            lambda one: one.position >= self._core.log.oldest(), itertools.islice(landed, min(limit, sys.maxsize))
        )
        found = list(versions_of(here.table.id, kept, self._core.log.read))
        if not rows or not found:
            return found
        many = counted(self._core, here.table.id, found[-1].lake_version - 1, found[0].lake_version)
        nothing = Counted(0, 0, 0)
        return [msgspec.structs.replace(one, rows=many.get((one.lake_version, one.place), nothing)) for one in found]

    def log(self, limit: int = 20, *, before: int | Commit | None = None) -> list[Commit]:
        """The newest commits, newest first; `before` a version, or the last commit of a page, to page back."""
        above = (
            (before.version, before.place)
            if isinstance(before, Commit)
            else (self.version + 1 if before is None else before, 0)
        )
        found: list[Commit] = []
        for position in range(min(above[0], self.version), self._core.log.oldest() - 1, -1):
            if len(found) >= limit:
                break
            landed = reversed(commits(position, self._core.log.read(position), self._names()))
            found += [commit for commit in landed if (commit.version, commit.place) < above]
        return found[:limit]

    def changes(self, name: str, since: int, until: int | None = None) -> pa.RecordBatchReader:
        """Rows of a table that were inserted, updated or deleted after version `since` of the lake, up to `until`.

        A stream of Arrow batches, in the order of the log, with `_change_type`, `_commit_version`, `_commit_timestamp` and
        `_commit_order`, which orders the changes of one version.
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

    def _follow(self, position: int, poll: float) -> Iterator[Commit]:
        while True:
            end = self.version
            while position < end:
                position += 1
                yield from commits(position, self._core.log.read(position), self._names())
            self._core.clock.sleep(poll)

    def _names(self) -> Mapping[str, tuple[str, ...]]:
        return self._core.log.view.state.names
