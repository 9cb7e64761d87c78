"""The answer to a statement: its rows at one snapshot, in whatever form they are asked for.

A statement is bound when it is asked, so that what is wrong with it is said at once; it runs when rows are. The same
answer may be asked again, by many threads, and gives the same rows: its snapshot does not change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from phalanx.catalog import Name, State
from phalanx.errors import InvalidInputError, PhalanxError
from phalanx.frames import as_polars
from phalanx.pins import Hold
from phalanx.sql.engine import Running, Values, answering, connect, database
from phalanx.sql.source import parts
from phalanx.sql.statement import parsed, resolved
from phalanx.txn.core import Core, found

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from phalanx.log.cursor import View

_BATCH = 131_072


class Answer:
    """The rows that a statement asks for; what they are read from is held for as long as this is."""

    def __init__(self, bind: Callable[[], Running], held: Hold) -> None:
        self._bind = bind
        self._held = held
        self._lock = threading.Lock()
        self._bound: Running | None = bind()
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer; no row is read for it."""
        with self._lock:
            if self._schema is None:
                self._schema = (self._bound or self._bind()).schema()
            return self._schema

    def scan(self, *, batch_size: int = _BATCH) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches; those not asked for yet are not computed, where the statement allows it."""
        if batch_size < 1:
            raise InvalidInputError(f"batch_size is a number of rows: {batch_size} is not")
        schema, batches = self._running().batches(batch_size)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_arrow(self) -> pa.Table:
        """Rows as an Arrow table."""
        return self._running().table()

    def to_pandas(self) -> pd.DataFrame:
        """Rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Rows as a polars frame."""
        return as_polars(self.to_arrow())

    def _running(self) -> Running:
        """Bound already, the first time; anew from then on, because an engine answers one question at a time."""
        with self._lock:
            bound, self._bound = self._bound, None
        return bound or self._bind()


def ask(core: Core, view: View[State], text: str, values: Values | None = None) -> Answer:
    """The answer to a statement at one state of the lake."""
    if values is not None and (isinstance(values, str | bytes) or not isinstance(values, Sequence | Mapping)):
        raise InvalidInputError("params are a list of values for ?, or a dictionary for $name")
    return Answer(lambda: _bound(core, view, text, values), core.hold(view.position))


def _bound(core: Core, view: View[State], text: str, values: Values | None) -> Running:
    errors: list[PhalanxError] = []
    connection = connect()
    with answering(errors):
        named = parsed(connection, text)
    tables: Mapping[Name, object] = view.state.tables
    chosen = resolved(named, tables, view.position)
    running = Running(connection if all(len(path) == 1 for path in chosen) else database(), errors)
    for path, name in chosen.items():
        reading = core.settled(found(view, name, view.state.tables[name]))
        running.add(path, ".".join(name), parts(reading, errors.append), reading)
    running.bind(text, dict(values) if isinstance(values, Mapping) else None if values is None else list(values))
    return running
