"""The fold: a pure function from entries to state; every action does what it says and nothing else."""

import time
from collections.abc import Callable

import pytest

from phalanx import catalog
from phalanx.catalog import Mark, Namespace, State, Table, Tag
from phalanx.claims import Claimed
from phalanx.contents import Contents
from phalanx.errors import CorruptionError
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.retained import Retained
from phalanx.versions import Landed, Versions, pack_versions
from tests.unit.folding import FIRST, FOLD, PAYLOADS, ROWS, SCHEMA, A, B, alter, fold, prepared, transaction


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


PAST = Versions().add(4, 1, 0).add(6, 3, 1)
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
        do.ReviveTable(("u",), B, {"x": "y"}, 2, 6, pack_versions(PAST), ((1, 2),)),
        lambda s: (s.tables.get(("u",)), s.contents.get(B)),
        (None, None),
        (Table(B, 2, {"x": "y"}), Contents(version=6, versions=PAST, deleted=((1, 2),))),
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
    (
        it.Claim(A, 0, (1, 2), "ann", 5, 9),
        lambda s: (s.contents[A].claims, held(s)),
        ((), (2, 7, 0, 1)),
        ((Claimed((1, 2), "ann", 9, 9),), (2, 7, 0, 1)),
    ),
    (it.DeclareIndex(A, "j", "c", "btree", {}), indexes, ["i"], ["i", "j"]),
    (it.DropIndex(A, "i"), indexes, ["i"], []),
    (
        alter(A, 0, 5, it.RenameColumn("c", "d")),
        columns,
        ([0], ["c"], (2, 7, 0, 1)),
        ([0, 5], ["d"], (3, 7, 0, 2)),
    ),
    (
        it.Restore(A, 2, 8, 4, (FIRST, it.Layout(5, SCHEMA, ())), (it.Index("j", "d", "btree", {}, 3),)),
        columns,
        ([0], ["c"], (2, 7, 0, 1)),
        ([0, 5], ["d"], (3, 8, 1, 1)),
    ),
    (it.Advance(A, 3, 8, 4), columns, ([0], ["c"], (2, 7, 0, 1)), ([0], ["c"], (3, 8, 1, 1))),
    (
        it.Advance(A, 3, 8, 4, it.Layout(5, SCHEMA, ()), ("d",)),
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
    (
        do.Prune(6, 8, 5, (2, 7), ((b"p" * 16, 3),), ((A, ((1, 1),)), (B, ((1, 4),)))),
        lambda s: (s.contents[A].deleted, s.retained, held(s)),
        ((), Retained(), (2, 7, 0, 1)),
        (((1, 1),), Retained(6, (2,), 8, ((b"p" * 16, 3),), 5, 9, 9), (2, 7, 0, 1)),
    ),
]
ALSO: dict[type, set[str]] = {
    do.CreateTable: {"tables", "names", "contents"},
    do.DropTable: {"tables", "names", "contents", "dropped"},
    do.DeregisterTable: {"tables", "names", "contents", "deregistered", "dropped"},
    do.ReviveTable: {"tables", "names", "contents"},
    do.RenameTable: {"tables", "names"},
    do.Prune: {"contents", "retained"},
}
"""The kinds of action that change more than one part of the state."""


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
    made = fold(do.CreateTable(("t",), A, {}, SCHEMA, ("c",), 7)).contents[A]
    assert (made.layouts, made.layout, made.head.layout) == (
        (it.Layout(0, SCHEMA, ("c",)),),
        it.Layout(0, SCHEMA, ("c",)),
        0,
    )
    assert (made.version, list(made.versions.oldest_first())) == (1, [Landed(1, 1, 0)])
    declared = fold(do.CreateTable(("t",), A, {}))
    assert (declared.contents[A].version, list(declared.contents[A].versions.oldest_first())) == (0, [])
    advanced = fold(it.Advance(A, 1, 8, 4, it.Layout(5, SCHEMA, ()), ("c",)), state=declared, position=2).contents[A]
    assert (advanced.version, advanced.layouts) == (1, (it.Layout(5, SCHEMA, ()),))


@pytest.mark.parametrize("leave", [do.DropTable(("t",), A), do.DeregisterTable(("t",), A)], ids=["drop", "deregister"])
def test_a_table_that_was_dropped_goes_on_where_it_was(leave: do.Action) -> None:
    """G5: brought back and restored, it has the incarnation, the age and the next version that it would have had."""
    was = prepared()
    past = list(was.contents[A].versions.oldest_first())
    assert past == [Landed(1, 2, 0), Landed(2, 6, 0)]
    gone = fold(leave, state=was, position=9)
    assert (A in gone.deregistered) == isinstance(leave, do.DeregisterTable)
    again = do.ReviveTable(("u",), A, {"p": "q"}, 2, 2, pack_versions(was.contents[A].versions), ((1, 1),))
    back = (again, it.Restore(A, 8, 11, 4, (FIRST,), ()))
    state = catalog.step(gone, Landing(10, 1), transaction(10, *back))
    assert (dict(state.tables), dict(state.names)) == ({("u",): Table(A, 2, {"p": "q"})}, {A: ("u",)})
    contents = state.contents[A]
    assert (held(state), contents.generation, contents.layouts) == ((3, 11, 0, 0), 10, (FIRST,))
    assert list(contents.versions.oldest_first()) == [*past, Landed(3, 10, 1)]
    assert (contents.deleted, A in state.deregistered) == (((1, 1),), False)
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
        it.Claim(B, 0, (1, 2), "ann", 5, 9),
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


def test_a_step_costs_the_same_however_many_tables_there_are() -> None:
    """I11: the best of many short turns, in the time of this thread alone, with few tables and with many by turns."""

    def many(count: int) -> State:
        state = State()
        for number in range(count):
            state = catalog.apply(state, Landing(1), do.CreateTable((f"t{number}",), f"{number:032x}", {}))
        return state

    def cost(state: State) -> float:
        began = time.thread_time()
        for number in range(20):
            at = number % len(state.tables)
            table = f"{at:032x}"
            changed = catalog.apply(state, Landing(2), do.RenameTable((f"t{at}",), table, ("new",)))
            changed = catalog.apply(changed, Landing(3, 0, PAYLOADS), it.Put(table, ROWS))
            catalog.apply(changed, Landing(4), do.DropTable(("new",), table))
        return time.thread_time() - began

    few, lots = many(10), many(5_000)
    turns = [(cost(few), cost(lots)) for _ in range(30)]
    assert min(large for _, large in turns) < 5 * min(small for small, _ in turns)
