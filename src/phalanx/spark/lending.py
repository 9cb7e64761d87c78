"""Pins for work that no process lasts for: a data source plans in one process, and reads, writes and commits in others.

A pin that is lent is an object like any other pin, which nobody takes back when the handle is closed that put it: whoever
runs a task renews it, under a name that no other renewal has, and whoever commits takes it back. If all of them die, it
expires by itself (rule E3).
"""

from collections.abc import Sequence

import msgspec

from phalanx.clock import SYSTEM
from phalanx.errors import UnavailableError
from phalanx.ids import ID_BYTES
from phalanx.objects import Store, Unknown, layout
from phalanx.objects.layout import PINS, PinName
from phalanx.pins import AT, LIFE, STAGING, Pin
from phalanx.spark.reach import Reach
from phalanx.txn.core import Core

_NUMBERS = 1_000_000
_OLD = LIFE / 3
"""Seconds after which a task that begins renews a pin."""


class Lent(msgspec.Struct, frozen=True):
    """A pin that processes hand on to each other."""

    kind: str
    position: int
    id: str
    since: float

    def pin(self) -> Pin:
        """What an intent says of the files that were staged under it."""
        return Pin(self.kind, self.position, self.id, SYSTEM.steady())

    def renew(self, reach: Reach) -> None:
        """Keep it for another while. Runs in a task."""
        if SYSTEM.now() / 1e6 - self.since > _OLD:
            number = 1 + int.from_bytes(SYSTEM.token(4)) % (_NUMBERS - 1)
            _put(reach.datasets().files.store, self, number)


def give_back(core: Core, lent: Sequence[Lent]) -> None:
    """Nobody needs these any more."""
    if lent:
        store, ids = core.datasets.files.store, {one.id for one in lent}
        names = [one.name for one in store.list(PINS)]
        store.delete([name for name in names if (pin := layout.pin(name)) is not None and pin.id in ids])


def lend_staging(core: Core) -> Lent:
    """For files that are about to be written; put before the first of them."""
    return _lent(core, STAGING, core.log.view.position)


def lend_position(core: Core, position: int) -> Lent:
    """For a version that is about to be read, and which this process holds for now."""
    return _lent(core, AT, position)


def _lent(core: Core, kind: str, position: int) -> Lent:
    made = Lent(kind, position, SYSTEM.token(ID_BYTES).hex(), SYSTEM.now() / 1e6)
    _put(core.datasets.files.store, made, 0)
    return made


def _put(store: Store, lent: Lent, number: int) -> None:
    name = str(PinName(lent.kind, lent.position, lent.id, int(LIFE), number))
    with store.prepare([b""], lasting=False) as blob:
        outcome = blob.put(name)
    if isinstance(outcome, Unknown):
        raise UnavailableError(f"a pin could not be put: {outcome.cause}; nothing was changed, try again")
