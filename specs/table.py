"""A table made of files: a head with stable row ids, items on top of it, and bulk changes that were staged before.

This is the machine that rows.py and transactions.py put to the test; its upkeep is in upkeep.py. In plain words:

- C2 A bulk change is staged on a base: the rows below the *limit*, the base's next row id, are matched then and there.
  When it lands, that part is used for rows that still stand in the head, unchanged, below the limit. All other rows get
  its logical meaning. If the generation changed, the limit is 0.
  Fast path: if the table has not moved since the base and has no items, the staged version is the new head.
- C3 Deletions are sets of row ids, and united.
- D2 A row has one identity: a row of the head its row id; a row of the tail -(serial + 1), with serial numbers that are
  given out as items land. A row updated in the tail keeps its identity until it is flushed.

Pure functions on immutable values. Nothing here looks at a row's `key` except an upsert.
"""

from collections.abc import Iterable
from typing import NamedTuple

from specs.changes import Change, Row, applied

NEW = -1  # the number of a manifest or fragment that is staged: it gets its own when it lands
NO_LIMIT = 1_000_000


class Rules(NamedTuple):
    """The rules as specified; each flag plants a mistake or relaxes one rule."""

    flushed_rows_not_matched_again: bool = False
    tail_rows_not_matched_again: bool = False
    changed_rows_as_computed: bool = False
    old_generation_as_computed: bool = False
    fast_path_on_moved_base: bool = False
    fast_path_over_items: bool = False
    base_is: str = "moved"
    """Or "head", "generation and head": what a base is compared by."""
    deletions_replaced: bool = False
    serials_given_when_staged: bool = False
    flush_ignores_generation: bool = False
    flush_ignores_head: bool = False
    flush_ignores_range: bool = False
    flush_keeps_ids: bool = False
    items_behind_a_flush_not_translated: bool = False
    rewrite_ignores_head: bool = False
    rewrite_ignores_generation: bool = False
    rewrite_again_without_deletions: bool = False
    rewrite_again_after_restore: bool = False
    rewrite_again_without_sources: bool = False
    restore_counts_rows: bool = False
    restore_keeps_the_limit: bool = False
    restore_rewinds_serials: bool = False
    restored_items_match_again: bool = False


class Fragment(NamedTuple):
    """Rows of a head, and the row ids that are deleted among them."""

    number: int
    rows: tuple[Row, ...]
    deleted: frozenset[int] = frozenset()

    def live(self) -> tuple[Row, ...]:
        """The rows that are not deleted."""
        return tuple(row for row in self.rows if row.id not in self.deleted)


class Head(NamedTuple):
    """A Lance version; `manifest` is its number, and it is what makes two heads the same."""

    manifest: int
    fragments: tuple[Fragment, ...]
    next_row_id: int

    def live(self) -> tuple[Row, ...]:
        """The rows of the head."""
        return tuple(row for fragment in self.fragments for row in fragment.live())


class Bulk(NamedTuple):
    """A staged bulk change: its meaning, and what was computed on its base.

    `rows` are the new rows (key, value), each with the row id of the one it replaces, if it does. `version` is the head
    that it was staged on, with this change.
    """

    change: Change
    base: int
    generation: int
    head: int
    limit: int
    hidden: frozenset[int]
    rows: tuple[tuple[int | None, str, int], ...]
    version: Head
    serial: int


class Item(NamedTuple):
    """A change in the tail: its number, the serial of its first row, and for a bulk change the staged part."""

    number: int
    serial: int
    change: Change
    bulk: Bulk | None = None
    limit: int = 0

    def row(self, index: int, key: str, value: int) -> Row:
        """A row that it brings, the `index`-th of them."""
        return Row(-(self.serial + index) - 1, key, value)


class Table(NamedTuple):
    """`moved` counts what changed head or items, upkeep included; `next` and `serial` are the next numbers.

    `given` serves a mistake only: the row ids that were given out before a restore.
    """

    head: Head
    generation: int = 0
    moved: int = 0
    items: tuple[Item, ...] = ()
    next: int = 0
    serial: int = 0
    given: int = 0

    def on(self, version: Head, items: tuple[Item, ...]) -> "Table":
        """A staged version has landed: it is the head, under a number of its own."""
        number = self.moved + 1
        fragments = tuple(one._replace(number=number) if one.number == NEW else one for one in version.fragments)
        return self._replace(head=Head(number, fragments, version.next_row_id), items=items, moved=number)


