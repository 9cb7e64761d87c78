"""One client that upserts one row at a time, beside the raw put-if-absent of the same bytes with its two syncs."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from bench.frame import Bench, timed
from bench.ingest.sinks import SCHEMA, text
from bench.raw import RawFiles, Way, nameless_works
from bench.report import Section, Target, median, milliseconds
from phalanx.objects import layout

TARGET = Target("<=", 2)
RAW = "raw put-if-absent of the same bytes, synced"
STATEMENT, WRITER, TRANSACTION = "upsert of one row", "the same, through a writer", "one row in each of two tables"


def measure(bench: Bench) -> Section:
    """The section."""
    note = 'Durability "disk". The statement is what one client uses; a writer is for many, and hands over to a thread.'
    with bench.section("client", "One client upserts one row at a time", note) as section, ExitStack() as stack:
        uri = bench.place.new("ingest")
        lake = stack.enter_context(bench.place.lake(uri))
        table = lake.create_table("t", SCHEMA, key="id")
        lake.create_table("u", SCHEMA, key="id")
        writer = lake.writer("t")
        numbers = count()

        def row() -> dict[str, object]:
            number = next(numbers) % 1000
            return {"id": number, "text": text(number)}

        def both() -> None:
            with lake.transaction() as txn:
                txn["t"].upsert([row()])
                txn["u"].upsert([row()])

        work: dict[str, Callable[[], object]] = {
            STATEMENT: lambda: table.upsert([row()]),
            WRITER: lambda: writer.upsert(row()).result(),
            TRANSACTION: both,
        }
        for one in work.values():
            one()
        if bench.place.local:
            store = bench.place.store(uri)
            data = store.get(store.last(layout.bucket(1)) or "", limit=1 << 20)
            assert data is not None
            way: Way = "nameless" if nameless_works(bench.place.folder) else "named"
            work[RAW] = partial(stack.enter_context(RawFiles(Path(bench.place.new("ingest")), way)).put, data)
            os.sync()
        contestants = {name: timed(section.series(name), one) for name, one in work.items()}
        bench.in_turns("in turns", bench.pick(500, 10), contestants)
        for name in work:
            section.row(name, milliseconds(section.samples[name]))
        if RAW in work:
            times = {name: median(section.samples[name]) for name in work}
            section.ratio(f"{STATEMENT} / {RAW}, medians", times[STATEMENT] / times[RAW], TARGET)
            section.ratio(f"{WRITER} / {RAW}, medians", times[WRITER] / times[RAW])
            section.ratio(f"{TRANSACTION} / {RAW}, medians", times[TRANSACTION] / times[RAW])
    return section
