"""Pins for work that no process lasts for: a data source plans in one process, and reads, writes and commits in others.

A pin that is lent is an object like any other pin, which nobody takes back when the handle is closed that put it. Those of
one job have ids that begin alike, so whichever task is at work renews all of them, those of tasks that are done among them;
whoever commits takes them back. If all of them die, they expire by themselves (rule E3).

A stage may wait so long for others that nothing has renewed the pins of its job when it begins. What it writes then gets
a pin anew, with the position that the log has by then: an expired one cannot be brought back.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from phalanx.clock import SYSTEM
from phalanx.errors import PhalanxError, StateError, UnavailableError
from phalanx.ids import ID_BYTES
from phalanx.objects import Store, Unknown, layout
from phalanx.objects.layout import PINS, PinName
from phalanx.pinned import seen
from phalanx.pins import AT, FROM, LIFE, STAGING, Pin
from phalanx.spark.reach import Reach
from phalanx.txn.core import Core

log = logging.getLogger("phalanx.spark")

_NUMBERS = 1_000_000
_JOB_BYTES = ID_BYTES // 2
_OLD = LIFE / 3
"""Seconds after which pins are renewed."""


class Lent(msgspec.Struct, frozen=True):
    """A pin that processes hand on to each other."""

    kind: str
    position: int
    id: str

    def pin(self) -> Pin:
        """What an intent says of the files that were staged under it."""
        return Pin(self.kind, self.position, self.id, SYSTEM.steady())


class Job(msgspec.Struct, frozen=True):
    """The pins of one job: what their ids begin with, and when the first was put."""

    id: str
    began: float
    pins: tuple[Lent, ...] = ()

    @contextmanager
    def kept(self, reach: Reach) -> Iterator[None]:
        """Renew its pins for as long as a task works, whatever that waits for."""
        store, done = reach.datasets().files.store, threading.Event()
        if not self._is_young():
            _renew(store, self.id)
        threading.Thread(target=_renewing, args=(store, self.id, done), name="phalanx-lent", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def staging(self, reach: Reach) -> Lent:
        """The pin for files that a task is about to write: that of the job, if it still holds. Runs in a task."""
        planned = next((one for one in self.pins if one.kind == STAGING), None)
        if planned is not None and self._is_young():
            return planned
        store = reach.datasets().files.store
        for one in seen(store.list(PINS)):
            if one.kind == STAGING and one.id.startswith(self.id) and not one.expired(store.now()):
                return Lent(one.kind, one.position, one.id)
        with reach.open() as lake:
            return _lend(lake.core, self.id, STAGING, lake.core.log.view.position)

    def _is_young(self) -> bool:
        return SYSTEM.now() / 1e6 - self.began < _OLD


def lend(core: Core, *, at: int | None = None, since: int | None = None, reads: bool = False) -> Job:
    """For files that are about to be written, and for a version that is about to be read, or all from one on.

    Who only `reads`, and may not write, does without.
    """
    job, began = SYSTEM.token(_JOB_BYTES).hex(), SYSTEM.now() / 1e6
    wanted = ((STAGING, core.log.view.position), (AT, at), (FROM, since))
    pins: list[Lent] = []
    try:
        pins += (_lend(core, job, kind, position) for kind, position in wanted if position is not None)
    except (UnavailableError, StateError) as error:
        if not reads:
            raise
        log.info("nothing can be pinned, what is read may be pruned meanwhile: %s", error)
    return Job(job, began, tuple(pins))


def give_back(core: Core, jobs: Sequence[Job]) -> None:
    """Nobody needs these any more. What fails here expires by itself, and what was committed is: nothing is raised."""
    try:
        store = core.datasets.files.store
        if jobs:
            names = [one.name for one in store.list(PINS)]
            store.delete([name for name in names if _is_of(name, {job.id for job in jobs})])
    except PhalanxError as error:
        log.info("pins are left to expire: %s", error)


def _is_of(name: str, jobs: set[str]) -> bool:
    pin = layout.pin(name)
    return pin is not None and pin.id[: 2 * _JOB_BYTES] in jobs


def _renewing(store: Store, job: str, done: threading.Event) -> None:
    while not done.wait(_OLD):
        try:
            _renew(store, job)
        except PhalanxError as error:
            log.warning("pins of a job could not be renewed, it is tried again: %s", error)


def _renew(store: Store, job: str) -> None:
    """Put all pins of a job again that still hold, under names that no other task has; what was between goes."""
    listed = [one for one in store.list(PINS) if _is_of(one.name, {job})]
    number, now = 1 + int.from_bytes(SYSTEM.token(4)) % (_NUMBERS - 1), store.now()
    for one in seen(listed):
        if not one.expired(now):
            _put(store, Lent(one.kind, one.position, one.id), number)
    store.delete([one.name for one in listed if (pin := layout.pin(one.name)) is not None and pin.number])


def _lend(core: Core, job: str, kind: str, position: int) -> Lent:
    made = Lent(kind, position, job + SYSTEM.token(ID_BYTES - _JOB_BYTES).hex())
    _put(core.datasets.files.store, made, 0)
    return made


def _put(store: Store, lent: Lent, number: int) -> None:
    name = str(PinName(lent.kind, lent.position, lent.id, int(LIFE), number))
    with store.prepare([b""], lasting=False) as blob:
        outcome = blob.put(name)
    if isinstance(outcome, Unknown):
        raise UnavailableError(f"a pin could not be put: {outcome.cause}; nothing was changed, try again")