def rows(rules: Rules, table: Table) -> list[Row]:
    """What a reader sees: the items applied to the head, in order."""
    found: list[Row] = list(table.head.live())
    for item in table.items:
        if item.bulk is None:
            found = applied(found, item.change, item.row(0, item.change.key, item.change.value))
        else:
            found = _applied_bulk(rules, found, item, item.bulk)
    return found


def _applied_bulk(rules: Rules, found: Iterable[Row], item: Item, bulk: Bulk) -> list[Row]:
    """What was computed counts for rows that stand unchanged below the limit; others get the logical meaning."""
    new = [(old, item.row(index, key, value)) for index, (old, key, value) in enumerate(bulk.rows)]
    replacing = {old: row for old, row in new if old is not None}
    result: list[Row] = []
    for row in found:
        stands = row.in_head or (rules.changed_rows_as_computed and row.id >= 0)
        kept: Row | None = row
        if stands and row.id < item.limit:
            kept = replacing.get(row.id, None if row.id in bulk.hidden else row)
        elif item.change.touches(row) and (row.in_head or not rules.tail_rows_not_matched_again):
            kept = item.change.updates(row)
        if kept is not None:
            result.append(kept)
    return result + [row for old, row in new if old is None]


def log(table: Table, change: Change) -> Table:
    """A logged change lands: it is the last item."""
    return _with(table, Item(table.next, table.serial, change), 1 if change.adds() else 0)


def stage(rules: Rules, table: Table, change: Change) -> Bulk:
    """A bulk change is computed on the rows that stand in the head; those of the tail have no row id to name."""
    old = [row for row in rows(rules, table) if row.in_head and change.touches(row)]
    new: list[tuple[int | None, str, int]] = []
    for row in old:
        updated = change.updates(row)
        if updated is not None:
            new.append((row.id, updated.key, updated.value))
    if change.adds():
        new.append((None, change.key, change.value))
    head, hidden = table.head, frozenset(row.id for row in old)
    limit = max(head.next_row_id, table.given)
    staged = version(rules, head, hidden, [(key, value) for _, key, value in new])
    return Bulk(change, table.moved, table.generation, head.manifest, limit, hidden, tuple(new), staged, table.serial)


def land(rules: Rules, table: Table, bulk: Bulk) -> Table:
    """A bulk change lands: as the head if nothing came between, else as the last item."""
    if _is_fast(rules, table, bulk):
        return table.on(bulk.version, table.items)
    limit = bulk.limit
    if rules.flushed_rows_not_matched_again:
        limit = NO_LIMIT
    elif bulk.generation != table.generation and not rules.old_generation_as_computed:
        limit = 0
    serial = bulk.serial if rules.serials_given_when_staged else table.serial
    return _with(table, Item(table.next, serial, bulk.change, bulk, limit), len(bulk.rows))


def _is_fast(rules: Rules, table: Table, bulk: Bulk) -> bool:
    if table.items and not rules.fast_path_over_items:
        return False
    match rules.base_is:
        case "head":
            return bulk.head == table.head.manifest
        case "generation and head":
            return (bulk.generation, bulk.head) == (table.generation, table.head.manifest)
        case _:
            return bulk.base == table.moved or rules.fast_path_on_moved_base


def _with(table: Table, item: Item, count: int) -> Table:
    moved, serial = table.moved + 1, table.serial + count
    return table._replace(items=(*table.items, item), next=table.next + 1, moved=moved, serial=serial)


def version(rules: Rules, head: Head, hidden: frozenset[int], added: list[tuple[str, int]]) -> Head:
    """A version staged on a head: row ids are hidden, rows are appended with fresh ids."""
    fragments = tuple(_hiding(rules, fragment, hidden) for fragment in head.fragments)
    fresh = enumerate(added, start=head.next_row_id)
    new = tuple(Row(number, key, value, in_head=True) for number, (key, value) in fresh)
    return Head(NEW, (*fragments, Fragment(NEW, new)) if new else fragments, head.next_row_id + len(new))


def _hiding(rules: Rules, fragment: Fragment, hidden: frozenset[int]) -> Fragment:
    here = hidden & {row.id for row in fragment.rows}
    if not here:
        return fragment
    return fragment._replace(deleted=here if rules.deletions_replaced else fragment.deleted | here)
