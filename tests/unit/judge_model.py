"""A lake made of plain dictionaries, which refuses what the judge refuses."""

from typing import Any

import pyarrow as pa

from phalanx.log import item as it
from phalanx.schema import encode_schema
from phalanx.versions import unpack_versions

Name = tuple[str, ...]
Ranges = tuple[tuple[int, int], ...]
SCHEMAS = {encode_schema(pa.schema([(name, pa.int64()) for name in names])): names for names in ("c", "d", "cd")}
SCHEMAS[b""] = ""
"""Columns as they stand in an action, and their names; of a table that was only declared, none are known."""


class RefusalError(Exception):
    """The model's objection: the name of a kind."""


class Held:
    """What a table holds: the weights (rows, predicates) of its items, of which the first `flushed` are in the head."""

    def __init__(self, position: int, head: int = 0, schema: bytes = b"") -> None:
        self.version, self.head, self.flushed, self.moved, self.changed = 0, head, 0, 0, position
        self.created, self.generation, self.next_row_id = position, 0, 0
        self.items: list[tuple[int, int]] = []
        self.serial = 0
        self.indexes: list[tuple[str, str, int]] = []
        self.layouts = [it.Layout(0, schema, ())]
        self.altered: list[tuple[int, int]] = [(0, 0)]
        self.landed: dict[int, int] = {}
        self.deleted: set[int] = set()
        self.claims: dict[tuple[str, int], int] = {}
        if head:
            self.version, self.landed = 1, {1: position}

    def count(self, position: int) -> None:
        """One more version, unless this is the transaction that made the last one."""
        if not (self.version and self.changed == position):
            self.version += 1
            self.landed[self.version] = position
        self.changed = self.moved = position

    def land(self, position: int, rows: object, weight: tuple[int, int]) -> None:
        """One more item."""
        unmoved = isinstance(rows, it.Staged) and rows.whole and rows.base == self.moved
        same = isinstance(rows, it.Staged) and rows.generation == self.generation
        self.count(position)
        if isinstance(rows, it.Staged) and unmoved and same and self.flushed == len(self.items):
            self.head, self.next_row_id = rows.manifest, rows.next_row_id
        else:
            self.serial += getattr(rows, "count", 0)
            self.items.append(weight)

    def alter(self, position: int, layout: it.Layout) -> None:
        """Other columns, which wait like rows; indexes follow theirs."""
        self.land(position, None, (0, 1))
        self.layouts.append(layout)
        self.altered.append((len(self.items), layout.id))
        for step in layout.steps:
            for at, (name, column, since) in reversed(list(enumerate(self.indexes))):
                if isinstance(step, it.DropColumn) and column == step.name:
                    del self.indexes[at]
                elif isinstance(step, it.RenameColumn) and column == step.name:
                    self.indexes[at] = name, step.to, since
                elif isinstance(step, it.WidenColumn) and column == step.name:
                    self.indexes[at] = name, column, position

    def replace(self, position: int, head: int, next_row_id: int) -> None:
        """All of it is another head."""
        self.count(position)
        self.head, self.next_row_id, self.flushed = head, next_row_id, len(self.items)
        self.altered, self.claims = [(0, self.layouts[-1].id)], {}

    def since(self, layout: int) -> list[tuple[it.Step, ...]] | None:
        """The steps of each layout that followed one."""
        numbers = [layout.id for layout in self.layouts]
        if layout not in numbers:
            return None
        behind = len(numbers) - numbers[::-1].index(layout)
        return [layout.steps for layout in self.layouts[behind:]]

    def all(self) -> tuple[object, ...]:
        """Everything that the fold says of it too."""
        rows, predicates = (sum(part) for part in zip((0, 0), *self.items[self.flushed :], strict=True))
        head = self.head, self.next_row_id, [layout for until, layout in self.altered if until <= self.flushed][-1]
        numbers = self.version, *head, self.flushed, len(self.items), self.serial, self.moved, rows, predicates
        columns = [layout.id for layout in self.layouts]
        claims = {(*claim, until) for claim, until in self.claims.items()}
        return (*numbers, self.generation, columns, self.indexes, self.landed, sorted(self.deleted), claims)


