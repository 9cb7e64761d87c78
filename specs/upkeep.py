"""Flush, rewrite and restore of a table made of files (table.py): staged at one time, landed or void at another.

In plain words:

- C4 A flush writes out the first items: it hides row ids and appends rows with fresh ones. It names generation, head and
  the numbers of the items, and is void unless they are those it was staged on. It records the identities that the
  appended rows had, in the order of their fresh row ids: who still knows a row by its old identity translates it. That
  includes items behind the flushed ones.
- C5 A rewrite puts the live rows of some fragments of the head into one, under their row ids. It is void on another
  head. Its owner may stage it again on that one, if the sources are still there and no restore came between;
  deletions since are carried over by row id.
- C6 A restore copies head, next row id and items, and raises the generation.
"""

from collections.abc import Iterable
from typing import NamedTuple

from specs.changes import Row
from specs.table import NEW, Fragment, Head, Item, Rules, Table, rows, version


class Flush(NamedTuple):
    """The items from `first` up to `until` are in `version`.

    The rows that were called `moved` have the row ids from `fresh` on.
    """

    generation: int
    head: int
    first: int
    until: int
    version: Head
    fresh: int
    moved: tuple[int, ...]


class Rewrite(NamedTuple):
    """`rows` are the rows that were live in the fragments `sources`; `version` has them in one."""

    generation: int
    head: int
    sources: frozenset[int]
    rows: tuple[Row, ...]
    version: Head


def stage_flush(rules: Rules, table: Table, count: int) -> Flush:
    """The first `count` items are written out."""
    head, items = table.head, table.items[:count]
    seen = rows(rules, table._replace(items=items))
    standing = {row.id for row in seen if row.in_head}
    moving = [row for row in seen if not row.in_head]
    hidden = frozenset(row.id for row in head.live() if row.id not in standing)
    staged = version(rules, head, hidden, [(row.key, row.value) for row in moving])
    if rules.flush_keeps_ids and moving:
        staged = _keeping_ids(staged, moving)
    moved = tuple(row.id for row in moving)
    first, until = items[0].number, items[-1].number + 1
    return Flush(table.generation, head.manifest, first, until, staged, head.next_row_id, moved)


def _keeping_ids(staged: Head, moving: list[Row]) -> Head:
    """As update and merge_insert of Lance do it: the new row has the old one's id."""
    *others, new = staged.fragments
    kept = [row._replace(id=old.id) if old.id >= 0 else row for row, old in zip(new.rows, moving, strict=True)]
    return staged._replace(fragments=(*others, new._replace(rows=tuple(kept))))


def flush_is_void(rules: Rules, table: Table, flush: Flush) -> bool:
    """Whether what it was staged on is no longer there."""
    numbers = [item.number for item in table.items[: flush.until - flush.first]]
    return (
        (flush.generation != table.generation and not rules.flush_ignores_generation)
        or (flush.head != table.head.manifest and not rules.flush_ignores_head)
        or (numbers != list(range(flush.first, flush.until)) and not rules.flush_ignores_range)
    )


def land_flush(rules: Rules, table: Table, flush: Flush) -> Table:
    """The written items leave the tail; those behind them name the flushed rows by their new identities."""
    items = table.items[flush.until - flush.first :]
    if not rules.items_behind_a_flush_not_translated:
        items = tuple(_translated(item, flush) for item in items)
    return table.on(flush.version, items)


def _translated(item: Item, flush: Flush) -> Item:
    if item.change.ids is None:
        return item
    ids = translated(item.change.ids, flush.fresh, flush.moved)
    return item._replace(change=item.change._replace(ids=ids))


def translated(ids: Iterable[int], fresh: int, moved: tuple[int, ...]) -> frozenset[int]:
    """Identities after a flush that gave the row ids from `fresh` on to the rows that were called `moved`."""
    return frozenset(fresh + moved.index(one) if one in moved else one for one in ids)


def stage_rewrite(table: Table) -> Rewrite:
    """All fragments of the head become one."""
    head = table.head
    sources = frozenset(fragment.number for fragment in head.fragments)
    staged = Head(NEW, (Fragment(NEW, head.live()),), head.next_row_id)
    return Rewrite(table.generation, head.manifest, sources, head.live(), staged)


def rewrite_is_void(rules: Rules, table: Table, rewrite: Rewrite) -> bool:
    """Whether it was staged on another head."""
    return (rewrite.generation != table.generation and not rules.rewrite_ignores_generation) or (
        rewrite.head != table.head.manifest and not rules.rewrite_ignores_head
    )


def land_rewrite(table: Table, rewrite: Rewrite) -> Table:
    """The head is made of other fragments; no row changes."""
    return table.on(rewrite.version, table.items)


def stage_rewrite_again(rules: Rules, table: Table, rewrite: Rewrite) -> Rewrite | None:
    """The same new fragment on the present head, with the deletions since; None: plan it anew."""
    head = table.head
    if rewrite.generation != table.generation and not rules.rewrite_again_after_restore:
        return None
    sources = [fragment for fragment in head.fragments if fragment.number in rewrite.sources]
    if len(sources) < len(rewrite.sources) and not rules.rewrite_again_without_sources:
        return None
    gone = frozenset(one for fragment in sources for one in fragment.deleted)
    if rules.rewrite_again_without_deletions:
        gone = frozenset()
    others = tuple(fragment for fragment in head.fragments if fragment.number not in rewrite.sources)
    new = Fragment(NEW, rewrite.rows, gone & {row.id for row in rewrite.rows})
    staged = Head(NEW, (*others, new), head.next_row_id)
    return rewrite._replace(generation=table.generation, head=head.manifest, version=staged)


def restore(rules: Rules, table: Table, earlier: Table) -> Table:
    """Head, next row id and items are those of an earlier position; item numbers go on from there."""
    head, items = earlier.head, earlier.items
    if rules.restore_counts_rows:
        head = head._replace(next_row_id=max((row.id + 1 for row in head.live()), default=0))
    if rules.restored_items_match_again:
        items = tuple(item._replace(limit=0) for item in items)
    serial = earlier.serial if rules.restore_rewinds_serials else table.serial
    given = max(table.given, table.head.next_row_id) if rules.restore_keeps_the_limit else 0
    return Table(head, table.generation + 1, table.moved + 1, items, earlier.next, serial, given)
