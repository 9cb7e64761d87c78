"""One table inside a transaction: the snapshot it began on, with its own changes on top.

Statements are resolved at once, to keys on a keyed table and to row identities on one without (rule D2), and applied to
a private overlay, so the transaction reads what it wrote. What is left at the end is the net effect: rows removed, rows
added, fragments staged. Rows of its own are numbered from `OWN` on; no row of the log has such a number.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.data import Source, conform, source
from phalanx.errors import AlreadyExistsError, InvalidInputError, SchemaChangedError
from phalanx.expr import plan_assignments, plan_predicate
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.pins import Pin
from phalanx.runs import NO_IDS, Ids, encode_ids
from phalanx.schema import encode_schema, require_keys, require_values
from phalanx.tables.stage import Progress
from phalanx.tail.apply import advance
from phalanx.tail.columns import altered
from phalanx.tail.keys import key_values, last_of_each, repeated, shown_key
from phalanx.tail.overlay import shape_of
from phalanx.tail.payload import encode_rows
from phalanx.tail.read import Reading
from phalanx.txn import bulk
from phalanx.txn.bulk import Cargo, Large, Matcher, Small, matched, require_rows, stage, take_in
from phalanx.txn.core import Core, Found
from phalanx.txn.reads import Reads
from phalanx.txn.touched import Footprint
from phalanx.waiting import Pending

OWN = 1 << 60
Force = bool | None
"""Whether rows are staged whatever their size; None decides by size."""
MOST_KEYS = 100_000
"""Most keys of bulk work that are compared one by one with those of others; beyond, the whole table counts (D3)."""


class Draft:
    """A table as a transaction sees and changes it. Belongs to one thread at a time."""

    def __init__(
        self, core: Core, found: Found, look: Callable[[], None], *, born: bool = False, reads: Reads | None = None
    ) -> None:
        core.require_columns(found.shape)
        self._core = core
        self._look = look  # before anything is read: then there is a snapshot, and this table is as it is there
        self.found = found
        self.born = born
        self.matcher: Matcher | None = None  # finds the rows that a bulk statement replaces; this process without one
        self._reads = reads
        self._base: Reading | None = None
        self._reading: Reading | None = None
        self._unapplied: list[Callable[[], Pending]] = []
        self._added: list[pa.Table] = []
        self._changes = 0
        self._own = OWN
        self._keys: list[pa.Table] = []
        self._removed: list[Ids] = []
        self._staged: list[Large] = []
        self._packed_rows: Small | Large | None = None
        self._fits = False
        self._emptied = False
        self._whole = False
        self._fresh = True
        self._alters: list[it.Alter] = []
        self._before: Found | None = None
        """The table as it was found, if its columns were changed since."""
        self.statements = 0
        self.dropped = False

    def pins(self) -> list[Pin]:
        """What its staged rows are kept by."""
        return [one.pin for one in self._staged]

    def let_go(self) -> None:
        """The transaction is over: what it read and staged is no longer needed, whoever still holds on to it."""
        self._base = self._reading = self._packed_rows = None
        self._staged, self._unapplied = [], []

    @property
    def key(self) -> tuple[str, ...]:
        """The table's key."""
        return self.found.shape.key

    def read_rows(self, where: str | None, limit: int | None = None) -> None:
        """Rows are about to be read, by a condition or all of them."""
        if self._reads is not None and not self.born:
            self._look()
            self._reads.of(self._before or self.found).rows(where, limit)

    def read_keys(self, keys: Iterable[Any]) -> None:
        """The rows of these keys are about to be read."""
        if self._reads is not None and not self.born and self.key:
            wanted = self.reading.keys(list(keys)).rename_columns(list((self._before or self.found).shape.key))
            self._reads.of(self._before or self.found).keys(wanted)

    def base(self) -> Reading:
        """The table as it was at the snapshot."""
        if self._base is None:
            self._look()
            self._base = self._core.reading(self.found)
        return self._base

    @property
    def reading(self) -> Reading:
        """The table with the changes so far. A transaction that only adds rows never asks for it, and reads nothing."""
        if self._reading is None or self._unapplied:
            self._look()
            overlay = (self._reading or self.base()).overlay
            items = [ready() for ready in self._unapplied]
            self._reading = Reading(advance(overlay, items, self._core.datasets), self._core.datasets)
            self._unapplied = []
        return self._reading

    def put(self, data: object, progress: Progress | None, stage_it: Force, what: str = "append") -> int:
        """Add rows; on a keyed table they replace those of the same key."""
        self._fresh = False
        return self._put(data, progress, stage_it, what)

    def fill(self, data: object) -> int:
        """The first rows of a table that is new, possibly none."""
        return self._put(data, None, None, "create", some=False)

    def insert(self, data: object) -> int:
        """Add rows whose keys must be new."""
        rows = conform(source(data, self.found.shape.schema), self.found.shape.schema).table()
        if not self.key:
            raise InvalidInputError("insert checks keys, and this table has none: use append")
        require_rows(rows.num_rows, "insert")
        twice = repeated(rows, self.key)
        if twice is not None:
            raise InvalidInputError(
                f"key {shown_key(rows, self.key, twice)} is there twice: insert takes each key once"
            )
        held = self.reading.rows_of(rows.select(self.key), self.key)
        if held.num_rows:
            raise AlreadyExistsError(
                f"key {shown_key(held, self.key, 0)} exists already: use upsert to replace its row"
            )
        return self._put(rows, None, None, "insert")

    def overwrite(self, data: object, progress: Progress | None, stage_it: Force) -> int:
        """All rows go, then these are added."""
        rows = self._ready(data, progress, stage_it, look=True)  # if they are refused, nothing has changed yet
        shape = self.found.shape
        self._apply(it.Overwrite(shape.table, it.Inline(0, 0), shape.layout), encode_rows(shape.schema.empty_table()))
        self._emptied = self._whole = True
        self._keys, self._removed, self._staged = [], [], []
        return self._add(rows)

    def delete(self, where: str) -> int:
        """Remove the rows that match; their number."""
        self.statements += 1
        predicate = plan_predicate(where, self.found.shape.schema)
        self.read_rows(where)
        if self.key:
            return self._delete_keys(self.reading.scan(self.key, predicate.sql).read_all())
        identities = self.reading.identities(predicate)
        self._remove(identities)
        return len(identities)

    def delete_keys(self, held: pa.Table) -> int:
        """Remove the rows of these keys, all of which are there; their number."""
        self.statements += 1
        return self._delete_keys(held)

    def update(self, changes: Mapping[str, object], where: str | None) -> int:
        """Set columns of the rows that match; their number."""
        self.statements += 1
        self._fresh = False
        schema = self.found.shape.schema
        planned = plan_assignments(changes, schema)
        predicate = None if where is None else plan_predicate(where, schema)
        self.read_rows(where)
        if self.key:
            old = self.reading.scan(None, where).read_all()
            if not old.num_rows:
                return 0
            new = require_values(planned.apply(old.combine_chunks()))
            if set(planned.targets) & set(self.key):
                require_keys(new, self.key)
                self._move(old.select(self.key), new)
            self._upsert(new)
            return old.num_rows
        identities = self.reading.identities(predicate)
        if not len(identities):
            return 0
        rows = self.reading.rows_at(identities, schema.names)[1]
        new = require_values(planned.apply(rows.combine_chunks()))  # may fail on a row: then nothing has changed yet
        self._remove(identities)
        self._apply_rows(it.Put, new)
        return len(identities)

    def alter(self, steps: Sequence[it.Step]) -> None:
        """Change the columns: of the rows that are there, and of those that are added from here on."""
        self._look()
        shape = self.found.shape
        schema, key = altered(shape.schema, shape.key, steps)
        for step in steps:
            if isinstance(step, it.SetNullable) and not step.nullable:
                self._require_values(step.name)
        layout = it.Layout(self._core.new_layout_id(), encode_schema(schema), key, tuple(steps))
        alter = it.Alter(shape.table, shape.layout, layout)
        self.statements += 1
        self._before = self._before or self.found
        self._alters.append(alter)
        self._keys = [keys.rename_columns(list(key)) for keys in self._keys]
        self._apply(alter, b"")
        self.found = msgspec.structs.replace(self.found, shape=shape_of(shape.table, layout))
        self._reading = self.reading

    def _require_values(self, name: str) -> None:
        """A column that may no longer be null must not be: nobody else may change the table meanwhile."""
        if name in self.found.shape.schema.names and self.reading.count(f"`{name}` is null"):
            raise InvalidInputError(f"column {name!r} is null in some rows: give them a value first")
        if self._staged:  # they are written, as rows that may be null
            raise InvalidInputError(f"rows in bulk were added in here before: set column {name!r} to not null first")
        self._whole = True

    def footprint(self) -> Footprint:
        """What it touched of the table as it was at its snapshot."""
        before = self._before or self.found
        named = list(before.shape.key)
        keys = pa.concat_tables(self._keys).rename_columns(named) if self._keys else None
        whole = self._whole or (keys is not None and keys.num_rows > MOST_KEYS)
        mine = np.concatenate([NO_IDS, *self._removed])
        return Footprint(before, self.base, keys if self.key else None, mine, whole)

    def removed(self) -> Ids:
        """The identities of the rows that go."""
        return np.concatenate([NO_IDS, *self._removed])

    def actions(self, cargo: Cargo, removed: Ids) -> list[do.Action]:
        """The net effect as items; `removed` are the identities that the removed rows have by now."""
        shape, table = self.found.shape, self.found.table.id
        single = self._single()
        if single is not None:
            return [self._alone(single, cargo)]
        rows, gone = self._rest()
        found: list[do.Action] = list(self._alters)
        if self._emptied:
            found.append(cargo.overwrite(shape, self._packed(rows)))
        if len(removed):
            found.append(it.DeleteRows(table, cargo.add(encode_ids(removed)), len(removed)))
        if gone is not None and gone.num_rows and not self._emptied:
            found.append(it.DeleteKeys(table, cargo.add(encode_rows(gone)), gone.num_rows, shape.layout))
        found += [cargo.upsert(shape, large) if self.key else cargo.put(shape, large) for large in self._still_staged()]
        if rows.num_rows and not self._emptied:
            packed = self._packed(rows)
            fresh = self._fresh and not (gone is not None and gone.num_rows)
            found.append(cargo.upsert(shape, packed, fresh=fresh) if self.key else cargo.put(shape, packed))
        return found

    def _single(self) -> Large | None:
        """The one bulk statement that is all there is: it may become the head at once."""
        alone = self.statements == 1 and len(self._staged) == 1
        return self._staged[0] if alone and not self.removed().size else None

    def _alone(self, large: Large, cargo: Cargo) -> do.Action:
        shape = self.found.shape
        ready = matched(large, self._core.datasets, replace=self._emptied, matcher=self.matcher)
        if self._emptied:
            return cargo.overwrite(shape, ready)
        return cargo.upsert(shape, ready) if self.key else cargo.put(shape, ready)

    def _rest(self) -> tuple[pa.Table, pa.Table | None]:
        """The rows of its own that are in memory, and the keys it touched that have no row any more."""
        if self._reading is None and not self._emptied and not (self.key and self._staged):
            if len(self._added) == 1:
                return self._added[0], None
            added = pa.concat_tables([self.found.shape.schema.empty_table(), *self._added])
            return last_of_each(added.combine_chunks(), self.key) if self.key else added, None
        held = self.reading.overlay.memory
        mine = (held.identities <= -OWN) & held.alive
        rows = held.rows.filter(pa.array(mine))
        if not self.key or not self._keys:
            return rows, None
        keys = pa.concat_tables(self._keys)
        there = set(key_values(self.reading.rows_of(keys, self.key), self.key))
        gone = [at for at, value in enumerate(key_values(keys, self.key)) if value not in there]
        return rows, keys.take(pa.array(gone, pa.int64()))

    def _still_staged(self) -> list[Large]:
        """What it staged, with the rows that it deleted itself marked as dead."""
        if self._reading is None and not self._emptied and not self.key:
            return self._staged
        staged = []
        for large in self._staged:
            for segment in self.reading.overlay.segments:
                if segment.manifest == large.version.manifest and not segment.is_head:
                    dead = segment.hidden - segment.first
                    staged += [large.with_dead(dead)] if len(dead) < large.count else []
        return staged

    def _packed(self, rows: pa.Table) -> Small | Large:
        """The rows as they travel: staged once, however often the transaction has to say it anew."""
        if self._packed_rows is None and self._fits and rows is self._added[0]:
            self._packed_rows = Small(rows)
        if self._packed_rows is None:
            small = rows.num_rows <= bulk.INLINE_ROWS and rows.nbytes <= bulk.INLINE_BYTES
            if not small:
                self._look()
            staged = None if small else self._stage(source(rows), None)
            self._packed_rows = staged or Small(rows.combine_chunks())
        return self._packed_rows

    def _put(self, data: object, progress: Progress | None, stage_it: Force, what: str, *, some: bool = True) -> int:
        rows = self._ready(data, progress, stage_it)
        if some:
            require_rows(rows.rows.num_rows if isinstance(rows, Small) else rows.count, what)
        return self._add(rows)

    def _ready(self, data: object, progress: Progress | None, stage_it: Force, *, look: bool = False) -> Small | Large:
        """Rows as they will be added, ready-made or not: what is refused fails here, before anything is changed."""
        if isinstance(data, Small | Large):
            self._look()
            return data
        schema, layout = self.found.shape.schema, self.found.shape.layout
        rows = take_in(conform(source(data, schema), schema), self.key, stage=stage_it)
        if isinstance(rows, Small) and not look:
            return rows
        self._look()
        if self.found.shape.layout != layout:
            raise SchemaChangedError("the columns of the table have changed since this was begun: run it again")
        return rows if isinstance(rows, Small) else self._stage(rows, progress)

    def _stage(self, rows: Source, progress: Progress | None) -> Large:
        own = [alter.layout for alter in self._alters]
        return stage(self.found, rows, self._core.datasets, progress, own)

    def _add(self, rows: Small | Large) -> int:
        self.statements += 1
        if isinstance(rows, Large):
            self._add_staged(rows)
            return rows.count - len(rows.dead)
        if rows.rows.num_rows:
            self._fits = rows.fits and not self._added
            if self.key:
                self._upsert(rows.rows)
            else:
                self._apply_rows(it.Put, rows.rows)
        return rows.rows.num_rows

    def _add_staged(self, large: Large) -> None:
        self._staged.append(large)
        said = large.item(0 if len(large.dead) else None)
        payload = encode_ids(large.dead)
        if self.key:
            fragments = range(large.first, large.first + large.fragments)
            self._keys.append(large.version.scan(self.key, fragments=fragments).read_all())
            self._apply(it.Upsert(self.found.table.id, said, layout=large.layout), payload, large.count)
        else:
            self._apply(it.Put(self.found.table.id, said, large.layout), payload, large.count)

    def _upsert(self, rows: pa.Table) -> None:
        self._keys.append(rows.select(self.key))
        self._apply_rows(it.Upsert, rows)

    def _move(self, old: pa.Table, new: pa.Table) -> None:
        """Rows get other keys, which must be free."""
        twice = repeated(new, self.key)
        taken = set(key_values(self.reading.rows_of(new.select(self.key), self.key), self.key))
        if twice is not None or taken - set(key_values(old, self.key)):
            raise AlreadyExistsError("this update would give two rows the same key: nothing was changed")
        self._delete_keys(old)

    def _delete_keys(self, keys: pa.Table) -> int:
        if keys.num_rows:
            shape = self.found.shape
            self._keys.append(keys)
            self._apply(it.DeleteKeys(shape.table, 0, keys.num_rows, shape.layout), encode_rows(keys))
        return keys.num_rows

    def _remove(self, identities: Ids) -> None:
        if len(identities):
            self._removed.append(identities[identities > -OWN])
            self._apply(it.DeleteRows(self.found.table.id, 0, len(identities)), encode_ids(identities))

    def _apply_rows(self, kind: type[it.Put | it.Upsert], rows: pa.Table) -> None:
        self._added.append(rows)
        item = kind(self.found.table.id, it.Inline(0, rows.num_rows), layout=self.found.shape.layout)
        self._apply(item, lambda: encode_rows(rows), rows.num_rows)

    def _apply(self, item: it.Waiting, payload: bytes | Callable[[], bytes], rows: int = 0) -> None:
        """Put one more change on top of the private overlay, as soon as somebody looks at it."""
        number, own = self._changes, self._own

        def ready() -> Pending:
            seq = self.found.contents.until + number
            return Pending(seq, 0, 0, own, item, (payload if isinstance(payload, bytes) else payload(),))

        self._unapplied.append(ready)
        self._changes += 1
        self._own += rows
