"""The fold: a pure function from entries to state, whose stored form depends on nothing but the state."""

import random
import time
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx import catalog
from phalanx.catalog import Catalog, Mark, Namespace, State, Table, Tag
from phalanx.contents import Contents
from phalanx.errors import CorruptionError, InternalError
from phalanx.ids import AttemptId, LakeId, TransactionId
from phalanx.log import action as do
from phalanx.log import base as bases
from phalanx.log import item as it
from phalanx.log.cursor import Cursor
from phalanx.log.entry import Entry, Landing, Transaction
from phalanx.txn.conflict import Conflict, judge_action
from phalanx.versions import Landed

A, B = "a" * 32, "b" * 32
LAKE = LakeId(b"L" * 16)
FOLD = Catalog()
PAYLOADS = (b"rows", b"more")


def fold(*actions: do.Action, state: State | None = None, position: int = 1) -> State:
    """The state after these actions, each at a position of its own."""
    state = State() if state is None else state
    for at, action in enumerate(actions, start=position):
        state = catalog.step(state, Landing(at, 0, PAYLOADS), transaction(at, action))
    return state


def held(state: State) -> tuple[int, int, int, int]:
    """Of table t: how often its rows were changed, its head, and the numbers of its items."""
    contents = state.contents[A]
    return contents.version, contents.head.manifest, contents.first, contents.until


def indexes(state: State) -> list[str]:
    """The indexes that table t wants."""
    return [index.name for index in state.contents[A].indexes]


def columns(state: State) -> tuple[list[int], list[str], tuple[int, int, int, int]]:
    """Of table t: the layouts that it has had, the columns that its indexes are for, and what it holds."""
    contents = state.contents[A]
    return [layout.id for layout in contents.layouts], [index.column for index in contents.indexes], held(state)


def alter(table: str, base: int, layout: int, *steps: it.Step) -> it.Alter:
    return it.Alter(table, base, it.Layout(layout, b"s", ("c",), steps))


def transaction(number: int, *actions: do.Action) -> Transaction:
    return Transaction(number.to_bytes(16, "big"), "", actions)


def entry(number: int, moment: int, *transactions: Transaction, lake: LakeId = LAKE) -> Entry:
    identity = number.to_bytes(16, "big")
    return Entry(lake, AttemptId(identity), identity * 2, moment, "w", transactions)


def cursor() -> Cursor[State]:
    return Cursor(bases.empty(FOLD), FOLD)


