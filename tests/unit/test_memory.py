"""The rows of a tail in memory: an immutable value that behaves like a dictionary by key, or like a list without one."""

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from phalanx.runs import NO_IDS
from phalanx.tail import memory
from phalanx.tail.keys import key_values
from phalanx.tail.memory import Memory, empty

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
KEYS: list[tuple[str, ...]] = [(), ("id",), ("id", "part")]
Row = dict[str, Any]


def rows(*held: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in held], SCHEMA)


def numbered(first: int, count: int, step: int = -1) -> Any:
    return first + step * np.arange(count, dtype=np.int64)


def content(held: Memory) -> list[tuple[int, Row]]:
    """The living rows with their identities, in order."""
    return list(zip(held.living_identities().tolist(), held.living().to_pylist(), strict=True))


def check(held: Memory, key: Sequence[str]) -> None:
    """What is always true: one place for every living key, and no other."""
    assert len(held.identities) == len(held.alive) == held.rows.num_rows
    assert held.count() == held.living().num_rows == len(held.living_identities())
    assert held.rows.schema == SCHEMA
    if not key:
        assert held.places is None
        return
    values = key_values(held.rows, key)
    wanted = {value: at for at, value in enumerate(values) if held.alive[at]}
    assert held.places is not None
    assert held.places._flat() == wanted
    assert len(wanted) == held.count()


class MemoryAndDictionary(RuleBasedStateMachine):
    """Random changes of rows in memory, next to the same on a dictionary (a list of pairs without a key)."""

    def __init__(self) -> None:
        super().__init__()
        self.key: tuple[str, ...] = ()
        self.held = empty(SCHEMA, ())
        self.model: list[tuple[int, Row]] = []
        self.old: list[tuple[Memory, list[tuple[int, Row]]]] = []
        self.next = -1

    @initialize(key=st.sampled_from(KEYS))
    def begin(self, key: tuple[str, ...]) -> None:
        """A table with such a key."""
        self.key = key
        self.held = empty(SCHEMA, key)

    def _keys(self, table: pa.Table) -> list[Hashable]:
        return key_values(table, self.key) if self.key else []

    def _of(self, row: Row) -> Hashable:
        values = tuple(row[name] for name in self.key)
        return values[0] if len(values) == 1 else values

    def _take(self, after: Memory) -> None:
        self.old.append((self.held, copy.deepcopy(self.model)))
        self.held = after

    def _without(self, values: Sequence[Hashable]) -> list[tuple[int, Row]]:
        return [(at, row) for at, row in self.model if self._of(row) not in values]

    @rule(count=st.integers(0, 30), first=st.integers(0, 40), v=st.integers())
    def put(self, count: int, first: int, v: int) -> None:
        """Rows are added; on a keyed table those of the same keys go first."""
        new = rows(*((first + at, "ab"[at % 2], (v + at) % 1000) for at in range(count)))
        identities = numbered(self.next, count)
        self.next -= count
        held, model = self.held, self.model
        if self.key:
            held = held.kill_keys(self._keys(new), self.key)
            model = self._without(self._keys(new))
        self._take(held.add(new, identities, self.key))
        self.model = [*model, *zip(identities.tolist(), new.to_pylist(), strict=True)]

    @rule(places=st.sets(st.integers(0, 60), max_size=30))
    def kill(self, places: set[int]) -> None:
        """Rows go by a mask, which may hit the dead too."""
        mask = np.array([at in places for at in range(self.held.rows.num_rows)], dtype=np.bool_)
        gone = set(self.held.identities[mask].tolist())
        self._take(self.held.kill(mask, self.key))
        self.model = [(at, row) for at, row in self.model if at not in gone]

    @rule(values=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc")), max_size=20))
    def kill_keys(self, values: list[tuple[int, str]]) -> None:
        """Rows go by their keys, given twice or absent as they may be; a table without a key has none."""
        asked: list[Hashable] = [one[0] for one in values] if len(self.key) == 1 else list(values)
        self._take(self.held.kill_keys(asked, self.key))
        if self.key:
            self.model = self._without(asked)

    @rule()
    def kill_all(self) -> None:
        """Nothing is left."""
        self._take(self.held.kill(np.ones(self.held.rows.num_rows, dtype=np.bool_), self.key))
        self.model = []

    @invariant()
    def both_hold_the_same(self) -> None:
        """The same rows under the same identities, in the same order."""
        assert content(self.held) == self.model
        check(self.held, self.key)

    def teardown(self) -> None:
        """Whoever holds an earlier one still sees what it was."""
        for held, model in self.old[-8:]:
            assert content(held) == model
            check(held, self.key)


MemoryAndDictionary.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class TestMemoryAndDictionary(MemoryAndDictionary.TestCase):  # type: ignore[misc, valid-type]
    """With the slack it has."""


class TestTidyMemoryAndDictionary(MemoryAndDictionary.TestCase):  # type: ignore[misc, valid-type]
    """With no slack and few chunks, so that it is tidied all the time."""

    def setUp(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(memory, "_SLACK", 0)
        self.patch.setattr(memory, "_MOST_CHUNKS", 2)

    def tearDown(self) -> None:
        self.patch.undo()


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_nothing_changes_where_there_is_nothing_to_do(key: tuple[str, ...]) -> None:
    """The same value comes back, so that whoever compares sees no change."""
    held = empty(SCHEMA, key).add(rows((1, "a", 1), (2, "a", 2)), numbered(-1, 2), key)
    assert held.add(rows(), NO_IDS, key) is held
    assert held.kill(np.zeros(2, dtype=np.bool_), key) is held
    assert held.kill_keys([9, (9, "a")], key) is held
    once = held.kill(np.array([True, False]), key)
    assert once.kill(np.array([True, False]), key) is once


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_dead_never_outnumber_the_living_for_long(key: tuple[str, ...]) -> None:
    """A row that is updated a thousand times takes the place of a few hundred rows at most."""
    held = empty(SCHEMA, key)
    for turn in range(1000):
        held = held.kill(np.ones(held.rows.num_rows, dtype=np.bool_), key)
        held = held.add(rows((1, "a", turn)), numbered(5, 1), key)
        assert held.rows.num_rows <= 2 * held.count() + memory._SLACK + 1
        assert held.rows.column(0).num_chunks <= memory._MOST_CHUNKS
    assert content(held) == [(5, {"id": 1, "part": "a", "v": 999})]
    check(held, key)


def test_a_row_keeps_its_identity_when_the_dead_are_dropped() -> None:
    """D2: identities are numbers of rows, not places in memory."""
    count = 4 * memory._SLACK
    identities = np.random.default_rng(3).permutation(count).astype(np.int64)
    held = empty(SCHEMA, ("id",)).add(rows(*((n, "a", n) for n in range(count))), identities, ("id",))
    alive = np.arange(count) % 10 == 0
    after = held.kill(~alive, ("id",))
    assert after.rows.num_rows == after.count() == int(alive.sum())
    assert after.living_identities().tolist() == identities[alive].tolist()
    assert after.living().column("id").to_pylist() == list(range(0, count, 10))
    check(after, ("id",))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=10))
def test_a_key_that_is_killed_twice_is_dead_once(values: list[int]) -> None:
    """Repeated keys in one call, and calls one after the other."""
    held = empty(SCHEMA, ("id",)).add(rows(*((n, "a", n) for n in range(4))), numbered(-1, 4), ("id",))
    after = held.kill_keys([*values, *values], ("id",)).kill_keys(values, ("id",))
    assert after.living().column("id").to_pylist() == [n for n in range(4) if n not in values]
    check(after, ("id",))
