"""What a table holds: items numbered densely on a head, and what becomes of them (C1, C2, C4-C6, G1, G3)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx import contents as held
from phalanx.catalog import Catalog, State, step
from phalanx.contents import Head, advance, created, flush, land, restore, rewrite
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.runs import decode_ids, encode_ids
from phalanx.versions import Landed
from phalanx.waiting import Pending, Weight, weigh
from tests.unit.holding import (
    FIRST,
    INLINE,
    ITEMS,
    PAYLOADS,
    A,
    alter,
    at,
    landed,
    new,
    restoring,
    staged,
    table,
    total,
)


def test_every_kind_of_item_is_tried_here() -> None:
    """A new kind of item fails here until it is in the list above; what does not wait has tests of its own."""
    assert {type(item) for item, _, _ in ITEMS} == set(it.Waiting.__args__)
    assert set(it.Item.__args__) - set(it.Waiting.__args__) == {it.Restore, it.Advance}


def test_a_new_table_stands_on_its_first_version_and_has_not_moved() -> None:
    """Its creation counts as its first version."""
    contents = new(4, 2)
    assert (contents.version, contents.head, contents.moved, contents.changed, contents.place) == (1, Head(9), 0, 4, 2)
    assert (contents.first, contents.until, list(contents.pending()), contents.weight) == (0, 0, [], Weight())
    assert (contents.layouts, contents.layout, contents.head.layout) == ((FIRST,), FIRST, 0)
    assert landed(contents) == [Landed(1, 4, 2)]


def test_a_table_that_was_only_declared_has_no_version_yet() -> None:
    """G3: the first change makes its first version, also in the transaction that declared it."""
    declared = created(Landing(4, 2), 0, FIRST)
    assert (declared.version, declared.head, declared.changed, landed(declared)) == (0, Head(), 4, [])
    for landing in (at(4, 2), at(5)):
        once = land(declared, landing, it.Put(A, INLINE))
        assert (once.version, landed(once)) == (1, [Landed(1, landing.position, landing.place)])
        assert land(once, landing, it.Put(A, INLINE)).version == 1
        advanced = advance(declared, landing, it.Advance(A, 1, 11, 7, it.Layout(5, b"t", ()), ("a",)))
        assert (advanced.version, advanced.head) == (1, Head(11, 7, 5))
        assert advanced.layouts == (
            it.Layout(5, b"t", ()),
        )  # nothing has ever had the columns that it was declared with
        assert advance(declared, landing, it.Advance(A, 1, 11, 7)).layouts == (FIRST,)


def test_a_version_is_counted_once_for_each_transaction() -> None:
    """G1: items that land together are one version, wherever the other transactions of their entry stand."""
    put = it.Put(A, INLINE)
    contents, where = new(), {1: Landed(1, 1, 0)}
    for landing, wanted in [(at(1), 1), (at(2), 2), (at(2), 2), (at(2, 1), 3), (at(3, 1), 4), (at(3, 1), 4)]:
        contents = land(contents, landing, put)
        assert contents.version == wanted
        where.setdefault(wanted, Landed(wanted, landing.position, landing.place))
        assert landed(contents) == list(where.values())
        assert (contents.changed, contents.place, contents.moved) == (landing.position, landing.place, landing.position)
    bulk = land(new(), at(2), it.Put(A, staged(0)))
    assert (bulk.head.manifest, bulk.version, bulk.changed) == (77, 2, 2)
    assert landed(bulk) == [Landed(1, 1, 0), Landed(2, 2, 0)]
    for again in (restore(bulk, at(2), restoring()), advance(bulk, at(2), it.Advance(A, 2, 11, 7))):
        assert (again.version, again.versions) == (2, bulk.versions)


def test_maintenance_counts_no_version() -> None:
    """G1: a flush, a rewrite and an index move the head, and neither rows nor versions."""
    before = table(it.Put(A, INLINE), it.Put(A, INLINE))
    for after in (
        flush(before, at(8, 3), it.Flush(A, 0, 9, 0, 1, 10, 0, 3)),
        rewrite(before, at(8, 3), it.Rewrite(A, 0, 9, 10, (0,), 1)),
        held.cover(before, at(8, 3), it.Cover(A, 0, 9, 10, ("i",))),
    ):
        assert (after.version, after.changed, after.place, after.serial) == (3, 3, 0, 6)
        assert (after.head.manifest, after.moved, after.versions) == (10, 8, before.versions)


def columns(items: Sequence[it.Waiting]) -> int:
    """The layout that a table has after these items."""
    return next((item.layout.id for item in reversed(items) if isinstance(item, it.Alter)), 0)


@given(st.integers(1, 8).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count))), st.data())
def test_a_flush_consumes_exactly_its_items(counts: tuple[int, int], data: st.DataObject) -> None:
    """C4: the first ones go, those behind them stay as they are, and the next flush begins where it ended."""
    items = [data.draw(st.sampled_from(ITEMS))[0] for _ in range(counts[0])]
    before = table(*items)
    after = flush(before, at(90), it.Flush(A, 0, 9, 0, counts[1], 10, 40, 45))
    assert (after.first, after.until, after.head) == (counts[1], counts[0], Head(10, 45, columns(items[: counts[1]])))
    assert (after.layouts, after.layout.id) == (before.layouts, columns(items))
    assert (after.moved, after.flushed, before.flushed) == (90, 90, 1)
    assert list(after.pending()) == list(before.pending(counts[1]))
    assert sorted(after.items) == list(range(counts[1], counts[0]))
    assert after.weight == total(after)
    rest = flush(after, at(91), it.Flush(A, 0, 10, counts[1], counts[0], 11, 45, 50))
    assert (rest is after) == (counts[0] == counts[1])
    assert (rest.weight, len(rest.items)) == (Weight(), 0)
    assert list(before.pending()) == list(table(*items).pending())


@pytest.mark.parametrize("behind", [0, 3, 997])
def test_a_flush_looks_at_the_fewer_items(behind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever commits a flush among busy writers folds it at every attempt, and everybody once: not the whole tail each time."""
    looked: list[Pending] = []
    monkeypatch.setattr(held, "weigh", lambda pending: looked.append(pending) or weigh(pending))
    before = table(*[it.Put(A, INLINE)] * 1000)
    looked.clear()
    after = flush(before, at(2000), it.Flush(A, 0, 9, 0, 1000 - behind, 10, 40, 45))
    assert len(looked) == min(behind, 1000 - behind)
    assert (after.weight, len(after.items)) == (total(after), behind)


