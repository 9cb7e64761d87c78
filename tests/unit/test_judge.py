"""The judge: every action against every action, in both orders (known bug 19)."""

from collections.abc import Sequence

import pytest

from phalanx.catalog import State, apply, step
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Transaction
from phalanx.txn.conflict import RULES, judge
from phalanx.txn.verdict import Already, Conflict, Go, Kind, Verdict
from phalanx.versions import Versions, pack_versions
from tests.unit.judging import (
    BASE_END,
    FIRST,
    JUDGED,
    LANDED,
    MADE,
    SOME,
    A,
    B,
    C,
    D,
    E,
    F,
    alter,
    at,
    base,
    letter,
    schema,
    staged,
    transaction,
    verdict,
)

PAST = pack_versions(Versions().add(1, 1, 0).add(2, 3, 0).add(3, 3, 1).add(4, 4, 0))
"""Where four versions of a table landed that was dropped."""
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
    "revive f as x": (do.ReviveTable(("x",), F, {}, MADE, 4, PAST, ((1, 2),)), it.Restore(F, 3, 7, 2, (FIRST,), ())),
    "widen t": (alter(5, it.AddColumn(b"f", "1"), it.WidenColumn("c", b"f"), it.SetNullable("c", True)),),
    "drop column c of t": (alter(6, it.DropColumn("c")),),
    "no more nulls in t": (alter(7, it.SetNullable("c", False)),),
    "restore t": (it.Restore(A, 8, 7, 2, (FIRST,), (it.Index("old", "c", "btree", {}, 9),)),),
    "restore columns": (it.Restore(A, 8, 7, 2, (it.Layout(8, schema("x"), ()),), ()),),
    "advance t": (it.Advance(A, 3, 7, 4),),
    "advance columns": (it.Advance(A, 3, 8, 4, it.Layout(9, schema("d"), ()), ("d",)),),
    "tag w = 8": (do.PutTag("w", MADE, False),),
    "delete v1 of t": (it.DeleteVersions(A, ((1, 1),)),),
    "ann claims of t": (it.Claim(A, 0, (0, 1), "ann", 5, 9),),
    "bob claims of t": (it.Claim(A, 0, (1, 2), "bob", 6, 9),),
    "prune v1 of t": (do.Prune(1, 0, 0, (), (), ((A, ((1, 1),)),)),),
    "prune below 6": (do.Prune(6, 5, 7, (1,)),),
}
# Down: what landed first. Across, in the same order: what is judged next.
#   .  goes ahead       =  has taken effect already
#   E  exists   M  is missing   N  is not empty   C  has changed   B  is behind   V  is void
#   R  is of other columns   U  is in use
MATRIX = """
    found              E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    make namespace x   E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . . . . . .
    alter namespace n  E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    drop namespace n   E . M M . M . . . M . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    make table x       E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . . . . . .
    make table n.i     E . . N . E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    drop table t       E . . . . . M M M M . . . . . . . M M M M M M M M M M M M M M . . M . M M M M M M M . M M M . .
    replace table t    E . . . . . C C C C . . . . . . . M M M M M M M M M M M M M M . . C . M M M M M M M . M M M . .
    rename t to x      E E . . E . M M M M . . . . . . . . . . . . . . . . . . . . . . . M E . . . . . . . . . . . . .
    rename t to n.t    E . . N . . M M M M . . . . . . . . . . . . . . . . . . . . . . . M . . . . . . . . . . . . . .
    tag v = 3          E . . . . . . . . . = E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V
    tag v = 4          E . . . . . . . . . E = = . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V
    move v to 4        E . . . . . . . . . E = = . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V
    untag old          E . . . . . . . . . . . . M . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    set property       E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    feed 4 to 5        E . . . . . . . . . . . . . . = B . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    feed 4 to 6        E . . . . . . . . . . . . . . B = . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
    put t              E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    upsert t           E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    overwrite t        E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    delete keys t      E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    delete rows t      E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    delete where t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    update where t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    bulk put t         E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . E E . . . . . .
    flush 1 of t       E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . . . . . .
    flush 2 of t       E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . . . . . .
    rewrite t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . . . . . .
    cover t            E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . . . . . . . . .
    index t as new     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . . . . . . . . . . .
    unindex old of t   E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . M . . . . . . . . . . . . . . . . .
    bulk put e         E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . . . . . . . . . . . . . .
    rewrite e          E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . . . . . . . . . . . . . .
    deregister t       E . . . . . M M M M . . . . . . . M M M M M M M M M M M M M M . . M . M M M M M M M . M M M . .
    revive f as x      E E . . E . . . E . . . . . . . . . . . . . . . . . . . . . . . . . E . . . . . . . . . . . . .
    widen t            E . . . . . . . . . . . . . . . . . . . . . R R . . . . . . . . . . . R R R . . E E . . . . . .
    drop column c of t E . . . . . . . . . . . . . . . . R R R . . R R . . . . . R M . . . . R R R . . E E . . . . . .
    no more nulls in t E . . . . . . . . . . . . . . . . R R R . . R R R . . . . . . . . . . R R R . . E E . . . . . .
    restore t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . E E . . V V . .
    restore columns    E . . . . . . . . . . . . . . . . R R R R . R R R V V V V R M . . . . R R R . . E E . . V V . .
    advance t          E . . . . . . . . . . . . . . . . . . . . . . . . V V V V . . . . . . . . . . . E E . . V V . .
    advance columns    E . . . . . . . . . . . . . . . . R R R R . R R R V V V V R M . . . . R R R . . E E . . V V . .
    tag w = 8          E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . = U . . V .
    delete v1 of t     E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . U U . . . . . . . .
    ann claims of t    E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . .
    bob claims of t    E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . .
    prune v1 of t      E . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . V . . . U U . . . . . . . .
    prune below 6      E . . . . . . . . . U U U . . . . . . . . . . . . . . . . . . . . . V . . . . . . . . . . . V .
"""
ROWS = {line[4:22].strip(): line[22:].split() for line in MATRIX.strip("\n").splitlines()}


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
            unnamed = second.startswith("index") or (letter(found) == "U" and second.startswith(("restore", "revive")))
            assert found.position == (None if unnamed else winner), f"{second} after {first}"


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
        ((do.DeregisterTable(("t",), A), do.ReviveTable(("t",), A, {}, MADE, 4, PAST), do.DropTable(("t",), A)), "."),
        ((do.ReviveTable(("u",), F, {}, 1, 4, PAST), it.DeleteVersions(F, ((2, 3),))), "."),
        ((do.ReviveTable(("u",), F, {}, 1, 4, PAST), it.DeleteVersions(F, ((1, 1),))), "U"),
        ((do.ReviveTable(("u",), F, {}, 1, 4, PAST), it.DeleteVersions(F, ((2, 4),))), "U"),
        ((do.PutTag("w", 3, False), do.ReviveTable(("u",), F, {}, 1, 4, PAST), it.DeleteVersions(F, ((2, 3),))), "U"),
        ((do.PutTag("w", 3, False), do.ReviveTable(("u",), F, {}, 4, 4, PAST), it.DeleteVersions(F, ((1, 3),))), "."),
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
        ((alter(5, it.RenameColumn("c", "e")), it.DropIndex(A, "old")), "."),
        ((alter(5, it.DropColumn("c")), it.DeclareIndex(A, "new", "c", "btree", {})), "R"),
        ((it.DeclareIndex(A, "new", "c", "btree", {}), alter(5, it.DropColumn("c"))), "."),
        ((alter(5, it.RenameColumn("c", "e")), it.DeclareIndex(A, "new", "c", "btree", {})), "R"),
        ((alter(5, it.RenameColumn("c", "e")), it.DeclareIndex(A, "new", "e", "btree", {})), "."),
        ((alter(5, it.RenameColumn("c", "e")), it.DeclareIndex(A, "old", "c", "btree", {})), "E"),
        ((alter(5, it.DropColumn("d")), it.DeleteKeys(A, 1, 2)), "."),
        ((it.Advance(A, 3, 7, 4, it.Layout(5, FIRST.schema, ()), ("c", "d")), it.DeleteKeys(A, 1, 2)), "R"),
        ((it.Advance(A, 3, 7, 4, it.Layout(5, FIRST.schema, ()), ("c", "d")), it.DeleteKeys(A, 1, 2, 5)), "."),
        ((alter(5), it.Flush(A, 0, 1, 0, 3, 2, 0, 6), it.Put(A, SOME, 5)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Flush(A, 0, 1, 0, 2, 2, 0, 4)), "V"),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Put(A, SOME), it.Flush(A, JUDGED, 7, 2, 3, 2, 0, 4)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Rewrite(A, JUDGED, 7, 8, (0,), 1)), "."),
        ((it.Restore(A, 8, 7, 2, (FIRST,), ()), it.Restore(A, 8, 7, 2, (FIRST,), ())), "."),
        ((it.Restore(B, 8, 7, 2, (FIRST,), ()),), "M"),
        ((it.Advance(A, 3, 7, 4), it.Rewrite(A, JUDGED, 7, 8, (0,), 1)), "."),
        ((it.Advance(A, 3, 7, 4), it.Rewrite(A, 0, 7, 8, (0,), 1)), "V"),
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
