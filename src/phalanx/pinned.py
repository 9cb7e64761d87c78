"""The pins of all processes, as somebody who prunes sees them (rules E1 and E3)."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from phalanx.errors import UnavailableError
from phalanx.objects import Listed, Store, layout
from phalanx.pins import KINDS

_LONG = 86_400.0
"""Seconds after its end that a pin is left lying, for whoever wants to know."""


class Seen(msgspec.Struct, frozen=True):
    """A pin as others see it: since when, and when it was renewed last, by the store's clock.

    One whose first name is gone was taken for dead by somebody, and renewed all the same: nobody knows since when it was.
    """

    kind: str
    position: int
    id: str
    since: float
    renewed: float
    life: int

    def expired(self, now: float) -> bool:
        """Whether whoever put it has not renewed it in time."""
        return now - self.renewed > self.life


def long_dead(listed: Sequence[Listed], passed: Callable[[float, float], bool], before: int) -> list[str]:
    """The names of pins of processes that are gone since a day and more, and began before a position."""
    gone = {one.id for one in seen(listed) if one.position < before and passed(one.renewed, one.life + _LONG)}
    return [one.name for one in listed if (pin := layout.pin(one.name)) is not None and pin.id in gone]


def seen(listed: Iterable[Listed]) -> list[Seen]:
    """The pins in a listing. What cannot be understood may protect anything, so it is an error (rule E3)."""
    found: dict[str, Seen] = {}
    whole: set[str] = set()
    for one in listed:
        name = layout.pin(one.name)
        if name is None or name.kind not in KINDS:
            raise UnavailableError(
                f"{one.name} is a pin that this version does not understand, so nothing is pruned: use a newer version"
            )
        old = found.get(name.id)
        since = one.modified if old is None else min(one.modified, old.since)
        renewed = one.modified if old is None else max(one.modified, old.renewed)
        found[name.id] = Seen(name.kind, name.position, name.id, since, renewed, name.life)
        if name.number == 0:
            whole.add(name.id)
    return [one if one.id in whole else msgspec.structs.replace(one, since=0.0) for one in found.values()]


def pins_listed(store: Store) -> list[Listed]:
    """All pins. A disk shows neither name of one that is renewed while it is listed, or moved: so it is asked twice."""
    before = store.list(layout.PINS) if store.probes else []
    return list({one.name: one for one in (*before, *store.list(layout.PINS))}.values())
