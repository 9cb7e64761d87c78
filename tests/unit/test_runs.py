"""Row numbers as runs: short for what was written together, exact for everything."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.errors import CorruptionError
from phalanx.runs import NO_IDS, Ids, decode_ids, encode_ids, renumbered

LOW, HIGH = -(1 << 63), (1 << 63) - 1
SOME = st.integers(LOW, HIGH)


def ids(values: Any) -> Ids:
    return np.array(values, dtype=np.int64)


runs = st.lists(
    st.tuples(st.integers(-(1 << 40), 1 << 40), st.integers(-3, 3), st.integers(1, 20)).map(
        lambda run: [run[0] + run[1] * at for at in range(run[2])]
    ),
    max_size=6,
).map(lambda parts: [value for part in parts for value in part])


@given(st.lists(SOME) | runs)
@example([LOW, HIGH])
@example([HIGH, LOW, HIGH, LOW])
@example([0, HIGH, -2])
@example([LOW, 0, HIGH])
def test_any_numbers_come_back_in_their_order(values: list[int]) -> None:
    """Runs up and down, steps of any size, repetitions, extremes, or nothing in common."""
    found = decode_ids(encode_ids(ids(values)))
    assert found.tolist() == values
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    "values",
    [
        range(5, 1_000_005),
        range(1_000_000, 0, -1),
        range(-1, -1_000_001, -1),
        range(0, 3_000_000, 3),
        [7] * 100_000,
        [3],
        [],
    ],
    ids=str,
)
def test_what_was_written_together_takes_a_few_bytes(values: Any) -> None:
    """One run is three numbers, however long it is."""
    data = encode_ids(ids(values))
    assert len(data) <= 24
    assert np.array_equal(decode_ids(data), ids(values))


def test_numbers_without_any_order_cost_no_more_than_a_run_each() -> None:
    """Seed 5: two numbers always make a run, so there are never more runs than pairs."""
    values = np.random.default_rng(5).integers(LOW, HIGH, 10_001, dtype=np.int64)
    data = encode_ids(values)
    assert np.array_equal(decode_ids(data), values)
    assert len(msgspec.msgpack.decode(data)) <= 5_001


@given(st.lists(SOME, min_size=1))
def test_bytes_may_be_anywhere_in_memory(values: list[int]) -> None:
    """A payload of an entry that was just read is a view of it."""
    data = b"before" + encode_ids(ids(values))
    assert decode_ids(memoryview(data)[6:]).tolist() == values


def run_of(*numbers: object) -> bytes:
    return msgspec.msgpack.encode([numbers])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        encode_ids(ids([1, 2, 9]))[:-1],
        encode_ids(ids([1])) + b"\x00",
        msgspec.msgpack.encode([1, 2, 3]),
        msgspec.msgpack.encode({"first": 1}),
        run_of(1, 2),
        run_of(1, 1, 1, 1),
        run_of("1", 1, 1),
        run_of(1.5, 1, 1),
        run_of(1 << 63, 1, 1),
        run_of(1, 1 << 63, 1),
        run_of(1, 1, 1 << 63),
        run_of(1, 1, (1 << 62)),
        run_of(1, 1, -1),
    ],
    ids=repr,
)
def test_damaged_numbers_are_an_error_that_says_what_to_run(data: bytes) -> None:
    """They are never taken for other numbers."""
    with pytest.raises(CorruptionError, match="run `phalanx check`"):
        decode_ids(data)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_numbers_or_damage(data: bytes) -> None:
    """Garbage gives a typed error and nothing else."""
    try:
        decode_ids(data)
    except CorruptionError:
        return


small = st.integers(-20, 20)


@given(st.lists(small), st.lists(small, unique=True), st.integers(100, 200))
def test_rows_are_followed_to_their_new_numbers(named: list[int], before: list[int], first: int) -> None:
    """D2: the n-th of those that were renumbered is now called first + n; all others keep their numbers."""
    new = {old: first + at for at, old in enumerate(before)}
    found = renumbered(ids(named), ids(before), first)
    assert found.tolist() == [new.get(value, value) for value in named]


@given(st.lists(small, min_size=1))
def test_nothing_is_renumbered_by_nothing(named: list[int]) -> None:
    """A flush that moved no row changes no name."""
    assert renumbered(ids(named), NO_IDS, 7).tolist() == named
    assert renumbered(NO_IDS, ids(named), 7).tolist() == []
