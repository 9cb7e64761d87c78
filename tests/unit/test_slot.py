"""The outcome of a put is settled by reading the slot, never by the error (rules B1, B2, I4)."""

import pytest

from phalanx.clock import Deadline
from phalanx.errors import UnavailableError
from phalanx.log import slot
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Fault, FaultyStore, ManualClock, nth

OURS, THEIRS = b"our bytes", b"their bytes"


def put(store: FaultyStore, clock: ManualClock, seconds: float = 5.0) -> slot.Outcome:
    with store.prepare([OURS]) as blob:
        return slot.put(store, blob, "log/1", OURS, Deadline.after(clock, seconds), clock)


def faulty(fault: Fault | None, number: int = 1, call: str = "put") -> tuple[FaultyStore, ManualClock]:
    clock = ManualClock()
    plan = nth(call, number, fault) if fault else lambda *_: None
    return FaultyStore(MemoryStore(clock=clock), plan), clock


def occupy(store: FaultyStore) -> None:
    with store.inner.prepare([THEIRS]) as blob:
        blob.put("log/1")


@pytest.mark.parametrize("fault", [None, Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.FALSE_EXISTS, Fault.OWN_EXISTS])
def test_a_free_slot_is_won_whatever_the_first_answer_was(fault: Fault | None) -> None:
    """Ours if the effect happened, put again if it did not."""
    store, clock = faulty(fault)
    assert isinstance(put(store, clock), slot.Won)
    assert store.inner.get("log/1", limit=99) == OURS
    assert len(store.struck) == (fault is not None)


@pytest.mark.parametrize("fault", [None, Fault.ERROR_BEFORE, Fault.LATE, Fault.FALSE_EXISTS])
def test_a_taken_slot_is_lost_whatever_the_first_answer_was(fault: Fault | None) -> None:
    """Another's bytes in the slot: lost, and they are not changed."""
    store, clock = faulty(fault)
    occupy(store)
    outcome = put(store, clock)
    assert isinstance(outcome, slot.Taken)
    assert outcome.data == THEIRS
    store.land_late_puts()
    assert store.inner.get("log/1", limit=99) == THEIRS


def test_a_loss_with_no_doubt_says_so() -> None:
    """An "exists" on the first try means that our bytes never were there; after an unknown answer they might have been."""
    store, clock = faulty(None)
    occupy(store)
    outcome = put(store, clock)
    assert isinstance(outcome, slot.Taken)
    assert not outcome.doubt
    store, clock = faulty(Fault.ERROR_BEFORE)
    occupy(store)
    outcome = put(store, clock)
    assert isinstance(outcome, slot.Taken)
    assert outcome.doubt


def test_a_late_put_is_put_again_and_counts_once() -> None:
    """The same bytes at the same name: whichever arrives first, the slot holds them once."""
    store, clock = faulty(Fault.LATE)
    assert isinstance(put(store, clock), slot.Won)
    assert store.land_late_puts() == 1
    assert store.inner.get("log/1", limit=99) == OURS


def test_an_outcome_that_cannot_be_settled_is_unknown_at_the_deadline() -> None:
    """While storage answers nothing, nobody moves on; then it is unsettled, with the cause."""
    clock = ManualClock()
    store = FaultyStore(MemoryStore(clock=clock), lambda *_: Fault.ERROR_BEFORE)
    before = clock.steady()
    outcome = put(store, clock, seconds=5.0)
    assert isinstance(outcome, slot.Unsettled)
    assert "injected" in outcome.cause
    assert 3 < clock.steady() - before <= 5


def test_an_unreadable_slot_is_neither_ours_nor_lost() -> None:
    """The answer was lost, and the slot cannot be read for a while: it is settled when it can."""
    clock = ManualClock()
    first = nth("put", 1, Fault.ERROR_AFTER)
    reads = iter([Fault.UNREADABLE, Fault.UNREADABLE])
    store = FaultyStore(
        MemoryStore(clock=clock), lambda call, name: first(call, name) or (next(reads, None) if call == "get" else None)
    )
    assert isinstance(put(store, clock), slot.Won)


def test_a_certain_refusal_is_an_error_and_not_an_unknown_outcome() -> None:
    """Permission denied, disk full: known not to be committed."""
    store, clock = faulty(Fault.REFUSED)
    with pytest.raises(UnavailableError):
        put(store, clock)


def test_a_refusal_after_an_unknown_answer_stays_unknown() -> None:
    """The first put may still land, so the refusal of the second proves nothing."""
    clock = ManualClock()
    faults = iter([Fault.LATE])
    store = FaultyStore(
        MemoryStore(clock=clock), lambda call, _: next(faults, Fault.REFUSED) if call == "put" else None
    )
    assert isinstance(put(store, clock, seconds=2.0), slot.Unsettled)


def test_a_short_read_of_our_own_entry_is_not_taken_for_a_win() -> None:
    """What was read is compared as a whole: half of our bytes are not ours, and stay in doubt."""
    clock = ManualClock()
    faults = iter([Fault.ERROR_AFTER])
    store = FaultyStore(MemoryStore(clock=clock), lambda call, _: next(faults, None) if call == "put" else Fault.SHORT)
    outcome = put(store, clock)
    assert isinstance(outcome, slot.Taken)
    assert outcome.doubt