BEFORE = (do.CreateNamespace(("n",), {"k": "1", "l": "2"}), do.CreateTable(("t",), A, {"p": "q"}, b"s", (), 7))
FIRST = it.Layout(0, b"s", ())
ROWS = it.Inline(0, 2)
EFFECTS: list[tuple[do.Action, Callable[[State], object], object, object]] = [
    # action at position 9, what to look at, what is there before, what is there after
    (do.CreateNamespace(("m",), {"x": "y"}), lambda s: s.namespaces.get(("m",)), None, Namespace(9, {"x": "y"})),
    (
        do.AlterNamespace(("n",), {"k": None, "l": "3", "m": "4"}),
        lambda s: s.namespaces.get(("n",)),
        Namespace(1, {"k": "1", "l": "2"}),
        Namespace(1, {"l": "3", "m": "4"}),
    ),
    (do.DropNamespace(("n",)), lambda s: ("n",) in s.namespaces, True, False),
    (do.CreateTable(("u",), B, {"x": "y"}), lambda s: s.tables.get(("u",)), None, Table(B, 9, {"x": "y"})),
    (do.DropTable(("t",), A), lambda s: ("t",) in s.tables, True, False),
    (
        do.DeregisterTable(("t",), A),
        lambda s: (("t",) in s.tables, s.deregistered.get(A)),
        (True, None),
        (False, 9),
    ),
    (
        do.ReviveTable(("u",), B, {"x": "y"}, 2, 6),
        lambda s: (s.tables.get(("u",)), s.contents.get(B)),
        (None, None),
        (Table(B, 2, {"x": "y"}), Contents(version=6)),
    ),
    (
        do.RenameTable(("t",), A, ("n", "t")),
        lambda s: dict(s.tables),
        {("t",): Table(A, 2, {"p": "q"})},
        {("n", "t"): Table(A, 2, {"p": "q"})},
    ),
    (do.PutTag("new", 5, False), lambda s: s.tags.get("new"), None, Tag(5, 9)),
    (do.PutTag("old", 7, True), lambda s: s.tags.get("old"), Tag(1, 3), Tag(7, 9)),
    (do.Untag("old"), lambda s: "old" in s.tags, True, False),
    (do.SetProperty("key", "other"), lambda s: s.properties.get("key"), "value", "other"),
    (do.SetProperty("key", None), lambda s: "key" in s.properties, True, False),
    (do.SetProperty("none", None), lambda s: "none" in s.properties, False, False),
    (do.Progress("feed", 4, 8), lambda s: s.progress.get("feed"), Mark(4, 5), Mark(8, 9)),
    (do.Progress("other", None, -1), lambda s: s.progress.get("other"), None, Mark(-1, 9)),
    (it.Put(A, ROWS), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.Upsert(A, ROWS), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.Overwrite(A, ROWS), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.DeleteKeys(A, 1, 2), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.DeleteRows(A, 1, 2), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.DeleteWhere(A, "true"), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.UpdateWhere(A, (("a", "1"),), None), held, (2, 7, 0, 1), (3, 7, 0, 2)),
    (it.Flush(A, 0, 7, 0, 1, 8, 0, 2), held, (2, 7, 0, 1), (2, 8, 1, 1)),
    (it.Rewrite(A, 0, 7, 9, (1, 2), 1), held, (2, 7, 0, 1), (2, 9, 0, 1)),
    (it.Cover(A, 0, 7, 9, ("i",)), held, (2, 7, 0, 1), (2, 9, 0, 1)),
    (it.DeclareIndex(A, "j", "c", "btree", {}), indexes, ["i"], ["i", "j"]),
    (it.DropIndex(A, "i"), indexes, ["i"], []),
    (
        alter(A, 0, 5, it.RenameColumn("c", "d")),
        columns,
        ([0], ["c"], (2, 7, 0, 1)),
        ([0, 5], ["d"], (3, 7, 0, 2)),
    ),
    (
        it.Restore(A, 2, 8, 4, (FIRST, it.Layout(5, b"s", ())), (it.Index("j", "d", "btree", {}, 3),)),
        columns,
        ([0], ["c"], (2, 7, 0, 1)),
        ([0, 5], ["d"], (3, 8, 1, 1)),
    ),
    (it.Advance(A, 3, 8, 4), columns, ([0], ["c"], (2, 7, 0, 1)), ([0], ["c"], (3, 8, 1, 1))),
    (
        it.Advance(A, 3, 8, 4, it.Layout(5, b"s", ()), ("d",)),
        columns,
        ([0], ["c"], (2, 7, 0, 1)),
        ([0, 5], [], (3, 8, 1, 1)),
    ),
    (
        it.DeleteVersions(A, ((1, 1),)),
        lambda s: (s.contents[A].deleted, held(s)),
        ((), (2, 7, 0, 1)),
        (((1, 1),), (2, 7, 0, 1)),
    ),
]
ALSO: dict[type, set[str]] = {
    do.CreateTable: {"tables", "names", "contents"},
    do.DropTable: {"tables", "names", "contents"},
    do.DeregisterTable: {"tables", "names", "contents", "deregistered"},
    do.ReviveTable: {"tables", "names", "contents"},
    do.RenameTable: {"tables", "names"},
}
"""The kinds of action that change more than one part of the state."""


def prepared() -> State:
    tagged = (do.PutTag("old", 1, False), do.SetProperty("key", "value"), do.Progress("feed", None, 4))
    return fold(*BEFORE, *tagged, it.Put(A, ROWS), it.DeclareIndex(A, "i", "c", "btree", {}))


@pytest.mark.parametrize(("action", "look", "before", "after"), EFFECTS)
def test_an_action_does_this_and_nothing_else(
    action: do.Action, look: Callable[[State], object], before: object, after: object
) -> None:
    """Its target changes as written down here, the rest of the state does not, and the old state stays as it was."""
    old = prepared()
    bytes_of_old = FOLD.dump(old)
    new = fold(action, state=old, position=9)
    assert (look(old), look(new)) == (before, after)
    same = {field for field in State.__struct_fields__ if getattr(old, field) == getattr(new, field)}
    parts = set(State.__struct_fields__) - same  # two empty maps of rpds are `==`, and `!=` too
    assert parts == ALSO[type(action)] if type(action) in ALSO else len(parts) == (before != after)
    assert FOLD.dump(old) == bytes_of_old


