"""Pins: what a running process asks others not to prune, and how it keeps asking (rules E2, E3).

A pin is an object whose name says all there is to know; it holds for its life after the store's stamp, and is renewed
under a new name while somebody in this process needs it. There are three kinds:

- `from`: every position from there on. One for each open handle, which moves on with the log;
- `at`: exactly that position. For a snapshot that is older than the first;
- `staging`: files that were written after the pin, and that no entry names yet. Lance chooses the names of files, so
  this is how they are known. Operations of one process that overlap share one, for some seconds.

Whoever needs a pin holds a `Pin`, or a `Hold` on a position; letting go of it is all there is to do. A pin is put first,
and what it is for is looked at afterwards: prune does the opposite, so one of the two sees the other (specs/prune.py).
"""

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable

import msgspec

from phalanx.clock import SYSTEM, Clock
from phalanx.errors import PhalanxError, StateError, UnavailableError
from phalanx.ids import ID_BYTES
from phalanx.objects import Created, Store, layout
from phalanx.objects.layout import PinName

log = logging.getLogger("phalanx.pins")

FROM, AT, STAGING = "from", "at", "staging"
KINDS = (FROM, AT, STAGING)
LIFE = 600.0
"""Seconds that a pin holds after it was put or renewed."""
_RENEWALS = 3
"""How often a pin is renewed in its life: two may fail."""
_TICKS = {True: 2.0, False: 60.0}
"""Seconds after which a handle moves on with the log, where asking costs nothing and where it is a request: what has
been replaced since stays for as long."""
_SHARED = 30.0
"""Seconds for which operations that begin share a staging pin: it protects whatever is newer than itself."""
_TRIES = 3
_FIRST = 1.0
"""Seconds after which clocks are compared where that takes requests; elsewhere it is done at once."""
AHEAD = 60.0
"""Seconds that a writer's clock may be ahead of the store's (rule J3)."""


class Pin:
    """Something that is pinned for as long as this is held."""

    __slots__ = ("__weakref__", "checked", "id", "kind", "position", "renewed")

    def __init__(self, kind: str, position: int, identity: str, renewed: float) -> None:
        self.kind = kind
        self.position = position
        self.id = identity
        self.renewed = renewed
        """When it was last known to hold, by the steady clock."""
        self.checked = False
        """Whether somebody has looked, after it was put, that what it pins was still there."""


class Hold:
    """A position that somebody reads at; with `whole`, everything after it as well."""

    __slots__ = ("__weakref__", "pin", "position", "whole")

    def __init__(self, position: int, pin: Pin, *, whole: bool) -> None:
        self.position = position
        self.whole = whole
        self.pin = pin


