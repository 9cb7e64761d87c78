"""Checking a log: read everything from the floor to the end, and name whatever is not as it should be. Changes nothing.

Every entry is decoded, so its checksum is verified, and folded in order; every floor, checkpoint and kept base is
decoded, compared with its name, and with the running hash of the entries that were read. Damage is collected, not
raised, so that one broken object does not hide the next.
"""

from collections.abc import Iterator
from enum import Enum
from typing import TypeVar

import msgspec

from phalanx.clock import Clock
from phalanx.errors import CorruptionError, NotFoundError, PhalanxError, UnsupportedError
from phalanx.log import base as bases
from phalanx.log import entry as entries
from phalanx.log import frame, replay
from phalanx.log.base import Base, Fold
from phalanx.log.cursor import Cursor
from phalanx.log.floor import MAX_BASE, load_floor, read_floor
from phalanx.objects import Listed, Store, layout

S = TypeVar("S")

_AT_ONCE = 256


class Cause(Enum):
    """What is wrong, by what to do about it."""

    DANGLING = "missing"
    """Something names it, and it is not there: restore it from a copy."""
    CORRUPT = "corrupt"
    """Its size or its bytes are not what was written: restore it from a copy."""
    FOREIGN = "foreign"
    """Somebody else put it there: it is ignored, and nothing removes it by itself."""
    ORPHANED = "orphaned"
    """Nobody can reach it: prune removes it."""
    EXPIRED = "expired"
    """A pin of a process that is gone: it protects nothing any more."""
    SETTING = "setting"
    """A property that means nothing: the default is used."""
    BROKEN = "rule"
    """What the log says cannot be so: an invariant does not hold."""


class Problem(msgspec.Struct, frozen=True):
    """An object that is damaged, missing or not ours, and what that means."""

    name: str
    what: str
    harmless: bool = False
    """No row depends on it: a cache that is passed over, something that is ignored or that prune removes."""
    cause: Cause = Cause.CORRUPT
    size: int = 0
    cure: str = ""
    """The object that repair removes or makes anew to cure it; nothing if only a copy helps."""


