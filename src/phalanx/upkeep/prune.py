"""Prune: old versions, old entries and files that nobody can reach go; nobody who reads or writes loses one (I8, I9).

The order of its steps is what makes it safe (rule E1, specs/prune.py):

    list files, list pins       what may go is among these files; who is writing is exempt
    commit the decision         from here on, readers of what goes and writers that are not exempt are refused
    list pins again             who has pinned before they saw the decision is let alone; versions for clients as well
    keep, raise the floor       positions and versions that stay readable below it are stored first (rule A6)
    read the end, delete        whatever an entry names by now stays

It may stop anywhere, for any time, and be run again; several at once do what each would do alone. An error while it looks
at what others need ends it before anything is deleted. Ages are the store's stamps by the store's clock (rule E4).
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress

from phalanx.catalog import State, apply
from phalanx.clock import Deadline
from phalanx.contents import Contents
from phalanx.errors import ConflictError, CorruptionError, SnapshotExpiredError, StateError
from phalanx.log import action as do
from phalanx.log.cursor import View
from phalanx.log.entry import Landing
from phalanx.objects import layout
from phalanx.pinned import Seen, long_dead, pins_listed, seen
from phalanx.pins import AT, FROM, STAGING
from phalanx.tables.manifest import MANAGED
from phalanx.txn.core import Core
from phalanx.upkeep.ages import Ages
from phalanx.upkeep.garbage import Cleared, File, Garbage, Protection, sort_out
from phalanx.upkeep.kept import Replaced, is_listed, is_pinned, kept_states, needless, replaced
from phalanx.upkeep.pruned import Options, Pruned
from phalanx.upkeep.reach import Manifests, Reach, walk
from phalanx.upkeep.retention import Decision, Needs, Wish, decide, kept_below, live

log = logging.getLogger("phalanx.upkeep")

ATTEMPTS = 8
_AT_ONCE = 1000


def prune(core: Core, options: Options, deadline: Deadline) -> Pruned:
    """Let go of what nobody needs any more."""
    first = _Run(core, options, deadline)
    if waits := first.waits_for_the_dead() and not options.dry_run:
        first.move_on()
    run = None if waits else first
    for _ in range(ATTEMPTS):
        run = run or _Run(core, options, deadline)
        try:
            return run.go()
        except ConflictError as error:
            log.debug("prune decides anew: %s", error)
        except (SnapshotExpiredError, CorruptionError) as error:
            if not run.overtaken():
                raise
            log.debug("another prune has landed meanwhile, this one begins again: %s", error)
        run = None
    raise ConflictError(
        f"what was to be pruned was tagged, or pruned by others, {ATTEMPTS} times meanwhile: no file was deleted, try again"
    )


class _Run:
    """One decision, and what follows from it."""

    def __init__(self, core: Core, options: Options, deadline: Deadline) -> None:
        self._core, self._how, self._deadline = core, options, deadline
        core.pins.renew()  # what this process itself no longer needs is not in its way
        self._view = core.refresh()
        self._store = core.datasets.files.store
        self._now = self._store.now()
        self._manifests = Manifests(self._store)
        self._removes = options.files and options.mode != "background"
        self._files = list(self._listed()) if self._removes else []
        self._pins = seen(pins_listed(self._store))
        self._floor = core.log.oldest()
        stamps, reach = [one.renewed for one in self._pins], (self._floor, self._view.position)
        self._ages = Ages(core.store, self._now, reach, stamps, trust=options.trust_clock)
        self._kept = [one.name for one in core.store.list(layout.KEPT)]
        self._replaced: list[Replaced] = []
        self._landed: int | None = None

    def _listed(self) -> Iterator[File]:
        """The files of all tables, or of those that were asked for."""
        tables = self._how.tables
        return self._inside([layout.TABLES] if tables is None else [layout.table(one) for one in sorted(tables)])

    def _shown_since(self, tables: Iterable[str]) -> list[File]:
        """Versions for clients that were put after files were listed, by processes whose pins may be gone by now.

        No entry names what they are made of. Whoever puts one pins first: pins were listed after files, so either the pin
        was there then, or the version is there now.
        """
        known = {(one.table, one.name) for one in self._files}
        found = self._inside([layout.table(one, MANAGED) for one in sorted(tables)])
        return [one for one in found if (one.table, one.name) not in known]

    def _inside(self, folders: Iterable[str]) -> Iterator[File]:
        for folder in folders:
            for one in self._store.list(folder):
                table, slash, name = one.name.partition("/")[2].partition("/")
                if slash:  # what lies beside the folders of tables is nobody's, and stays
                    yield File(table, name, one.size, one.modified)

    def overtaken(self) -> bool:
        """Whether another prune has landed meanwhile: entries and manifests that this one was about to read may be gone."""
        known = self._view.state.retained.made, self._landed
        return self._core.refresh().state.retained.made not in known or self._core.log.oldest() > self._floor

    def waits_for_the_dead(self) -> bool:
        """Whether writers are gone that began at the very end of the log: nothing there tells yet that it is long ago."""
        own = [one for one in self._pins if one.kind == STAGING and one.position >= self._view.position]
        return any(self._ages.passed(one.renewed, one.life) for one in own)

    def move_on(self) -> None:
        """An entry that decides nothing, and that everybody has seen who begins after it."""
        retained = self._view.state.retained
        action = do.Prune(retained.floor, 0, 0, retained.kept, by_itself=self._how.by_itself)
        with suppress(ConflictError):  # another prune has landed, which is an entry too
            self._core.committer.commit(self._core.intent([action], self._deadline, note="prune"))

    def go(self) -> Pruned:
        """Decide, and do it."""
        state = self._view.state
        decision = self._decide()
        after = _as_if(self._view, decision)
        kept = kept_states(self._core, set(decision.kept))
        found = replaced(self._core, after.state, self._floor, decision.floor)
        self._replaced = list(found) if self._removes else []
        passed = [(one.table.id, one.contents) for one in self._replaced]
        first = self._garbage(after, decision.floor, kept, passed, self._pins)
        named = {".".join(state.names[table]): _count(ranges) for table, ranges in decision.going.items()}
        same = decision.floor <= state.retained.floor and set(state.retained.kept) <= set(decision.kept)
        idle = same and not first.garbage and not decision.going
        if self._how.dry_run or (idle and self._nothing_left(decision)):
            would = self._would_clear(decision, after.state, kept) if self._how.dry_run else Cleared()
            return self._told(None, decision, would, named, first.garbage, first.kept)
        landed = self._landed = None if idle else self._commit(decision, first)
        if not self._removes:
            return self._told(landed, decision, Cleared(), named, [], [])
        cleared, last = self._carry_out(decision, {one.table for one in first.garbage})
        gone = [one for one in first.garbage if (one.table, one.name) not in last]
        self._delete(gone)
        self._remove_folders(gone, first.kept)
        return self._told(landed, decision, cleared, named, gone, first.kept)

    def _told(
        self,
        landed: int | None,
        decision: Decision,
        log: Cleared,
        versions: dict[str, int],
        gone: list[File],
        kept: list[File],
    ) -> Pruned:
        size, floor, names = sum(one.size for one in gone), decision.floor, self._view.state.names
        going = {".".join(names[table]): ranges for table, ranges in decision.going.items()}
        files = tuple(gone), tuple(kept)
        return Pruned(
            landed,
            floor,
            log.entries,
            versions,
            len(gone),
            size,
            *files,
            decision.staying,
            going,
            log,
            decision.why,
            decision.kept,
        )

    def _decide(self) -> Decision:
        how, view = self._how, self._view
        needs = Needs.of(view.state, self._alive(self._pins))
        if how.mode == "sweep":
            self._due()  # who has pinned something is gone only by a clock that can be believed
            marked = view.state.retained
            return Decision(marked.floor, kept_below(view.state, marked.floor, needs), {}, {})
        wish = Wish(how.keep, self._due(), how.anchor and how.mode == "eager", how.tables, how.least)
        retained = view.state.retained
        end = retained.last(view.position)
        return decide(view.state, end, max(self._floor, retained.floor), wish, needs)

    def _due(self) -> int:
        """The last position that is old enough, by the stamps of the entries."""
        seconds = max(self._how.older_than, self._how.protect)
        if seconds <= 0:
            return self._view.position
        if doubt := self._ages.doubt():
            raise StateError(f"nothing was pruned: {doubt}")
        return self._ages.due(seconds)

    def _alive(self, pins: Iterable[Seen]) -> list[Seen]:
        """Pins that count. One that was put after this run began cannot have expired, whatever a clock says."""
        passed, end = self._ages.passed, self._view.position
        return [one for one in pins if one.position >= end or not passed(one.renewed, one.life)]

    def _writers(self, pins: Iterable[Seen]) -> list[Seen]:
        """Staging pins that count: also those that expired within the window, because nothing of theirs goes."""
        passed, window = self._ages.passed, self._how.protect
        own = [one for one in pins if one.kind == STAGING]
        alive = {one.id for one in self._alive(own)}
        return [one for one in own if one.id in alive or (window > 0 and not passed(one.since, window))]

    def _commit(self, decision: Decision, first: Garbage) -> int:
        state = self._view.state
        names = sorted(decision.going.items())
        cutoff = 1 + max((int(one.modified * 1e6) for one in first.garbage), default=-1)
        exempt = tuple(sorted((bytes.fromhex(one.id), one.position) for one in self._writers(self._pins)))
        fence = self._view.position if first.garbage else 0  # nobody's files go: nobody has to stage again
        action = do.Prune(
            max(decision.floor, state.retained.floor),
            fence,
            cutoff,
            tuple(decision.kept),
            exempt if fence else (),
            tuple(names),
            self._how.by_itself,
        )
        return self._core.committer.commit(self._core.intent([action], self._deadline, note="prune"))

    def _would_clear(self, decision: Decision, newest: State, found: list[tuple[str, State]]) -> Cleared:
        """What would go of the log, what an earlier prune has left among it."""
        if not self._removes:
            return Cleared()
        floor = max(decision.floor, self._floor)
        dead = self._core.log.clearable(floor)
        old = [at for one in self._core.store.list(layout.CHECKPOINT) if (at := layout.checkpoint_position(one.name))]
        pins = long_dead(self._store.list(layout.PINS), self._ages.passed, self._view.position)
        exactly = {one.position for one in self._alive(self._pins) if one.kind == AT} | set(decision.kept)
        pinned = {name for name, state in found if is_pinned(name, state, exactly)}
        forgotten = needless(self._kept, newest, exactly, pinned)
        size, passed = sum(one.size for one in dead), sum(at < floor for at in old)
        return Cleared(len(dead), size, passed, int(floor > self._floor), len(forgotten), len(pins))

    def _carry_out(self, decision: Decision, tables: Iterable[str]) -> tuple[Cleared, set[tuple[str, str]]]:
        """Everything after the decision but deleting files: what went of the log, and files that turned out to be needed."""
        core = self._core
        late = self._alive(seen(pins := pins_listed(self._store)))
        self._files += self._shown_since(tables)
        exactly = {one.position for one in late if one.kind == AT} | set(decision.kept)
        since = min([one.position for one in late if one.kind == FROM], default=decision.floor)
        floor = max(self._floor, min(decision.floor, since + 1))
        view = core.refresh()
        same = floor == decision.floor and not self._came_back(view.state)
        self._keep_versions(view.state, floor, same=same)
        core.log.raise_floor(floor, self._deadline, [one for one in exactly if one < floor - 1])
        both = {one.id: one for one in (*self._pins, *late)}.values()
        found = kept_states(core, exactly)
        still = self._garbage(view, floor, found, [], both)
        pinned = {name for name, state in found if is_pinned(name, state, exactly)}
        forgotten = needless(self._kept, view.state, exactly, pinned)
        core.store.delete(forgotten)
        dead = long_dead(pins, self._ages.passed, self._view.position)
        self._store.delete(dead)
        swept = core.log.sweep(floor)
        cleared = Cleared(swept.entries, swept.bytes, swept.checkpoints, swept.floors, len(forgotten), len(dead))
        return cleared, {(one.table, one.name) for one in still.kept}

    def _came_back(self, newest: State) -> bool:
        """Whether tables are there again that had been dropped when it was looked up which versions stay."""
        new = [newest.tables[name] for table, name in newest.names.items() if table not in self._view.state.names]
        return any(one.created <= self._view.position for one in new)

    def _keep_versions(self, newest: State, floor: int, *, same: bool) -> None:
        """Store the versions that the floor is about to pass.

        With the `same` floor, they are those that were found before the decision, but for what was deleted since.
        """
        for one in self._replaced if same else replaced(self._core, newest, self._floor, floor):
            one.keep(self._core, newest)

    def _nothing_left(self, decision: Decision) -> bool:
        """Whether nothing is left of an earlier prune that was broken off."""
        raised = self._floor >= min(decision.floor, self._view.state.retained.floor)
        return raised and not self._core.store.list(layout.LOG, before=layout.entry(self._floor))

    def _garbage(
        self,
        view: View[State],
        floor: int,
        kept: list[tuple[str, State]],
        passed: list[tuple[str, Contents]],
        pins: Iterable[Seen],
    ) -> Garbage:
        """What can go of the files that were listed first, if the log begins with `floor`."""
        if not self._removes:
            return Garbage([], [])
        alive = self._alive(pins)
        since = min((one.position for one in alive if one.kind == FROM), default=None)
        lowest = max(
            min(floor - 1, floor if since is None else since), self._floor - 1, self._oldest(view.state, since), 1
        )
        exactly = {one.position for one in alive if one.kind == AT}
        pinned = [state for one in sorted(exactly) if (state := self._at(one)) is not None]
        marked = Reach(view.state)
        for name, state in kept:
            alone, position = layout.version_kept(name), layout.kept_position(name)
            listed = alone is not None and is_listed(view.state, *alone)
            if listed or (position is not None and view.state.retained.has(position - 1)):
                marked.state(state)
            if is_pinned(name, state, exactly):
                marked.spare(state)
        for table, contents in passed:
            marked.contents(table, contents)
        for state in pinned:
            marked.state(state, spare=True)
        walk(marked, self._core, lowest, view, since)
        writers = self._writers(pins)
        protection = Protection(
            self._ages.bound(self._how.protect) if self._how.protect > 0 else None,
            min((one.since for one in writers), default=None),
        )
        return sort_out(self._files, marked, self._manifests, view.state, protection)

    def _oldest(self, state: State, since: int | None) -> int:
        """Before this, no table that was asked for is needed: what it was made of is kept by itself, or was deleted (I11)."""
        found = [state.contents.get(table) for table in self._how.tables or ()]
        if not found or None in found:
            return 0
        there = [versions[0][0].position if (versions := live(one)) else 0 for one in found if one is not None]
        return min([*there, *([] if since is None else [since])])

    def _at(self, position: int) -> State | None:
        """What a reader that has pinned exactly this position needs; None if it is all kept anyway, or refused."""
        if not self._floor - 1 <= position < self._view.position:
            return None
        return self._core.log.at(position).state

    def _delete(self, gone: list[File]) -> None:
        done = 0
        for some in _batched(gone, _AT_ONCE):
            self._store.delete([layout.table(one.table, one.name) for one in some])
            done += len(some)
            if self._how.progress is not None:
                self._how.progress(done, len(gone))

    def _remove_folders(self, gone: list[File], stay: list[File]) -> None:
        """Remove folders that are empty now: of indexes, which nobody uses again, and of tables that are gone."""
        left = {one.table for one in gone} - {one.table for one in stay} - set(self._view.state.names)
        indexes = {layout.table(one.table, one.name).rpartition("/")[0] for one in gone if "_indices/" in one.name}
        for folder in sorted({*indexes, *map(layout.table, left)}):
            self._store.remove_folder(folder)


def _as_if(view: View[State], decision: Decision) -> View[State]:
    """The state as it will be once the decision has landed."""
    action = do.Prune(max(decision.floor, 1), 0, 0, tuple(decision.kept), (), tuple(sorted(decision.going.items())))
    return View(view.position, view.time, apply(view.state, Landing(view.position + 1), action))


def _count(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _batched(items: list[File], size: int) -> Iterator[list[File]]:
    return (items[at : at + size] for at in range(0, len(items), size))