class Pins:
    """The pins of one handle. Safe to use from many threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        end: Callable[[], int],
        life: float = LIFE,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._store = store
        self._now = now or store.now
        self._clock = clock
        self._end = end
        self.life = life
        self._lock = threading.RLock()
        self._names: dict[str, list[str]] = {}
        self._alive: weakref.WeakValueDictionary[str, Pin] = weakref.WeakValueDictionary()
        self._holds: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._at: weakref.WeakValueDictionary[int, Pin] = weakref.WeakValueDictionary()
        self._staging: weakref.ref[Pin] | None = None
        self._begun = 0.0
        self._renewed = clock.steady()
        self._dead: list[str] = []
        self._base: Pin | None = None
        self.before_renewal: Callable[[], bool] = lambda: True
        """What comes first when it is time: to look at the log again, and to let go of what is no longer needed."""
        self.look: Callable[[], object] = lambda: None
        """Look at the log again, and nothing else."""
        self.lets: Callable[[Pin], bool] = lambda _: True
        """Whether what was staged under a pin still counts, as far as the log is known."""
        self.gone: Callable[[int, str], bool] = lambda *_: False
        """Whether a prune has let go of a position, or of the version that a table had there: the log is looked at for it."""
        self._compared = False
        self.ahead = 0.0
        """Seconds that the clock here was ahead of the store's when they were last compared."""
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        weakref.finalize(self, _take_back, store, self._names, os.getpid())

    def staging(self) -> Pin:
        """A pin for files that are about to be written: hold it until an entry names them, or nobody will.

        A prune that has listed pins before this one is there refuses whoever knew less of the log than itself. So the log is
        looked at again, and if it has grown meanwhile another pin is put, which says so.
        """
        for _ in range(_TRIES):
            with self._lock:
                now = self._clock.steady()
                shared = None if self._staging is None else self._staging()
                young = now - self._begun <= min(_SHARED, self.life / _RENEWALS)
                if shared is not None and young and self.lets(shared):
                    return shared
                pin = self._put(STAGING, self._end())
            self.look()
            if self._end() == pin.position:
                break
        with self._lock:
            self._staging, self._begun = weakref.ref(pin), now
        return pin

    def ready(self) -> Pin:
        """The pin of everything from the end of the log on, as far as it is known: put before somebody looks at it."""
        base = self._base
        if base is None or self._clock.steady() - base.renewed > self.life:
            with self._lock:
                base = self._require_base()
        return base

    def hold(self, position: int, *, whole: bool = False) -> Hold:
        """Hold a position, by a pin that is there already if one covers it.

        What is known of a position that is older than all pins counts only if it is looked at after this.
        """
        with self._lock:
            if self._closed:  # a snapshot outlives its handle, as long as nobody prunes
                nothing = Pin(FROM, 0, "", self._clock.steady())
                nothing.checked = True
                return Hold(position, nothing, whole=whole)
            held = Hold(position, self._covering(position, whole=whole), whole=whole)
            self._holds.add(held)
            return held

    def owns(self, identity: str) -> bool:
        """Whether a pin is this handle's."""
        return identity in self._names

    def time(self) -> float:
        """The steady clock that all of this goes by."""
        return self._clock.steady()

    def lapsed(self, pin: Pin) -> bool:
        """Whether others may have taken it for expired meanwhile: this process, or its storage, stood still."""
        return self._clock.steady() - pin.renewed > self.life

    def renew(self) -> None:
        """Renew what is held, move on with the log, and take back what nobody holds any more."""
        if not self.move_on():
            return
        self.compare_clocks()
        with self._lock:
            self._renewed = self._clock.steady()
            for pin in list(self._alive.values()):
                self._renew(pin)
            self._forget([gone for gone in self._names if gone not in self._alive])

    def compare_clocks(self) -> None:
        """See how far the clock here is ahead of the store's; who may only read cannot, and need not."""
        self._compared = True
        here = self._clock.now() / 1e6
        try:
            self.ahead = here - self._now()
        except (UnavailableError, StateError) as error:
            log.debug("the clock of the store is not known: %s", error)

    def move_on(self) -> bool:
        """Let go of what came before the end of the log, but for what is still read; False if there is no log any more."""
        if not self.before_renewal():
            return False
        with self._lock:
            self._move_on()
        return True

    def tick(self) -> None:
        """What is done now and then."""
        self.tidy()
        if not self._compared:
            self.compare_clocks()
        if self._clock.steady() - self._renewed > self.life / _RENEWALS:
            self.renew()
        else:
            self.move_on()

    def tidy(self) -> None:
        """Take back what nobody holds any more."""
        with self._lock:
            dead, self._dead = self._dead, []
            self._forget([gone for gone in dead if gone in self._names])

    def _died(self, identity: str) -> None:
        """Nobody holds a pin any more. May be called anywhere, in the middle of anything: another thread takes it back."""
        self._dead.append(identity)
        self._wake.set()

    def close(self) -> None:
        """Take back everything."""
        self._closed = True
        self._wake.set()
        with self._lock:
            self._base = None
            try:
                self._forget(list(self._names))
            except PhalanxError as error:
                log.info("pins are left to expire: %s", error)

    def _covering(self, position: int, *, whole: bool) -> Pin:
        base = self._require_base()
        if position >= base.position:
            return base
        if whole:
            return self._put(FROM, position)
        found = self._at.get(position)
        if found is None or self.lapsed(found):
            found = self._at[position] = self._put(AT, position)
        return found

    def _require_base(self) -> Pin:
        base = self._base
        if base is None or self.lapsed(base):
            base = self._base = self._put(FROM, self._end())
        return base

    def _move_on(self) -> None:
        """The newest pin of all that is to come; what is still read before it gets pins of its own."""
        base = self._base
        end = self._end()
        if base is None or base.position >= end or self.lapsed(base):
            return
        whole = [hold.position for hold in self._holds if hold.whole and hold.pin is base]
        to = min([end, *whole])
        for hold in list(self._holds):
            if hold.pin is base and hold.position < to and not hold.whole:
                found = self._at.get(hold.position)
                if found is None:
                    found = self._at[hold.position] = self._put(AT, hold.position)
                    found.checked = True
                hold.pin = found
        if to > base.position:
            moved = self._put(FROM, to)
            moved.checked = True  # it was covered until now
            for hold in list(self._holds):
                if hold.pin is base:
                    hold.pin = moved
            self._base = moved

    def _put(self, kind: str, position: int, identity: str | None = None, number: int = 0) -> Pin:
        """Put a pin, unless nothing can be written here: who may only read does without."""
        identity = identity or self._clock.token(ID_BYTES).hex()
        began = self._clock.steady()
        name: str | None = str(PinName(kind, position, identity, int(self.life), number))
        for again in range(_TRIES):
            try:
                with self._store.prepare([b""], lasting=False) as blob:
                    outcome = blob.put(str(name))
            except (UnavailableError, StateError) as error:  # nothing can be written here, or no more (rule H3)
                if kind == STAGING:
                    raise
                log.info("nothing can be pinned, what is read may be pruned meanwhile: %s", error)
                name = None
                break
            if isinstance(outcome, Created) or (again and self._there(str(name))):
                break
        else:
            raise UnavailableError("a pin could not be put: try again; nothing was changed")
        pin = Pin(kind, position, identity, began)
        if name is not None:
            self._names.setdefault(identity, []).append(name)
            self._alive[identity] = pin
            weakref.finalize(pin, _tell, weakref.ref(self), identity).atexit = False
            self._begin()
        return pin

    def _there(self, name: str) -> bool:
        return self._store.get(name, limit=1) is not None

    def _renew(self, pin: Pin) -> None:
        """Put it again under another name; the first one stays, what is between goes."""
        if self.lapsed(pin):
            return  # others may have acted on that: it cannot be brought back
        names = self._names[pin.id]
        parsed = layout.pin(names[-1])
        if parsed is None:
            return
        began = self._clock.steady()
        name = str(msgspec.structs.replace(parsed, number=parsed.number + 1))
        try:
            with self._store.prepare([b""], lasting=False) as blob:
                outcome = blob.put(name)
            if not isinstance(outcome, Created) and not self._there(name):
                return
            names.append(name)
            pin.renewed = began
            self._store.delete(names[1:-1])
            del names[1:-1]
        except (UnavailableError, StateError) as error:
            log.warning("a pin could not be renewed, it is tried again: %s", error)

    def _forget(self, gone: list[str]) -> None:
        self._store.delete([name for identity in gone for name in self._names[identity]])
        for identity in gone:
            del self._names[identity]

    def _begin(self) -> None:
        """Renew in the background, from the first pin on, until this handle is closed or nobody has it any more."""
        if self._thread is None:
            pause = min(_TICKS[self._store.probes], self.life / _RENEWALS)
            self._thread = threading.Thread(
                target=_renewing, args=(weakref.ref(self), self._wake, pause), name="phalanx-pins", daemon=True
            )
            if self._store.probes:  # asking costs nothing
                self.compare_clocks()
            self._thread.start()


