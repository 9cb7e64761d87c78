"""A store that fails the way real ones do.

A plan is asked before each call and answers with a fault or None. Faults of a put differ in whether the effect happens
(before, after, later, never) and in what the caller is told; faults of reads in what is shown. Every random plan is
made from a seed, and says which.
"""

import random
import threading
from collections.abc import Callable, Sequence
from enum import Enum

from phalanx.errors import UnavailableError
from phalanx.objects import Blob, Exists, Put, Store, Unknown
from phalanx.testing.wrapping import Listing, WrappedStore


class Fault(Enum):
    """What goes wrong."""

    ERROR_BEFORE = "put: an error, and no effect (connection reset, 503, time-out on the way in)"
    ERROR_AFTER = "put: the effect, and an error (the answer was lost, 503 or time-out on the way out)"
    LATE = "put: an error now, the effect later (the request was still under way)"
    FALSE_EXISTS = "put: 'exists', and no effect (a 409 or 412 from a race inside the store)"
    OWN_EXISTS = "put: the effect, and 'exists' (the client repeated it after a lost answer)"
    REFUSED = "put: certainly no effect (permission denied, disk full)"
    UNREADABLE = "get, list: an error"
    SHORT = "get: only the first half of the bytes"
    STALE = "list: the newest object is missing"
    DOUBLE = "list: every object twice"
    EMPTY = "list: nothing"


PUT_FAULTS = (Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.LATE, Fault.FALSE_EXISTS, Fault.OWN_EXISTS)
Plan = Callable[[str, str], Fault | None]
"""(call, name) -> fault; calls are "put", "get", "list" and "delete"."""


def nth(call: str, number: int, fault: Fault, within: str = "") -> Plan:
    """Only the n-th call of this kind fails, counted from 1; `within` restricts it to names that contain it."""
    seen = 0

    def plan(kind: str, name: str) -> Fault | None:
        nonlocal seen
        if kind != call or within not in name:
            return None
        seen += 1
        return fault if seen == number else None

    return plan


def randomly(seed: int, probability: float, faults: Sequence[Fault] = PUT_FAULTS, call: str = "put") -> Plan:
    """Each call of this kind fails with this probability."""
    chance = random.Random(seed)
    lock = threading.Lock()

    def plan(kind: str, name: str) -> Fault | None:
        del name
        if kind != call:
            return None
        with lock:
            return chance.choice(list(faults)) if chance.random() < probability else None

    return plan


class FaultyStore(WrappedStore):
    """Asks its plan, then does what the fault says."""

    def __init__(self, inner: Store, plan: Plan, *, remote: bool = False) -> None:
        super().__init__(inner)
        self.probes = inner.probes and not remote
        self.plan = plan
        self.struck: list[tuple[Fault, str]] = []
        self._late: list[tuple[str, bytes]] = []

    def land_late_puts(self) -> int:
        """Let every delayed put take effect now, as far as its name is still free."""
        late, self._late = self._late, []
        for name, data in late:
            with self.inner.prepare([data]) as blob:
                blob.put(name)
        return len(late)

    def _fault(self, call: str, name: str) -> Fault | None:
        fault = self.plan(call, name)
        if fault is not None:
            self.struck.append((fault, name))
        return fault

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        fault = self._fault("put", name)
        if fault in {Fault.ERROR_AFTER, Fault.OWN_EXISTS}:
            super()._create(blob, name, data)
        if fault is Fault.LATE:
            self._late.append((name, data))
        if fault is Fault.REFUSED:
            raise UnavailableError(f"cannot create {name}: injected; nothing was committed")
        if fault in {Fault.FALSE_EXISTS, Fault.OWN_EXISTS}:
            return Exists()
        if fault is not None:
            return Unknown(f"injected: {fault.value}")
        return super()._create(blob, name, data)

    def _get(self, name: str, limit: int) -> bytes | None:
        fault = self._fault("get", name)
        if fault is Fault.UNREADABLE:
            raise UnavailableError(f"cannot read {name}: injected")
        data = super()._get(name, limit)
        return data[: len(data) // 2] if data is not None and fault is Fault.SHORT else data

    def _list(self, prefix: str, after: str, before: str) -> Listing:
        fault = self._fault("list", prefix)
        if fault is Fault.UNREADABLE:
            raise UnavailableError(f"cannot list {prefix}: injected")
        found = super()._list(prefix, after, before)
        shown = {Fault.STALE: found[:-1], Fault.DOUBLE: [one for one in found for _ in (1, 2)], Fault.EMPTY: []}
        return found if fault is None else shown.get(fault, found)

    def _delete(self, name: str) -> None:
        if self._fault("delete", name) is not None:
            raise UnavailableError(f"cannot delete {name}: injected")
        super()._delete(name)
