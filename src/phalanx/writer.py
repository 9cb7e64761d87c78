"""Ingest: thousands of producers hand in one row each, and share entries.

A row is acknowledged once it is durable and readable: the acknowledgement can be waited for in a thread (`.result()`) or
awaited. While one batch is being put the next one gathers, without artificial delay, and becomes one transaction: rows of
the same kind that follow each other are one item, so their order is kept. A row that cannot be written fails alone. The
queue is bounded, in rows and in bytes: a producer that is too quick waits, in its thread or by `await writer.room()`.
"""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow as pa

from phalanx.clock import Deadline
from phalanx.data import Source, bytes_of, conform
from phalanx.dicts import dicts
from phalanx.errors import (
    CommitUnknownError,
    InvalidInputError,
    PhalanxError,
    SchemaChangedError,
    UnavailableError,
)
from phalanx.log.ack import Ack
from phalanx.log.action import Action
from phalanx.log.group import Group
from phalanx.log.item import DeleteKeys
from phalanx.log.row import Row, tell
from phalanx.lossless import column
from phalanx.owned import little, owned
from phalanx.schema import require_keys
from phalanx.tail.keys import as_key_table, last_of_each
from phalanx.tail.overlay import Shape
from phalanx.tail.payload import encode_rows
from phalanx.txn.bulk import Cargo, Small
from phalanx.txn.core import Core, Found
from phalanx.upkeep.background import Background

MOST_WAITING = 100_000
"""Rows that may wait in memory; beyond, producers wait."""
MOST_HELD = 256 << 20
"""Bytes of rows that may be in memory, about; beyond, producers wait."""
MOST_TOGETHER = 20_000
"""Rows in one transaction."""
MOST_AT_ONCE = 32 << 20
"""Bytes of rows that are turned into Arrow at once, about."""
_LITTLE = 1 << 16
MOST_BYTES = 4 << 20
"""Bytes of rows in one transaction: many large rows become several."""

_POLL = 0.001


class Parcel(msgspec.Struct):
    """What becomes one transaction: the rows that are told of it, and what it does."""

    taken: list[Row]
    actions: list[Action]
    cargo: Cargo
    size: int = 0


