"""Rules C1 and C4, without files: a table is its head and an ordered list of items, and a flush consumes exact ones.

In plain words:

- C1 The value of a table is its items applied to its head in the order of the log. A bulk change, which was staged
  some time before, is an item at the position where it lands.
- C4 A flush writes out the first items of the list. It names the generation, the numbers of the items from the first up
  to the last, and the head it was staged on. If one of them is different when it lands, it is void.
- C6 A restore copies head and items of an earlier position and raises the generation. Items are numbered densely
  within a generation, so their numbers go on from those that were copied, and are used again.

The rule one thinks of first is planted: a tail is "every logged change above the position the table is flushed through",
and a bulk change goes into the head. Then an older logged change is applied on top of a newer bulk change.

The actors: writers that land logged and bulk changes; owners of flushes, which are staged at one time and land at any
later time or never; somebody who tags a position and restores the table to it. Left out: when a bulk change was staged,
since only its meaning counts here; what the head is made of, row ids, the fast path, rewrites (rows.py).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.changes import Change, Truth, after, show
from specs.explore import model

LOGGED = (Change("upsert", "a", 5), Change("delete", "", 3), Change("add", "", 0))
BULK = (Change("append", "c", 3), Change("upsert", "a", 7))


class Rules(NamedTuple):
    """The rules as specified; each flag plants a mistake or relaxes one rule. Counts say how often a work is done."""

    logged: int = 2
    bulk: int = 1
    flushes: int = 2
    restores: int = 1
    bulk_keys: str = "ac"
    bulk_changes_the_head: bool = False
    flush_says_only_up_to: bool = False
    generation_counts: bool = True
    head_counts: bool = True
    range_counts: bool = True
    numbers_are_used_again: bool = True


class Item(NamedTuple):
    """A change in the tail, with its number."""

    number: int
    change: Change


class Table(NamedTuple):
    """`head` is the position at which `rows`, its rows, became the head; `next` is the number of the next item."""

    generation: int = 0
    head: int = 0
    rows: Truth = ()
    items: tuple[Item, ...] = ()
    next: int = 0

    def value(self) -> Truth:
        """What a reader sees."""
        rows = self.rows
        for item in self.items:
            rows = after(rows, item.change)
        return rows


class State(NamedTuple):
    """The table, what it should hold, what is left to do, the tagged position, and flushes that are staged.

    A staged flush is the table as it was: its whole tail is written out.
    """

    table: Table
    truth: Truth
    logged: int
    bulk: int
    flushes: int
    restores: int
    position: int = 0
    tagged: tuple[Table, Truth] | None = None
    staged: tuple[Table, ...] = ()


Step = tuple[str, State]


def initial(rules: Rules) -> State:
    """An empty table."""
    return State(Table(), (), rules.logged, rules.bulk, rules.flushes, rules.restores)


def broken(_: Rules, state: State) -> str | None:
    """What must never be seen: a table that does not hold what the log says."""
    value = state.table.value()
    if value != state.truth:
        return f"the table holds {show(value)}, but the log says {show(state.truth)}"
    return None


def steps(rules: Rules, state: State) -> Iterator[Step]:
    """Every step of every actor. A void flush is left out: it changes nothing, like one that never lands."""
    for change in LOGGED if state.logged else ():
        yield f"logged: {change}", _land(state, change)._replace(logged=state.logged - 1)
    for change in (one for one in BULK if state.bulk and one.key in rules.bulk_keys):
        landed = _land_in_head(state, change) if rules.bulk_changes_the_head else _land(state, change)
        yield f"bulk: {change}", landed._replace(bulk=state.bulk - 1)
    if state.flushes and state.table.items:
        staged = tuple(sorted((*state.staged, state.table)))
        after_it = state._replace(flushes=state.flushes - 1, staged=staged)
        yield f"a flush of {_range(state.table)} is staged", after_it
    for index, base in enumerate(state.staged):
        if not _void(rules, state.table, base):
            rest = state._replace(staged=state.staged[:index] + state.staged[index + 1 :])
            yield f"the flush of {_range(base)} lands", _land_flush(rules, rest, base)
    if state.restores and state.tagged is None:
        yield "this position is tagged", state._replace(tagged=(state.table, state.truth))
    if state.restores and state.tagged is not None:
        yield "the tagged position is restored", _restore(rules, state, *state.tagged)


def _land(state: State, change: Change) -> State:
    """The change becomes the last item."""
    table = state.table
    items = (*table.items, Item(table.next, change))
    table = table._replace(items=items, next=table.next + 1)
    return state._replace(table=table, truth=after(state.truth, change), position=state.position + 1)


def _land_in_head(state: State, change: Change) -> State:
    """The change goes under all items."""
    table = state.table._replace(rows=after(state.table.rows, change))
    return state._replace(table=table, truth=after(state.truth, change), position=state.position + 1)


def _void(rules: Rules, table: Table, base: Table) -> bool:
    if rules.flush_says_only_up_to:
        return not table.items or table.items[0].number >= base.next
    return (
        (rules.generation_counts and table.generation != base.generation)
        or (rules.head_counts and table.head != base.head)
        or (rules.range_counts and _numbers(table)[: len(base.items)] != _numbers(base))
    )


def _land_flush(rules: Rules, state: State, base: Table) -> State:
    table, rows = state.table, base.value()
    items = table.items[len(base.items) :]
    if rules.flush_says_only_up_to:
        items = tuple(item for item in table.items if item.number >= base.next)
    if rules.bulk_changes_the_head:
        # The best that rule can do: what bulk changes have brought into the head since is kept.
        rows = tuple(sorted({*rows, *(row for row in table.rows if row not in base.rows)}))
    position = state.position + 1
    return state._replace(table=table._replace(head=position, rows=rows, items=items), position=position)


def _restore(rules: Rules, state: State, table: Table, truth: Truth) -> State:
    number = table.next if rules.numbers_are_used_again else state.table.next
    restored = table._replace(generation=state.table.generation + 1, next=number)
    return state._replace(table=restored, truth=truth, restores=state.restores - 1, position=state.position + 1)


def _numbers(table: Table) -> list[int]:
    return [item.number for item in table.items]


def _range(table: Table) -> str:
    return f"items {table.items[0].number} to {table.items[-1].number}, generation {table.generation}"


_HOLDS = {
    "the rules": Rules(),
    "the rules, more bulk changes": Rules(bulk=2, flushes=1),
    "the rules, more flushes": Rules(logged=3, bulk=1, flushes=3, restores=0),
    "relaxed: the range is not compared, generation and head are": Rules(range_counts=False),
    "relaxed: the head is not compared, generation and range are": Rules(head_counts=False),
    "relaxed: only numbers are compared, and none is used again": Rules(
        generation_counts=False, head_counts=False, numbers_are_used_again=False
    ),
}
_PLANTED = {
    "C1: the tail is all logged changes above flushed-through": Rules(
        bulk_changes_the_head=True, flush_says_only_up_to=True
    ),
    "C1: the same, no bulk change replaces a row of the tail": Rules(
        bulk_changes_the_head=True, flush_says_only_up_to=True, bulk_keys="c"
    ),
    "C4: a flush says only up to where": Rules(flush_says_only_up_to=True),
    "C4: a flush does not compare the generation": Rules(generation_counts=False),
    "C4: a flush compares the generation only": Rules(head_counts=False, range_counts=False),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "a bulk change lands between the staging of a flush and its landing": lambda state: (
        state.table.head > 0 and any(item.change in BULK for item in state.table.items)
    ),
    "a flush is void because of another one": lambda state: any(
        base.head != state.table.head and base.generation == state.table.generation for base in state.staged
    ),
    "another item has the number of one that a flush took": lambda state: any(
        _numbers(state.table) == _numbers(base) and state.table.items != base.items for base in state.staged
    ),
}

_WALKS = {"long histories": Rules(logged=20, bulk=10, flushes=12, restores=4)}

MODEL = model("items", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, _WALKS)