def _take_back(store: Store, names: dict[str, list[str]], process: int) -> None:
    """Who forgot to close a handle, or ends, need not hold up others for the rest of a pin's life."""
    if os.getpid() == process and names:
        with contextlib.suppress(Exception):
            store.delete([name for some in names.values() for name in some])


def _tell(found: "weakref.ref[Pins]", identity: str) -> None:
    pins = found()
    if pins is not None:
        pins._died(identity)  # noqa: SLF001 - its own


def _renewing(found: "weakref.ref[Pins]", wake: threading.Event, pause: float) -> None:
    """Renew when it is time, and take back what nobody holds, until the handle is closed or nobody has it."""
    due = SYSTEM.steady() + min(pause, _FIRST)
    while True:
        told = wake.wait(max(0.0, due - SYSTEM.steady()))
        wake.clear()
        pins = found()
        if pins is None or pins._closed:  # noqa: SLF001 - its own
            return
        try:
            if told:
                pins.tidy()
            if SYSTEM.steady() >= due:  # however often it is told in between: who is busy must renew as well
                due = SYSTEM.steady() + pause
                pins.tick()
        except Exception as error:  # noqa: BLE001 - it is tried again, whatever it was
            log.warning("pins could not be renewed, it is tried again: %s", error)
        del pins
