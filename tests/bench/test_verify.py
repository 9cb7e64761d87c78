"""The verdict on a table finds every kind of damage: it is what every figure of suite `mixed` stands on."""

import pyarrow as pa
import pytest

from bench.mixed.verify import Verdict, verify
from bench.mixed.work import APPENDED, ROWS, Operation, Outcome, operations

ROWS_BEFORE = 40
DONE = [
    Outcome(Operation("append", APPENDED), 1, 0.0, 0.0),
    Outcome(Operation("delete", 3), 1, 0.0, 0.0),
    Outcome(Operation("update", 5), 1, 0.0, 0.0),
    Outcome(Operation("update", 5), 2, 0.0, 0.0),
]


def _right() -> dict[int, int]:
    """The table after that: id to `v`."""
    values = dict.fromkeys(range(ROWS_BEFORE), 0) | dict.fromkeys(range(APPENDED, APPENDED + ROWS), 0)
    del values[3]
    return values | {5: 2}


def _table(values: dict[int, int], *more: tuple[int, int]) -> pa.Table:
    rows = [*values.items(), *more]
    return pa.table({"id": [one for one, _ in rows], "v": [v for _, v in rows]})


def test_what_was_acknowledged_is_right() -> None:
    assert verify(_table(_right()), ROWS_BEFORE, DONE) == Verdict(0, 0)


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (_table({one: v for one, v in _right().items() if one != APPENDED + 1}), Verdict(lost=1)),
        (_table({one: v for one, v in _right().items() if one != 17}), Verdict(lost=1)),
        (_table(_right() | {3: 0}), Verdict(lost=1)),
        (_table(_right() | {5: 1}), Verdict(lost=1)),
        (_table(_right() | {5: 3}), Verdict(doubled=1)),
        (_table(_right(), (APPENDED, 0)), Verdict(doubled=1)),
        (_table(_right(), (4 * APPENDED, 0)), Verdict(doubled=1)),
    ],
    ids=["append lost", "row gone", "delete lost", "update lost", "update twice", "append twice", "row of nobody"],
)
def test_damage_is_found(table: pa.Table, verdict: Verdict) -> None:
    assert verify(table, ROWS_BEFORE, DONE) == verdict


def test_what_failed_may_have_happened_once() -> None:
    failed = [
        Outcome(Operation("append", 2 * APPENDED), 1, 0.0, 0.0, "error"),
        Outcome(Operation("delete", 7), 1, 0.0, 0.0, "error"),
        Outcome(Operation("update", 9), 1, 0.0, 0.0, "error"),
    ]
    happened = {one: v for one, v in _right().items() if one != 7} | {9: 1}
    happened |= dict.fromkeys(range(2 * APPENDED, 2 * APPENDED + ROWS), 0)
    for values in (_right(), happened):
        assert verify(_table(values), ROWS_BEFORE, DONE + failed).wrong == 0
    assert verify(_table(happened, (2 * APPENDED, 0)), ROWS_BEFORE, DONE + failed) == Verdict(doubled=1)


def test_no_two_processes_touch_the_same_row() -> None:
    work = operations(["append", "delete", "update"] * 4, 5, 1000)
    numbers = [{operation.number for operation in one} for one in work]
    assert sum(map(len, numbers)) == len(set().union(*numbers))
    assert [len(one) for one in work] == [5] * 12