class Checked(msgspec.Struct, frozen=True):
    """What was read of a log, and what was found."""

    floor: int
    end: int
    entries: int
    bases: int
    problems: tuple[Problem, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong that matters."""
        return all(problem.harmless for problem in self.problems)


def check(store: Store, fold: Fold[S], clock: Clock) -> Checked:
    """Read the whole log of a lake and say what is wrong with it."""
    try:
        floor = read_floor(store, clock)
    except CorruptionError as error:
        return Checked(0, 0, 0, 0, (Problem(layout.FLOOR, str(error), cause=Cause.DANGLING),))
    if floor is None:
        raise NotFoundError(replay.no_lake(store))
    problems: list[Problem] = []
    base = _floor(store, fold, floor, problems)
    chains: dict[int, bytes] = {}
    cursor = None if base is None else _entries(store, fold, base, chains, problems)
    end = floor - 1 if cursor is None else cursor.position
    others = _Others(store, fold, chains, None if cursor is None else cursor.lake)
    problems += others.look(floor)
    problems += _foreign(store)
    return Checked(floor, end, max(0, end - floor + 1), 1 + others.counted, tuple(problems))


def _floor(store: Store, fold: Fold[S], floor: int, problems: list[Problem]) -> Base[S] | None:
    name = layout.floor(floor)
    try:
        found = load_floor(store, fold, floor)
        if found is not None and found.position != floor:
            raise CorruptionError(f"{name} holds the fold below {found.position}")
    except PhalanxError as error:
        problems.append(Problem(name, f"{error}. Without it the lake cannot be read: restore it"))
        return None
    return found


def _entries(
    store: Store, fold: Fold[S], base: Base[S], chains: dict[int, bytes], problems: list[Problem]
) -> Cursor[S]:
    """Fold all entries up to the last good one; those behind a bad one are looked at by themselves."""
    cursor = Cursor(base, fold)
    chains[base.position] = base.chain
    try:
        for position, entry in replay.entries_after(store, cursor.position, look_beyond=True):
            cursor.advance(position, entry)
            chains[position + 1] = cursor.chain
    except PhalanxError as error:
        cause = Cause.DANGLING if isinstance(error, replay.MissingEntryError) else Cause.CORRUPT
        problems.append(Problem(layout.entry(cursor.position + 1), str(error), cause=cause))
        problems += _behind(store, cursor.position + 1)
    if cursor.position < base.position and not problems:
        what = "the lowest entry that must exist is missing: restore it"
        problems.append(Problem(layout.entry(base.position), what, cause=Cause.DANGLING))
    return cursor


def _behind(store: Store, position: int) -> Iterator[Problem]:
    """What is wrong with entries that can no longer be folded."""
    names = [
        one.name for one in store.list(layout.LOG, after=layout.entry(position)) if layout.entry_position(one.name)
    ]
    for at in range(0, len(names), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        for name, data in zip(some, store.get_many(some, limit=frame.MAX_FRAME), strict=True):
            try:
                entries.decode(data or b"", name)
            except PhalanxError as error:
                yield Problem(name, str(error))


class _Others:
    """Bases besides the floor: each is decoded and compared with its name and with the entries."""

    def __init__(self, store: Store, fold: Fold[S], chains: dict[int, bytes], lake: bytes | None) -> None:
        self._store, self._fold, self._chains, self._lake = store, fold, chains, lake
        self.counted = 0

    def look(self, floor: int) -> Iterator[Problem]:
        """What is wrong with checkpoints, older floors and what is kept below the floor."""
        for one in self._store.list(layout.CHECKPOINT):
            if layout.checkpoint_position(one.name) is not None:
                yield from (
                    problem if problem.cause is Cause.FOREIGN else msgspec.structs.replace(problem, cure=one.name)
                    for problem in self._base(one, harmless=True)
                )
        for one in self._store.list(layout.FLOOR):
            if (layout.floor_position(one.name) or floor) < floor:
                yield from self._base(one, harmless=True)
        for one in self._store.list(layout.KEPT):
            if layout.kept_position(one.name) is not None or layout.version_kept(one.name) is not None:
                yield from self._base(one, harmless=False)

    def _base(self, listed: Listed, *, harmless: bool) -> Iterator[Problem]:
        self.counted += 1
        name = listed.name
        try:
            data = self._store.get(name, limit=MAX_BASE)
            found = None if data is None else bases.decode(data, self._fold, name)
        except UnsupportedError as error:
            yield Problem(name, str(error), harmless, Cause.FOREIGN)
            return
        except PhalanxError as error:
            yield Problem(name, str(error), harmless)
            return
        if data is None or found is None:
            return
        if not self._fits(name, found.position, frame.digest_of(data)):
            yield Problem(name, "it is not what its name says", harmless)
        elif self._lake not in {None, found.lake} and found.position > 1:
            yield Problem(name, "it belongs to another lake", harmless)
        elif layout.version_kept(name) is None and self._chains.get(found.position, found.chain) != found.chain:
            yield Problem(name, "it belongs to another history", harmless)

    def _fits(self, name: str, position: int, digest: bytes) -> bool:
        if layout.checkpoint_position(name) is not None:
            return layout.checkpoint(position, digest) == name
        told = layout.floor_position(name) or layout.kept_position(name)
        return told is None or told == position


def _foreign(store: Store) -> Iterator[Problem]:
    """Names in the log's folders that are nobody's."""
    known = {
        layout.LOG: (layout.entry_position,),
        layout.FLOOR: (layout.floor_position,),
        layout.CHECKPOINT: (layout.checkpoint_position,),
        layout.KEPT: (layout.kept_position, layout.version_kept),
    }
    for folder, parsers in known.items():
        for one in store.list(folder):
            if all(parse(one.name) is None for parse in parsers):
                what = "this name is nobody's: it is ignored; find out who put it there, and remove it"
                yield Problem(one.name, what, harmless=True, cause=Cause.FOREIGN, size=one.size)
