"""The judge, inside one table: its columns, its versions, its indexes, and the upkeep of its head."""

from collections.abc import Callable

import msgspec
import pytest

from phalanx.catalog import apply
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.txn.conflict import judge
from phalanx.txn.verdict import Conflict, Go, Kind
from tests.unit.judging import (
    BASE_END,
    FIRST,
    JUDGED,
    LANDED,
    SOME,
    A,
    B,
    alter,
    at,
    base,
    letter,
    schema,
    staged,
    transaction,
    verdict,
)


@pytest.mark.parametrize(
    "upkeep",
    [
        lambda generation, head: it.Flush(A, generation, head, 0, 2, 7, 0, 4),
        lambda generation, head: it.Rewrite(A, generation, head, 7, (0, 1), 1),
        lambda generation, head: it.Cover(A, generation, head, 7, ("old",)),
    ],
    ids=["flush", "rewrite", "cover"],
)
def test_upkeep_lands_on_the_branch_and_the_head_it_was_staged_on(
    upkeep: Callable[[int, int], it.Upkeep],
) -> None:
    """C4-C6: a restore in between makes it void, even where the head is the same one; so does another head."""
    state = base()
    judged = {on: letter(verdict(state, upkeep(*on))) for on in ((0, 1), (1, 1), (0, 2))}
    assert judged == {(0, 1): ".", (1, 1): "V", (0, 2): "V"}
    for on in ((1, 1), (0, 2)):
        assert apply(state, at(JUDGED), upkeep(*on)) == state


ADD, DROP, RENAME, WIDEN = (
    it.AddColumn(b"f", "1"),
    it.DropColumn("d"),
    it.RenameColumn("c", "e"),
    it.WidenColumn("c", b"f"),
)
ORDER, MAY, MAY_NOT = it.OrderColumns(("d", "c")), it.SetNullable("c", True), it.SetNullable("c", False)
LATE: dict[str, it.Rowwise] = {
    "put": it.Put(A, SOME),
    "upsert": it.Upsert(A, SOME),
    "overwrite": it.Overwrite(A, SOME),
    "delete keys": it.DeleteKeys(A, 1, 2),
    "bulk put": it.Put(A, staged()),
    "bulk upsert": it.Upsert(A, staged()),
    "bulk overwrite": it.Overwrite(A, staged()),
    "delete where": it.DeleteWhere(A, "true"),
    "update where": it.UpdateWhere(A, (("a", "1"),), None),
    "delete rows": it.DeleteRows(A, 1, 2),
}


@pytest.mark.parametrize(
    ("layouts", "wanted"),
    [
        ([], ". . . . . . . . . ."),
        ([(ADD,)], ". . . . . . . R R ."),
        ([(RENAME,)], ". . . . . . . R R ."),
        ([(WIDEN,)], ". . . . . . . R R ."),
        ([(ORDER,)], ". . . . . . . R R ."),
        ([(MAY,)], ". . . . . . . R R ."),
        ([(ADD, RENAME), (WIDEN,), (ORDER, MAY)], ". . . . . . . R R ."),
        ([(DROP,)], "R R R . . . . R R ."),
        ([(ADD, DROP), (WIDEN,)], "R R R . . . . R R ."),
        ([(MAY_NOT,)], "R R R . R R R R R ."),
        ([(WIDEN,), (ADD, MAY_NOT, RENAME)], "R R R . R R R R R ."),
        ([()], "R R R R R R R R R ."),
        ([(ADD,), (), (ADD,)], "R R R R R R R R R ."),
        ([(DROP,), (), (MAY_NOT,)], "R R R R R R R R R ."),
    ],
    ids=str,
)
def test_rows_of_earlier_columns_are_converted_or_planned_again(
    layouts: list[tuple[it.Step, ...]], wanted: str
) -> None:
    """C7: planned again where a value would be lost or could be refused, or a name could mean another column."""
    assert {type(action) for action in LATE.values()} == set(it.Rowwise.__args__)
    state, on = base(), 0
    for number, steps in enumerate(layouts, start=5):
        state = apply(state, at(LANDED), alter(number, *steps, on=on))
        on = number
    assert " ".join(letter(verdict(state, action)) for action in LATE.values()) == wanted
    for action in LATE.values():
        if not isinstance(action, it.DeleteRows):
            assert verdict(state, msgspec.structs.replace(action, layout=on)) == Go()
            ahead = verdict(state, msgspec.structs.replace(action, layout=99))  # columns that it never had
            text = "the columns of table 't' have changed since this change was begun"
            assert ahead == Conflict(Kind.REPLAN, text)
    assert (verdict(state, alter(99, on=on)), letter(verdict(state, alter(99, on=98)))) == (Go(), "R")


def test_keys_go_by_the_columns_they_were_named_with_unless_a_client_made_others() -> None:
    """C7: what an alteration does to a key is known; what another client of the namespace did is not, for ever after."""
    other = it.Advance(A, 3, 7, 4, it.Layout(6, schema("c", "d"), ()), ("c", "d"))
    state = apply(base(), at(LANDED), alter(5, RENAME, DROP, MAY_NOT))
    assert verdict(state, it.DeleteKeys(A, 1, 2, 0)) == Go()
    state = apply(state, at(LANDED), other)
    state = apply(state, at(LANDED), alter(7, ADD, on=6))
    judged = {layout: letter(verdict(state, it.DeleteKeys(A, 1, 2, layout))) for layout in (0, 5, 6, 7, 99)}
    assert judged == {0: "R", 5: "R", 6: ".", 7: ".", 99: "R"}


