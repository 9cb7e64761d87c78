"""Rule C7: columns that change. An alteration is an item; rows of earlier columns are converted, on disk by the next flush.

In plain words:

- C7 The columns that a table has from one alteration to the next are a layout, under an id that its maker draws. Every
  item says which layout it was made for. Rows of an earlier one are converted like the rows that were there, unless a
  column is gone that they bring: then, and if the table never had that layout, the item is refused. A condition is
  planned again for the layout it meets. A head says which layout its files have: a flush writes the layout of the last
  alteration it consumed, and readers convert what is older.
- C5 A rewrite is put on a later head only if that has the layout which the rewrite has read.
- C6 A restore brings back the layouts too. Ids are drawn, so that a layout of the branch that was left is never taken for
  one of the branch that is gone on with.

The actors: writers that look at the columns at one time and land rows, or a change of all rows, at a later one; somebody
who alters the table; owners of flushes and rewrites that are staged and land later; somebody who tags and restores. Left
out: keys, deletions, what a conversion costs; several steps in one alteration are several alterations here.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs.explore import model

Row = tuple[tuple[str, int], ...]
ALTERATIONS = ("add w", "rename v", "drop w")


class Rules(NamedTuple):
    """The rules as specified; each flag plants a mistake. Counts say how often a work is done."""

    writes: int = 2
    alters: int = 2
    flushes: int = 1
    rewrites: int = 0
    restores: int = 0
    rows_are_not_converted: bool = False
    conditions_are_not_planned_again: bool = False
    dropped_columns_are_brought_back: bool = False
    head_has_the_newest_layout: bool = False
    rewrite_ignores_layout: bool = False
    ids_are_counted: bool = False


class Item(NamedTuple):
    """A change in the tail: `what` it does, and the layout it was made for; an alteration makes the layout `new`."""

    what: str
    layout: int
    row: Row = ()
    new: int = 0


class Layout(NamedTuple):
    """The columns since an alteration."""

    id: int
    alteration: str


class Table(NamedTuple):
    """Rows on disk with the layout they have there, items on top, and the layouts there were, oldest first."""

    head: int = 0
    rows: tuple[Row, ...] = ((("v", 1),),)
    written: int = 0
    items: tuple[Item, ...] = ()
    layouts: tuple[Layout, ...] = (Layout(0, ""),)
    generation: int = 0

    @property
    def layout(self) -> int:
        """The layout it has."""
        return self.layouts[-1].id

    def since(self, layout: int) -> list[str] | None:
        """The alterations that followed a layout; None if it never had that one."""
        ids = [one.id for one in self.layouts]
        return [one.alteration for one in self.layouts[ids.index(layout) + 1 :]] if layout in ids else None


class State(NamedTuple):
    """The table, what it should hold, who has looked, what is staged, and what is left to do."""

    table: Table
    truth: tuple[Row, ...]
    looked: tuple[tuple[int, tuple[str, ...]], ...] = ()
    flushed: tuple[Table, ...] = ()
    rewritten: tuple[Table, ...] = ()
    tagged: tuple[Table, tuple[Row, ...]] | None = None
    drawn: int = 0
    position: int = 0
    left: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


def initial(rules: Rules) -> State:
    """A table of one row and one column."""
    left = (rules.writes, rules.alters, rules.flushes, rules.rewrites, rules.restores)
    return State(Table(), Table().rows, left=left)


def converted(row: Row, alterations: list[str]) -> Row:
    """A row after some alterations."""
    held = dict(row)
    for alteration in alterations:
        if alteration == "add w" and "w" not in held:
            held["w"] = 10 * held[_value(held)]
        elif alteration == "rename v" and "v" in held:
            held["n"] = held.pop("v")
        elif alteration == "drop w":
            held.pop("w", None)
    return tuple(sorted(held.items()))


def _value(held: dict[str, int]) -> str:
    return "v" if "v" in held else "n"


def increased(row: Row, column: str) -> Row:
    """A row whose value goes up by one, by the name that the column had when the change was planned."""
    return tuple((name, value + (name == column)) for name, value in row)


def value(rules: Rules, table: Table) -> tuple[Row, ...]:
    """What a reader sees."""
    return tuple(sorted(_in_order(rules, table)))


def _in_order(rules: Rules, table: Table) -> tuple[Row, ...]:
    """Rows on disk, converted to each alteration as it is met, and those that were added."""
    at = table.written
    rows = list(table.rows)
    for item in table.items:
        if item.what in ALTERATIONS:
            rows = [converted(row, [item.what]) for row in rows]
            at = item.new
        elif item.what == "append":
            ids = [one.id for one in table.layouts]
            between = table.layouts[ids.index(item.layout) + 1 : ids.index(at) + 1] if item.layout in ids else ()
            rows.append(
                item.row if rules.rows_are_not_converted else converted(item.row, [one.alteration for one in between])
            )
        else:
            rows = [increased(row, item.what) for row in rows]
    return tuple(rows)


def broken(rules: Rules, state: State) -> str | None:
    """What must never be seen: a table that does not hold what the log says."""
    seen = value(rules, state.table)
    if seen != state.truth:
        return f"the table holds {seen}, but the log says {state.truth}"
    return None


def steps(rules: Rules, state: State) -> Iterator[tuple[str, State]]:
    """Every step of every actor; what is refused or void changes nothing and is left out."""
    writes, alters, flushes, rewrites, restores = state.left
    table = state.table
    if writes > len(state.looked):
        seen = (table.layout, _columns(table))
        yield "a writer looks at the columns", state._replace(looked=tuple(sorted((*state.looked, seen))))
    for layout, columns in set(state.looked):
        yield from _writes(rules, state, layout, columns)
    if alters:
        yield from _alters(rules, state)
    if flushes and table.items:
        yield "a flush is staged", _spend(state, 2)._replace(flushed=(*state.flushed, table))
    for base in set(state.flushed):
        if (base.head, base.generation) == (table.head, table.generation) and table.items[
            : len(base.items)
        ] == base.items:
            yield "a flush lands", _flush(rules, state, base)
    if rewrites:
        yield "a rewrite is staged", _spend(state, 3)._replace(rewritten=(*state.rewritten, table))
    for base in set(state.rewritten):
        same = base.written == table.written or rules.rewrite_ignores_layout
        there = table.rows[: len(base.rows)]
        sources = {base.rows, tuple(converted(row, table.since(base.written) or []) for row in base.rows)}
        if same and base.generation == table.generation and there in sources:  # its fragments are still there
            rows = (*base.rows, *table.rows[len(base.rows) :])
            left = tuple(one for one in state.rewritten if one != base)
            yield (
                "a rewrite lands on the head there is",
                state._replace(table=table._replace(rows=rows), rewritten=left),
            )
    if restores and state.tagged is None:
        yield "this position is tagged", state._replace(tagged=(table, state.truth))
    if restores and state.tagged is not None:
        then, truth = state.tagged
        back = then._replace(generation=table.generation + 1)
        yield "the tagged position is restored", _spend(state, 4)._replace(table=back, truth=truth)


def _writes(rules: Rules, state: State, layout: int, known: tuple[str, ...]) -> Iterator[tuple[str, State]]:
    """What a writer lands that looked at the columns some time ago."""
    table = state.table
    since = table.since(layout)
    rest = list(state.looked)
    rest.remove((layout, known))
    after = _spend(state, 0)._replace(looked=tuple(rest))
    row: Row = tuple((name, 5 if name != "w" else 7) for name in known)
    lost = since is not None and "drop w" in since and "w" in known
    if since is not None and (not lost or rules.dropped_columns_are_brought_back):
        truth = tuple(sorted((*state.truth, converted(row, since))))
        refused = lost  # the log says no: nobody is told that a value was dropped
        item = Item("append", layout, row)
        landed = table._replace(items=(*table.items, item))
        yield f"a row of layout {layout} lands", after._replace(table=landed, truth=state.truth if refused else truth)
    name = "v" if "v" in known else "n"
    if layout == table.layout or rules.conditions_are_not_planned_again:
        right = "v" if "v" in _columns(table) else "n"
        truth = tuple(sorted(increased(one, right) for one in state.truth))
        landed = table._replace(items=(*table.items, Item(name, layout)))
        yield f"{name} = {name} + 1 of layout {layout} lands", after._replace(table=landed, truth=truth)


def _columns(table: Table) -> tuple[str, ...]:
    """The columns that a table has."""
    return tuple(name for name, _ in converted((("v", 0),), [one.alteration for one in table.layouts]))


def _alters(rules: Rules, state: State) -> Iterator[tuple[str, State]]:
    table = state.table
    for alteration in ALTERATIONS:
        new = len(table.layouts) if rules.ids_are_counted else state.drawn + 1
        layouts = (*table.layouts, Layout(new, alteration))
        items = (*table.items, Item(alteration, table.layout, new=new))
        truth = tuple(sorted(converted(row, [alteration]) for row in state.truth))
        landed = table._replace(items=items, layouts=layouts)
        yield f"{alteration}: layout {new}", _spend(state, 1)._replace(table=landed, truth=truth, drawn=state.drawn + 1)


def _flush(rules: Rules, state: State, base: Table) -> State:
    table = state.table
    written = table.layout if rules.head_has_the_newest_layout else base.layout
    head = state.position + 1
    moved = table._replace(
        head=head, rows=_in_order(rules, base), written=written, items=table.items[len(base.items) :]
    )
    left = tuple(one for one in state.flushed if one != base)
    return state._replace(table=moved, position=head, flushed=left)


def _spend(state: State, work: int) -> State:
    left = tuple(count - (at == work) for at, count in enumerate(state.left))
    return state._replace(left=left)  # type: ignore[arg-type]


_HOLDS = {
    "the rules": Rules(),
    "the rules, with rewrites": Rules(writes=1, rewrites=1, flushes=2),
    "the rules, with a restore": Rules(writes=1, alters=3, restores=1),
}
_PLANTED = {
    "C7: rows of an earlier layout are not converted": Rules(rows_are_not_converted=True),
    "C7: a condition is not planned again": Rules(conditions_are_not_planned_again=True),
    "C7: a column that is gone is dropped without a word": Rules(dropped_columns_are_brought_back=True),
    "C7: a flush says that its files have the newest layout": Rules(
        head_has_the_newest_layout=True, writes=2, alters=3
    ),
    "C5: a rewrite is put on files of another layout": Rules(
        writes=0, rewrites=1, flushes=2, rewrite_ignores_layout=True
    ),
    "C6: the ids of layouts are counted": Rules(writes=1, alters=3, restores=1, ids_are_counted=True),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "a row lands two alterations later": lambda state: any(
        item.what == "append" and len(state.table.since(item.layout) or ()) >= 2 for item in state.table.items
    ),
    "an item of an earlier layout stands on files of a later one": lambda state: any(
        item.what == "append" and state.table.written not in (0, item.layout) for item in state.table.items
    ),
}
_WALKS = {"long histories": Rules(writes=12, alters=8, flushes=8, rewrites=4, restores=3)}

MODEL = model("columns", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, _WALKS)