def test_what_a_table_is_made_of_is_in_its_first_layout() -> None:
    """Its columns and its key; one that was only declared has no version until it holds something."""
    made = fold(do.CreateTable(("t",), A, {}, b"s", ("c",), 7)).contents[A]
    assert (made.layouts, made.layout, made.head.layout) == (
        (it.Layout(0, b"s", ("c",)),),
        it.Layout(0, b"s", ("c",)),
        0,
    )
    assert (made.version, list(made.versions.oldest_first())) == (1, [Landed(1, 1, 0)])
    declared = fold(do.CreateTable(("t",), A, {}))
    assert (declared.contents[A].version, list(declared.contents[A].versions.oldest_first())) == (0, [])
    advanced = fold(it.Advance(A, 1, 8, 4, it.Layout(5, b"s", ()), ("c",)), state=declared, position=2).contents[A]
    assert (advanced.version, advanced.layouts) == (1, (it.Layout(5, b"s", ()),))


def test_a_table_that_was_dropped_goes_on_where_it_was() -> None:
    """G5: brought back and restored, it has the incarnation, the age and the next version that it would have had."""
    gone = fold(do.DropTable(("t",), A), state=prepared(), position=9)
    back = (do.ReviveTable(("u",), A, {"p": "q"}, 2, 2), it.Restore(A, 8, 11, 4, (FIRST,), ()))
    state = catalog.step(gone, Landing(10, 1), transaction(10, *back))
    assert (dict(state.tables), dict(state.names)) == ({("u",): Table(A, 2, {"p": "q"})}, {A: ("u",)})
    contents = state.contents[A]
    assert (held(state), contents.generation, contents.layouts) == ((3, 11, 0, 0), 10, (FIRST,))
    assert list(contents.versions.oldest_first()) == [Landed(3, 10, 1)]
    assert FOLD.load(FOLD.dump(state)) == state


def test_the_first_entry_founds_the_lake_with_its_settings() -> None:
    """Settings come from entry 1, and from nowhere else."""
    chosen = do.Settings(durability="os", grace=1.5, checkpoint_every=7, remembered=9)
    state = fold(do.Found(chosen))
    assert state.founded
    assert FOLD.settings(state) == chosen
    assert not State().founded


def test_every_kind_of_action_has_its_effect_tested() -> None:
    """A new kind of action fails here until its effect is written down above."""
    assert {type(row[0]) for row in EFFECTS} | {do.Found} == set(do.Action.__args__)


@pytest.mark.parametrize(
    "action",
    [
        do.Found(do.Settings()),
        do.AlterNamespace(("none",), {}),
        do.DropNamespace(("none",)),
        do.DropTable(("none",), A),
        do.DeregisterTable(("none",), A),
        do.RenameTable(("none",), A, ("t",)),
        do.Untag("none"),
        it.Put(B, ROWS),
        it.DeleteWhere(B, "true"),
        it.Flush(B, 0, 0, 0, 1, 8, 0, 2),
        it.Rewrite(B, 0, 0, 9, (1, 2), 1),
        it.Cover(B, 0, 0, 9, ("i",)),
        it.DeclareIndex(B, "i", "c", "btree", {}),
        it.DropIndex(B, "i"),
        alter(B, 0, 5),
        it.Restore(B, 2, 8, 4, (FIRST,), ()),
        it.Advance(B, 3, 8, 4),
        it.DeleteVersions(B, ((1, 1),)),
        it.Put(A, it.Inline(2, 1)),
    ],
)
def test_an_action_on_what_is_not_there_means_that_the_log_is_damaged(action: do.Action) -> None:
    """It was judged before it was put, so the error names the entry and says what to run."""
    with pytest.raises(CorruptionError, match=r"entry 9 .* run `phalanx check`"):
        fold(action, state=prepared(), position=9)


