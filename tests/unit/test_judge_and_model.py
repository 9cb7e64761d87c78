"""The judge and the fold, next to a lake made of plain dictionaries."""

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from phalanx.catalog import Catalog, State
from phalanx.contents import Contents
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.txn.conflict import Conflict, Go, judge

A, B = "a" * 32, "b" * 32
Name = tuple[str, ...]

PARTS = st.lists(st.sampled_from("xy"), min_size=1, max_size=2).map(tuple)
IDS, FEW = st.sampled_from([A, B]), st.integers(0, 2)
PAYLOADS = (b"rows", b"more")
ROWS = st.builds(it.Inline, st.integers(0, 1), FEW) | st.builds(
    it.Staged, st.integers(3, 5), FEW, FEW, FEW, FEW, st.just(0), FEW, FEW, st.booleans(), st.none() | st.just(1)
)
ACTIONS: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(do.CreateNamespace, PARTS, st.just({})),
    st.builds(do.AlterNamespace, PARTS, st.dictionaries(st.just("k"), st.none() | st.just("v"))),
    st.builds(do.DropNamespace, PARTS),
    st.builds(do.CreateTable, PARTS, IDS, st.just({})),
    st.builds(do.DropTable, PARTS, IDS),
    st.builds(do.RenameTable, PARTS, IDS, PARTS),
    st.builds(do.PutTag, st.sampled_from("ab"), FEW, st.booleans()),
    st.builds(do.Untag, st.sampled_from("ab")),
    st.builds(do.SetProperty, st.just("k"), st.none() | st.just("v")),
    st.builds(do.Progress, st.sampled_from("fg"), st.none() | FEW, FEW),
)
ITEMS: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(it.Put, IDS, ROWS),
    st.builds(it.Upsert, IDS, ROWS, st.none() | st.just(1)),
    st.builds(it.Overwrite, IDS, ROWS),
    st.builds(it.DeleteKeys, IDS, st.just(0), FEW),
    st.builds(it.DeleteRows, IDS, st.just(0), FEW),
    st.builds(it.DeleteWhere, IDS, st.just("true")),
    st.builds(it.UpdateWhere, IDS, st.just((("a", "1"),)), st.none() | st.just("b")),
    st.builds(it.Flush, IDS, st.just(0), st.integers(0, 8), FEW, st.integers(1, 3), st.integers(6, 8), FEW, FEW),
    st.builds(it.Rewrite, IDS, st.just(0), st.integers(0, 8), st.integers(6, 8), st.just((0,)), FEW),
    st.builds(it.Cover, IDS, st.just(0), st.integers(0, 8), st.integers(6, 8), st.just(("i",))),
    st.builds(it.DeclareIndex, IDS, st.sampled_from("ij"), st.just("c"), st.just("btree"), st.just({})),
    st.builds(it.DropIndex, IDS, st.sampled_from("ij")),
)

