"""Transactions that look before they land, in one batch with others: each one's trouble is its own."""

from pathlib import Path

import pytest

import phalanx
from phalanx.catalog import State
from phalanx.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PhalanxError,
    SnapshotExpiredError,
    UnavailableError,
)
from phalanx.lake import Lake
from phalanx.log.action import Progress
from phalanx.objects.memory import MemoryStore
from phalanx.testing import ManualClock
from phalanx.txn.core import find
from phalanx.txn.intent import Intent, Read, Rebased
from phalanx.txn.transaction import Work
from phalanx.txn.verdict import Conflict, Kind
from tests.lakes import handle


class Looking:
    """A guard with a fixed answer, or with an error."""

    def __init__(self, answer: Conflict | Rebased | PhalanxError | None) -> None:
        self._answer = answer

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        if isinstance(self._answer, PhalanxError):
            raise self._answer
        return self._answer


class Wary:
    """A guard that minds neighbours: it objects if anything is on its way before it."""

    def check(self, state: State, position: int, read: Read) -> Conflict | Rebased | None:
        return Conflict(Kind.CHANGED, "somebody came first") if "first" in state.progress else None


def intent(lake: Lake, name: str, guard: Looking | Wary | None = None) -> Intent:
    return lake._core.intent([Progress(name, None, 1)], lake._core.deadline(10), note=name, guard=guard)


def answers(intents: list[Intent]) -> list[int | type[PhalanxError]]:
    found: list[int | type[PhalanxError]] = []
    for one in intents:
        try:
            found.append(one.ack.result())
        except PhalanxError as error:
            found.append(type(error))
    return found


@pytest.mark.parametrize("error", [SnapshotExpiredError, UnavailableError, InvalidInputError])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_transaction_that_cannot_look_fails_alone(error: type[PhalanxError], place: int) -> None:
    """Those beside it in the batch land, before it and after it, in one entry."""
    lake = handle(MemoryStore(), ManualClock())
    batch = [intent(lake, "a"), intent(lake, "b")]
    batch.insert(place, intent(lake, "blind", Looking(error("cannot be read"))))
    lake._committer._commit(batch)
    assert answers(batch) == [error if at == place else 2 for at in range(3)]
    assert set(lake.refresh().state.progress) == {"a", "b"}


def test_a_transaction_that_may_have_landed_is_unknown_if_it_cannot_look() -> None:
    """It is not said to be absent because something cannot be read now (rule A5)."""
    lake = handle(MemoryStore(), ManualClock())
    blind = intent(lake, "blind", Looking(UnavailableError("cannot be read")))
    blind.unsure_at = 1
    lake._committer._commit([blind])
    assert answers([blind]) == [CommitUnknownError]


def test_a_transaction_whose_guard_minds_a_neighbour_is_judged_again_when_that_is_settled() -> None:
    """It is refused only by what stands in the log; alone, or before it, it would have landed."""
    lake = handle(MemoryStore(), ManualClock())
    batch = [intent(lake, "first"), intent(lake, "second", Wary()), intent(lake, "third")]
    lake._committer._commit(batch)
    assert [type(one) is int or one.__name__ for one in answers(batch)] == [True, "ConflictError", True]
    assert lake.version == 2
    calm = handle(MemoryStore(), ManualClock())
    batch = [intent(calm, "second", Wary()), intent(calm, "first")]
    calm._committer._commit(batch)
    assert answers(batch) == [2, 2]


def test_what_stands_in_its_way_for_good_is_found_again_beside_others(tmp_path: Path) -> None:
    """A change that is flushed, then one of the same row, then more: judged beside a neighbour it is judged twice, with one answer."""
    with (
        phalanx.open(tmp_path / "lake", create=True, durability="os") as lake,
        phalanx.open(tmp_path / "lake") as other,
    ):
        lake.set_property("flush.background", "off")
        lake.create_table("t", {"id": [1, 2], "v": [0, 0]}, key="id")
        lake["t"].upsert([{"id": 2, "v": 1}])
        work = Work(lake._core, 10.0, "")
        work.draft_of(find(work.view, "t")).update({"v": "v + 1"}, "id = 1")
        other["t"].upsert([{"id": 3, "v": 1}])
        other.flush("t")
        for number in (1, 2, 3):
            other["t"].upsert([{"id": number, "v": 5}])
        lake.refresh()
        kept: list[Intent] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lake._committer, "commit", lambda one: kept.append(one) or 0)
            work.commit()
        neighbour = lake._core.intent([Progress("n", None, 1)], lake._core.deadline(10))
        lake._committer._commit([neighbour, *kept])
        assert answers([neighbour, *kept]) == [lake.version, ConflictError]
        assert lake["t"].get(1) == {"id": 1, "v": 5}
