"""The judge: every action against every action, in both orders (known bug 19)."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from phalanx.catalog import State, apply, step
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.txn.conflict import RULES, Already, Conflict, Go, Kind, Verdict, judge

A, B, C, D, E, F = (letter * 32 for letter in "abcdef")
MADE, BASE_END, LANDED, JUDGED = 8, 9, 10, 11
PAYLOADS = (b"rows", b"more")
SOME = it.Inline(0, 2)
FIRST = it.Layout(0, b"", ())


def transaction(*actions: do.Action) -> Transaction:
    return Transaction(b"1" * 16, "", actions)


def at(position: int) -> Landing:
    return Landing(position, 0, PAYLOADS)


def verdict(state: State, *actions: do.Action) -> Verdict:
    return judge(transaction(*actions), state, at(JUDGED))[0]


def staged(base: int = BASE_END) -> it.Staged:
    """Rows that were staged when their table had last moved at `base`, as a version that may be its next head."""
    return it.Staged(5, 0, 1, 2, base, 0, 0, 2, True)


def alter(layout: int, *steps: it.Step, of: str = A, on: int = 0) -> it.Alter:
    return it.Alter(of, on, it.Layout(layout, b"", (), steps))


def base() -> State:
    """A namespace n, a table t with two items and one e without any, a tag old, and a source that has come to 4.

    Table t is at version 2; its first one is that of position 8.
    """
    state = step(State(), at(1), transaction(do.Found(do.Settings())))
    made = do.CreateNamespace(("n",), {}), do.CreateTable(("t",), A, {}, b"", (), 1), it.Put(A, SOME)
    state = step(state, at(MADE), transaction(*made))
    held = (
        it.Put(A, SOME),
        it.DeclareIndex(A, "old", "c", "btree", {}),
        do.CreateTable(("e",), E, {}, b"", (), 1),
        do.PutTag("old", 1, False),
        do.Progress("feed", None, 4),
    )
    return step(state, at(BASE_END), transaction(*held))


SAMPLES: dict[str, tuple[do.Action, ...]] = {
    "found": (do.Found(do.Settings()),),
    "make namespace x": (do.CreateNamespace(("x",), {}),),
    "alter namespace n": (do.AlterNamespace(("n",), {"k": "v"}),),
    "drop namespace n": (do.DropNamespace(("n",)),),
    "make table x": (do.CreateTable(("x",), B, {}),),
    "make table n.i": (do.CreateTable(("n", "i"), C, {}),),
    "drop table t": (do.DropTable(("t",), A),),
    "replace table t": (do.DropTable(("t",), A), do.CreateTable(("t",), D, {})),
    "rename t to x": (do.RenameTable(("t",), A, ("x",)),),
    "rename t to n.t": (do.RenameTable(("t",), A, ("n", "t")),),
    "tag v = 3": (do.PutTag("v", 3, False),),
    "tag v = 4": (do.PutTag("v", 4, False),),
    "move v to 4": (do.PutTag("v", 4, True),),
    "untag old": (do.Untag("old"),),
    "set property": (do.SetProperty("k", "v"),),
    "feed 4 to 5": (do.Progress("feed", 4, 5),),
    "feed 4 to 6": (do.Progress("feed", 4, 6),),
    "put t": (it.Put(A, SOME),),
    "upsert t": (it.Upsert(A, SOME),),
    "overwrite t": (it.Overwrite(A, SOME),),
    "delete keys t": (it.DeleteKeys(A, 1, 2),),
    "delete rows t": (it.DeleteRows(A, 1, 2),),
    "delete where t": (it.DeleteWhere(A, "true"),),
    "update where t": (it.UpdateWhere(A, (("a", "1"),), None),),
    "bulk put t": (it.Put(A, staged()),),
    "flush 1 of t": (it.Flush(A, 0, 1, 0, 1, 2, 0, 2),),
    "flush 2 of t": (it.Flush(A, 0, 1, 0, 2, 3, 0, 4),),
    "rewrite t": (it.Rewrite(A, 0, 1, 4, (0, 1), 1),),
    "cover t": (it.Cover(A, 0, 1, 5, ("old",)),),
    "index t as new": (it.DeclareIndex(A, "new", "c", "bitmap", {}),),
    "unindex old of t": (it.DropIndex(A, "old"),),
    "bulk put e": (it.Put(E, staged(0)),),
    "rewrite e": (it.Rewrite(E, 0, 1, 4, (0, 1), 1),),
    "deregister t": (do.DeregisterTable(("t",), A),),
    "revive f as x": (do.ReviveTable(("x",), F, {}, MADE, 4), it.Restore(F, 3, 7, 2, (FIRST,), ())),
    "widen t": (alter(5, it.AddColumn(b"f", "1"), it.WidenColumn("c", b"f"), it.SetNullable("c", True)),),
    "drop column c of t": (alter(6, it.DropColumn("c")),),
    "no more nulls in t": (alter(7, it.SetNullable("c", False)),),
    "restore t": (it.Restore(A, 8, 7, 2, (FIRST,), (it.Index("old", "c", "btree", {}, 9),)),),
    "restore columns": (it.Restore(A, 8, 7, 2, (it.Layout(8, b"", ()),), ()),),
    "advance t": (it.Advance(A, 3, 7, 4),),
    "advance columns": (it.Advance(A, 3, 8, 4, it.Layout(9, b"", ()), ("d",)),),
    "tag w = 8": (do.PutTag("w", MADE, False),),
    "delete v1 of t": (it.DeleteVersions(A, ((1, 1),)),),
}
# Down: what landed first. Across, in the same order: what is judged next.
#   .  goes ahead       =  has taken effect already
#   E  exists   M  is missing   N  is not empty   C  has changed   B  is behind   V  is void
#   R  is of other columns   U  is in use
MATRIX = """
    found              E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    make namespace x   E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . .
    alter namespace n  E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    drop namespace n   E . M M . M . . . M . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    make table x       E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . .
    make table n.i     E . . N . E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    drop table t       E . . . . . M M M M . . . . . . . M M M M M M M M M M M M M M . . M . M M M M M M M . M
    replace table t    E . . . . . C C C C . . . . . . . M M M M M M M M M M M M M M . . C . M M M M M M M . M
    rename t to x      E E . . E . M M M M . . . . . . . . . . . . . . . . . . . . . . . M E . . . . . . . . .
    rename t to n.t    E . . N . . M M M M . . . . . . . . . . . . . . . . . . . . . . . M . . . . . . . . . .
    tag v = 3          E . . . . . . . . . = E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    tag v = 4          E . . . . . . . . . E = = . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    move v to 4        E . . . . . . . . . E = = . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    untag old          E . . . . . . . . . . . . M . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    set property       E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    feed 4 to 5        E . . . . . . . . . . . . . . = B . . . . . . . . . . . . . . . . . . . . . . . . . . .
    feed 4 to 6        E . . . . . . . . . . . . . . B = . . . . . . . . . . . . . . . . . . . . . . . . . . .
    put t              E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    upsert t           E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    overwrite t        E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    delete keys t      E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    delete rows t      E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    delete where t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    update where t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    bulk put t         E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . .
    flush 1 of t       E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . .
    flush 2 of t       E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . .
    rewrite t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . .
    cover t            E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . .
    index t as new     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . . . . . . .
    unindex old of t   E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . M . . . . . . . . . . . . .
    bulk put e         E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . . . . . . . . . .
    rewrite e          E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . . . . . . . . . .
    deregister t       E . . . . . M M M M . . . . . . . M M M M M M M M M M M M M M . . M . M M M M M M M . M
    revive f as x      E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . .
    widen t            E . . . . . . . . . . . . . . . . . . . . . R R . . . . . . . . . . . R R R . . E E . .
    drop column c of t E . . . . . . . . . . . . . . . . R R R R . R R . . . . . . M . . . . R R R . . E E . .
    no more nulls in t E . . . . . . . . . . . . . . . . R R R R . R R R . . . . . . . . . . R R R . . E E . .
    restore t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . E E . .
    restore columns    E . . . . . . . . . . . . . . . . R R R R . R R R V V V V . M . . . . R R R . . E E . .
    advance t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . E E . .
    advance columns    E . . . . . . . . . . . . . . . . R R R R . R R R V V V V . M . . . . R R R . . E E . .
    tag w = 8          E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . = U
    delete v1 of t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
