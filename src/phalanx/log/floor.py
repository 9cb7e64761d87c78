"""The floor: the lowest position whose entry must exist, with the fold of everything below it (rules A2-A5, A7, A8).

The floor is the largest of a set of immutable objects `floor/<F>`; it never goes down, because nothing is overwritten.
`trim` raises it, in an order that a crash may cut anywhere: put `floor/<F>`, read it back and compare, then delete
entries below it, their empty folders, checkpoints, and older floors last. Running it again finishes what was left.

On an object store the entries go only when `floor/<F>` has been there for the lake's grace time, by the store's own
clock: that is what allows a writer to commit with one request and no read (see `Freshness`).
"""

import logging
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from phalanx.clock import Clock, Deadline
from phalanx.errors import CorruptionError, StateError, UnavailableError
from phalanx.log import base as bases
from phalanx.log import slot
from phalanx.log.base import Base, Fold
from phalanx.objects import Listed, Store, layout

S = TypeVar("S")

MAX_BASE = 1 << 30
"""Largest base that is read, in bytes."""
_TRIES = 4
_PAUSE = 0.05

log = logging.getLogger("phalanx.log")


class Trimmed(msgspec.Struct, frozen=True):
    """What `trim` did. `waiting` is the number of entries below the floor that the grace time still keeps."""

    floor: int
    entries: int
    bytes: int
    """Of the entries."""
    waiting: int
    checkpoints: int = 0
    floors: int = 0
    """Checkpoints and older floors that went with them."""


class Freshness:
    """Since when this process knows for certain that a slot was never used (rule A7).

    A position can only be used again, wrongly, after it was used, passed by a floor, and deleted; on an object store
    that takes at least the grace time. So within half of it no floor needs to be read for the slot that was shown to be
    free; for a lower one it says nothing. A local disk answers in microseconds and is asked every time. This is the
    only place where a clock carries correctness: it is assumed that the steady clock of a process does not run at less
    than half speed.
    """

    def __init__(self, clock: Clock, *, always_ask: bool) -> None:
        self._clock = clock
        self._always_ask = always_ask
        self._slot = 0
        self._known_at = 0.0
        self.grace = 0.0

    def mark(self, slot: int, began: float) -> None:
        """An operation that began then has shown that no floor had passed `slot`, and that it was free."""
        self._slot = slot
        self._known_at = began

    def covers(self, slot: int) -> bool:
        """Whether something can be concluded about `slot` without reading the floor."""
        fresh = self._clock.steady() - self._known_at < self.grace / 2
        return fresh and slot >= self._slot and not self._always_ask


def read_floor(store: Store, clock: Clock) -> int | None:
    """The floor; None where there is no lake. An empty listing is asked again: it is never "no floor" (rule A2)."""
    for again in range(_TRIES):
        last = store.last(layout.FLOOR)  # names are in the order of positions
        highest = None if last is None else layout.floor_position(last)
        if highest is None and last is not None:
            highest = max(_floors(store), default=None)  # something foreign is in the folder
        if highest is not None:
            return highest
        if not store.list(layout.LOG) and not store.list(layout.CHECKPOINT):
            return None
        clock.sleep(_PAUSE * (again + 1))
    msg = (
        f"{store.uri} has entries but no floor: the folder {layout.FLOOR}/ is missing or empty; restore it from a copy. "
        "Nothing was changed"
    )
    raise CorruptionError(msg)


def load_floor(store: Store, fold: Fold[S], position: int) -> Base[S] | None:
    """The base that `floor/<position>` holds; None if a higher floor has replaced it meanwhile."""
    name = layout.floor(position)
    data = store.get(name, limit=MAX_BASE)
    return None if data is None else bases.decode(data, fold, name)


def put_base(store: Store, name: str, base: Base[S], fold: Fold[S], deadline: Deadline, clock: Clock) -> None:
    """Store a base as truth: durable, read back, and equal to what was meant (rule A3)."""
    data, _ = bases.encode(base, fold)
    with store.prepare([data]) as blob:
        outcome = slot.put(store, blob, name, data, deadline, clock)
    if isinstance(outcome, slot.Unsettled):
        msg = f"cannot say whether {name} was written ({outcome.cause}); nothing was deleted: try again"
        raise UnavailableError(msg)
    back = store.get(name, limit=MAX_BASE)
    found = None if back is None else bases.decode(back, fold, name)
    if found is None or (found.position, found.next, found.chain) != (base.position, base.next, base.chain):
        msg = f"{name} does not hold the fold it should: nothing was deleted; run `phalanx check`"
        raise CorruptionError(msg)


def sweep(store: Store, grace: float, below: int | None = None) -> Trimmed:
    """Delete what lies below the highest floor that is old enough, or only what lies below a position."""
    floors = _floors(store)
    if not floors:
        msg = f"{store.uri} shows no floor: nothing was deleted; try again"
        raise StateError(msg)
    settled = max(floors) if store.probes else _settled(store, floors, grace)
    settled = settled if below is None else min(settled, below)
    dead = dead_below(store, settled)
    store.delete([found.name for found in dead])
    for folder in _folders(dead, settled):
        store.remove_folder(folder)
    checkpoints = _older(store.list(layout.CHECKPOINT), settled)
    store.delete(checkpoints)
    passed = [found.name for position, found in floors.items() if position < settled]
    store.delete(passed)
    size = sum(found.size for found in dead)
    return Trimmed(max(floors), len(dead), size, max(floors) - settled, len(checkpoints), len(passed))


def settled_soon(store: Store, grace: float, floor: int) -> int:
    """Below which position entries could go if the floor was raised so far now: other stores than disks wait for the grace."""
    return floor if store.probes else min(floor, _settled(store, _floors(store), grace))


def dead_below(store: Store, position: int) -> list[Listed]:
    """The entries that are still there below a position."""
    found = store.list(layout.LOG, before=layout.entry(position))
    return [one for one in found if layout.entry_position(one.name) is not None]


def _floors(store: Store) -> dict[int, Listed]:
    found = {layout.floor_position(listed.name): listed for listed in store.list(layout.FLOOR)}
    return {position: listed for position, listed in found.items() if position is not None}


def _settled(store: Store, floors: dict[int, Listed], grace: float) -> int:
    now = store.now()
    return max((position for position, found in floors.items() if now - found.modified >= grace), default=min(floors))


def _folders(below: Iterable[Listed], settled: int) -> list[str]:
    """The folders that lie wholly below the floor (rule A8)."""
    folders = {found.name.rpartition("/")[0] for found in below}
    return sorted(folders - {layout.bucket(settled)})


def _older(found: Iterable[Listed], settled: int) -> list[str]:
    return [one.name for one in found if (layout.checkpoint_position(one.name) or settled) < settled]
