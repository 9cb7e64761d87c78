"""Repair: what a check has found and what can be put right without a copy. It never removes what could be live.

What goes is a cache that is damaged, the notes of checksums that cannot be read, a version for clients that is made again,
the pin of a process that is long gone, or a file that was being written long ago; files that nobody can reach go by prune's
own way, which is safe beside readers and writers. A guard that is missing is put again. If anything is damaged that only
a copy restores, nothing is touched: whoever restores it should find the lake as it was.
"""

from collections.abc import Iterator

import msgspec

from phalanx.clock import environment
from phalanx.errors import StateError, UnavailableError
from phalanx.log.check import Cause, Problem
from phalanx.objects import Store, Unknown, layout
from phalanx.pinned import seen
from phalanx.pins import KINDS
from phalanx.tables.guard import guard
from phalanx.txn.core import Core
from phalanx.upkeep.ages import JUMP, Ages
from phalanx.upkeep.check import EVERYTHING, Report, check, pin_names
from phalanx.upkeep.folder import Progress
from phalanx.upkeep.prune import prune
from phalanx.upkeep.pruned import Options
from phalanx.upkeep.window import protection

TEMPORARY = "tmp"
_LONG_DEAD = 2
"""Lives of a pin since it was renewed last, after which its process is not coming back."""
_ON_ITS_WAY = 86_400.0
"""Seconds after which a file on its way is not going to arrive."""


class Step(msgspec.Struct, frozen=True):
    """One thing that repair does: remove an object, or put it anew."""

    verb: str
    name: str
    why: str
    size: int = 0


class Repaired(msgspec.Struct, frozen=True):
    """What repair did, or would do; `lost` is what only a copy restores: then nothing is done."""

    dry_run: bool
    steps: tuple[Step, ...] = ()
    lost: tuple[Problem, ...] = ()
    clock: str = ""
    """Why it has to be told to trust the clock before it does anything; nothing if it need not be."""

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged any more once the steps are done."""
        return not self.lost

    @classmethod
    def refused(cls, report: Report, *, dry_run: bool) -> "Repaired":
        """Nothing is done, because of what only a copy restores."""
        return cls(dry_run, lost=tuple(one for one in report.problems if not one.harmless and not one.cure))


def repair(
    core: Core, *, dry_run: bool = True, deep: bool = False, trust_clock: bool = False, progress: Progress | None = None
) -> Repaired:
    """Put right what can be; with `dry_run`, say what that is."""
    report = check(core, deep=deep, progress=progress)
    told = Repaired.refused(report, dry_run=dry_run)
    if told.lost:
        return told
    steps = [*_cures(report), *_pins(core, trust_clock=trust_clock), *_temporary(core.store)]
    orphans = [
        Step("prune", one.name, one.what, one.size)
        for one in report.problems
        if one.cause is Cause.ORPHANED and one.name != layout.TABLES
    ]
    window = protection(None, environment(), core.refresh().state.properties)
    reach = core.log.oldest(), core.log.view.position
    doubt = Ages(core.store, core.store.now(), reach, (), trust=trust_clock).doubt() if orphans and window > 0 else ""
    if not dry_run:
        if doubt:
            raise StateError(f"nothing was repaired: {doubt}")
        for step in steps:
            _do(core, step)
        if orphans:
            how = Options(keep=EVERYTHING, protect=window, trust_clock=trust_clock)
            prune(core, how, core.deadline(3600.0))
    return Repaired(dry_run, (*steps, *orphans), clock=doubt)


def _cures(report: Report) -> Iterator[Step]:
    seen_cures: set[str] = set()
    for problem in report.problems:
        if problem.cure and problem.cure not in seen_cures:
            seen_cures.add(problem.cure)
            verb = "put" if problem.cure.endswith(guard()[0]) else "remove"
            yield Step(verb, problem.cure, problem.what, problem.size)


def _pins(core: Core, *, trust_clock: bool) -> Iterator[Step]:
    """Pins of processes that are long gone, by a clock that can be believed."""
    store = core.datasets.files.store
    listed = [one for one in store.list(layout.PINS) if (name := layout.pin(one.name)) and name.kind in KINDS]
    if not listed:
        return
    now, last = store.now(), _newest_stamp(core)
    if now - last > JUMP and not trust_clock:
        return  # nobody has committed for so long, or the clock has jumped: they are in nobody's way
    window = protection(None, environment(), core.refresh().state.properties)
    for pin in seen(listed):
        if now - pin.renewed > max(_LONG_DEAD * pin.life, window) and not core.pins.owns(pin.id):
            yield from (Step("remove", one, "the process that put it is long gone") for one in pin_names(pin, listed))


def _newest_stamp(core: Core) -> float:
    """When the last entry was put, by the store's clock."""
    position = core.log.view.position
    listed = core.store.list(layout.bucket(position), after=layout.entry(position - 1))
    return max((one.modified for one in listed), default=0.0)


def _temporary(store: Store) -> Iterator[Step]:
    listed = store.list(TEMPORARY)
    now = store.now() if listed else 0.0
    for one in listed:
        if now - one.modified > _ON_ITS_WAY:
            yield Step("remove", one.name, "it was being written long ago, and never arrived", one.size)


def _do(core: Core, step: Step) -> None:
    inside = step.name.split("/", 1)[0] in {layout.TABLES, layout.PINS}
    store = core.datasets.files.store if inside else core.store
    store.delete([step.name])
    if step.verb == "put":
        with store.prepare([guard()[1]]) as blob:
            outcome = blob.put(step.name)
        if isinstance(outcome, Unknown):
            raise UnavailableError(f"cannot write {step.name}: {outcome.cause}; run `phalanx repair` again")