OFF = st.sampled_from([(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
"""Mostly nothing is wrong with a flush; or its head, its first item or its last."""


class RefusalError(Exception):
    """The model's objection: the name of a kind."""


class Held:
    """What a table holds: the weights (rows, predicates) of its items, of which the first `flushed` are in the head."""

    def __init__(self, position: int) -> None:
        self.version, self.head, self.flushed, self.moved, self.changed = 1, 0, 0, 0, position
        self.items: list[tuple[int, int]] = []
        self.serial = 0
        self.indexes: list[str] = []

    def land(self, position: int, rows: object, weight: tuple[int, int]) -> None:
        """One more item."""
        unmoved = isinstance(rows, it.Staged) and rows.whole and rows.base == self.moved
        self.version += self.changed != position
        self.changed = self.moved = position
        if isinstance(rows, it.Staged) and unmoved and self.flushed == len(self.items):
            self.head = rows.manifest
        else:
            self.serial += getattr(rows, "count", 0)
            self.items.append(weight)

    def all(self) -> tuple[object, ...]:
        """Everything that the fold says of it too."""
        rows, predicates = (sum(part) for part in zip((0, 0), *self.items[self.flushed :], strict=True))
        numbers = self.version, self.head, self.flushed, len(self.items), self.serial, self.moved, rows, predicates
        return (*numbers, *self.indexes)


class Model:
    """A lake as plain dictionaries; `run` does an action, or refuses it."""

    def __init__(self) -> None:
        self.spaces: dict[Name, dict[str, str]] = {}
        self.tables: dict[Name, str] = {}
        self.held: dict[str, Held] = {}
        self.tags: dict[str, int] = {}
        self.properties: dict[str, str] = {}
        self.progress: dict[str, int] = {}
        self.position = 0

    def run(self, action: Any) -> None:
        """Do an action, by the name it has in the log."""
        do_it = getattr(self, f"_{action.__struct_config__.tag}")
        do_it(*(getattr(action, field) for field in action.__struct_fields__))

    def _need(self, condition: object, otherwise: str) -> None:
        if not condition:
            raise RefusalError(otherwise)

    def _free(self, name: Name) -> None:
        self._need(name not in self.tables and name not in self.spaces, "EXISTS")
        self._need(len(name) == 1 or name[:-1] in self.spaces, "MISSING")

    def _set(self, held: dict[str, str], key: str, value: str | None) -> None:
        held.pop(key, None)
        if value is not None:
            held[key] = value

    def _create_namespace(self, name: Name, properties: dict[str, str]) -> None:
        self._free(name)
        self.spaces[name] = dict(properties)

    def _alter_namespace(self, name: Name, properties: dict[str, str | None]) -> None:
        self._need(name in self.spaces, "MISSING")
        for key, value in properties.items():
            self._set(self.spaces[name], key, value)

    def _drop_namespace(self, name: Name) -> None:
        self._need(name in self.spaces, "MISSING")
        self._need(not any(other[:-1] == name for other in (*self.spaces, *self.tables)), "NOT_EMPTY")
        del self.spaces[name]

    def _create_table(self, name: Name, table: str, *_: object) -> None:
        self._free(name)
        self._need(table not in self.held, "EXISTS")
        self.tables[name] = table
        self.held[table] = Held(self.position)

    def _drop_table(self, name: Name, table: str) -> None:
        self._need(name in self.tables, "MISSING")
        self._need(self.tables[name] == table, "CHANGED")
        del self.tables[name]
        del self.held[table]

    def _rename_table(self, name: Name, table: str, to: Name) -> None:
        self._need(name in self.tables, "MISSING")
        self._need(self.tables[name] == table, "CHANGED")
        self._free(to)
        self.tables[to] = self.tables.pop(name)

    def _tag(self, name: str, position: int, move: bool) -> None:
        self._need(position <= self.position, "MISSING")
        self._need(move or self.tags.get(name, position) == position, "EXISTS")
        self.tags[name] = position

    def _untag(self, name: str) -> None:
        self._need(name in self.tags, "MISSING")
        del self.tags[name]

    def _property(self, key: str, value: str | None) -> None:
        self._set(self.properties, key, value)

    def _progress(self, source: str, expected: int | None, new: int) -> None:
        held = self.progress.get(source)
        self._need(held == expected, "BEHIND")
        self.progress[source] = new

    def _land(self, table: str, rows: object, weight: tuple[int, int]) -> None:
        self._need(table in self.held, "MISSING")
        self.held[table].land(self.position, rows, weight)

    def _put(self, table: str, rows: it.Rows, *_: object) -> None:
        self._land(table, rows, (rows.count, 0) if isinstance(rows, it.Inline) else (0, 1))

    def _delete_keys(self, table: str, _: int, count: int) -> None:
        self._land(table, None, (count, 0))

    def _delete_where(self, table: str, *_: object) -> None:
        self._land(table, None, (0, 1))

    _upsert = _overwrite = _put
    _delete_rows = _delete_keys
    _update_where = _delete_where

    def _flush(self, table: str, _: int, base: int, first: int, until: int, head: int, *__: object) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        self._need((base, first) == (held.head, held.flushed) and first < until <= len(held.items), "VOID")
        held.head, held.flushed, held.moved = head, until, self.position

    def _rewrite(self, table: str, _: int, base: int, head: int, *__: object) -> None:
        self._need(table in self.held, "MISSING")
        self._need(base == self.held[table].head, "VOID")
        self.held[table].head, self.held[table].moved = head, self.position

    _cover = _rewrite

    def _declare_index(self, table: str, name: str, *_: object) -> None:
        self._need(table in self.held, "MISSING")
        self._need(name not in self.held[table].indexes, "EXISTS")
        self.held[table].indexes.append(name)

    def _drop_index(self, table: str, name: str) -> None:
        self._need(table in self.held and name in self.held[table].indexes, "MISSING")
        self.held[table].indexes.remove(name)


def found(held: Contents) -> tuple[object, ...]:
    """What the fold says of a table."""
    assert [pending.seq for pending in held.pending()] == list(range(held.first, held.until)) == sorted(held.items)
    weight = held.weight.rows, held.weight.predicates
    wanted = (index.name for index in held.indexes)
    return held.version, held.head.manifest, held.first, held.until, held.serial, held.moved, *weight, *wanted


class JudgeAndFold(RuleBasedStateMachine):
    """Random transactions, judged and folded, next to the same on plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.model, self.position = State(), Model(), 0

    def _expected(self, actions: Sequence[do.Action]) -> tuple[str, Model]:
        wanted = {action.source: action.new for action in actions if isinstance(action, do.Progress)}
        if wanted and all(self.model.progress.get(source) == new for source, new in wanted.items()):
            return "ALREADY", self.model
        if (
            len(actions) == 1
            and isinstance(tag := actions[0], do.PutTag)
            and self.model.tags.get(tag.name) == tag.position <= self.position
        ):
            return "ALREADY", self.model
        after = copy.deepcopy(self.model)
        after.position = self.position
        try:
            for action in actions:
                after.run(action)
        except RefusalError as refusal:
            return str(refusal), self.model
        return "GO", after

    @rule(actions=st.lists(ACTIONS | ITEMS, max_size=4))
    def commit(self, actions: list[do.Action]) -> None:
        """Both give the same answer, the judge changes nothing, and asked again it says the same."""
        self.position += 1
        wanted, self.model = self._expected(actions)
        before, bytes_before = self.state, Catalog().dump(self.state)
        transaction = Transaction(self.position.to_bytes(16, "big"), "", tuple(actions))
        landing = Landing(self.position, 0, PAYLOADS)
        verdict, self.state = judge(transaction, before, landing)
        assert (verdict.kind.name if isinstance(verdict, Conflict) else type(verdict).__name__.upper()) == wanted
        assert Catalog().dump(before) == bytes_before
        assert judge(transaction, before, landing) == (verdict, self.state)
        if not isinstance(verdict, Go):
            assert self.state is before

    @rule(actions=st.lists(ITEMS, min_size=1, max_size=2))
    def change(self, actions: list[do.Action]) -> None:
        """Mostly work on tables."""
        self.commit(actions)

    @rule(actions=st.lists(ITEMS, max_size=1), table=IDS, name=st.sampled_from("xy"))
    def create(self, actions: list[do.Action], table: str, name: str) -> None:
        """A table, with its first rows perhaps."""
        self.commit([do.CreateTable((name,), table, {}), *actions])

    @rule(rows=ROWS, table=IDS)
    def stage(self, rows: it.Rows, table: str) -> None:
        """Rows that were staged on the table as it is."""
        held = self.model.held.get(table)
        if held is not None and isinstance(rows, it.Staged):
            rows = msgspec.structs.replace(rows, base=held.moved)
        self.commit([it.Put(table, rows)])

    @rule(table=IDS, most=st.integers(1, 4), new=st.integers(6, 9), off=OFF)
    def flush(self, table: str, most: int, new: int, off: tuple[int, int, int]) -> None:
        """Some of the tail is written out, as it is or nearly so."""
        held = self.model.held.get(table) or Held(0)
        until = min(held.flushed + most, len(held.items)) + off[2]
        self.commit([it.Flush(table, 0, held.head + off[0], held.flushed + off[1], until, new, 0, 0)])

    @rule(table=IDS, new=st.integers(6, 9), off=st.sampled_from([0, 0, 1]))
    def rewrite(self, table: str, new: int, off: int) -> None:
        """The head is written anew, as it is or not."""
        held = self.model.held.get(table) or Held(0)
        self.commit([it.Rewrite(table, 0, held.head + off, new, (0,), 1)])

    @invariant()
    def both_hold_the_same(self) -> None:
        """Whatever was committed."""
        state, model = self.state, self.model
        assert {name: held.properties for name, held in state.namespaces.items()} == model.spaces
        assert {name: held.id for name, held in state.tables.items()} == model.tables
        assert {name: held.position for name, held in state.tags.items()} == model.tags
        assert dict(state.properties.items()) == model.properties
        assert {name: held.number for name, held in state.progress.items()} == model.progress
        assert dict(state.names.items()) == {table: name for name, table in model.tables.items()}
        assert {table: found(held) for table, held in state.contents.items()} == {
            table: held.all() for table, held in model.held.items()
        }
        assert Catalog().load(Catalog().dump(state)) == state


JudgeAndFold.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestJudgeAndFold = JudgeAndFold.TestCase
