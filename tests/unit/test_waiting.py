"""Items of a tail that may be stored bytes: the same as a plain dictionary, whatever is done to them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import CorruptionError
from phalanx.log import item as it
from phalanx.waiting import Items, Pending, packed


def pending(seq: int, text: str = "true") -> Pending:
    """Every third one changes columns."""
    if seq % 3 == 2:
        steps = it.AddColumn(b"field", text), it.RenameColumn("a", "b"), it.SetNullable("b", False)
        return Pending(seq, seq + 10, 0, 0, it.Alter("ab" * 16, seq, it.Layout(seq + 1, b"schema", ("a",), steps)), ())
    return Pending(seq, seq + 10, 0, 0, it.DeleteWhere("ab" * 16, text, seq), (b"x" * seq,))


def stored(items: Items, first: int, until: int) -> Items:
    return Items.load(first, until, items.dump())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["add", "remove", "replace", "store"]), max_size=40))
def test_items_are_what_a_dictionary_would_be(steps: list[str]) -> None:
    """Numbered on, removed from the front, replaced, stored and loaded at any time; earlier values stay as they were."""
    items, model = Items(), dict[int, Pending]()
    first = until = 0
    kept = []
    for number, step in enumerate(steps):
        kept.append((items, dict(model)))
        if step == "add":
            model[until] = pending(until)
            items = items.insert(until, model[until])
            until += 1
        elif step == "remove" and first < until:
            del model[first]
            items = items.remove(first)
            first += 1
        elif step == "replace" and first < until:
            model[until - 1] = pending(until - 1, f"v = {number}")
            items = items.insert(until - 1, model[until - 1])
        elif step == "store":
            plain = Items()
            for seq, one in model.items():
                plain = plain.insert(seq, one)
            assert items.dump() == plain.dump()
            items = stored(items, first, until)
        assert list(items) == sorted(model)
        assert items == stored(items, first, until)
    for before, expected in [*kept, (items, model)]:
        assert {seq: before[seq] for seq in before} == expected
        assert len(before) == len(expected)
        for absent in (first - 1, until) if before is items else ():
            with pytest.raises(KeyError):
                before[absent]


def test_what_is_stored_is_read_when_it_is_asked_for() -> None:
    """Not before: and then a damage is told as such."""
    for damaged in (b"not packed", packed(b"\xc1 not items"), b"", packed(b"")):
        items = Items.load(3, 5, damaged)
        assert list(items) == [3, 4]
        assert items.insert(5, pending(5))[5] == pending(5)
        with pytest.raises(CorruptionError, match="phalanx check"):
            items[3]


def test_a_long_tail_of_small_items_is_small() -> None:
    """What all of them say is stored once."""
    items = Items()
    for seq in range(1000):
        items = items.insert(seq, Pending(seq, seq, 0, 0, it.DeleteWhere("ab" * 16, f"id = {seq}"), (b"schema" * 80,)))
    assert len(items.dump()) < 40_000
