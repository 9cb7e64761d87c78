"""What takes single rows: a Phalanx writer, and the others, each as its documentation recommends it for speed.

A row is an upsert by `id` where the system has that (Phalanx, MemWAL), and an append where it would cost far more
(pylance, LanceDB): that is in their favour.
"""

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import lance
import lancedb
import pyarrow as pa

from bench.frame import Bench
from phalanx import open as open_lake

KEY: dict[bytes | str, bytes | str] = {"lance-schema:unenforced-primary-key": "true"}
_ID: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
_TEXT: "pa.Field[Any]" = pa.field("text", pa.string())
SCHEMA = pa.schema([_ID, _TEXT])
KEYED = pa.schema([_ID.with_metadata(KEY), _TEXT])
SHARDS = 8
POOL = 64
"""Threads of a system that has no asyncio of its own."""


def text(number: int) -> str:
    """What a row says."""
    return f"the text of row {number}"


def one_row(number: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """A row as Arrow."""
    return pa.table([pa.array([number], pa.int64()), pa.array([text(number)])], schema=schema)


class Sink(AbstractContextManager["Sink"], Protocol):
    """A system that is open: takes a row, and returns when it is as durable as the system makes it."""

    def put(self, number: int) -> None:
        """From a thread."""

    async def put_async(self, number: int) -> None:
        """From a task."""

    def count(self) -> int | None:
        """The rows that somebody finds who opens it now; None where that takes more than a plain read."""


class OfPhalanx:
    """A writer of one table."""

    def __init__(self, bench: Bench, durability: str) -> None:
        self._uri = bench.place.new("ingest")
        self._options = bench.place.options or None
        settings = {"durability": durability} if bench.place.local else {}
        self._lake = open_lake(self._uri, create=True, storage_options=self._options, settings=settings)
        self._lake.create_table("t", SCHEMA, key="id")
        self._writer = self._lake.writer("t")

    def put(self, number: int) -> None:
        """See `Sink`."""
        self._writer.upsert({"id": number, "text": text(number)}).result()

    async def put_async(self, number: int) -> None:
        """See `Sink`."""
        await self._writer.upsert({"id": number, "text": text(number)})

    def count(self) -> int | None:
        """See `Sink`."""
        with open_lake(self._uri, storage_options=self._options) as lake:
            return lake["t"].count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lake.close()


class Threaded:
    """A system whose calls block: tasks hand them to a pool of threads."""

    def __init__(self, put: Callable[[int], object], count: Callable[[], int | None], stack: ExitStack) -> None:
        self._put = put
        self._count = count
        self._stack = stack
        self._pool = ThreadPoolExecutor(POOL)

    def put(self, number: int) -> None:
        """See `Sink`."""
        self._put(number)

    async def put_async(self, number: int) -> None:
        """See `Sink`."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._put, number)

    def count(self) -> int | None:
        """See `Sink`."""
        return self._count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._stack.close()


def mem_wal(folder: Path) -> Threaded:
    """Lance's MemWAL at its best: eight shards, each flushed every millisecond."""
    dataset = lance.write_dataset(KEYED.empty_table(), str(folder))
    dataset.initialize_mem_wal()
    stack = ExitStack()
    writers = [
        stack.enter_context(
            dataset.mem_wal_writer(str(uuid.UUID(int=shard + 1)), durable_write=True, max_wal_flush_interval_ms=1)
        )
        for shard in range(SHARDS)
    ]

    def put(number: int) -> None:
        writers[number % SHARDS].put(one_row(number, KEYED))

    return Threaded(put, lambda: None, stack)


def appending(folder: Path) -> Threaded:
    """One dataset of pylance: each thread appends to the newest version; Lance itself tries again."""
    uri = str(folder)
    lance.write_dataset(SCHEMA.empty_table(), uri)

    def put(number: int) -> None:
        while True:
            try:
                lance.write_dataset(one_row(number), uri, mode="append")
            except OSError:  # it gave up after its own retries
                continue
            return

    return Threaded(put, lambda: lance.dataset(uri).count_rows(), ExitStack())


def lance_db(folder: Path) -> Threaded:
    """One table of LanceDB."""
    connection: Any = lancedb.connect(str(folder), read_consistency_interval=timedelta(0))
    table = connection.create_table("t", schema=SCHEMA)
    return Threaded(lambda number: table.add(one_row(number)), table.count_rows, ExitStack())


def sinks(bench: Bench) -> dict[str, Callable[[], Sink]]:
    """All of them, to be opened."""
    mine: dict[str, Callable[[], Sink]] = {DISK: lambda: OfPhalanx(bench, "disk")}
    if not bench.place.local:
        return mine
    return {
        **mine,
        OS: lambda: OfPhalanx(bench, "os"),
        MEM_WAL: lambda: mem_wal(Path(bench.place.new("ingest"))),
        PYLANCE: lambda: appending(Path(bench.place.new("ingest"))),
        LANCEDB: lambda: lance_db(Path(bench.place.new("ingest"))),
    }


DISK = "Phalanx writer, disk (fsync)"
OS = "Phalanx writer, os (no fsync)"
MEM_WAL = f"pylance MemWAL, {SHARDS} shards, 1 ms (no fsync)"
PYLANCE = "pylance append (no fsync)"
LANCEDB = "LanceDB add (no fsync)"
PEERS = (MEM_WAL, PYLANCE, LANCEDB)
SLOW = (PYLANCE, LANCEDB)
"""They commit each row on their own: a thousand producers would wait for each other for a minute."""
