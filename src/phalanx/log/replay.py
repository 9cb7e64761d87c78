"""From storage to a cursor: a base, and the entries above it.

The newest checkpoint that is good, else the floor; then every entry above it, in order, none skipped (rule A1); then
the floor once more, because what was concluded from entries is valid only if no floor has passed them meanwhile
(rule A4). An object store is listed once and the entries fetched in parallel; a local disk is asked name by name, so
that no folder that grows for ever is ever listed.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar

import msgspec

from phalanx.clock import Clock
from phalanx.errors import CorruptionError, NotFoundError, SnapshotExpiredError
from phalanx.log import base as bases
from phalanx.log import checkpoint, entry
from phalanx.log.base import Base, Fold
from phalanx.log.cursor import Cursor
from phalanx.log.entry import Entry
from phalanx.log.floor import MAX_BASE, load_floor, read_floor
from phalanx.log.frame import MAX_FRAME
from phalanx.objects import Store, layout

S = TypeVar("S")

_AT_ONCE = 256


class MissingEntryError(CorruptionError):
    """An entry is absent although a later one exists: damage, unless a floor has passed it meanwhile (rule A1)."""


class Goal(msgspec.Struct, frozen=True):
    """How far to replay: to the end, up to a position, or up to a time."""

    upto: int | None = None
    time: int | None = None

    def admits(self, base: Base[S]) -> bool:
        """Whether a base lies at or below the goal."""
        return (self.upto is None or base.position <= self.upto + 1) and (self.time is None or base.time <= self.time)


def restore(
    store: Store, fold: Fold[S], clock: Clock, upto: int | None = None, *, time: int | None = None
) -> Cursor[S]:
    """A cursor at the end of the log, at position `upto`, or at the last position not after `time`."""
    goal = Goal(upto, time)
    for base in checkpoint.candidates(store, fold, goal.admits):
        cursor = _replay_if_whole(store, fold, base, goal)
        if cursor is not None and _require_floor(store, clock) <= base.position:
            return cursor
    floor = _require_floor(store, clock)
    begun = False
    while True:
        if upto is not None and upto + 1 < floor:
            return _kept(store, fold, upto, floor)
        found = load_floor(store, fold, floor)
        if found is not None and not goal.admits(found):
            raise _expired("what there was at that time", floor)
        cursor = None if found is None else _replay_if_whole(store, fold, found, goal)
        before, floor = floor, _require_floor(store, clock)
        if floor != before:
            continue  # it was raised while the entries were read, which may have vanished: read again
        if cursor is not None:
            return cursor
        if floor == 1 and not begun:
            _require_entries(store)
            begun = True  # entry 1 may have been put since it was looked for: reading it again tells
            continue
        if found is not None:
            _replay(store, fold, found, goal)
        raise _nothing_above(floor)


def at_time(store: Store, fold: Fold[S], clock: Clock, time: int) -> Cursor[S]:
    """A cursor at the last position not after a time; below the floor, at one that was kept and has that very time."""
    try:
        return restore(store, fold, clock, time=time)
    except SnapshotExpiredError:
        for listed in store.list(layout.KEPT):
            position = layout.kept_position(listed.name)
            data = None if position is None else store.get(listed.name, limit=MAX_BASE)
            base = None if data is None else bases.decode(data, fold, listed.name)
            if base is not None and base.time == time:
                return Cursor(base, fold)
        raise


def entries_after(
    store: Store, position: int, upto: int | None = None, *, look_beyond: bool = False
) -> Iterator[tuple[int, Entry]]:
    """The entries above `position`, in order, up to the first that is absent.

    With `look_beyond`, a local disk too is asked whether anything lies behind that first absent one.
    """
    if store.probes:
        end = yield from _one_by_one(store, position, upto)
        if look_beyond and end != upto and _beyond(store, end) and read(store, end + 1) is None:
            raise _missing(end + 1)
        return
    listed = [layout.entry_position(found.name) for found in store.list(layout.LOG, after=layout.entry(position))]
    end = max([found for found in listed if found is not None], default=position)
    end = end if upto is None else min(end, upto)
    # Every position up to the last is fetched by its name, listed or not: a gap in a listing proves nothing.
    for first in range(position + 1, end + 1, _AT_ONCE):
        wanted = range(first, min(first + _AT_ONCE, end + 1))
        for at, data in zip(wanted, store.get_many([layout.entry(p) for p in wanted], limit=MAX_FRAME), strict=True):
            if data is None:
                raise _missing(at)
            yield at, entry.decode(data, layout.entry(at))


def read(store: Store, position: int) -> Entry | None:
    """The entry at `position`; None if it is absent."""
    name = layout.entry(position)
    data = store.get(name, limit=MAX_FRAME)
    return None if data is None else entry.decode(data, name)


def _one_by_one(store: Store, position: int, upto: int | None) -> Generator[tuple[int, Entry], None, int]:
    while upto is None or position < upto:
        found = read(store, position + 1)
        if found is None:
            break
        position += 1
        yield position, found
    return position


def _beyond(store: Store, end: int) -> bool:
    """Whether an entry exists above end + 1, in its folder or as the first of the next."""
    following = end + 1
    next_folder = (following // layout.BUCKET + 1) * layout.BUCKET
    behind = store.list(layout.bucket(following), after=layout.entry(following))
    return bool(behind) or store.get(layout.entry(next_folder), limit=MAX_FRAME) is not None


def _replay(store: Store, fold: Fold[S], base: Base[S], goal: Goal) -> Cursor[S] | None:
    """The base moved on; None if the entry it was made for is not there, or is another."""
    cursor = Cursor(base, fold)
    if goal.upto is not None and goal.upto < base.position:
        following = None if base.next == bases.NOBODY else read(store, base.position)
        return cursor if following is not None and cursor.accepts(following) else None
    first = True
    for position, found in entries_after(store, cursor.position, goal.upto, look_beyond=goal.upto is None):
        if first and not cursor.accepts(found):
            return None
        first = False
        if goal.time is not None and max(cursor.time, found.time) > goal.time:
            break
        cursor.advance(position, found)
    if goal.upto is not None and cursor.position < goal.upto and not first:
        raise _missing(cursor.position + 1)
    return None if first else cursor


def require_reached(store: Store, clock: Clock, reached: int, until: int) -> None:
    """Refuse to take the first absent entry for the end of what was asked for: it is missing, or a floor has passed it."""
    if reached < until:
        floor = _require_floor(store, clock)
        raise _expired(f"version {reached + 1}", floor) if floor > reached + 1 else _missing(reached + 1)


def _replay_if_whole(store: Store, fold: Fold[S], base: Base[S], goal: Goal) -> Cursor[S] | None:
    """As `_replay`; None also where an entry is missing, because a floor may have passed it meanwhile."""
    try:
        return _replay(store, fold, base, goal)
    except MissingEntryError:
        return None


def _kept(store: Store, fold: Fold[S], upto: int, floor: int) -> Cursor[S]:
    name = layout.kept(upto + 1)
    data = store.get(name, limit=MAX_BASE)
    if data is None:
        raise _expired(f"version {upto}", floor)
    return Cursor(bases.decode(data, fold, name), fold)


def _expired(what: str, floor: int) -> SnapshotExpiredError:
    oldest = max(1, floor - 1)
    return SnapshotExpiredError(
        f"{what} is no longer kept: the oldest version that is kept is {oldest}; choose a newer one"
    )


def _require_floor(store: Store, clock: Clock) -> int:
    floor = read_floor(store, clock)
    if floor is None:
        raise NotFoundError(no_lake(store))
    return floor


def _require_entries(store: Store) -> None:
    """On a lake that is just being created, nobody has put entry 1 yet."""
    if not store.list(layout.LOG):
        raise NotFoundError(no_lake(store))


def _nothing_above(floor: int) -> CorruptionError:
    return CorruptionError(
        f"{layout.entry(floor)}, the lowest entry that must exist, is missing or not the one the floor names: "
        "restore it from a copy, then run `phalanx check`"
    )


def _missing(position: int) -> MissingEntryError:
    return MissingEntryError(
        f"{layout.entry(position)} is missing, although later entries exist: restore it from a copy, then run "
        "`phalanx check`. Nothing was changed"
    )


def no_lake(store: Store) -> str:
    """What to say where there is no lake."""
    return f"there is no lake at {store.uri}: create one with phalanx.open(..., create=True) or `phalanx init`"
