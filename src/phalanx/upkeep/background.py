"""Upkeep in the background: the tail stays short, what was written out is indexed, no writer waits for it (rule C10).

Whoever lands the item with which a tail crosses its soft limit flushes it, in a thread of its own; if that process dies,
the next multiple of the limit is somebody else's to cross. A flush that fails loses nothing and is tried again later.
Only at the hard limit do writers wait, and say so: then readers could no longer keep up.
"""

import logging
import threading
from collections.abc import Callable

import msgspec

from phalanx.clock import Deadline, environment
from phalanx.contents import Contents
from phalanx.errors import NotFoundError, PhalanxError, UnavailableError
from phalanx.txn.core import Core, locate
from phalanx.upkeep.cover import Builder, cover
from phalanx.upkeep.due import Habits, habits, prune_due, worth_rewriting
from phalanx.upkeep.flush import Flushed, flush
from phalanx.upkeep.limits import DEFAULTS, Limits, limits
from phalanx.upkeep.optimize import Options as HowToOptimize
from phalanx.upkeep.optimize import optimize
from phalanx.upkeep.prune import prune
from phalanx.upkeep.pruned import Mode, Options
from phalanx.upkeep.window import protection
from phalanx.waiting import Weight, weigh

log = logging.getLogger("phalanx.upkeep")

_SECONDS = 300.0
_POLL = 0.02
_LONGEST_PAUSE = 5.0
"""Seconds between two attempts of a writer at the hard limit."""


