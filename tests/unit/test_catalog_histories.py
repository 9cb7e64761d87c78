"""Whole histories: folded purely, stored exactly, and followed entry by entry."""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx import catalog
from phalanx.catalog import State
from phalanx.errors import CorruptionError, InternalError
from phalanx.ids import AttemptId, LakeId, TransactionId
from phalanx.log import action as do
from phalanx.log import base as bases
from phalanx.log import item as it
from phalanx.log.cursor import Cursor
from phalanx.log.entry import Entry, Landing, Transaction
from phalanx.txn.conflict import judge_action
from phalanx.txn.verdict import Conflict
from phalanx.versions import Versions, pack_versions
from tests.unit.folding import FOLD, LAKE, SCHEMA, A, B, fold, prepared, transaction


def entry(number: int, moment: int, *transactions: Transaction, lake: LakeId = LAKE) -> Entry:
    identity = number.to_bytes(16, "big")
    return Entry(lake, AttemptId(identity), identity * 2, moment, "w", transactions)


def cursor() -> Cursor[State]:
    return Cursor(bases.empty(FOLD), FOLD)


names = st.lists(st.sampled_from("xyz"), min_size=1, max_size=2).map(tuple)
texts = st.text(max_size=3)
properties = st.dictionaries(st.sampled_from(["k", "l", "m"]), texts, max_size=3)
tables = st.sampled_from([A, B, "c" * 32])
fragments = st.sets(st.integers(0, 3), min_size=1).map(sorted).map(tuple)
times = st.integers(0, 5)
steps: st.SearchStrategy[it.Step] = st.one_of(
    st.builds(it.AddColumn, st.just(b"f"), st.none() | texts),
    st.builds(it.DropColumn, st.sampled_from("cd")),
    st.builds(it.RenameColumn, st.sampled_from("cd"), st.sampled_from("cd")),
    st.builds(it.WidenColumn, st.sampled_from("cd"), st.just(b"f")),
    st.builds(it.OrderColumns, st.just(("d", "c"))),
    st.builds(it.SetNullable, st.sampled_from("cd"), st.booleans()),
)
layouts = st.builds(
    it.Layout, st.integers(0, 3), st.just(SCHEMA), st.just(("c",)), st.lists(steps, max_size=3).map(tuple)
)
wanting = st.lists(st.builds(it.Index, st.sampled_from("ij"), st.just("c"), st.just("btree"), properties)).map(tuple)
pasts = st.sampled_from(
    [b"", pack_versions(Versions().add(1, 1, 0)), pack_versions(Versions().add(2, 0, 1).add(3, 1, 0))]
)
gone = st.sampled_from([(), ((1, 1),), ((1, 1), (3, 9))])
actions: st.SearchStrategy[do.Action] = st.one_of(
    st.builds(do.CreateNamespace, names, properties),
    st.builds(do.AlterNamespace, names, st.dictionaries(st.sampled_from("klm"), st.none() | texts)),
    st.builds(do.DropNamespace, names),
    st.builds(do.CreateTable, names, tables, properties),
    st.builds(do.CreateTable, names, tables, properties, st.just(SCHEMA), st.just(("c",)), st.just(7)),
    st.builds(do.DropTable, names, tables),
    st.builds(do.DeregisterTable, names, tables),
    st.builds(do.ReviveTable, names, tables, properties, st.integers(1, 9), st.integers(3, 300), pasts, gone),
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
    st.builds(it.Claim, tables, st.just(0), fragments, st.sampled_from("ab"), times, times),
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
