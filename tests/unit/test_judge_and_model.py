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
from phalanx.txn.conflict import judge
from phalanx.txn.verdict import Conflict, Go
from phalanx.versions import Versions, pack_versions
from tests.unit.judge_model import SCHEMAS, Held, Model, RefusalError

A, B = "a" * 32, "b" * 32
PARTS = st.lists(st.sampled_from("xy"), min_size=1, max_size=2).map(tuple)
IDS, FEW = st.sampled_from([A, B]), st.integers(0, 2)
NUMBERS = st.sampled_from([0, 0, 0, 1, 2])
FRAGMENTS = st.sets(FEW, min_size=1).map(sorted).map(tuple)
"""Of layouts: mostly that which every table begins with."""
PAYLOADS = (b"rows", b"more")
ROWS = st.builds(it.Inline, st.integers(0, 1), FEW) | st.builds(
    it.Staged, st.integers(3, 5), FEW, FEW, FEW, FEW, st.just(0), FEW, FEW, st.booleans(), st.none() | st.just(1)
)
COLUMNS = st.sampled_from("cd")
STEPS: st.SearchStrategy[it.Step] = st.one_of(
    st.builds(it.AddColumn, st.just(b""), st.none()),
    st.builds(it.DropColumn, COLUMNS),
    st.builds(it.RenameColumn, COLUMNS, COLUMNS),
    st.builds(it.WidenColumn, COLUMNS, st.just(b"")),
    st.builds(it.OrderColumns, st.just(("d", "c"))),
    st.builds(it.SetNullable, COLUMNS, st.booleans()),
)
OF_COLUMNS = st.sampled_from(sorted(SCHEMAS))
LAYOUTS = st.builds(it.Layout, FEW, OF_COLUMNS, st.just(()), st.lists(STEPS, max_size=2).map(tuple))
WANTED = st.lists(st.builds(it.Index, st.sampled_from("ij"), COLUMNS, st.just("btree"), st.just({})), max_size=2)
PASTS = st.lists(st.integers(0, 1), max_size=3).map(lambda found: packed(dict(enumerate(sorted(found), start=1))))
"""Where up to three versions landed, before anything that is committed here."""
RANGES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=2
).map(tuple)
ACTIONS: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(do.CreateNamespace, PARTS, st.just({})),
    st.builds(do.AlterNamespace, PARTS, st.dictionaries(st.just("k"), st.none() | st.just("v"))),
    st.builds(do.DropNamespace, PARTS),
    st.builds(do.CreateTable, PARTS, IDS, st.just({}), OF_COLUMNS, st.just(()), st.integers(0, 1)),
    st.builds(do.DropTable, PARTS, IDS),
    st.builds(do.DeregisterTable, PARTS, IDS),
    st.builds(
        do.ReviveTable,
        PARTS,
        IDS,
        st.just({}),
        FEW,
        st.integers(3, 300),
        PASTS,
        st.sampled_from([(), ((1, 2),)]),
        st.sampled_from([0, 5, 1 << 40]),
    ),
    st.builds(do.RenameTable, PARTS, IDS, PARTS),
    st.builds(do.PutTag, st.sampled_from("ab"), FEW | st.integers(0, 30), st.booleans()),
    st.builds(do.Untag, st.sampled_from("ab")),
    st.builds(do.SetProperty, st.sampled_from(["k", "upkeep"]), st.none() | st.sampled_from(["v", "on"])),
    st.builds(
        do.Prune,
        st.integers(1, 12),
        FEW,
        FEW,
        st.lists(st.integers(0, 9), max_size=3).map(tuple),
        st.just(()),
        st.lists(st.tuples(IDS, RANGES), max_size=2).map(tuple),
        st.sampled_from([False, False, True]),
    ),
    st.builds(do.Progress, st.sampled_from("fg"), st.none() | FEW, FEW),
)
ITEMS: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(it.Put, IDS, ROWS, NUMBERS),
    st.builds(it.Upsert, IDS, ROWS, st.none() | st.just(1), st.booleans(), NUMBERS),
    st.builds(it.Overwrite, IDS, ROWS, NUMBERS),
    st.builds(it.DeleteKeys, IDS, st.just(0), FEW, NUMBERS),
    st.builds(it.DeleteRows, IDS, st.just(0), FEW),
    st.builds(it.DeleteWhere, IDS, st.just("true"), NUMBERS),
    st.builds(it.UpdateWhere, IDS, st.just((("a", "1"),)), st.none() | st.just("b"), NUMBERS),
    st.builds(it.Alter, IDS, NUMBERS, LAYOUTS),
    st.builds(
        it.Restore, IDS, FEW, st.integers(6, 8), FEW, st.lists(LAYOUTS, min_size=1).map(tuple), WANTED.map(tuple)
    ),
    st.builds(it.Advance, IDS, st.integers(1, 5), st.integers(6, 8), FEW, st.none() | LAYOUTS, st.just(("c",))),
    st.builds(it.DeleteVersions, IDS, RANGES),
    st.builds(it.Flush, IDS, st.just(0), st.integers(0, 8), FEW, st.integers(1, 3), st.integers(6, 8), FEW, FEW),
    st.builds(it.Rewrite, IDS, st.just(0), st.integers(0, 8), st.integers(6, 8), st.just((0,)), FEW),
    st.builds(it.Cover, IDS, st.just(0), st.integers(0, 8), st.integers(6, 8), st.just(("i",))),
    st.builds(it.Claim, IDS, st.just(0), FRAGMENTS, st.sampled_from("ab"), FEW, st.integers(0, 5)),
    st.builds(it.DeclareIndex, IDS, st.sampled_from("ij"), COLUMNS, st.just("btree"), st.just({})),
    st.builds(it.DropIndex, IDS, st.sampled_from("ij")),
)
OFF = st.sampled_from([(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
"""Mostly nothing is wrong with a flush; or its head, its first item or its last."""


def packed(landed: dict[int, int]) -> bytes:
    """Where versions landed, as an action says it."""
    versions = Versions()
    for version, position in landed.items():
        versions = versions.add(version, position, 0)
    return pack_versions(versions)


def found(held: Contents) -> tuple[object, ...]:
    """What the fold says of a table."""
    assert [pending.seq for pending in held.pending()] == list(range(held.first, held.until)) == sorted(held.items)
    weight = held.weight.rows, held.weight.predicates
    head = held.head.manifest, held.head.next_row_id, held.head.layout
    indexes = [(index.name, index.column, index.since) for index in held.indexes]
    landed = {one.version: one.position for one in held.versions.oldest_first()}
    deleted = [version for first, last in held.deleted for version in range(first, last + 1)]
    numbers = held.version, *head, held.first, held.until, held.serial, held.moved, *weight
    claims = {(one.by, number, one.until) for one in held.claims for number in one.fragments}
    return (*numbers, held.generation, [layout.id for layout in held.layouts], indexes, landed, deleted, claims)


def test_every_kind_of_action_is_in_the_model() -> None:
    """A new kind of action fails here until the model can do it."""
    kinds = set(do.Action.__args__) - {do.Found}
    assert {
        kind.__struct_config__.tag for kind in kinds if not hasattr(Model, f"_{kind.__struct_config__.tag}")
    } == set()


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

    @rule(actions=st.lists(ITEMS, max_size=1), table=IDS, name=st.sampled_from("xy"), made=FEW, schema=OF_COLUMNS)
    def create(self, actions: list[do.Action], table: str, name: str, made: int, schema: bytes) -> None:
        """A table, with its first rows perhaps."""
        self.commit([do.CreateTable((name,), table, {}, schema, (), made), *actions])

    @rule(rows=ROWS, table=IDS)
    def stage(self, rows: it.Rows, table: str) -> None:
        """Rows that were staged on the table as it is."""
        held = self.model.held.get(table)
        if held is not None and isinstance(rows, it.Staged):
            rows = msgspec.structs.replace(rows, base=held.moved, generation=held.generation)
        self.commit([it.Put(table, rows, held.layouts[-1].id if held else 0)])

    @rule(table=IDS, steps=st.lists(STEPS, max_size=2), off=st.sampled_from([0, 0, 0, 1]), schema=OF_COLUMNS)
    def alter(self, table: str, steps: list[it.Step], off: int, schema: bytes) -> None:
        """Other columns, on those that the table has or not, and what was begun before them."""
        base = self.model.held[table].layouts[-1].id if table in self.model.held else 0
        self.commit([it.Alter(table, base + off, it.Layout(100 + self.position, schema, (), tuple(steps)))])
        self.commit([it.DeleteKeys(table, 0, 1, base)])
        self.commit([it.DeclareIndex(table, f"{self.position}", "c", "btree", {})])

    @rule(item=st.sampled_from([it.Put, it.Upsert, it.Overwrite, it.DeleteKeys]), rows=ROWS, table=IDS, back=FEW)
    def late(self, item: Any, rows: it.Rows, table: str, back: int) -> None:
        """Rows, or keys, of columns that the table had."""
        held = self.model.held.get(table) or Held(0)
        layout = held.layouts[max(0, len(held.layouts) - 1 - back)].id
        made = it.DeleteKeys(table, 0, 1) if item is it.DeleteKeys else item(table, rows)
        self.commit([msgspec.structs.replace(made, layout=layout)])

    @rule(table=IDS, new=st.integers(6, 9), off=st.sampled_from([0, 0, 0, 1, -1]), layout=st.none() | LAYOUTS)
    def advance(self, table: str, new: int, off: int, layout: it.Layout | None) -> None:
        """A client makes the next version, or one that is not."""
        held = self.model.held.get(table) or Held(0)
        self.commit([it.Advance(table, max(0, held.version + 1 + off), new, 0, layout, ("c",))])

    @rule(table=IDS, new=st.integers(6, 9), back=FEW, wanted=WANTED)
    def restore(self, table: str, new: int, back: int, wanted: list[it.Index]) -> None:
        """The table has again the columns that it had."""
        held = self.model.held.get(table) or Held(0)
        kept = tuple(held.layouts[: max(1, len(held.layouts) - back)])
        self.commit([it.Restore(table, 1, new, 0, kept, tuple(wanted))])

    @rule(name=st.sampled_from("xy"), table=IDS, deregister=st.booleans(), more=st.sampled_from([0, 0, 1, 300]))
    def bring_back(self, name: str, table: str, deregister: bool, more: int) -> None:
        """A table goes, and comes again with the versions that it had, or a later one."""
        names = {incarnation: name for name, incarnation in self.model.tables.items()}
        held = self.model.held.get(table) or Held(0)
        if table in names:
            gone = do.DeregisterTable if deregister else do.DropTable
            self.commit([gone(names[table], table)])
        deleted = tuple((version, version) for version in sorted(held.deleted or {1}))
        last = held.version + more, packed(held.landed)
        again = do.ReviveTable((name,), table, {}, held.created, *last, deleted, self.model.pruned)
        self.commit([again, it.Restore(table, 1, 6, 0, tuple(held.layouts), ())])

    @rule(table=IDS, first=st.integers(1, 3), size=FEW, tag=st.none() | st.sampled_from("ab"), off=st.integers(-2, 2))
    def delete_versions(self, table: str, first: int, size: int, tag: str | None, off: int) -> None:
        """Some of the oldest go, perhaps right after one near them was tagged."""
        held = self.model.held.get(table) or Held(0)
        if tag is not None:
            self.commit([do.PutTag(tag, max(0, held.landed.get(first, 0) + off), True)])
        self.commit([it.DeleteVersions(table, ((first, first + size),))])

    @rule(table=IDS, most=st.integers(1, 4), new=st.integers(6, 9), off=OFF)
    def flush(self, table: str, most: int, new: int, off: tuple[int, int, int]) -> None:
        """Some of the tail is written out, as it is or nearly so."""
        held = self.model.held.get(table) or Held(0)
        until = min(held.flushed + most, len(held.items)) + off[2]
        stand = held.generation, held.head + off[0]
        self.commit([it.Flush(table, *stand, held.flushed + off[1], until, new, 0, 0)])

    @rule(table=IDS, new=st.integers(6, 9), off=st.sampled_from([0, 0, 1]))
    def rewrite(self, table: str, new: int, off: int) -> None:
        """The head is written anew, as it is or not."""
        held = self.model.held.get(table) or Held(0)
        self.commit([it.Rewrite(table, held.generation, held.head + off, new, (0, 2), 1)])

    @rule(table=IDS, fragments=FRAGMENTS, by=st.sampled_from("ab"), since=FEW, until=st.integers(0, 5))
    def claim(self, table: str, fragments: tuple[int, ...], by: str, since: int, until: int) -> None:
        """Somebody says what is about to be rewritten, or that it is not."""
        held = self.model.held.get(table) or Held(0)
        self.commit([it.Claim(table, held.generation, fragments, by, since, until)])

    @invariant()
    def both_hold_the_same(self) -> None:
        """Whatever was committed."""
        state, model = self.state, self.model
        assert {name: held.properties for name, held in state.namespaces.items()} == model.spaces
        assert {name: held.id for name, held in state.tables.items()} == model.tables
        assert {name: held.position for name, held in state.tags.items()} == model.tags
        assert dict(state.properties.items()) == model.properties
        assert {name: held.number for name, held in state.progress.items()} == model.progress
        assert dict(state.deregistered.items()) == model.deregistered
        assert (state.retained.floor, set(state.retained.kept)) == (model.floor, model.kept)
        assert {name: held.created for name, held in state.tables.items()} == {
            name: model.held[table].created for name, table in model.tables.items()
        }
        assert dict(state.names.items()) == {table: name for name, table in model.tables.items()}
        assert {table: found(held) for table, held in state.contents.items()} == {
            table: held.all() for table, held in model.held.items()
        }
        assert Catalog().load(Catalog().dump(state)) == state


JudgeAndFold.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestJudgeAndFold = JudgeAndFold.TestCase