"""
LETTERS = {
    "E": Kind.EXISTS,
    "M": Kind.MISSING,
    "N": Kind.NOT_EMPTY,
    "C": Kind.CHANGED,
    "B": Kind.BEHIND,
    "V": Kind.VOID,
    "R": Kind.REPLAN,
    "U": Kind.IN_USE,
}
ROWS = {line[4:22].strip(): line[22:].split() for line in MATRIX.strip("\n").splitlines()}


def letter(found: Verdict) -> str:
    if isinstance(found, Go | Already):
        return "." if isinstance(found, Go) else "="
    return next(letter for letter, kind in LETTERS.items() if kind is found.kind)


@pytest.mark.parametrize("first", SAMPLES)
def test_what_landed_first_decides_what_may_follow(first: str) -> None:
    """Every action against every action, in both orders, as written down in the matrix."""
    state = base()
    if first != "found":  # the lake was founded before anything else could land
        found, state = judge(transaction(*SAMPLES[first]), state, at(LANDED))
        assert found == Go()
    verdicts = {second: verdict(state, *actions) for second, actions in SAMPLES.items()}
    assert [letter(found) for found in verdicts.values()] == ROWS[first]
    for second, found in verdicts.items():
        if not isinstance(found, Go) and letter(found) in "=EBCVU":
            moved = first.startswith(("rename", "revive")) and second.endswith(
                " x"
            )  # a table keeps the position of its creation
            winner = 1 if second == "found" else MADE if moved else LANDED
            assert found.position == (None if second.startswith("index") else winner), f"{second} after {first}"


def test_every_kind_of_action_is_in_the_matrix() -> None:
    """A new kind of action fails here until it has rules, a sample, a row and a column."""
    kinds = {type(action) for actions in SAMPLES.values() for action in actions}
    assert kinds == set(do.Action.__args__) == set(RULES)
    assert list(ROWS) == list(SAMPLES)
    assert all(len(row) == len(SAMPLES) for row in ROWS.values())


def test_a_table_that_was_dropped_and_created_anew_is_another_table() -> None:
    """I10: no drop, deregistration or rename mistakes it for the one they mean, and the error says since when it is another."""
    anew = step(base(), at(LANDED), transaction(do.DropTable(("t",), A), do.CreateTable(("t",), B, {})))
    for action in (do.DropTable(("t",), A), do.DeregisterTable(("t",), A), do.RenameTable(("t",), A, ("u",))):
        found = verdict(anew, action)
        assert isinstance(found, Conflict)
        assert (found.kind, found.position) == (Kind.CHANGED, LANDED)
    assert verdict(anew, do.DropTable(("t",), B)) == Go()


def test_another_table_under_a_renamed_ones_name_is_not_taken_for_it() -> None:
    """I10: t was renamed away and a new t made; what means the old one does not touch the new one."""
    swapped = step(base(), at(LANDED), transaction(do.RenameTable(("t",), A, ("u",)), do.CreateTable(("t",), B, {})))
    found = verdict(swapped, do.DropTable(("t",), A))
    assert isinstance(found, Conflict)
    assert found.kind is Kind.CHANGED
    assert verdict(swapped, do.DropTable(("u",), A)) == Go()


@pytest.mark.parametrize(
    ("held", "expected", "new", "wanted"),
    [
        (None, None, 1, Go()),
        (None, 1, 2, Kind.BEHIND),
        (4, 4, 5, Go()),
        (4, 4, 2, Go()),
        (4, 3, 4, Already(BASE_END)),
        (4, None, 4, Already(BASE_END)),
        (4, 4, 4, Already(BASE_END)),
        (4, 3, 5, Kind.BEHIND),
        (4, 5, 6, Kind.BEHIND),
        (4, None, 5, Kind.BEHIND),
        (0, None, 0, Already(BASE_END)),
        (0, 0, -1, Go()),
    ],
)
def test_progress_is_compare_and_set(held: int | None, expected: int | None, new: int, wanted: Verdict | Kind) -> None:
    """B7: at `new` it was done before; not at `expected` it is refused; otherwise it goes ahead."""
    state = State() if held is None else step(State(), at(BASE_END), transaction(do.Progress("s", None, held)))
    found = verdict(state, do.Progress("s", expected, new))
    assert (found.kind if isinstance(found, Conflict) else found) == wanted


def test_progress_settles_the_whole_transaction() -> None:
    """B7: the numbered work was done before, so what else it carries is neither judged nor done again."""
    done = (do.CreateTable(("x",), B, {}), do.Progress("feed", 4, 5))
    state = step(base(), at(LANDED), transaction(*done))
    assert verdict(state, *done) == Already(LANDED)
    assert verdict(state, do.Progress("feed", 4, 5), do.DropTable(("none",), A)) == Already(LANDED)
    assert letter(verdict(state, do.CreateTable(("y",), C, {}), do.Progress("feed", 5, 6))) == "."
    assert letter(verdict(state, do.CreateTable(("y",), C, {}), do.Progress("feed", 4, 6))) == "B"


def test_a_tag_that_is_there_already_holds_up_nothing_else() -> None:
    """Alone it has taken effect before; beside other work it is no objection."""
    state = step(base(), at(LANDED), transaction(do.PutTag("v", 3, False)))
    assert verdict(state, do.PutTag("v", 3, False)) == Already(LANDED)
    found, after = judge(transaction(do.PutTag("v", 3, False), do.SetProperty("k", "v")), state, at(JUDGED))
    assert found == Go()
    assert after.properties["k"] == "v"


MAKE, FILL = do.CreateNamespace(("m",), {}), do.CreateTable(("m", "t"), B, {})


@pytest.mark.parametrize(
    ("actions", "wanted"),
    [
        ((), "."),
        ((MAKE, FILL), "."),
        ((FILL, MAKE), "M"),
        ((MAKE, MAKE), "E"),
        ((MAKE, do.DropNamespace(("m",)), MAKE), "."),
        ((MAKE, FILL, do.DropNamespace(("m",))), "N"),
        ((MAKE, FILL, do.DropTable(("m", "t"), B), do.DropNamespace(("m",))), "."),
        ((do.DropTable(("t",), A), do.CreateTable(("t",), B, {})), "."),
        ((do.CreateTable(("t",), B, {}), do.DropTable(("t",), A)), "E"),
        ((do.DropTable(("t",), A), do.DropTable(("t",), A)), "M"),
        ((do.DropTable(("t",), A), do.CreateTable(("t",), B, {}), do.DropTable(("t",), A)), "C"),
        ((do.RenameTable(("t",), A, ("u",)), do.RenameTable(("u",), A, ("t",))), "."),
        ((do.RenameTable(("t",), A, ("t",)),), "E"),
        ((do.RenameTable(("t",), A, ("none", "t")),), "M"),
        ((do.CreateNamespace(("t", "inner"), {}),), "M"),
        ((do.PutTag("v", 1, False), do.PutTag("v", 2, False)), "E"),
        ((do.PutTag("v", 1, False), do.PutTag("v", 2, True), do.Untag("v")), "."),
        ((do.Progress("feed", 4, 5), do.Progress("feed", 5, 6)), "."),
        ((do.Progress("feed", 5, 6), do.Progress("feed", 4, 5)), "B"),
        ((do.SetProperty("k", "1"), do.Untag("none")), "M"),
        ((do.CreateTable(("x",), B, {}), it.Put(B, SOME), it.DeleteWhere(B, "true")), "."),
        ((it.Put(B, SOME), do.CreateTable(("x",), B, {})), "M"),
        ((do.CreateTable(("x",), A, {}),), "E"),
        ((do.CreateTable(("x",), B, {}), do.CreateTable(("y",), B, {})), "E"),
        ((it.Put(A, SOME), do.DropTable(("t",), A)), "."),
        ((do.DropTable(("t",), A), it.Put(A, SOME)), "M"),
        ((do.DropTable(("t",), A), do.CreateTable(("t",), B, {}), it.Put(A, SOME)), "M"),
        ((do.RenameTable(("t",), A, ("u",)), it.Put(A, SOME)), "."),
        ((it.Put(A, SOME), it.Flush(A, 0, 1, 0, 3, 2, 0, 6)), "."),
        ((it.Flush(A, 0, 1, 0, 3, 2, 0, 6), it.Put(A, SOME)), "V"),
        ((it.Flush(A, 0, 1, 0, 1, 2, 0, 2), it.Flush(A, 0, 2, 1, 2, 3, 2, 4)), "."),
        ((it.Flush(A, 0, 1, 0, 2, 2, 0, 4), it.Cover(A, 0, 2, 3, ("old",))), "."),
        ((it.DropIndex(A, "old"), it.DeclareIndex(A, "old", "d", "btree", {})), "."),
        ((it.DropIndex(A, "old"), it.DropIndex(A, "old")), "M"),
        ((do.CreateTable(("x",), B, {}), it.DeclareIndex(B, "old", "c", "btree", {})), "."),
        ((it.Flush(A, 0, 1, 0, 2, 2, 0, 4), it.Rewrite(A, 0, 2, 3, (0,), 1)), "."),
        ((do.DeregisterTable(("t",), A), do.CreateTable(("t",), B, {})), "."),
        ((do.DeregisterTable(("t",), A), do.DropTable(("t",), A)), "M"),
        ((do.DropTable(("t",), A), do.DeregisterTable(("t",), A)), "M"),
        ((do.DeregisterTable(("t",), B),), "C"),
        ((do.DropTable(("t",), A), do.ReviveTable(("t",), A, {}, MADE, 2)), "."),
        ((do.DropTable(("t",), A), do.ReviveTable(("t",), A, {}, MADE, 2), it.Restore(A, 9, 7, 2, (FIRST,), ())), "."),
        ((do.DropTable(("t",), A), do.ReviveTable(("n",), A, {}, MADE, 2)), "E"),
        ((do.DropTable(("t",), A), do.ReviveTable(("none", "t"), A, {}, MADE, 2)), "M"),
        ((do.ReviveTable(("t",), F, {}, 1, 2),), "E"),
        ((do.ReviveTable(("u",), A, {}, MADE, 2),), "E"),
        ((do.ReviveTable(("u",), F, {}, 1, 2), do.ReviveTable(("v",), F, {}, 1, 2)), "E"),
        ((do.ReviveTable(("u",), F, {}, 1, 2), do.CreateTable(("v",), F, {})), "E"),
        ((alter(5), alter(6, on=5)), "."),
        ((alter(5), alter(6)), "R"),
        ((alter(5, it.DropColumn("c")), it.Put(A, SOME)), "R"),
        ((alter(5, it.DropColumn("c")), it.Put(A, SOME, 5)), "."),
        ((it.Put(A, SOME), alter(5, it.DropColumn("c"))), "."),
        ((it.Put(A, SOME, 5), alter(5)), "R"),
        ((alter(5, it.DropColumn("c")), it.DropIndex(A, "old")), "M"),
        ((alter(5, it.RenameColumn("c", "d")), it.DropIndex(A, "old")), "."),
        ((alter(5), it.Flush(A, 0, 1, 0, 3, 2, 0, 6), it.Put(A, SOME, 5)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Flush(A, 0, 1, 0, 2, 2, 0, 4)), "V"),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Put(A, SOME), it.Flush(A, JUDGED, 7, 2, 3, 2, 0, 4)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Rewrite(A, JUDGED, 7, 8, (0,), 1)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Restore(A, 8, 7, 2, (FIRST,), ())), "."),
        ((it.Restore(B, 8, 7, 2, (FIRST,), ()),), "M"),
        ((it.Advance(A, 3, 7, 4), it.Rewrite(A, 0, 7, 8, (0,), 1)), "."),
        ((it.Advance(A, 3, 7, 4), it.Advance(A, 3, 7, 4)), "E"),
        ((it.Put(A, SOME), it.Advance(A, 3, 7, 4)), "E"),
        ((it.Put(A, SOME), it.Advance(A, 4, 7, 4)), "."),
        ((it.Advance(A, 4, 7, 4),), "M"),
        ((do.CreateTable(("x",), B, {}), it.Advance(B, 1, 7, 4, it.Layout(5, b"", ()), ("c",))), "."),
        ((do.CreateTable(("x",), B, {}), it.Advance(B, 2, 7, 4)), "M"),
        ((do.CreateTable(("x",), B, {}, b"", (), 1), it.Advance(B, 1, 7, 4)), "E"),
        ((it.DeleteVersions(A, ((2, 2),)),), "U"),
        ((it.Put(A, SOME), it.DeleteVersions(A, ((1, 2),))), "."),
        ((do.PutTag("w", MADE, False), it.DeleteVersions(A, ((1, 1),))), "U"),
        ((do.PutTag("w", MADE, False), do.Untag("w"), it.DeleteVersions(A, ((1, 1),))), "."),
        ((it.DeleteVersions(A, ((1, 1),)), do.PutTag("w", MADE, False)), "."),
    ],
)
def test_the_order_inside_a_transaction_counts(actions: Sequence[do.Action], wanted: str) -> None:
    """Each action is judged on what the ones before it leave; one that may not land keeps back all of them."""
    state = base()
    found, after = judge(transaction(*actions), state, at(JUDGED))
    assert letter(found) == wanted
    assert after == (step(state, at(JUDGED), transaction(*actions)) if wanted == "." else state)


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
    it.RenameColumn("c", "d"),
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
        ([(DROP,)], "R R R R . . . R R ."),
        ([(ADD, DROP), (WIDEN,)], "R R R R . . . R R ."),
        ([(MAY_NOT,)], "R R R R R R R R R ."),
        ([(WIDEN,), (ADD, MAY_NOT, RENAME)], "R R R R R R R R R ."),
        ([()], "R R R R R R R R R ."),
        ([(ADD,), (), (ADD,)], "R R R R R R R R R ."),
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


def test_an_objection_says_what_to_do() -> None:
    """Every kind carries advice, and every message names its object."""
    assert all(kind.value for kind in Kind)
    found = verdict(base(), do.CreateTable(("t",), B, {}))
    assert found == Conflict(Kind.EXISTS, "table 't' exists already, since version 8", MADE)


def test_sources_that_move_together_are_done_together_or_not_at_all() -> None:
    """Rule B7 with two sources: only if both are where the transaction brings them was it done before."""
    state = apply(State(), at(2), do.Progress("a", None, 1))
    both = Transaction(b"2" * 16, "", (do.Progress("a", None, 1), do.Progress("b", None, 1)))
    verdict, _ = judge(both, state, at(3))
    assert isinstance(verdict, Conflict)
    assert verdict.kind is Kind.BEHIND
    verdict, _ = judge(both, apply(state, at(3), do.Progress("b", None, 1)), at(4))
    assert verdict == Already(3)


def test_a_tag_names_no_version_of_the_future() -> None:
    """The position it lands on is the highest it may name."""
    for position, wanted in ((5, True), (6, False)):
        verdict, _ = judge(Transaction(b"2" * 16, "", (do.PutTag("t", position, False),)), State(), at(5))
        assert isinstance(verdict, Go) == wanted
