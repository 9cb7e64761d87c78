"""Ingest: thousands of producers hand in one row each, and share entries.

A row is acknowledged once it is durable and readable: the acknowledgement can be waited for in a thread (`.result()`) or
awaited. While one batch is being put the next one gathers, without artificial delay, and becomes one transaction: rows of
the same kind that follow each other are one item, so their order is kept. A row that cannot be written fails alone. The
queue is bounded: a producer that is too quick waits.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from phalanx.data import conform, source
from phalanx.errors import InvalidInputError, PhalanxError, UnavailableError
from phalanx.log.ack import Ack, settle
from phalanx.log.action import Action
from phalanx.log.group import Group
from phalanx.log.item import DeleteKeys, Put
from phalanx.schema import require_keys
from phalanx.tail.keys import as_key_table, last_of_each
from phalanx.tail.payload import encode_rows
from phalanx.txn.bulk import Cargo, Small
from phalanx.txn.core import Core, Found
from phalanx.upkeep.background import Background

MOST_WAITING = 100_000
"""Rows that may wait in memory; beyond, producers wait."""
MOST_TOGETHER = 20_000
"""Rows in one transaction."""

_POLL = 0.001


class Row(Ack):
    """A row on its way: the version of the lake it landed on, or its error, is to come."""

    __slots__ = ("deletes", "value")

    def __init__(self, value: Any, *, deletes: bool) -> None:  # noqa: ANN401 - a row, or a key
        super().__init__()
        self.value = value
        self.deletes = deletes


class Writer:
    """Takes rows of one table, one at a time. Safe to use from many threads and event loops."""

    def __init__(self, core: Core, background: Background, found: Found, most_waiting: int = MOST_WAITING) -> None:
        self._core = core
        self._background = background
        self._shape = found.shape
        self._names = frozenset(found.shape.schema.names)
        self._most_waiting = most_waiting
        self._group: Group[Row] = Group(self._commit, MOST_TOGETHER, inline=False)
        self._waiting = 0
        self._lock = threading.Lock()

    def append(self, row: Mapping[str, Any]) -> Ack:
        """Add a row; on a table with a key, it replaces the one of the same key."""
        return self._submit(Row(row, deletes=False))

    def upsert(self, row: Mapping[str, Any]) -> Ack:
        """Add a row, or replace the one of the same key."""
        if not self._shape.key:
            raise InvalidInputError("upsert needs a key, and this table has none: use append")
        return self._submit(Row(row, deletes=False))

    def delete(self, key: Any) -> Ack:  # noqa: ANN401 - a key's value
        """Remove the row of a key (a tuple, if the key has several columns); it need not exist."""
        if not self._shape.key:
            raise InvalidInputError("rows are removed by their key, and this table has none: use lake[…].delete(where)")
        return self._submit(Row(key, deletes=True))

    def close(self) -> None:
        """Finish what was handed in."""
        self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _submit(self, row: Row) -> Row:
        if self._waiting >= self._most_waiting:
            self._wait_for_room()
        with self._lock:
            self._waiting += 1
        self._group.submit(row)
        return row

    def _wait_for_room(self) -> None:
        deadline = self._core.deadline(None)
        while self._waiting >= self._most_waiting:
            if deadline.passed():
                raise UnavailableError(
                    f"{self._most_waiting} rows are waiting to be written, and none was for {self._core.timeout:.0f} s: "
                    "this one was not taken; try again"
                )
            self._core.clock.sleep(_POLL)

    def _commit(self, batch: list[Row]) -> None:
        """One transaction of all rows that can be written; tells every one of them."""
        try:
            cargo = Cargo()
            actions: list[Action] = []
            taken: list[Row] = []
            for deletes, run in groupby(batch, key=_deletes):
                good, rows = self._readable(list(run), deletes=deletes)
                if good:
                    taken += good
                    actions.append(self._item(cargo, rows, deletes=deletes))
            if actions:
                self._land(taken, actions, cargo)
        except BaseException as error:
            settle((row, _untold(error)) for row in batch)
            raise
        finally:
            with self._lock:
                self._waiting -= len(batch)

    def _land(self, taken: Sequence[Row], actions: Sequence[Action], cargo: Cargo) -> None:
        deadline = self._core.deadline(None)
        try:
            self._background.make_room(self._shape.table, deadline)
            position = self._core.committer.commit(self._core.intent(actions, deadline, payloads=cargo.payloads))
        except PhalanxError as error:
            settle((row, _same(error)) for row in taken)
            return
        settle((row, position) for row in taken)
        self._background.wrote(self._shape.table, position)

    def _item(self, cargo: Cargo, rows: pa.Table, *, deletes: bool) -> Action:
        table = self._shape.table
        if deletes:
            return DeleteKeys(table, cargo.add(encode_rows(rows)), rows.num_rows)
        if self._shape.key:
            return cargo.upsert(table, Small(last_of_each(rows, self._shape.key)))
        return Put(table, cargo.rows(Small(rows)))

    def _readable(self, run: list[Row], *, deletes: bool) -> tuple[list[Row], pa.Table]:
        """The rows that can be written, as Arrow; the others are told why not. Bad ones are found by halving."""
        try:
            return run, self._as_keys(run) if deletes else self._as_rows(run)
        except (PhalanxError, pa.ArrowException, TypeError, ValueError, OverflowError, IndexError) as error:
            if len(run) == 1:
                refusal = (
                    error
                    if isinstance(error, InvalidInputError)
                    else InvalidInputError(f"{error}; nothing was written")
                )
                settle([(run[0], refusal)])
                return [], self._shape.schema.empty_table()
        middle = len(run) // 2
        left, first = self._readable(run[:middle], deletes=deletes)
        right, second = self._readable(run[middle:], deletes=deletes)
        parts = [part for good, part in ((left, first), (right, second)) if good]
        return left + right, pa.concat_tables(parts).combine_chunks() if parts else first

    def _as_rows(self, run: Iterable[Row]) -> pa.Table:
        values = [row.value for row in run]
        for value in values:
            if not isinstance(value, Mapping) or not self._names.issuperset(value):
                conform(source([value], self._shape.schema), self._shape.schema)  # says what is wrong with it
        rows = conform(source(values, self._shape.schema), self._shape.schema).table()
        require_keys(rows, self._shape.key)
        return rows

    def _as_keys(self, run: Iterable[Row]) -> pa.Table:
        keys = as_key_table([row.value for row in run], self._shape.key, self._shape.schema)
        require_keys(keys, self._shape.key)
        return keys


def _deletes(row: Row) -> bool:
    return row.deletes


def _same(error: PhalanxError) -> PhalanxError:
    """One instance for each caller: an exception that is raised in several threads mixes up their tracebacks."""
    twin = type(error)(*error.args)
    twin.__cause__ = error.__cause__
    return twin


def _untold(error: BaseException) -> PhalanxError:
    return UnavailableError(f"the row was not written: {error!r}; nothing of its batch was committed")