@pytest.mark.parametrize(
    "change",
    [{"generation": 1}, {"base": 8}, {"first": 1}, {"until": 0}, {"until": 4}, {"first": 1, "until": 1}],
    ids=str,
)
def test_a_flush_of_something_else_changes_nothing(change: dict[str, Any]) -> None:
    """C4: another generation, another head, another first item, or items that are not there."""
    before = table(*[it.Put(A, INLINE)] * 3)
    good = it.Flush(A, 0, 9, 0, 2, 10, 0, 6)
    assert not held.flush_is_void(before, good)
    bad = msgspec.structs.replace(good, **change)
    assert held.flush_is_void(before, bad)
    assert flush(before, at(9), bad) is before


def test_a_flush_that_was_overtaken_by_a_flush_changes_nothing() -> None:
    """C4: its items are in the head already, and none is consumed twice."""
    before = table(*[it.Put(A, INLINE)] * 3)
    first, second = it.Flush(A, 0, 9, 0, 2, 10, 0, 6), it.Flush(A, 0, 9, 0, 3, 11, 0, 9)
    for one, other in ((first, second), (second, first), (first, first)):
        after = flush(before, at(9), one)
        assert flush(after, at(10), other) is after


@pytest.mark.parametrize("change", [{"generation": 1}, {"base": 8}], ids=str)
def test_upkeep_of_another_head_changes_nothing(change: dict[str, Any]) -> None:
    """C5: rewritten fragments and indexes belong to the head they were made for; rows in the tail do not matter."""
    before = msgspec.structs.replace(table(it.Put(A, INLINE), alter(5)), head=Head(9, 30, 4))
    rewriting, covering = it.Rewrite(A, 0, 9, 10, (0,), 1), it.Cover(A, 0, 9, 10, ("i",))
    for after in (rewrite(before, at(9), rewriting), held.cover(before, at(9), covering)):
        assert (after.head, list(after.pending())) == (Head(10, 30, 4), list(before.pending()))
    assert rewrite(before, at(9), msgspec.structs.replace(rewriting, **change)) is before
    assert held.cover(before, at(9), msgspec.structs.replace(covering, **change)) is before


