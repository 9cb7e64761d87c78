"""The judge and the fold, next to a lake made of plain dictionaries."""

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from phalanx.catalog import Catalog, State
from phalanx.log import action as do
from phalanx.log.entry import Transaction
from phalanx.txn.conflict import Conflict, Go, judge

A, B = "a" * 32, "b" * 32
Name = tuple[str, ...]

PARTS = st.lists(st.sampled_from("xy"), min_size=1, max_size=2).map(tuple)
IDS, FEW = st.sampled_from([A, B]), st.integers(0, 2)
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


class RefusalError(Exception):
    """The model's objection: the name of a kind."""


class Model:
    """A lake as plain dictionaries; `run` does an action, or refuses it."""

    def __init__(self) -> None:
        self.spaces: dict[Name, dict[str, str]] = {}
        self.tables: dict[Name, str] = {}
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

    def _put(self, held: dict[str, str], key: str, value: str | None) -> None:
        held.pop(key, None)
        if value is not None:
            held[key] = value

    def _create_namespace(self, name: Name, properties: dict[str, str]) -> None:
        self._free(name)
        self.spaces[name] = dict(properties)

    def _alter_namespace(self, name: Name, properties: dict[str, str | None]) -> None:
        self._need(name in self.spaces, "MISSING")
        for key, value in properties.items():
            self._put(self.spaces[name], key, value)

    def _drop_namespace(self, name: Name) -> None:
        self._need(name in self.spaces, "MISSING")
        self._need(not any(other[:-1] == name for other in (*self.spaces, *self.tables)), "NOT_EMPTY")
        del self.spaces[name]

    def _create_table(self, name: Name, table: str, _: object) -> None:
        self._free(name)
        self.tables[name] = table

    def _drop_table(self, name: Name, table: str) -> None:
        self._need(name in self.tables, "MISSING")
        self._need(self.tables[name] == table, "CHANGED")
        del self.tables[name]

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
        self._put(self.properties, key, value)

    def _progress(self, source: str, expected: int | None, new: int) -> None:
        held = self.progress.get(source)
        self._need(held == expected, "BEHIND")
        self.progress[source] = new


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

    @rule(actions=st.lists(ACTIONS, max_size=4))
    def commit(self, actions: list[do.Action]) -> None:
        """Both give the same answer, the judge changes nothing, and asked again it says the same."""
        self.position += 1
        wanted, self.model = self._expected(actions)
        before, bytes_before = self.state, Catalog().dump(self.state)
        transaction = Transaction(self.position.to_bytes(16, "big"), "", tuple(actions))
        found, self.state = judge(transaction, before, self.position)
        assert (found.kind.name if isinstance(found, Conflict) else type(found).__name__.upper()) == wanted
        assert Catalog().dump(before) == bytes_before
        assert judge(transaction, before, self.position) == (found, self.state)
        if not isinstance(found, Go):
            assert self.state is before

    @invariant()
    def both_hold_the_same(self) -> None:
        """Whatever was committed."""
        state, model = self.state, self.model
        assert {name: held.properties for name, held in state.namespaces.items()} == model.spaces
        assert {name: held.id for name, held in state.tables.items()} == model.tables
        assert {name: held.position for name, held in state.tags.items()} == model.tags
        assert dict(state.properties.items()) == model.properties
        assert {name: held.number for name, held in state.progress.items()} == model.progress


JudgeAndFold.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestJudgeAndFold = JudgeAndFold.TestCase