class Background:
    """The flushes that one handle runs beside its writers."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], threading.Thread] = {}
        self._again: set[tuple[str, str]] = set()
        self._seen: dict[str, tuple[int, float]] = {}
        self._closed = False
        self._marked: set[str] = set()
        self._idle = 0
        self._known: tuple[object, Limits] = (None, DEFAULTS)

    @property
    def limits(self) -> Limits:
        """What the lake's properties ask for now: read afresh, because they may have changed."""
        properties = self._core.log.view.state.properties
        if self._known[0] is not properties:
            self._known = (properties, limits(properties))
        return self._known[1]

    def wrote(self, table: str, position: int) -> None:
        """A change of this process landed there: flush if it took the tail over a multiple of its limit, or it is old."""
        contents = self._core.log.view.state.contents.get(table)
        if contents is None:
            return
        loaded = contents.moved == position and contents.first == contents.until  # a bulk change that is the head now
        if loaded or self._crossed(contents, position) or self._aged(table, contents):
            self.start(table)

    def read(self, table: str, hidden: int) -> None:
        """A read found this many rows hidden: flush if they slow every reader down, or the tail is old."""
        contents = self._core.log.view.state.contents.get(table)
        if hidden > self.limits.hidden or (contents is not None and self._aged(table, contents)):
            self.start(table)

    def has_room(self, table: str) -> bool:
        """Whether the tail is below its hard limit, as far as is known."""
        contents = self._core.log.view.state.contents.get(table)
        return contents is None or self.limits.load(contents.weight) < self.limits.hard

    def make_room(self, table: str, deadline: Deadline) -> None:
        """Wait while the tail is at its hard limit, and help to write it out."""
        if self.has_room(table):
            return
        log.warning("the tail of table %s is at its hard limit: this writer waits for a flush", table)
        clock, pause, due = self._core.clock, _POLL, 0.0
        while True:
            if clock.steady() >= due:
                self._help(table, deadline)
                pause = min(2 * pause, _LONGEST_PAUSE)  # one that fails leaves files behind: not again and again
                due = clock.steady() + pause
            clock.sleep(_POLL)
            contents = self._core.refresh().state.contents.get(table)
            if contents is None or self.limits.load(contents.weight) < self.limits.hard:
                return
            if deadline.passed():
                raise UnavailableError(
                    "the tail of this table is at its hard limit, and no flush could write it out in time: nothing was "
                    "committed; look for what keeps `phalanx flush` from working (a full disk?), then try again"
                )

    def start(self, table: str) -> None:
        """Begin to flush a table, unless that is under way or the lake does without."""
        if self.limits.background == "on":
            self._run(("flush", table), lambda: self._flush(table), again=False)

    def flushed(self, table: str, done: Flushed, builder: Builder | None = None) -> None:
        """Somebody had a tail written out on purpose: what follows a flush in the background follows this one, too.

        If nothing is to go on beside the caller, or in tasks that end with it, indexes are built before this returns.
        """
        if done.version is None and table not in self._marked:
            return
        if builder is None and self.limits.background == "on":
            self._run(("index", table), lambda: self._index(table))
        else:
            self._tidy(table, builder)

    def prune_previous(self, table: str, mode: Mode) -> None:
        """Prune the versions of a table before its newest (rule E6). Whatever goes wrong, what was written stands.

        While a table has a tail its versions are only marked: files and entries go once it was flushed.
        """
        state = self._core.log.view.state
        contents = state.contents.get(table)
        tail = contents is not None and contents.first != contents.until
        least = state.settings.checkpoint_every
        self._prune_as(Options(mode=mode, tables=frozenset([table]), files=not tail, least=least))
        if tail:
            self._marked.add(table)
        elif mode == "background":
            self.sweep(table)

    def sweep(self, table: str | None = None, protect: float | None = None) -> None:
        """Begin to remove what was marked by a prune, under its window if that was given."""
        tables = None if table is None else frozenset([table])
        self._run(("sweep", table or ""), lambda: self._sweep(tables, protect))

    def _sweep(self, tables: frozenset[str] | None, protect: float | None = None) -> None:
        self._prune_as(Options(mode="sweep", tables=tables), protect)

    def sweep_marked(self, table: str) -> None:
        """Remove what was only marked while a table had a tail: somebody has written it out."""
        if table in self._marked:
            self._marked.discard(table)
            self._sweep(frozenset([table]))

    def _prune_as(self, how: Options, protect: float | None = None) -> None:
        """Prune under the window that holds now. If that makes no sense any more, nothing is pruned, and no caller is told."""

        def work(deadline: Deadline) -> None:
            window = self._window() if protect is None else protect
            prune(self._core, msgspec.structs.replace(how, protect=window), deadline)

        self._try("sweep" if how.mode == "sweep" else "prune", work)

    def _window(self) -> float:
        return protection(None, environment(), self._core.log.view.state.properties)

    def _run(self, what: tuple[str, str], work: Callable[[], None], *, again: bool = True) -> None:
        """Do something in a thread of its own; if it is being done, once more after that, because it may have looked before."""
        with self._lock:
            if self._closed:
                return
            if what in self._running:
                self._again.update({what} if again else ())
                return
            # Not a daemon: a process that ends waits for it, because Lance cannot be stopped in the middle of a call.
            thread = threading.Thread(target=self._work, args=(what, work), name=f"phalanx-{what[0]}")
            thread.start()
            self._running[what] = thread

    def _work(self, what: tuple[str, str], work: Callable[[], None]) -> None:
        again = True
        while again:
            self._try(what[0], lambda _: work())
            with self._lock:
                again = what in self._again
                self._again.discard(what)
                if not again:
                    del self._running[what]

    def _help(self, table: str, deadline: Deadline) -> None:
        """A writer that has to wait flushes, whatever the lake's properties say of the background."""
        if self.limits.background == "off":
            self._flush(table, deadline)
        else:
            self.start(table)

    def close(self) -> None:
        """Wait for what is under way."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for thread in running:
            thread.join()

    def _flush(self, table: str, until: Deadline | None = None) -> None:
        """Flush; then, in a thread of its own, index what was written out: a long build holds up no flush."""
        self._try("flush", lambda deadline: flush(self._core, table, until or deadline))
        self._run(("index", table), lambda: self._index(table))

    def _tidy(self, table: str, builder: Builder | None = None) -> None:
        """Index what was written out; then what was marked can go that the table no longer stands on."""
        self._try("index", lambda deadline: cover(self._core, table, deadline, builder=builder))
        self.sweep_marked(table)

    def _index(self, table: str) -> None:
        """What follows a flush, and with `upkeep` on what is due."""
        self._tidy(table)
        if self._habits().upkeep == "on":
            self._try("optimize", lambda deadline: self._optimize(table, deadline))
            self._try("prune", self._prune)

    def _habits(self) -> Habits:
        """Read afresh: somebody may have said just now that nothing is to be done (rule E5)."""
        return habits(self._core.refresh().state.properties)

    def _optimize(self, table: str, deadline: Deadline) -> None:
        """Rewrite what is worth it, within limits; whoever flushed does it, so that of many processes one does."""
        core = self._core
        if any(worth_rewriting(core, locate(core.refresh(), table))):
            optimize(core, table, deadline, HowToOptimize(max_bytes=self._habits().bytes, threads=1))

    def _prune(self, deadline: Deadline) -> None:
        """Prune if the log has grown enough. The judge refuses it if that is not wanted any more.

        What pins keep from going is not tried again after each flush, only when the log has grown as much once more.
        """
        how, view = self._habits(), self._core.log.view
        if how.upkeep != "on" or view.position - self._idle < how.entries or not prune_due(self._core, view):
            return
        done = prune(self._core, Options(how.keep, how.older_than, self._window(), by_itself=True), deadline)
        if done.version is None:
            self._idle = view.position

    def _try(self, what: str, work: Callable[[Deadline], object]) -> None:
        try:
            work(Deadline.after(self._core.clock, _SECONDS))
        except NotFoundError:
            return  # the table was dropped meanwhile
        except PhalanxError as error:
            log.warning("a background %s failed; nothing is lost, it will be tried again: %s", what, error)
        except Exception:
            log.exception("a background %s failed; nothing is lost, it will be tried again", what)

    def _crossed(self, contents: Contents, position: int) -> bool:
        """Whether it was the entry at this position, so that of many processes one flushes."""
        after, limits = contents.weight, self.limits
        if limits.load(after) < 1:
            return False
        own = Weight()
        for seq in range(contents.until - 1, contents.first - 1, -1):
            pending = contents.items[seq]
            if pending.position < position:
                break
            if pending.position > position:
                after = after.plus(weigh(pending), -1)
            else:
                own = own.plus(weigh(pending))
        return int(limits.load(after)) > int(limits.load(after.plus(own, -1)))

    def _aged(self, table: str, contents: Contents) -> bool:
        """Whether this process has seen the same first item waiting for too long."""
        if contents.first == contents.until:
            return False
        now = self._core.clock.steady()
        first, since = self._seen.get(table, (-1, now))
        if first != contents.first:
            self._seen[table] = (contents.first, now)
            return False
        return now - since > self.limits.age