names = st.lists(st.sampled_from("xyz"), min_size=1, max_size=2).map(tuple)
texts = st.text(max_size=3)
properties = st.dictionaries(st.sampled_from(["k", "l", "m"]), texts, max_size=3)
tables = st.sampled_from([A, B, "c" * 32])
steps: st.SearchStrategy[it.Step] = st.one_of(
    st.builds(it.AddColumn, st.just(b"f"), st.none() | texts),
    st.builds(it.DropColumn, st.sampled_from("cd")),
    st.builds(it.RenameColumn, st.sampled_from("cd"), st.sampled_from("cd")),
    st.builds(it.WidenColumn, st.sampled_from("cd"), st.just(b"f")),
    st.builds(it.OrderColumns, st.just(("d", "c"))),
    st.builds(it.SetNullable, st.sampled_from("cd"), st.booleans()),
)
layouts = st.builds(
    it.Layout, st.integers(0, 3), st.just(b"s"), st.just(("c",)), st.lists(steps, max_size=3).map(tuple)
)
wanting = st.lists(st.builds(it.Index, st.sampled_from("ij"), st.just("c"), st.just("btree"), properties)).map(tuple)
actions: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(do.CreateNamespace, names, properties),
    st.builds(do.AlterNamespace, names, st.dictionaries(st.sampled_from("klm"), st.none() | texts)),
    st.builds(do.DropNamespace, names),
    st.builds(do.CreateTable, names, tables, properties),
    st.builds(do.CreateTable, names, tables, properties, st.just(b"s"), st.just(("c",)), st.just(7)),
    st.builds(do.DropTable, names, tables),
    st.builds(do.DeregisterTable, names, tables),
    st.builds(do.ReviveTable, names, tables, properties, st.integers(1, 9), st.integers(1, 300)),
    st.builds(do.RenameTable, names, tables, names),
    st.builds(do.PutTag, st.sampled_from("ab"), st.integers(0, 1 << 62), st.booleans()),
    st.builds(do.Untag, st.sampled_from("ab")),
    st.builds(do.SetProperty, st.sampled_from("kl"), st.none() | texts),
    st.builds(do.Progress, st.sampled_from("fg"), st.none() | st.integers(0, 3), st.integers(0, 3)),
    st.builds(it.Put, tables, st.builds(it.Inline, st.integers(0, 1), st.integers(0, 3))),
    st.builds(it.DeleteWhere, tables, texts),
    st.builds(it.Flush, tables, *map(st.just, (0, 0, 0, 1, 8, 0, 2))),
    st.builds(it.Rewrite, tables, st.just(0), st.sampled_from([0, 8]), st.just(9), st.just((1,)), st.just(1)),
    st.builds(it.Cover, tables, st.just(0), st.sampled_from([0, 8]), st.just(9), st.just(("i",))),
    st.builds(it.DeclareIndex, tables, st.sampled_from("ij"), st.sampled_from("cd"), st.just("btree"), properties),
    st.builds(it.DropIndex, tables, st.sampled_from("ij")),
    st.builds(it.Alter, tables, st.integers(0, 3), layouts),
    st.builds(
        it.Restore, tables, st.just(2), st.just(8), st.just(4), st.lists(layouts, min_size=1).map(tuple), wanting
    ),
    st.builds(it.Advance, tables, st.integers(1, 4), st.just(8), st.just(4), st.none() | layouts, st.just(("c",))),
    st.builds(it.DeleteVersions, tables, st.sampled_from([((1, 1),), ((1, 2), (4, 4)), ((2, 3),)])),
)


@given(st.lists(actions, max_size=40))
def test_any_history_is_folded_purely_and_stored_exactly(wanted: Sequence[do.Action]) -> None:
    """Every state of a random history stays what it was, and is the same after it was dumped and loaded."""
    states = [fold(do.Found(do.Settings()))]
    for position, action in enumerate(wanted, start=2):
        if not isinstance(judge_action(states[-1], action, position), Conflict):
            states.append(fold(action, state=states[-1], position=position))
            if states[-1] != states[-2]:
                assert FOLD.dump(states[-1]) != FOLD.dump(states[-2])
    dumps = [FOLD.dump(state) for state in states]
    for state, data in zip(states, dumps, strict=True):
        loaded = FOLD.load(data)
        assert loaded == state
        assert FOLD.dump(loaded) == data
    assert [FOLD.dump(state) for state in states] == dumps