@pytest.mark.parametrize("kind", [it.Put, it.Upsert, it.Overwrite])
@pytest.mark.parametrize(
    ("rows", "tail", "wanted"),
    [
        (staged(5), 0, True),
        (staged(5, whole=False), 0, False),
        (staged(4), 0, False),
        (staged(6), 0, False),
        (staged(5, 1), 0, False),
        (staged(7), 1, False),
    ],
    ids=["unmoved", "not whole", "moved since", "of the future", "restored since", "with a tail"],
)
def test_a_staged_change_becomes_the_head_only_where_nothing_happened(
    kind: type, rows: it.Staged, tail: int, wanted: bool
) -> None:
    """C2: the table has not moved since, and has no tail; otherwise it is an item like any other."""
    before = msgspec.structs.replace(table(), moved=5, flushed=5, head=Head(9, 0, 4))
    for position in range(7, 7 + tail):
        before = land(before, at(position), it.Put(A, INLINE))
    after = land(before, at(9), kind(A, rows))
    assert (after.version, after.changed, after.moved) == (before.version + 1, 9, 9)
    if wanted:
        assert (after.head, after.flushed, len(after.items), after.until) == (Head(77, 50, 4), 9, 0, 0)
        assert (after.serial, after.weight) == (before.serial, Weight())
    else:
        assert (after.head, after.flushed, len(after.items)) == (before.head, 5, tail + 1)
        assert (after.serial, after.weight.predicates) == (before.serial + 50, 1)


def test_a_bulk_change_after_maintenance_is_an_item() -> None:
    """C2: a rewrite moves the table too, and the version that was staged does not have it."""
    before = rewrite(table(), at(5), it.Rewrite(A, 0, 9, 10, (0,), 1))
    after = land(before, at(6), it.Put(A, staged(0)))
    assert (after.head, after.until) == (before.head, 1)


@pytest.mark.parametrize(("generation", "wanted"), [(3, 0), (2, None)])
def test_what_was_matched_with_another_branch_is_forgotten(generation: int, wanted: int | None) -> None:
    """C6: hidden row ids speak of rows of one generation; the rows themselves are there in any."""
    item = it.Upsert(A, staged(0, generation, whole=False), 3)
    (pending,) = table(item, generation=3).pending()
    assert isinstance(pending.item, it.Upsert)
    assert (pending.item.hidden, pending.item.rows) == (wanted, item.rows)
    assert pending.payloads == ((b"hidden",) if wanted == 0 else ())


def test_every_row_gets_one_serial_number() -> None:
    """D2: in the order of the log, staged rows included; what only removes or changes rows takes none."""
    contents, counts = table(), []
    for position, (item, _, _) in enumerate(ITEMS, start=2):
        counts.append(contents.serial)
        contents = land(contents, at(position), item)
    assert [pending.serial for pending in contents.pending()] == counts
    assert counts == [0, 3, 6, 9, 9, 9, 9, 9, 9, 59, 109, 159, 209, 209]