class Writer:
    """Takes rows of one table, one at a time. Safe to use from many threads and event loops."""

    def __init__(self, core: Core, background: Background, found: Found, most_waiting: int = MOST_WAITING) -> None:
        self._core = core
        self._background = background
        self._shape = found.shape
        self._names = frozenset(found.shape.schema.names)
        self._most_waiting = most_waiting
        self._held = 0
        self._counting = threading.Lock()
        self._group: Group[Row] = Group(self._commit, MOST_TOGETHER, inline=False)

    def append(self, row: Mapping[str, Any]) -> Ack:
        """Add a row; on a table with a key, it replaces the one of the same key. It is copied: fill it again at once."""
        own = little(row)
        return self._submit_large(row) if own is None else self._submit(Row(own, deletes=False))

    def upsert(self, row: Mapping[str, Any]) -> Ack:
        """Add a row, or replace the one of the same key."""
        if not self._shape.key:
            raise InvalidInputError("upsert needs a key, and this table has none: use append")
        own = little(row)
        return self._submit_large(row) if own is None else self._submit(Row(own, deletes=False))

    def delete(self, key: Any) -> Ack:  # noqa: ANN401 - a key's value
        """Remove the row of a key (a tuple, if the key has several columns); it need not exist."""
        if not self._shape.key:
            raise InvalidInputError("rows are removed by their key, and this table has none: use lake[…].delete(where)")
        return self._submit(Row(key, deletes=True))

    async def room(self) -> None:
        """Wait until there is room for one more row; on an event loop, a row for which there is none is refused."""
        if self._has_room():
            return
        deadline = self._core.deadline(None)
        while not self._has_room():
            self._require_patience(deadline)
            await asyncio.sleep(_POLL)

    def close(self) -> None:
        """Finish what was handed in."""
        self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _submit(self, row: Row) -> Row:
        if self._group.waiting() >= self._most_waiting:
            self._wait_for_room()
        self._group.submit(row)
        return row

    def _submit_large(self, row: Mapping[str, Any]) -> Row:
        """Hand in a row whose bytes count. Little ones need no lock: that there may be so many of them is enough."""
        if self._held >= MOST_HELD:
            self._wait_for_room()
        own, size = owned(row)
        taken = Row(own, deletes=False, size=size)
        self._count(size)
        try:
            return self._submit(taken)
        except PhalanxError:
            self._count(-size)
            raise

    def _has_room(self) -> bool:
        return self._held < MOST_HELD and self._group.waiting() < self._most_waiting

    def _wait_for_room(self) -> None:
        if _on_a_loop():
            raise UnavailableError(
                "there is no room for one more row, and to wait for it here would halt the event loop: this one was not "
                "taken; `await writer.room()` before each row"
            )
        deadline = self._core.deadline(None)
        while not self._has_room():
            self._require_patience(deadline)
            self._core.clock.sleep(_POLL)

    def _require_patience(self, deadline: Deadline) -> None:
        self._group.require_open()
        if deadline.passed():
            raise UnavailableError(
                f"{self._group.waiting()} rows are waiting to be written, and for {self._core.timeout:.0f} s there was no "
                "room: this one was not taken; try again"
            )

    def _commit(self, batch: list[Row]) -> None:
        """One transaction of all rows that can be written, or several if they are large; tells every one of them."""
        left = batch
        try:
            for some in _split(batch) if self._held else (batch,):
                self._learn()
                for parcel in self._parcels(some):
                    self._land(parcel)
                self._let_go(some)
                left = left[len(some) :]
        except BaseException as error:
            self._let_go(left)
            tell(batch, UnavailableError(f"the row was not written ({error!r}): hand it in again"))
            raise

    def _let_go(self, rows: list[Row]) -> None:
        size = sum(row.size for row in rows) if self._held else 0
        if size:
            self._count(-size)

    def _count(self, size: int) -> None:
        """Rows that hold little are not counted, so that handing them in takes no lock."""
        with self._counting:
            self._held += size

    def _learn(self) -> None:
        """The table's columns, as far as they are known here."""
        shape = self._core.shape(self._shape)
        if shape is not self._shape:
            self._shape, self._names = shape, frozenset(shape.schema.names)

    def _land(self, parcel: Parcel) -> None:
        deadline = self._core.deadline(None)
        try:
            self._background.make_room(self._shape.table, deadline)
            payloads = parcel.cargo.payloads
            position = self._core.committer.commit(self._core.intent(parcel.actions, deadline, payloads=payloads))
        except SchemaChangedError:
            self._core.refresh()
            self._learn()
            for again in self._parcels(parcel.taken):
                self._land(again)
            return
        except PhalanxError as error:
            tell(parcel.taken, error)
            return
        except BaseException as error:
            tell(parcel.taken, CommitUnknownError(f"cannot say whether the row was written ({error!r}): look for it"))
            raise
        tell(parcel.taken, position)
        self._background.wrote(self._shape.table, position)

    def _parcels(self, batch: Sequence[Row]) -> Iterator[Parcel]:
        parcel = Parcel([], [], Cargo())
        for deletes, run in groupby(batch, key=_deletes):
            shape = self._shape  # what its rows are read by: the writer may learn of others before all parcels are gone
            good, rows = self._readable(list(run), deletes=deletes)
            for part in _cut(rows) if good else ():
                size = bytes_of(part, _LITTLE)
                if parcel.size and parcel.size + size > MOST_BYTES:
                    yield parcel
                    parcel = Parcel([], [], Cargo())
                parcel.taken += good[: part.num_rows]
                parcel.actions.append(_item(shape, parcel.cargo, part, deletes=deletes))
                parcel.size += size
                good = good[part.num_rows :]
        if parcel.actions:
            yield parcel

    def _readable(self, run: list[Row], *, deletes: bool) -> tuple[list[Row], pa.Table]:
        """The rows that can be written, as Arrow; the others are told why not. Bad ones are found by halving."""
        try:
            return run, self._as_keys(run) if deletes else self._as_rows(run)
        except Exception as error:  # noqa: BLE001 - a row's own methods may raise anything
            if len(run) == 1:
                if not isinstance(error, InvalidInputError):
                    error = InvalidInputError(f"this row cannot be read: {error}; it was not written")
                tell(run, error)
                return [], self._shape.schema.empty_table()
        middle = len(run) // 2
        left, first = self._readable(run[:middle], deletes=deletes)
        right, second = self._readable(run[middle:], deletes=deletes)
        parts = [part for good, part in ((left, first), (right, second)) if good]
        return left + right, pa.concat_tables(parts).combine_chunks() if parts else first

    def _as_rows(self, run: Sequence[Row]) -> pa.Table:
        values = [row.value for row in run]
        plain = dicts(self._shape.schema).batch(values)
        rows = self._less_plain(values) if plain is None else pa.Table.from_batches([plain])
        require_keys(rows, self._shape.key)
        return rows

    def _less_plain(self, values: list[Any]) -> pa.Table:
        """Rows that say nothing of some columns, which are null then, or that are not to be had."""
        fields = self._shape.schema
        for kind in set(map(type, values)):
            if not issubclass(kind, Mapping):
                raise InvalidInputError(f"a row is a dict, and a {kind.__name__} was given; it was not written")
        unknown = set().union(*values) - self._names
        if unknown:
            raise InvalidInputError(f"there is no column {next(iter(unknown))!r}; there is: {', '.join(fields.names)}")
        arrays = [column([value.get(field.name) for value in values], field.type) for field in fields]
        made = pa.RecordBatch.from_arrays(arrays, names=fields.names)
        return conform(Source(made.schema, iter([made])), fields).table()

    def _as_keys(self, run: Sequence[Row]) -> pa.Table:
        keys = as_key_table([row.value for row in run], self._shape.key, self._shape.schema)
        require_keys(keys, self._shape.key)
        return keys


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _split(batch: list[Row]) -> Iterator[list[Row]]:
    """The rows in order, in parts that hold little enough, or a single row."""
    first = size = 0
    for at, row in enumerate(batch):
        if size and size + row.size > MOST_AT_ONCE:
            yield batch[first:at]
            first, size = at, 0
        size += row.size
    yield batch[first:]


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, in parts that are small enough, or a single row."""
    if rows.num_rows <= 1 or bytes_of(rows, MOST_BYTES) <= MOST_BYTES:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _cut(rows.slice(0, middle))
    yield from _cut(rows.slice(middle))


def _deletes(row: Row) -> bool:
    return row.deletes


def _item(shape: Shape, cargo: Cargo, rows: pa.Table, *, deletes: bool) -> Action:
    if deletes:
        return DeleteKeys(shape.table, cargo.add(encode_rows(rows)), rows.num_rows, shape.layout)
    if shape.key:
        return cargo.upsert(shape, Small(last_of_each(rows, shape.key)))
    return cargo.put(shape, Small(rows))