@given(st.dictionaries(names, properties, min_size=1), st.dictionaries(texts, texts), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_equal_states_are_equal_bytes_whatever_the_order(
    found: dict[tuple[str, ...], dict[str, str]], plain: dict[str, str], chance: random.Random
) -> None:
    """Neither the order of commits nor the order inside a dictionary shows in a dump."""
    wanted: list[do.Action] = [
        do.CreateTable(name, f"{number:032x}", held) for number, (name, held) in enumerate(found.items())
    ]
    wanted += [do.CreateNamespace(name, held) for name, held in found.items()]
    wanted += [do.SetProperty(key, value) for key, value in plain.items()]
    wanted += [action for key in plain for action in (do.PutTag(key, 1, False), do.Progress(key, None, 1))]
    first = State()
    for action in wanted:
        first = catalog.apply(first, Landing(7), action)
    chance.shuffle(wanted)
    second = State()
    for action in wanted:
        if isinstance(action, do.CreateTable | do.CreateNamespace):
            turned = dict(reversed(action.properties.items()))
            second = catalog.apply(second, Landing(7), msgspec.structs.replace(action, properties=turned))
        else:
            second = catalog.apply(second, Landing(7), action)
    assert first == second
    assert FOLD.dump(first) == FOLD.dump(second)


def test_a_dump_of_another_shape_is_not_taken_for_a_state() -> None:
    """A base that was damaged or made by other rules is an error, never an empty lake."""
    good = msgspec.msgpack.decode(FOLD.dump(prepared()))
    wrong: list[object] = [{**good, "new": 1}, {**good, "tables": 5}, {"founded": True}, []]
    for changed in wrong:
        with pytest.raises(msgspec.DecodeError):
            FOLD.load(msgspec.msgpack.encode(changed))


def test_time_never_goes_back() -> None:
    """J3: an entry from a slow clock has the time of the one before it."""
    moving = cursor()
    seen = []
    for number, moment in enumerate([100, 50, 200, 199, 0, 300], start=1):
        moving.advance(number, entry(number, moment, transaction(number)))
        seen.append(moving.view().time)
    assert seen == [100, 100, 200, 200, 200, 300]


def test_a_transaction_id_that_was_seen_is_ignored() -> None:
    """A5: put a second time, a transaction does not take effect again, nor does it hurt those around it."""
    moving = cursor()
    once = transaction(2, do.CreateTable(("t",), A, {}))
    moving.advance(1, entry(1, 1, transaction(1, do.Found(do.Settings()))))
    moving.advance(2, entry(2, 2, once))
    moving.advance(3, entry(3, 3, transaction(3, do.DropTable(("t",), A))))
    moving.advance(4, entry(4, 4, once, transaction(4, do.SetProperty("k", "v"))))
    assert ("t",) not in moving.state.tables
    assert moving.state.properties["k"] == "v"
    assert moving.recent.find(TransactionId(once.id)) == 2


def test_the_memory_of_ids_has_the_size_the_lake_was_given() -> None:
    """A5: the oldest ids are forgotten, and it is known from where on nothing is."""
    moving = cursor()
    moving.advance(1, entry(1, 1, transaction(1, do.Found(do.Settings(remembered=3)))))
    for number in range(2, 8):
        moving.advance(number, entry(number, number, transaction(number)))
    assert len(moving.recent) == 3
    assert [moving.recent.find(TransactionId(transaction(number).id)) for number in (4, 5, 7)] == [None, 5, 7]
    assert moving.recent.since == 5


def test_a_cursor_takes_only_the_next_entry_of_its_own_lake() -> None:
    """I1: no gap, no repetition, and nothing that was copied here from elsewhere."""
    moving = cursor()
    moving.advance(1, entry(1, 1, transaction(1, do.Found(do.Settings()))))
    view = moving.view()
    for wrong in (1, 3):
        with pytest.raises(InternalError):
            moving.advance(wrong, entry(wrong, 1, transaction(wrong)))
    with pytest.raises(CorruptionError, match="belongs to another lake"):
        moving.advance(2, entry(2, 1, transaction(2), lake=LakeId(b"M" * 16)))
    assert moving.view() == view


def test_a_base_and_a_replay_give_the_same_cursor() -> None:
    """I1: going on from a stored fold is the same as having read everything."""
    whole, entries = cursor(), [entry(1, 5, transaction(1, do.Found(do.Settings(remembered=4))))]
    entries += [entry(n, 9 - n, transaction(n, do.Progress(f"s{n % 3}", None, n))) for n in range(2, 9)]
    for number, one in enumerate(entries[:5], start=1):
        whole.advance(number, one)
    data, _ = bases.encode(whole.base(entries[5].attempt), FOLD)
    resumed = Cursor(bases.decode(data, FOLD, "base"), FOLD)
    for number, one in enumerate(entries[5:], start=6):
        whole.advance(number, one)
        resumed.advance(number, one)
    assert resumed.view() == whole.view()
    assert (resumed.chain, resumed.recent.dump()) == (whole.chain, whole.recent.dump())


def test_a_step_costs_the_same_however_many_tables_there_are() -> None:
    """I11: measured, loosely."""

    def cost(count: int) -> float:
        state = State()
        for number in range(count):
            state = catalog.apply(state, Landing(1), do.CreateTable((f"t{number}",), f"{number:032x}", {}))
        best = float("inf")
        for _ in range(5):
            began = time.perf_counter()
            for number in range(500):
                at = number % count
                table = f"{at:032x}"
                changed = catalog.apply(state, Landing(2), do.RenameTable((f"t{at}",), table, ("new",)))
                changed = catalog.apply(changed, Landing(3, 0, PAYLOADS), it.Put(table, ROWS))
                catalog.apply(changed, Landing(4), do.DropTable(("new",), table))
            best = min(best, time.perf_counter() - began)
        return best

    assert cost(20_000) < 5 * cost(10)