@pytest.mark.parametrize(("item", "payloads", "weight"), ITEMS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_an_item_keeps_its_own_payloads_and_no_others(
    item: it.Waiting, payloads: tuple[bytes, ...], weight: Weight, kind: type
) -> None:
    """So that a tail keeps no entry alive, and a base holds nothing twice."""
    given_to = Landing(2, 0, tuple(map(kind, PAYLOADS)))
    (pending,) = land(table(), given_to, item).pending()
    assert pending.payloads == payloads
    assert all(type(payload) is bytes for payload in pending.payloads)
    assert [pending.payloads[index] for index in own(pending.item)] == [PAYLOADS[index] for index in own(item)]
    assert weigh(pending) == weight


@pytest.mark.parametrize("item", [it.DeleteWhere(A, "a"), it.Put(A, staged(whole=False))], ids=["predicate", "staged"])
def test_the_only_payload_of_a_transaction_may_be_anothers(item: it.Waiting) -> None:
    """An item without a payload keeps none, also beside a single one that belongs to another table."""
    (pending,) = land(table(), Landing(2, 0, (b"of another table",)), item).pending()
    assert pending.payloads == ()


def own(item: it.Waiting) -> list[int]:
    """The payload indices that an item names, in the order in which they are kept."""
    rows = getattr(item, "rows", None)
    found = [getattr(item, "keys", None), getattr(item, "identities", None)]
    found += [getattr(rows, "payload", None), getattr(rows, "dead", None), getattr(item, "hidden", None)]
    return [index for index in found if index is not None]


def test_a_flush_follows_the_rows_that_later_items_name() -> None:
    """D2: a delete behind it means the same rows under their new numbers; everything else stays as it is."""
    named = encode_ids(np.array([-7, 3, -1, 900, -2], dtype=np.int64))
    before = table(it.Put(A, INLINE), it.DeleteKeys(A, 1, 2))
    before = land(before, Landing(8, 1, (b"", named)), it.DeleteRows(A, 1, 5))
    moved, limit = encode_ids(np.array([-1, -2, 3], dtype=np.int64)), 1 << 40
    after = flush(before, Landing(9, 0, (b"", moved)), it.Flush(A, 0, 9, 0, 1, 10, limit, limit + 3, 1))
    kept, renamed = after.pending()
    assert kept == before.items[1]
    assert decode_ids(renamed.payloads[0]).tolist() == [-7, limit + 2, limit, 900, limit + 1]
    assert (renamed.item, renamed.seq, renamed.position) == (it.DeleteRows(A, 0, 5), 2, 8)
    without = flush(before, Landing(9), it.Flush(A, 0, 9, 0, 1, 10, 40, 43))
    assert without.items[2] == before.items[2]
    assert after.weight == total(after) != total(without)  # larger numbers take more bytes
    rest = flush(after, Landing(10), it.Flush(A, 0, 10, 1, 3, 11, limit + 3, limit + 3))
    assert (rest.weight, len(rest.items)) == (Weight(), 0)


identities = st.lists(st.integers(-50, 50), max_size=6, unique=True).map(lambda ids: np.array(ids, dtype=np.int64))
operations = st.lists(
    st.tuples(st.just("land"), st.sampled_from(ITEMS).map(lambda row: row[0]))
    | st.tuples(st.just("remove"), identities)
    | st.tuples(st.just("flush"), st.tuples(st.integers(1, 4), identities))
    | st.tuples(st.just("rewrite"), st.none())
    | st.tuples(st.just("restore"), st.none())
    | st.tuples(st.just("advance"), st.none()),
    max_size=25,
)


@given(operations)
@settings(max_examples=150)
def test_the_weight_of_a_tail_is_that_of_its_items(wanted: Sequence[tuple[str, Any]]) -> None:
    """C10: it adds up after every step, and is nothing when everything was written out."""
    contents, steps = new(), 0
    for position, (what, detail) in enumerate(wanted, start=2):
        if what == "land":
            contents = land(contents, at(position), detail)
        elif what == "remove":
            contents = land(contents, Landing(position, 0, (encode_ids(detail),)), it.DeleteRows(A, 0, len(detail)))
        elif what == "flush" and contents.first < contents.until:
            until = min(contents.first + detail[0], contents.until)
            stand = contents.generation, contents.head.manifest
            action = it.Flush(A, *stand, contents.first, until, 100 + position, 60, 99, 0)
            contents = flush(contents, Landing(position, 0, (encode_ids(detail[1]),)), action)
        elif what == "rewrite":
            stand = contents.generation, contents.head.manifest
            contents = rewrite(contents, at(position), it.Rewrite(A, *stand, 500 + position, (), 0))
        elif what == "restore":
            contents = restore(contents, at(position), restoring())
        elif what == "advance":
            contents = advance(contents, at(position), it.Advance(A, contents.version + 1, 900 + position, 7))
        assert contents.weight == total(contents)
        assert sorted(contents.items) == list(range(contents.first, contents.until))
        steps += 1
    if contents.first < contents.until:
        stand = contents.generation, contents.head.manifest
        action = it.Flush(A, *stand, contents.first, contents.until, 1, 60, 99)
        contents = flush(contents, Landing(99), action)
    assert (contents.weight, len(contents.items), steps) == (Weight(), 0, len(wanted))


@given(st.lists(st.sampled_from(ITEMS).map(lambda row: row[0]), max_size=12), st.integers(0, 6), st.randoms())
def test_a_stored_tail_is_the_same_tail(items: list[it.Waiting], flushed: int, chance: Any) -> None:
    """F1: payloads, numbers and weights survive being dumped and loaded, and give the same bytes again."""
    fold = Catalog()
    state = step(State(), at(1), Transaction(b"1" * 16, "", (do.CreateTable(("t",), A, {}, b"s", ("a",), 9),)))
    for position, item in enumerate(items, start=2):
        landing = Landing(position, chance.randrange(3), tuple(map(memoryview, PAYLOADS)))
        state = step(state, landing, Transaction(b"2" * 16, "", (item,)))
    if 0 < flushed <= len(items):
        action = it.Flush(A, 0, 9, 0, flushed, (1 << 64) - 1, 40, 45, 2)
        state = step(state, at(99), Transaction(b"3" * 16, "", (action,)))
    data = fold.dump(state)
    loaded = fold.load(data)
    assert loaded == state
    assert fold.dump(loaded) == data
    assert list(loaded.contents[A].pending()) == list(state.contents[A].pending())
    assert all(isinstance(pending, Pending) for pending in loaded.contents[A].pending())
    assert land(loaded.contents[A], at(100), items[0] if items else it.DeleteWhere(A, "x")).version == len(items) + 2
