"""What becomes of a table's columns, indexes and versions: altered, restored, advanced, deleted (C6, C7, G3, G5)."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx import contents as held
from phalanx.contents import Head, advance, flush, land, restore, rewrite
from phalanx.log import item as it
from phalanx.versions import Landed
from phalanx.waiting import Weight
from tests.unit.holding import (
    FIRST,
    INDEXES,
    INLINE,
    A,
    alter,
    at,
    landed,
    restoring,
    staged,
    table,
)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ((), [("i", "b", 3), ("j", "c", 4), ("k", "b", 5)]),
        ((it.AddColumn(b"f", None),), [("i", "b", 3), ("j", "c", 4), ("k", "b", 5)]),
        ((it.OrderColumns(("c", "b", "a")),), [("i", "b", 3), ("j", "c", 4), ("k", "b", 5)]),
        ((it.SetNullable("b", False),), [("i", "b", 3), ("j", "c", 4), ("k", "b", 5)]),
        ((it.RenameColumn("b", "d"),), [("i", "d", 3), ("j", "c", 4), ("k", "d", 5)]),
        ((it.DropColumn("b"),), [("j", "c", 4)]),
        ((it.WidenColumn("b", b"f"),), [("i", "b", 8), ("j", "c", 4), ("k", "b", 8)]),
        ((it.RenameColumn("b", "d"), it.WidenColumn("d", b"f")), [("i", "d", 8), ("j", "c", 4), ("k", "d", 8)]),
        ((it.RenameColumn("b", "d"), it.DropColumn("d")), [("j", "c", 4)]),
        ((it.DropColumn("b"), it.RenameColumn("c", "b")), [("j", "b", 4)]),
        ((it.RenameColumn("b", "d"), it.RenameColumn("c", "b"), it.DropColumn("b")), [("i", "d", 3), ("k", "d", 5)]),
        ((it.DropColumn("b"), it.AddColumn(b"b", None), it.WidenColumn("b", b"f")), [("j", "c", 4)]),
    ],
    ids=lambda part: " ".join(type(step).__name__ for step in part) if isinstance(part, tuple) else "",
)
def test_an_index_follows_its_column(steps: tuple[it.Step, ...], wanted: list[tuple[str, str, int]]) -> None:
    """C7: by name, step by step; it goes with the column, and one of another type is another index to Lance."""
    before = msgspec.structs.replace(table(), indexes=INDEXES)
    after = land(before, at(8), alter(5, *steps))
    assert [(index.name, index.column, index.since) for index in after.indexes] == wanted
    assert [index.stored for index in after.indexes] == [f"{name}-{since}" for name, _, since in wanted]
    assert (after.layouts, after.head) == ((FIRST, alter(5, *steps).layout), before.head)
    assert before.indexes == INDEXES


def test_columns_wait_like_rows_and_the_head_has_them_when_they_are_written_out() -> None:
    """C7: the layout of the table is the newest, that of its head the one of the last alteration in it."""
    before = table(it.Put(A, INLINE), alter(5), it.Put(A, INLINE), alter(6), it.Put(A, INLINE))
    assert ([one.id for one in before.layouts], before.layout.id, before.head.layout) == ([0, 5, 6], 6, 0)
    assert before.version == 6
    for until, wanted in enumerate([0, 5, 5, 6, 6], start=1):
        once = flush(before, at(9), it.Flush(A, 0, 9, 0, until, 10, 0, 9))
        assert (once.head.layout, once.layout.id, once.layouts) == (wanted, 6, before.layouts)
        if until < 5:
            rest = flush(once, at(10), it.Flush(A, 0, 10, until, 5, 11, 0, 9))
            assert (rest.head.layout, rest.layout.id) == (6, 6)


def test_the_layouts_since_one_are_known_while_the_table_has_it() -> None:
    """C7: none after the newest; nothing is known of one that it never had, or of which a restore left nothing."""
    contents = table(alter(5), alter(6))
    first, second, third = contents.layouts
    assert held.since(contents, 0) == (second, third)
    assert held.since(contents, 5) == (third,)
    assert held.since(contents, 6) == ()
    assert held.since(contents, 7) is None
    back = restore(contents, at(8), restoring(first, second))
    assert (held.since(back, 0), held.since(back, 5), held.since(back, 6)) == ((second,), (), None)


def test_a_restored_table_is_what_it_was_and_of_another_generation() -> None:
    """C6: head, columns and indexes are those of then; the tail is gone, numbers go on, and nothing staged fits."""
    before = msgspec.structs.replace(
        table(it.Put(A, INLINE), alter(5), it.Put(A, INLINE)), indexes=INDEXES, deleted=((1, 1),)
    )
    after = restore(before, at(8, 2), restoring(FIRST, it.Layout(4, b"u", ()), indexes=INDEXES[1:]))
    assert (after.generation, after.head, after.layout.id) == (8, Head(11, 7, 4), 4)
    assert (after.layouts, after.indexes) == ((FIRST, it.Layout(4, b"u", ())), INDEXES[1:])
    assert (after.version, after.changed, after.place, after.moved, after.flushed) == (before.version + 1, 8, 2, 8, 8)
    assert (after.first, after.until, len(after.items), after.weight) == (3, 3, 0, Weight())
    assert (after.serial, after.deleted) == (before.serial, ((1, 1),))
    assert landed(after) == [*landed(before), Landed(5, 8, 2)]
    assert len(before.items) == 3
    for bad in (it.Flush(A, 0, 9, 0, 1, 10, 0, 3), it.Flush(A, 0, 11, 3, 3, 10, 0, 3)):
        assert flush(after, at(9), bad) is after
    assert rewrite(after, at(9), it.Rewrite(A, 0, 11, 10, (0,), 1)) is after
    assert land(after, at(9), it.Put(A, staged(8))).until == 4
    assert land(after, at(9), it.Put(A, staged(8, 8))).head == Head(77, 50, 4)
    (pending,) = land(after, at(9), it.Put(A, INLINE)).pending()
    assert (pending.seq, pending.serial) == (3, before.serial)


@pytest.mark.parametrize(
    ("layout", "names", "wanted"),
    [
        (None, (), INDEXES),
        (None, ("c",), INDEXES),
        (it.Layout(4, b"u", ()), ("a", "b", "c"), INDEXES),
        (it.Layout(4, b"u", ()), ("a", "c"), INDEXES[1:2]),
        (it.Layout(4, b"u", ()), (), ()),
    ],
    ids=["same columns", "names without columns", "all columns", "one less", "none"],
)
def test_a_table_that_was_advanced_stands_on_what_the_client_made(
    layout: it.Layout | None, names: tuple[str, ...], wanted: tuple[it.Index, ...]
) -> None:
    """G3: the tail is in the new head, the generation is another, and indexes go whose columns are gone."""
    before = msgspec.structs.replace(
        table(it.Put(A, INLINE), alter(5), generation=3), indexes=INDEXES, deleted=((1, 1),)
    )
    after = advance(before, at(8, 2), it.Advance(A, 4, 11, 7, layout, names))
    assert after.layouts == (before.layouts if layout is None else (*before.layouts, layout))
    assert (after.generation, after.head) == (8, Head(11, 7, after.layout.id))
    assert (after.indexes, after.deleted) == (wanted, ((1, 1),))
    assert (after.version, after.changed, after.place, after.moved, after.flushed) == (4, 8, 2, 8, 8)
    assert (after.first, after.until, len(after.items), after.weight) == (2, 2, 0, Weight())
    assert (after.serial, landed(after)[-1]) == (before.serial, Landed(4, 8, 2))
    assert flush(after, at(9), it.Flush(A, 3, 9, 0, 1, 10, 0, 3)) is after
    assert land(after, at(9), it.Put(A, staged(8, 8))).head == Head(77, 50, after.layout.id)
    assert land(after, at(9), it.Put(A, staged(8, 3))).head == after.head


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))),
        max_size=6,
    )
)
def test_deleted_versions_are_those_that_were_said(said: list[list[tuple[int, int]]]) -> None:
    """G5: however ranges overlap, they are kept ascending and apart, and nothing else about the table changes."""
    before = table(it.Put(A, INLINE))
    contents, gone = before, set[int]()
    for ranges in said:
        contents = held.delete_versions(contents, tuple(ranges))
        gone |= {version for first, last in ranges for version in range(first, last + 1)}
        assert [version for version in range(40) if held.is_deleted(contents, version)] == sorted(gone)
        flat = [edge for one in contents.deleted for edge in one]
        assert flat == sorted(flat)
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(contents.deleted))
    assert msgspec.structs.replace(contents, deleted=()) == before
    assert land(contents, at(9), it.Put(A, INLINE)).deleted == contents.deleted
