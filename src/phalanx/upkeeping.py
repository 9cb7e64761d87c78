"""The part of a lake that is upkeep: flush, optimize, prune, check. No row changes, and nobody waits for it."""

from collections.abc import Callable, Sequence

import msgspec

from phalanx.amounts import seconds
from phalanx.clock import environment
from phalanx.errors import InvalidInputError
from phalanx.names import parse_name
from phalanx.txn.core import Core, find
from phalanx.upkeep.background import Background
from phalanx.upkeep.check import Report, check
from phalanx.upkeep.due import Due, due, habits
from phalanx.upkeep.flush import Flushed, flush
from phalanx.upkeep.folder import Progress
from phalanx.upkeep.optimize import Done, Optimized, optimize, optimize_all
from phalanx.upkeep.optimize import Options as HowToOptimize
from phalanx.upkeep.prune import prune
from phalanx.upkeep.pruned import Mode, Pruned
from phalanx.upkeep.pruned import Options as HowToPrune
from phalanx.upkeep.repair import Repaired, repair
from phalanx.upkeep.window import protection

_PRUNE_SECONDS = 3600.0


class Kept:
    """What a lake's upkeep does, whenever somebody asks, from any process."""

    _core: Core
    _background: Background

    def flush(self, name: str | None = None, *, timeout: float | None = None) -> dict[str, Flushed]:
        """Write out what is pending in one table, or in all. No row changes; readers get faster.

        What was written out is indexed in the background then, or before this returns if the lake does without.
        """
        deadline = self._core.deadline(300.0 if timeout is None else timeout)
        view = self._core.refresh()
        names = [name] if name else sorted(".".join(one) for one in view.state.tables)
        done: dict[str, Flushed] = {}
        for one in names:
            table = find(view, one).table.id
            done[one] = flush(self._core, table, deadline)
            self._background.flushed(table, done[one])
        return done

    def optimize(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str | None = None,
        *,
        budget: int = 5,
        max_bytes: int | None = None,
        max_time: float | None = None,
        dry_run: bool = False,
        cluster_by: str | Sequence[str] = (),
        progress: Callable[[Done], None] | None = None,
        threads: int = 3,
        timeout: float | None = None,
    ) -> dict[str, Optimized]:
        """Flush one table, or all, rewrite small fragments and those with deleted rows, and index. No row changes.

        With `cluster_by`, rows are put in the order of these columns. A group that changed meanwhile is planned again
        `budget` times; no group is begun after `max_time` seconds, nor beyond `max_bytes` of data for each table.
        """
        columns = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        how = HowToOptimize(budget, max_bytes, max_time, dry_run, columns, progress, threads).checked()
        deadline = self._core.deadline(3600.0 if timeout is None else timeout)
        if name is not None:
            done = {name: optimize(self._core, find(self._core.refresh(), name).table.id, deadline, how)}
        else:
            done = optimize_all(self._core, deadline, how)
        state = self._core.log.view.state
        for table in () if dry_run else [state.tables[one].id for one in map(parse_name, done) if one in state.tables]:
            self._background.sweep_marked(table)
        return done

    def prune(  # noqa: PLR0913 - each is a choice of its own
        self,
        tables: str | Sequence[str] | None = None,
        *,
        keep: int | None = None,
        older_than: float | str | None = None,
        protect: float | str | None = None,
        mode: Mode = "eager",
        unconditional: bool = False,
        dry_run: bool = False,
        trust_clock: bool = False,
        progress: Callable[[int, int], None] | None = None,
        timeout: float | None = None,
    ) -> Pruned:
        """Remove old versions, old entries of the log, and files that nobody can reach.

        A version goes if it is not among the `keep` newest of its table and was replaced more than `older_than` ago (10
        and 7 days by default; with one of them given, that one alone decides). Whatever is younger than the window
        `protect`, tagged, pinned by a running reader or writer, or the anchor (the newest that would otherwise go) stays.
        `mode="background"` marks now, needs no anchor, and a sweep removes later; `mode="sweep"` is that sweep.
        `unconditional` drops window and anchor, nothing else. With `tables`, only these, and entries of
        the log of which nothing is left, of any table.
        """
        if keep is not None and keep < 1:
            raise InvalidInputError(f"keep is the number of versions to keep, 1 at the least: {keep} is not")
        if unconditional and protect is not None and seconds(protect, "protect"):
            raise InvalidInputError("unconditional drops the window: give either that or protect")
        view = self._core.refresh()
        if keep is None and older_than is None:
            usual = habits(view.state.properties)
            keep, older_than = usual.keep, usual.older_than
        window = 0.0 if unconditional else protection(protect, environment(), view.state.properties)
        names = [tables] if isinstance(tables, str) else tables
        ids = None if names is None else frozenset(find(view, one).table.id for one in names)
        age = 0.0 if older_than is None else seconds(older_than, "older_than")
        how = HowToPrune(keep or 1, age, window, mode, ids, not unconditional, dry_run)
        how = msgspec.structs.replace(how, trust_clock=trust_clock, progress=progress).checked()
        done = prune(self._core, how, self._core.deadline(_PRUNE_SECONDS if timeout is None else timeout))
        if mode == "background" and not dry_run and done.version is not None:
            self._background.sweep(protect=window)
        return done

    def due(self) -> list[Due]:
        """What upkeep is due, and why. Nothing is scanned."""
        return due(self._core, self._core.refresh())

    def check(self, *, deep: bool = False, progress: Progress | None = None) -> Report:
        """What is wrong with the lake, by cause: missing, corrupt, foreign and orphaned files, and rules that do not hold.

        Every version that can be read is looked at: each file that it is made of is there, and as large as it should be.
        With `deep`, every byte is compared with the checksum that was noted when it was staged, and each table is read.
        """
        return check(self._core, deep=deep, progress=progress)

    def repair(
        self, *, dry_run: bool = True, deep: bool = False, trust_clock: bool = False, progress: Progress | None = None
    ) -> Repaired:
        """Put right what a check finds and what needs no copy; by default only say what that is.

        Damaged caches and notes, versions for clients and pins of the dead go, guards come back, files that nobody can reach
        are pruned. If something is damaged that only a copy restores, it is named, and nothing is touched. After
        30 days without a commit it goes by age only with `trust_clock`, as a prune does: the plan says so in `clock`.
        """
        return repair(self._core, dry_run=dry_run, deep=deep, trust_clock=trust_clock, progress=progress)
