"""One statement in DuckDB, which can reach nothing but the tables it was given.

No file, network, extension or Python variable is within reach, and settings cannot be changed. What does not fit into
memory is spilled to the system's folder for temporary files. Making a database takes 15 ms, so that a process keeps one;
each statement has a connection of its own, and what is given to it is temporary. Only names of several parts need a
database of their own, because nothing temporary is in a schema. DuckDB does not look at signals while it works, so it
works in a thread beside the main one, and is told to stop when Ctrl-C is pressed.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from phalanx.errors import InternalError, InvalidInputError, PhalanxError, UnavailableError, UnsupportedError
from phalanx.tables.speaking import translated

if TYPE_CHECKING:
    from phalanx.sql.statement import Path

T = TypeVar("T")
Values = Sequence[object] | Mapping[str, object]

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_LONGEST = 600
_LOOK = 0.1
"""Seconds between two looks at whether Ctrl-C was pressed."""
_PART = "phalanx_part_"
_numbers = itertools.count()
_kept: list[duckdb.DuckDBPyConnection] = []
_kept_lock = threading.Lock()


def connect() -> duckdb.DuckDBPyConnection:
    """A connection that nobody else has, to the database that this process keeps."""
    with _kept_lock:
        if not _kept:
            _kept.append(database())
        return _kept[0].cursor()


def database() -> duckdb.DuckDBPyConnection:
    """A new database, which holds nothing."""
    spill = File(tempfile.gettempdir()) / f"phalanx-sql-{os.getpid()}-{next(_numbers)}"  # made when it is needed
    connection = duckdb.connect(":memory:", config=_SETTINGS | {"temp_directory": str(spill)})
    connection.execute("set global TimeZone = 'UTC'")
    connection.execute("set global lock_configuration = true")
    return connection


os.register_at_fork(after_in_child=_kept.clear)


class Running:
    """A statement over its tables, bound, to be run once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, errors: list[PhalanxError]) -> None:
        self._connection = connection
        self._errors = errors
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="phalanx-sql")
        self._parts = 0
        self._held: list[object] = []

    def add(self, path: Path, table: str, parts: Sequence[object], held: object = None) -> None:
        """Hand over a table, and what keeps its files from being pruned."""
        self._held.append(held)
        names = []
        for part in parts:
            names.append(f"temp.main.{_PART}{self._parts}")
            with _named(table, part):
                self._connection.register(f"{_PART}{self._parts}", part)
            self._parts += 1
        with answering(self._errors):
            for depth in range(1, len(path)):
                self._connection.execute(f"create schema if not exists {_quoted(path[:depth])}")
            rows = " union all ".join(f"from {name}" for name in names)
            kind = "view" if len(path) > 1 else "temp view"
            self._connection.execute(f"create {kind} {_quoted(path)} as {rows}")

    def bind(self, text: str, values: Values | None) -> None:
        """Plan the statement."""
        with answering(self._errors):
            self._rows = self._connection.sql(text, params=values)

    def schema(self) -> pa.Schema:
        """The columns of the answer; no row is read."""
        with answering(self._errors):
            found: pa.Schema = self._rows.limit(0).to_arrow_table().schema
            names = self._rows.columns  # the engine tells them apart here, in its own way
        return _told_apart(pa.schema([field.with_name(name) for field, name in zip(found, names, strict=True)]))

    def table(self) -> pa.Table:
        """The answer, at once."""
        with answering(self._errors):
            found: pa.Table = self._stoppable(self._rows.to_arrow_table)
        return found.rename_columns(_told_apart(found.schema).names)

    def batches(self, batch_size: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The answer as a stream, and its columns."""
        with answering(self._errors):
            reader = self._stoppable(lambda: self._rows.to_arrow_reader(batch_size))
        schema = _told_apart(reader.schema)
        return schema, self._passed_on(reader, schema)

    def _passed_on(self, reader: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - the engine's
        with answering(self._errors):
            while True:
                batch = self._stoppable(lambda: next(reader, None))
                if batch is None:
                    return
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _stoppable(self, work: Callable[[], T]) -> T:
        if threading.current_thread() is not threading.main_thread():
            return work()
        done = self._beside.submit(work)
        try:
            while not wait([done], _LOOK).done:  # other libraries' handlers (polars') keep a signal from ending a wait
                pass
            return done.result()
        finally:
            while not done.done():  # Ctrl-C: an order to stop that comes too early is forgotten
                self._connection.interrupt()
                wait([done], _LOOK)


@contextmanager
def answering(errors: Sequence[PhalanxError]) -> Iterator[None]:
    """Translate what the engine raises; what was raised by what it reads is among `errors`, and counts first."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
        raise (errors[0] if errors else _translated(error)) from error


def _translated(error: Exception) -> PhalanxError:
    text = " ".join(str(error).replace("^", " ").split())[:_LONGEST]
    if "LanceError" in text:  # in the middle of a stream, which the engine reads without asking us
        return translated("reading a table", OSError(text[text.index("LanceError") :]))
    if isinstance(error, duckdb.OutOfMemoryException):
        return UnavailableError(
            f"this statement needs more memory than there is: {text}; ask for fewer rows or columns"
        )
    if isinstance(error, duckdb.NotImplementedException):
        return UnsupportedError(f"the SQL engine cannot do this: {text}")
    if isinstance(error, duckdb.InternalException | duckdb.FatalException):
        return InternalError(f"the SQL engine failed: {text}")
    if isinstance(error, duckdb.IOException | OSError):
        return UnavailableError(f"cannot go on reading: {text}; check the storage, then try again")
    return InvalidInputError(f"cannot run this statement: {text}")


@contextmanager
def _named(table: str, part: Any) -> Iterator[None]:  # noqa: ANN401 - a dataset or a table
    """Say which column it is that the engine has no type for."""
    try:
        yield
    except duckdb.Error as error:
        for field in part.schema:
            if not _known(field):
                raise UnsupportedError(
                    f"column {field.name!r} of table {table!r} is {field.type}, which the SQL engine cannot read: "
                    "read this table with scan or to_arrow"
                ) from error
        raise _translated(error) from error


def _known(field: pa.Field[Any]) -> bool:
    with duckdb.connect(":memory:") as connection:
        try:
            connection.register("one", pa.schema([field]).empty_table())
        except duckdb.Error:
            return False
    return True


def _quoted(path: Path) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)


def _told_apart(schema: pa.Schema) -> pa.Schema:
    """The columns of an answer, each under a name of its own: what is read by name would be that of another one."""
    given = set(schema.names)
    taken: set[str] = set()
    fields = []
    for field in schema:
        names = itertools.chain([field.name], (f"{field.name}_{at}" for at in itertools.count(1)))
        name = next(one for one in names if one not in taken and (one == field.name or one not in given))
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema(fields)