def test_columns_that_a_restore_took_away_are_not_known() -> None:
    """C6 and C7: what was written for them is planned again, and what the table has again goes ahead."""
    state = apply(base(), at(LANDED), alter(5, ADD))
    state = apply(state, at(LANDED), it.Restore(A, 8, 7, 2, (FIRST,), ()))
    assert verdict(state, it.Put(A, SOME)) == Go()
    assert letter(verdict(state, it.Put(A, SOME, 5))) == "R"
    assert letter(verdict(state, alter(6, on=5))) == "R"


def test_only_the_next_version_can_be_made() -> None:
    """G3: one that is there already was made by somebody else, and none is left out."""
    for version, kind in ((1, Kind.EXISTS), (2, Kind.EXISTS), (4, Kind.MISSING), (9, Kind.MISSING)):
        text = f"table 't' is at version 2, and version {version} cannot be the next"
        assert verdict(base(), it.Advance(A, version, 7, 4)) == Conflict(kind, text, BASE_END)
    assert verdict(base(), it.Advance(A, 3, 7, 4)) == Go()


@pytest.mark.parametrize(
    ("tagged", "ranges", "wanted"),
    [
        ([], (), None),
        ([], ((1, 1),), None),
        ([], ((1, 3), (2, 4)), None),
        ([], ((5, 5),), (Kind.IN_USE, "version 5 of table 't' is its newest: it cannot be deleted", None)),
        ([], ((1, 5),), (Kind.IN_USE, "version 5 of table 't' is its newest: it cannot be deleted", None)),
        ([], ((4, 6),), (Kind.MISSING, "table 't' has no versions 4 to 6: it is at version 5", None)),
        ([], ((0, 1),), (Kind.MISSING, "table 't' has no versions 0 to 1: it is at version 5", None)),
        ([], ((3, 2),), (Kind.MISSING, "table 't' has no versions 3 to 2: it is at version 5", None)),
        ([], ((1, 1), (7, 7)), (Kind.MISSING, "table 't' has no versions 7 to 7: it is at version 5", None)),
        ([7], ((1, 4),), None),
        ([8], ((2, 4),), None),
        ([8], ((1, 1),), (Kind.IN_USE, "version 1 of table 't' is named by tag 'a': remove the tag first", 50)),
        ([10], ((1, 1), (3, 4)), None),
        ([10], ((2, 2),), (Kind.IN_USE, "version 2 of table 't' is named by tag 'a': remove the tag first", 50)),
        ([20], ((4, 4),), None),
        ([20], ((3, 4),), (Kind.IN_USE, "version 3 of table 't' is named by tag 'a': remove the tag first", 50)),
        ([30], ((1, 3),), None),
        ([8, 30], ((2, 4),), (Kind.IN_USE, "version 4 of table 't' is named by tag 'b': remove the tag first", 51)),
        ([60], ((1, 4),), None),
    ],
    ids=str,
)
def test_versions_that_are_needed_stay(
    tagged: list[int], ranges: tuple[tuple[int, int], ...], wanted: tuple[Kind, str, int | None] | None
) -> None:
    """G5: the newest one, and the one that a table was at where a tag points; what is not there cannot be deleted."""
    state = base()  # version 1 at position 8, 2 at 9, 3 at 20, 4 at 30 and 5 at 40
    for position in (20, 30, 40):
        state = apply(state, at(position), it.Put(A, SOME))
    for number, position in enumerate(tagged):
        state = apply(state, at(50 + number), do.PutTag("ab"[number], position, False))
    found, _ = judge(transaction(it.DeleteVersions(A, ranges)), state, at(61))
    assert found == (Go() if wanted is None else Conflict(*wanted))
    twice = apply(state, at(60), it.DeleteVersions(A, ((1, 1),)))
    assert judge(transaction(it.DeleteVersions(A, ranges)), twice, at(61))[0] == found


def test_an_objection_to_an_index_says_which_are_there() -> None:
    """Declared twice under one name, or dropped under a name that none has."""
    taken = verdict(base(), it.DeclareIndex(A, "old", "another", "bitmap", {}))
    assert taken == Conflict(Kind.EXISTS, "index 'old' exists already")
    missing = verdict(base(), it.DropIndex(A, "none"))
    assert missing == Conflict(Kind.MISSING, "index 'none' does not exist; there is: old")


def test_an_index_is_of_a_column_that_is_there() -> None:
    """One that was planned before its column went or got another name is planned again; a taken name comes first."""
    gone = verdict(base(), it.DeclareIndex(A, "new", "another", "btree", {}))
    assert gone == Conflict(Kind.REPLAN, "there is no column 'another' any more; there is: c, d")
    state = apply(base(), at(LANDED), alter(5, RENAME, DROP, ADD))
    judged = {column: verdict(state, it.DeclareIndex(A, "i", column, "btree", {})) for column in ("c", "d", "e", "new")}
    assert "".join(map(letter, judged.values())) == "RR.."
    assert judged["c"] == Conflict(Kind.REPLAN, "there is no column 'c' any more; there is: e, new")
    state = apply(state, at(LANDED), it.Restore(A, 8, 7, 2, (FIRST,), ()))
    assert verdict(state, it.DeclareIndex(A, "i", "c", "btree", {})) == Go()
    assert letter(verdict(state, it.DeclareIndex(A, "i", "e", "btree", {}))) == "R"
    declared = apply(state, at(LANDED), do.CreateTable(("u",), B, {}))  # nothing is known of its columns yet
    assert verdict(declared, it.DeclareIndex(B, "i", "c", "btree", {})) == Go()