class Model:
    """A lake as plain dictionaries; `run` does an action, or refuses it."""

    def __init__(self) -> None:
        self.spaces: dict[Name, dict[str, str]] = {}
        self.tables: dict[Name, str] = {}
        self.held: dict[str, Held] = {}
        self.tags: dict[str, int] = {}
        self.properties: dict[str, str] = {}
        self.progress: dict[str, int] = {}
        self.deregistered: dict[str, int] = {}
        self.pruned = 0
        self.floor = 1
        self.kept: set[int] = set()
        self.position = 0

    def has(self, position: int) -> bool:
        """Whether a position can be read."""
        return position >= self.floor - 1 or position in self.kept

    def run(self, action: Any) -> None:
        """Do an action, by the name it has in the log."""
        do_it = getattr(self, f"_{action.__struct_config__.tag}")
        do_it(*(getattr(action, field) for field in action.__struct_fields__))

    def _need(self, condition: object, otherwise: str) -> None:
        if not condition:
            raise RefusalError(otherwise)

    def _free(self, name: Name) -> None:
        self._need(name not in self.tables and name not in self.spaces, "EXISTS")
        self._need(len(name) == 1 or name[:-1] in self.spaces, "MISSING")

    def _set(self, held: dict[str, str], key: str, value: str | None) -> None:
        held.pop(key, None)
        if value is not None:
            held[key] = value

    def _create_namespace(self, name: Name, properties: dict[str, str]) -> None:
        self._free(name)
        self.spaces[name] = dict(properties)

    def _alter_namespace(self, name: Name, properties: dict[str, str | None]) -> None:
        self._need(name in self.spaces, "MISSING")
        for key, value in properties.items():
            self._set(self.spaces[name], key, value)

    def _drop_namespace(self, name: Name) -> None:
        self._need(name in self.spaces, "MISSING")
        self._need(not any(other[:-1] == name for other in (*self.spaces, *self.tables)), "NOT_EMPTY")
        del self.spaces[name]

    def _create_table(self, name: Name, table: str, *rest: Any) -> None:
        self._free(name)
        self._need(table not in self.held, "EXISTS")
        self.tables[name] = table
        self.held[table] = Held(self.position, rest[-1], rest[1])

    def _drop_table(self, name: Name, table: str) -> None:
        self._need(name in self.tables, "MISSING")
        self._need(self.tables[name] == table, "CHANGED")
        del self.tables[name]
        del self.held[table]

    def _deregister_table(self, name: Name, table: str) -> None:
        self._drop_table(name, table)
        self.deregistered[table] = self.position

    def _revive_table(
        self,
        name: Name,
        table: str,
        _: object,
        created: int,
        version: int,
        versions: bytes,
        deleted: Ranges,
        pruned: int,
    ) -> None:
        self._create_table(name, table, {}, b"", (), 0)
        self._need(self.pruned <= pruned, "VOID")
        held = self.held[table]
        held.version, held.created, held.changed = version, created, 0
        held.landed = {one.version: one.position for one in unpack_versions(versions).oldest_first()}
        held.deleted = {one for first, last in deleted for one in range(first, last + 1)}
        self.deregistered.pop(table, None)

    def _rename_table(self, name: Name, table: str, to: Name) -> None:
        self._need(name in self.tables, "MISSING")
        self._need(self.tables[name] == table, "CHANGED")
        self._free(to)
        self.tables[to] = self.tables.pop(name)

    def _tag(self, name: str, position: int, move: bool) -> None:
        self._need(position <= self.position, "MISSING")
        self._need(move or self.tags.get(name, position) == position, "EXISTS")
        self._need(self.tags.get(name) == position or self.has(position), "IN_USE")
        self.tags[name] = position

    def _untag(self, name: str) -> None:
        self._need(name in self.tags, "MISSING")
        del self.tags[name]

    def _property(self, key: str, value: str | None) -> None:
        self._set(self.properties, key, value)

    def _progress(self, source: str, expected: int | None, new: int) -> None:
        held = self.progress.get(source)
        self._need(held == expected, "BEHIND")
        self.progress[source] = new

    def _land(self, table: str, rows: object, weight: tuple[int, int], layout: int | None, kind: str) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        if layout is not None and layout != held.layouts[-1].id:
            newer = held.since(layout)
            self._need(newer is not None and all(newer) and kind != "where", "REPLAN")
            for step in (step for steps in newer or () for step in steps if kind == "rows"):
                self._need(not isinstance(step, it.DropColumn) or isinstance(rows, it.Staged), "REPLAN")
                self._need(not isinstance(step, it.SetNullable) or step.nullable, "REPLAN")
        held.land(self.position, rows, weight)

    def _put(self, table: str, rows: it.Rows, *rest: Any) -> None:
        weight = (rows.count, 0) if isinstance(rows, it.Inline) else (0, 1)
        self._land(table, rows, weight, rest[-1], "rows")

    def _delete_keys(self, table: str, _: int, count: int, layout: int | None = None) -> None:
        self._land(table, None, (count, 0), layout, "keys")

    def _delete_where(self, table: str, *rest: Any) -> None:
        self._land(table, None, (0, 1), rest[-1], "where")

    _upsert = _overwrite = _put
    _delete_rows = _delete_keys
    _update_where = _delete_where

    def _alter(self, table: str, base: int, layout: it.Layout) -> None:
        self._need(table in self.held, "MISSING")
        self._need(self.held[table].layouts[-1].id == base, "REPLAN")
        self.held[table].alter(self.position, layout)

    def _prune(self, floor: int, _: int, __: int, kept: Any, ___: Any, versions: Any, by_itself: bool = False) -> None:
        self._need(not by_itself or self.properties.get("upkeep") == "on", "IN_USE")
        self._need(floor < self.position, "MISSING")
        for position in self.tags.values():
            self._need(position >= floor - 1 or position in kept or not self.has(position), "VOID")
        for table, ranges in versions:
            if table in self.held:
                try:
                    self._delete_versions(table, ranges)
                except RefusalError:
                    raise RefusalError("VOID") from None
        self.pruned = self.position
        if floor >= self.floor:
            self.floor, self.kept = floor, set(kept)
        self.kept = {one for one in self.kept if one < self.floor - 1}

    def _restore(self, table: str, source: int, head: int, row_id: int, layouts: Any, indexes: Any) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        then = max((version for version, at in held.landed.items() if at <= source), default=0)
        self._need(self.has(source) and then not in held.deleted, "IN_USE")
        held.layouts = list(layouts)
        held.indexes = [(index.name, index.column, index.since) for index in indexes]
        held.generation = self.position
        held.replace(self.position, head, row_id)

    def _advance(self, table: str, version: int, head: int, row_id: int, layout: Any, columns: Any) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        self._need(version > held.version, "EXISTS")
        self._need(version == held.version + 1, "MISSING")
        if layout is not None:
            held.layouts = [*(held.layouts if held.version else ()), layout]
            held.indexes = [index for index in held.indexes if index[1] in columns]
        held.generation = self.position
        held.replace(self.position, head, row_id)

    def _delete_versions(self, table: str, ranges: Ranges) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        gone: set[int] = set()
        for first, last in ranges:
            self._need(1 <= first <= last <= held.version, "MISSING")
            self._need(last < held.version, "IN_USE")
            gone |= set(range(first, last + 1))
        for position in self.tags.values():
            shown = [version for version, at in held.landed.items() if held.created <= position and at <= position]
            self._need(not shown or max(shown) not in gone, "IN_USE")
        held.deleted |= gone

    def _flush(self, table: str, branch: int, base: int, first: int, until: int, head: int, *rest: Any) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        self._need((branch, base, first) == (held.generation, held.head, held.flushed), "VOID")
        self._need(first < until <= len(held.items), "VOID")
        held.head, held.flushed, held.moved, held.next_row_id = head, until, self.position, rest[1]

    def _cover(self, table: str, branch: int, base: int, head: int, *__: object) -> None:
        self._need(table in self.held, "MISSING")
        self._need((branch, base) == (self.held[table].generation, self.held[table].head), "VOID")
        self.held[table].head, self.held[table].moved = head, self.position

    def _rewrite(self, table: str, branch: int, base: int, head: int, removed: tuple[int, ...], _: int) -> None:
        self._cover(table, branch, base, head)
        held = self.held[table]
        held.claims = {claim: until for claim, until in held.claims.items() if claim[1] not in removed}

    def _claim(self, table: str, branch: int, fragments: tuple[int, ...], by: str, since: int, until: int) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        self._need(branch == held.generation, "VOID")
        live = {claim: end for claim, end in held.claims.items() if end > since}
        self._need(not any(other != by and number in fragments for other, number in live), "VOID")
        held.claims = {claim: end for claim, end in live.items() if claim[1] not in fragments}
        if until > since:
            held.claims |= {(by, number): until for number in fragments}

    def _declare_index(self, table: str, name: str, column: str, *_: object) -> None:
        self._need(table in self.held, "MISSING")
        held = self.held[table]
        self._need(all(index[0] != name for index in held.indexes), "EXISTS")
        self._need(column in (SCHEMAS[held.layouts[-1].schema] or column), "REPLAN")
        held.indexes.append((name, column, self.position))

    def _drop_index(self, table: str, name: str) -> None:
        self._need(table in self.held and any(index[0] == name for index in self.held[table].indexes), "MISSING")
        held = self.held[table]
        held.indexes = [index for index in held.indexes if index[0] != name]
