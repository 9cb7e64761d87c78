"""Check: the log, then every table at every version that can be read, and what lies about besides. Changes nothing.

What it reads it pins, so that no prune takes it away meanwhile; if a prune was decided all the same, what is missing may
be missing rightly, and it looks again. Every finding has a cause (`log/check.py`), and says whether rows depend on it.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from phalanx.catalog import Catalog, State
from phalanx.clock import environment
from phalanx.contents import Contents
from phalanx.errors import InvalidInputError, PhalanxError, SnapshotExpiredError
from phalanx.log.check import Cause, Checked, Problem
from phalanx.log.check import check as check_log
from phalanx.log.cursor import View
from phalanx.objects import Listed, layout
from phalanx.pinned import Seen, seen
from phalanx.pins import KINDS, Hold
from phalanx.tables.guard import DETACHED
from phalanx.tables.manifest import Manifest
from phalanx.txn.core import Core
from phalanx.txn.dated import load_kept
from phalanx.upkeep.deep import Deep, Digester
from phalanx.upkeep.folder import Folder, Progress
from phalanx.upkeep.limits import check_property
from phalanx.upkeep.prune import prune
from phalanx.upkeep.pruned import Options
from phalanx.upkeep.reach import Reach, walk
from phalanx.upkeep.retention import live
from phalanx.upkeep.window import protection

_ATTEMPTS = 3
_HOLDS = 20
EVERYTHING = 1 << 60


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what was found."""

    floor: int
    end: int
    entries: int
    bases: int
    tables: int = 0
    versions: int = 0
    """Lance versions that can be read or are pending, of all tables."""
    files: int = 0
    bytes: int = 0
    deep: bool = False
    compared: int = 0
    """Files whose every byte was compared with what was noted when they were staged."""
    unrecorded: int = 0
    """Files of which no checksum is noted: of them only sizes are known."""
    rows: int = 0
    """Rows that were read, of all tables as they are now."""
    problems: tuple[Problem, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong that matters: what is harmless is told, and that is all."""
        return all(problem.harmless for problem in self.problems)

    @classmethod
    def of(cls, log: Checked) -> "Report":
        """What is known of the log alone."""
        return cls(log.floor, log.end, log.entries, log.bases, problems=log.problems)


def check(
    core: Core, *, deep: bool = False, progress: Progress | None = None, digester: Digester | None = None
) -> Report:
    """What is wrong with a lake. Reads only; deeply, every byte of it."""
    report = None
    for _ in range(_ATTEMPTS):
        pins = core.datasets.files.store.list(layout.PINS)
        before, held = _hold_all(core)
        log = check_log(core.store, Catalog(), core.clock)
        report = Report.of(log)
        if log.whole:
            report = _Look(core, log, held.position, pins, deep, progress or _silent, digester).report()
        del held  # from here on it holds up no prune, its own look for orphans included
        if report.whole or core.refresh().state.retained == before.state.retained:
            break
    assert report is not None  # noqa: S101 - there is one attempt at the least
    if not report.whole:
        return report  # what a damaged version is made of is not known, so nobody can say what is left over
    return msgspec.structs.replace(report, problems=(*report.problems, *_orphans(core)))


def _hold_all(core: Core, again: int = _HOLDS) -> tuple[View[State], Hold]:
    """Keep everything that is kept now; once more if a prune raised the floor between looking and holding."""
    before = core.refresh()
    try:
        return before, core.hold(max(core.log.oldest() - 1, before.state.retained.floor - 1, 1), whole=True)
    except SnapshotExpiredError:
        if not again:
            raise
    return _hold_all(core, again - 1)


class _Look:
    """One look at everything behind the log."""

    def __init__(
        self,
        core: Core,
        log: Checked,
        since: int,
        pins: list[Listed],
        deep: bool,  # noqa: FBT001 - one caller
        progress: Progress,
        digester: Digester | None,
    ) -> None:
        self._since = since
        self._digester = digester
        self._core, self._log, self._listed_pins = core, log, pins
        self._deep, self._progress = deep, progress
        self._store = core.datasets.files.store
        self._view = core.refresh()
        self._problems: list[Problem] = [*log.problems]

    def report(self) -> Report:
        """Everything there is to say."""
        state = self._view.state
        self._problems += _pins(self._listed_pins, self._view.position, self._store.now())
        self._problems += _settings(state)
        reach = self._reach()
        self._problems += self._kept_versions(state)
        files = self._files()
        folders: dict[str, Folder] = {}
        for done, (table, parts) in enumerate(sorted(reach.parts.items())):
            self._progress("looking at tables", done, len(reach.parts))
            if table not in state.deregistered:
                folder = folders[table] = Folder(self._store, table, files.get(table, {}), state.contents.get(table))
                folder.look(parts)
                self._problems += folder.problems
        for name, here in sorted(state.tables.items()):
            if here.id in folders:
                self._problems += _rules(".".join(name), state.contents[here.id], self._view, folders[here.id])
        deep = Deep(self._core, self._view, self._progress, self._digester)
        if self._deep:
            self._problems += deep.look(folders)
        there = [one for folder in folders.values() for one in folder.wanted()]
        return msgspec.structs.replace(
            Report.of(self._log),
            tables=len(state.tables),
            versions=sum(len(folder.manifests) for folder in folders.values()),
            files=len(there),
            bytes=sum(one.size for one in there),
            deep=self._deep,
            compared=deep.compared,
            unrecorded=sum(one.noted is None and one.counts for one in there),
            rows=deep.rows,
            problems=tuple(self._problems),
        )

    def _files(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for one in self._store.list(layout.TABLES):
            _, table, name = (*one.name.split("/", 2), "")[:3]
            if name:
                found.setdefault(table, {})[name] = one.size
            else:
                what = "it is not known what this is: it is ignored; find out who put it there, and remove it"
                self._problems.append(Problem(one.name, what, harmless=True, cause=Cause.FOREIGN, size=one.size))
        return found

    def _reach(self) -> Reach:
        """All that can be read: from what is held to the end, and what is kept below it (a prune may raise the floor to it)."""
        core, state = self._core, self._view.state
        found = Reach(state)
        for listed in core.store.list(layout.KEPT):
            position, version = layout.kept_position(listed.name), layout.version_kept(listed.name)
            wanted = position is not None and position - 1 in state.retained.kept
            if wanted or (version is not None and version[0] in state.contents):
                base = load_kept(core, listed.name)
                if base is not None:
                    self._problems += _misplaced(listed.name, base.state)
                    found.state(base.state)
        walk(found, core, self._since, self._view)
        return found

    def _kept_versions(self, state: State) -> Iterator[Problem]:
        """What must be kept below the floor, because it can be asked for."""
        floor = self._log.floor
        if floor > state.retained.floor:
            return  # the log was trimmed without a prune: whoever did it kept nothing
        there = {one.name for one in self._core.store.list(layout.KEPT)}
        for position in state.retained.kept:
            if position < floor - 1 and layout.kept(position + 1) not in there:
                what = f"version {position} of the lake was kept in it, for a tag or a reader: restore it from a copy"
                yield Problem(layout.kept(position + 1), what, cause=Cause.DANGLING)
        for tag, told in sorted(state.tags.items()):
            if not state.retained.has(told.position):
                what = f"it names version {told.position}, which is no longer kept"
                yield Problem(f"tag {tag}", what, cause=Cause.BROKEN)
        for name, table in sorted(state.tables.items()):
            contents = state.contents[table.id]
            for one, until in live(contents):
                below = until is not None and until < floor
                if below and layout.kept_version(table.id, one.version) not in there:
                    what = f"version {one.version} of table {'.'.join(name)!r} was kept in it: restore it from a copy"
                    yield Problem(layout.kept_version(table.id, one.version), what, cause=Cause.DANGLING)


def _orphans(core: Core) -> Iterator[Problem]:
    """What prune would remove although nothing is asked to go."""
    window = protection(None, environment(), core.refresh().state.properties)
    how = Options(keep=EVERYTHING, protect=window, dry_run=True, trust_clock=True)
    try:
        found = prune(core, how, core.deadline(3600.0))
    except PhalanxError as error:
        what = f"nobody could look for files that nobody can reach: {error}"
        yield Problem(layout.TABLES, what, harmless=True, cause=Cause.ORPHANED)
        return
    for one in found.removed:
        what = "nobody can reach it: `phalanx prune` removes it"
        yield Problem(layout.table(one.table, one.name), what, harmless=True, cause=Cause.ORPHANED, size=one.size)


def _silent(_what: str, _done: int, _of: int) -> None:
    """Nobody watches."""


def _pins(listed: list[Listed], end: int, now: float) -> Iterator[Problem]:
    known = []
    for one in listed:
        name = layout.pin(one.name)
        if name is None or name.kind not in KINDS:
            what = "this pin is not understood, so nothing is pruned: use a newer version, or remove it"
            yield Problem(one.name, what, harmless=True, cause=Cause.FOREIGN)
        else:
            known.append(one)
    for pin in seen(known):
        if pin.position > end:
            what = f"somebody has seen version {pin.position}, and the log ends with {end}: entries are missing"
            yield Problem(layout.entry(end + 1), what, cause=Cause.DANGLING)
        elif pin.expired(now):
            yield Problem(pin_names(pin, known)[0], _gone(pin, now), harmless=True, cause=Cause.EXPIRED)


def _gone(pin: Seen, now: float) -> str:
    return f"whoever put it is gone for {int(now - pin.renewed)} seconds, and it protects nothing any more"


def pin_names(pin: Seen, listed: list[Listed]) -> list[str]:
    """All objects of one pin."""
    return [one.name for one in listed if (name := layout.pin(one.name)) is not None and name.id == pin.id]


def _settings(state: State) -> Iterator[Problem]:
    for key, value in sorted(state.properties.items()):
        try:
            check_property(key, value)
        except InvalidInputError as error:
            yield Problem(f"property {key}", f"{error}; the default is used", harmless=True, cause=Cause.SETTING)


def _misplaced(name: str, state: State) -> Iterator[Problem]:
    """A table at one of its versions that is kept under the name of another."""
    version = layout.version_kept(name)
    if version is not None:
        held = state.contents.get(version[0])
        if held is None or held.version != version[1] or len(state.contents) != 1:
            yield Problem(name, "it is not what its name says: restore the right one from a copy")


def _rules(name: str, contents: Contents, view: View[State], folder: Folder) -> Iterator[Problem]:
    """What cannot be otherwise, of one table as it is now."""

    def broken(what: str) -> Problem:
        return Problem(f"table {name}", f"{what}: restore the lake from a copy", cause=Cause.BROKEN)

    if not contents.version:
        return
    if not DETACHED <= contents.head.manifest < 1 << 64:
        yield broken(f"its head {contents.head.manifest} is no detached version")
    listed = list(contents.versions.oldest_first())
    if not listed or listed[-1].version != contents.version:
        yield broken(f"it is at version {contents.version}, and its list of versions does not end there")
    steps = [(one.position, one.place) for one in listed]
    if any(after < before for before, after in pairwise(steps)):
        yield broken("its versions did not land in their order")
    if steps and steps[-1][0] > view.position:
        yield broken(f"its newest version landed at {steps[-1][0]}, and the log ends with {view.position}")
    head: Manifest | None = folder.manifests.get(contents.head.manifest)
    if head is not None and head.next_row_id != contents.head.next_row_id:
        yield broken(f"its next row id is {contents.head.next_row_id}, and {head.next_row_id} in its head")
