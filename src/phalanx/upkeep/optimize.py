"""Optimize: small fragments and deleted rows are written anew, group by group, and indexed; each group is one commit.

Planned from a snapshot: what is flushed or rewritten meanwhile is left for the next time, so no row is written twice by
one run. A group whose fragments changed is planned again, within a budget; one that somebody else has claimed is waited
for. In the end it is the state that counts: fragments that are gone were rewritten, by whomever; for the others there is
a reason. Killed, it has lost what it was doing and nothing that landed: it is run again.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from phalanx.claims import Claimed
from phalanx.clock import Deadline
from phalanx.errors import InvalidInputError, NotFoundError, PhalanxError
from phalanx.tables import cluster, rewrite
from phalanx.tables import index as indexes
from phalanx.tables.dataset import Version
from phalanx.txn.core import Core, Found, locate
from phalanx.upkeep.cover import Builder, cover
from phalanx.upkeep.flush import flush
from phalanx.upkeep.groups import Ended, Groups, Outcome, Rewriter

_POLL = 0.1
"""Seconds between two looks at what others have claimed."""


class Skipped(msgspec.Struct, frozen=True):
    """Fragments that were left as they are, or a part of the work that was, and why."""

    fragments: tuple[int, ...]
    reason: str


class Optimized(msgspec.Struct, frozen=True):
    """What an optimize did: groups rewritten, by others meanwhile, and left; bytes of data; fragments before and after.

    Of a dry run: the groups that would be rewritten, and the bytes that would be read.
    """

    rewritten: int = 0
    by_others: int = 0
    skipped: tuple[Skipped, ...] = ()
    read: int = 0
    written: int = 0
    before: int = 0
    after: int = 0
    indexed: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True):
    """How far an optimize is: groups and bytes of those that are planned; told after each group."""

    table: str
    groups: int
    of: int
    bytes: int
    of_bytes: int


class Options(msgspec.Struct, frozen=True):
    """How an optimize goes about it; see `Lake.optimize`."""

    budget: int = 5
    max_bytes: int | None = None
    max_time: float | None = None
    dry_run: bool = False
    cluster_by: tuple[str, ...] = ()
    progress: Callable[[Done], None] | None = None
    threads: int = 2
    rewriter: Rewriter | None = None
    builder: Builder | None = None
    """Where groups are rewritten and indexes built; in this process without them."""
    target_rows: int = rewrite.TARGET_ROWS

    def checked(self) -> "Options":
        """Refuse what makes no sense."""
        for name, least in (("budget", 1), ("threads", 1), ("max_bytes", 0), ("max_time", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InvalidInputError(f"{name} is a number, {least} at the least: {value!r} is not")
        return self


def optimize(core: Core, table: str, deadline: Deadline, options: Options | None = None) -> Optimized:
    """Flush a table, rewrite the fragments that are worth it, and index all of it."""
    how = options or Options()
    notes: list[Skipped] = []
    here = locate(core.refresh(), table)
    if not here.contents.head.manifest:
        return Optimized(skipped=(Skipped((), "it was only declared: nobody has written its first version yet"),))
    cluster.require(here.shape.schema.names, how.cluster_by)
    if not how.dry_run:
        _noting(notes, "its tail was not written out", lambda: flush(core, table, deadline))
    run = _Run(core, table, deadline, how)
    _noting(notes, "", run.go)
    if how.dry_run:
        return run.result(notes, ())
    indexed: tuple[str, ...] = ()
    if run.landed or not (run.is_late() or run.claimed_by_others()):

        def covering() -> None:
            nonlocal indexed
            done = cover(core, table, deadline, least_rows=1, builder=how.builder)
            indexed = done.names
            notes.extend(Skipped((), f"index {name}: {error}") for name, error in done.failed.items())

        _noting(notes, "its indexes were not brought up to date", covering)
    return run.result(notes, indexed)


def optimize_all(core: Core, deadline: Deadline, options: Options) -> dict[str, Optimized]:
    """Optimize every table; one that cannot be is skipped with the reason, and the others go on."""
    done: dict[str, Optimized] = {}
    for name, table in sorted(core.refresh().state.tables.items()):
        try:
            done[".".join(name)] = optimize(core, table.id, deadline, options)
        except NotFoundError:
            continue  # it was dropped meanwhile
        except PhalanxError as error:
            done[".".join(name)] = Optimized(skipped=(Skipped((), str(error)),))
    return done


def _noting(notes: list[Skipped], what: str, work: Callable[[], object]) -> None:
    """Do one part of the work; if it fails, that is noted, and the rest goes on."""
    try:
        work()
    except NotFoundError:
        raise
    except PhalanxError as error:
        notes.append(Skipped((), f"{what}: {error}" if what else str(error)))


def _longest_first(group: rewrite.Group) -> int:
    """Begun last, a long one would keep all others waiting; those that differ by less than a fifth are alike."""
    return -int(4 * math.log2(max(1, group.size)))


class _Run:
    """The rounds of one optimize of one table."""

    def __init__(self, core: Core, table: str, deadline: Deadline, how: Options) -> None:
        self._core, self._table, self._how = core, table, how
        self._groups = Groups(core, table, deadline, how.rewriter)
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(how.threads)
        self._stopped = False
        self._until = deadline
        if how.max_time is not None and how.max_time < deadline.left():
            self._until = Deadline.after(core.clock, how.max_time)
        self._first = self._head(locate(core.refresh(), table))
        self._scope: tuple[int, int, frozenset[int]] | None = None
        self._open: dict[tuple[int, ...], str] = {}
        self._tired: set[int] = set()
        self.landed = self._read = self._written = self._planned = self._seen = 0

    def go(self) -> None:
        """Plan and rewrite, until nothing is left or the budget is."""
        budget = self._how.budget
        while True:
            here = locate(self._core.refresh(), self._table)
            bare, groups = self._plan(here)
            if self._how.dry_run:
                self.landed, self._read = len(groups), sum(group.size for group in groups)
                return
            if not groups:
                if not self._wait(here):
                    return
                continue
            ended = [one.ended for one in self._rewrite(bare, here, groups)]
            budget -= Ended.MOVED in ended
            if budget <= 0:
                return

    def _head(self, here: Found) -> Version:
        return self._core.datasets.own(self._table, here.contents.head.manifest)

    def _plan(self, here: Found) -> tuple[Version, list[rewrite.Group]]:
        """Groups of fragments that were there when the run began, and that nobody has claimed or given up."""
        head = self._head(here)
        state = here.contents.generation, here.contents.head.layout
        if self._scope is None or self._scope[:2] != state:
            self._scope = (*state, frozenset(head.fragments))
        busy = {one for claim in self._groups.claims(here.contents) for one in claim.fragments}
        excluded = (set(head.fragments) - self._scope[2]) | busy | self._tired
        self._pin = self._core.pins.staging()
        bare = indexes.bare(self._core.datasets, head)  # Lance would not put fragments together that differ in theirs
        if self._how.cluster_by:
            return bare, cluster.plan(bare, self._how.cluster_by, excluded)
        return bare, rewrite.plan(bare, self._how.target_rows, excluded)

    def _rewrite(self, bare: Version, here: Found, groups: Sequence[rewrite.Group]) -> list[Outcome]:
        self._planned += len(groups)
        self._seen += sum(group.size for group in groups)
        begin = int(self._core.clock.jitter() * len(groups))  # of groups alike, several runs begin with different ones
        turned = sorted([*groups[begin:], *groups[:begin]], key=_longest_first)
        with ThreadPoolExecutor(min(2 * self._how.threads, len(turned)), thread_name_prefix="phalanx-optimize") as pool:
            try:
                running = [pool.submit(self._one, bare, here, group) for group in turned]
                return [future.result() for future in running]
            except BaseException:
                self._stopped = True  # some wait for a slot: they are not to begin any more
                pool.shutdown(cancel_futures=True)
                raise

    def _one(self, bare: Version, here: Found, group: rewrite.Group) -> Outcome:
        with self._slots:
            spent = self._spent(group)
            begun = Outcome(Ended.FAILED, spent) if spent else self._groups.begin(bare, here.contents, group)
        outcome = begun if isinstance(begun, Outcome) else self._groups.finish(begun)  # beside the next one's rewriting
        with self._lock:
            self._count(group, outcome, untouched=bool(spent) or outcome.ended is Ended.CLAIMED)
            if self._how.progress is not None:
                name = ".".join(here.name)
                self._how.progress(Done(name, self.landed, self._planned, self._read, self._seen))
        return outcome

    def _count(self, group: rewrite.Group, outcome: Outcome, *, untouched: bool) -> None:
        self._written += outcome.written
        self._read -= group.size if untouched else 0
        if outcome.ended is Ended.LANDED:
            self.landed += 1
        else:
            self._open[group.fragments] = outcome.reason or outcome.ended.value
        if outcome.ended is Ended.FAILED:
            self._tired.update(group.fragments)

    def is_late(self) -> bool:
        """Whether nothing more is begun."""
        return self._until.passed()

    def _spent(self, group: rewrite.Group) -> str:
        """Why there is neither time nor bytes left for a group; if there is, its bytes are taken."""
        with self._lock:
            most, read = self._how.max_bytes, self._read
            self._read += group.size
        if self._stopped:
            return "it was interrupted"
        if self._until.passed():
            return "the time is spent"
        if most is not None and read + group.size > most:
            return f"max_bytes is spent: it has {group.size:,} bytes"
        return ""

    def _wait(self, here: Found) -> bool:
        """Wait a moment for what others have claimed; whether there is anything to wait for."""
        claims = self._of_scope(here)
        for one in claims:
            self._open.setdefault(one.fragments, f"claimed by {one.by}, and not done in time")
        if not claims or self._until.passed():
            return False
        self._core.clock.sleep(_POLL)
        return True

    def _of_scope(self, here: Found) -> list[Claimed]:
        scope = self._scope[2] if self._scope is not None else frozenset[int]()
        there = scope.intersection(self._head(here).fragments) - self._tired
        return [one for one in self._groups.claims(here.contents) if not there.isdisjoint(one.fragments)]

    def claimed_by_others(self) -> bool:
        """Whether somebody else is at work on the table: then the indexes are theirs to bring up to date."""
        return bool(self._groups.claims(locate(self._core.refresh(), self._table).contents))

    def result(self, notes: Iterable[Skipped], indexed: tuple[str, ...]) -> Optimized:
        """What was done, by the state that there is now."""
        there = set(self._head(locate(self._core.refresh(), self._table)).fragments)
        left = {fragments: reason for fragments, reason in self._open.items() if there.intersection(fragments)}
        return Optimized(
            self.landed,
            len(self._open) - len(left),
            (*notes, *(Skipped(*pair) for pair in sorted(left.items()))),
            self._read,
            self._written,
            len(self._first.fragments),
            len(there),
            indexed,
        )
