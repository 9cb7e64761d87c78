"""Checking a log: read everything from the floor to the end, and name whatever is not as it should be. Changes nothing.

Every entry is decoded, so its checksum is verified, and folded in order; every floor, checkpoint and kept base is
decoded, and a checkpoint is compared with the running hash of the entries that were read. Damage is collected, not
raised, so that one broken object does not hide the next.
"""

from typing import TypeVar

import msgspec

from phalanx.clock import Clock
from phalanx.errors import NotFoundError, PhalanxError
from phalanx.log import base as bases
from phalanx.log import replay
from phalanx.log.base import Base, Fold
from phalanx.log.cursor import Cursor
from phalanx.log.floor import MAX_BASE, load_floor, read_floor
from phalanx.objects import Store, layout

S = TypeVar("S")


class Problem(msgspec.Struct, frozen=True):
    """An object that is damaged or missing, and what that means."""

    name: str
    what: str
    harmless: bool = False
    """A cache that is passed over."""


class Checked(msgspec.Struct, frozen=True):
    """What was read, and what was found."""

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
    floor = read_floor(store, clock)
    if floor is None:
        raise NotFoundError(replay.no_lake(store))
    problems: list[Problem] = []
    base = _floor(store, fold, floor, problems)
    chains: dict[int, bytes] = {}
    end = floor - 1 if base is None else _entries(store, fold, base, chains, problems)
    counted = 1 + _others(store, fold, chains, problems)
    return Checked(floor, end, max(0, end - floor + 1), counted, tuple(problems))


def _floor(store: Store, fold: Fold[S], floor: int, problems: list[Problem]) -> Base[S] | None:
    try:
        return load_floor(store, fold, floor)
    except PhalanxError as error:
        problems.append(Problem(layout.floor(floor), f"{error}. Without it the lake cannot be read: restore it"))
        return None


def _entries(store: Store, fold: Fold[S], base: Base[S], chains: dict[int, bytes], problems: list[Problem]) -> int:
    """Fold all entries; the position of the last good one."""
    cursor = Cursor(base, fold)
    chains[base.position] = base.chain
    try:
        for position, entry in replay.entries_after(store, cursor.position, look_beyond=True):
            cursor.advance(position, entry)
            chains[position + 1] = cursor.chain
    except PhalanxError as error:
        problems.append(Problem(layout.entry(cursor.position + 1), str(error)))
    if cursor.position < base.position and not problems:
        problems.append(Problem(layout.entry(base.position), "the lowest entry that must exist is missing: restore it"))
    return cursor.position


def _others(store: Store, fold: Fold[S], chains: dict[int, bytes], problems: list[Problem]) -> int:
    """Decode checkpoints and kept bases; how many there are."""
    listed = [(found.name, True) for found in store.list(layout.CHECKPOINT)]
    listed += [(found.name, False) for found in store.list(layout.KEPT)]
    for name, harmless in listed:
        try:
            data = store.get(name, limit=MAX_BASE)
            found = None if data is None else bases.decode(data, fold, name)
        except PhalanxError as error:
            problems.append(Problem(name, str(error), harmless))
            continue
        if found is not None and chains.get(found.position, found.chain) != found.chain:
            problems.append(Problem(name, "it belongs to another history", harmless))
    return len(listed)
