"""The part of a check that reads every byte: files against their checksums, and each table once through Lance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

import pyarrow as pa

from phalanx.catalog import State
from phalanx.errors import PhalanxError
from phalanx.log.check import Cause, Problem
from phalanx.log.cursor import View
from phalanx.objects import Sum, layout
from phalanx.tail.keys import shown_key, superseded
from phalanx.txn.core import Core, Found, locate
from phalanx.upkeep.folder import Folder, Progress, Wanted

_THREADS = 4


Digester = Callable[[Sequence[str]], Iterator[tuple[int, Sum | None]]]
"""Reads files, in this process or elsewhere: the sum of each, in any order, with its place among those asked for."""


class Deep:
    """Compares and reads; what was done is counted."""

    def __init__(self, core: Core, view: View[State], progress: Progress, digester: Digester | None = None) -> None:
        self._core, self._view, self._progress = core, view, progress
        self._digester = digester or self._digests
        self.compared = 0
        self.rows = 0

    def look(self, folders: Mapping[str, Folder]) -> Iterator[Problem]:
        """What is wrong with the bytes of files, and with the rows of tables as they are now."""
        damaged: set[str] = set()
        for table, problem in self._files(folders):
            damaged.add(table)
            yield problem
        tables = sorted(self._view.state.tables.items())
        for done, (name, here) in enumerate(tables):
            self._progress("reading tables", done, len(tables))
            broken = here.id in damaged or (here.id in folders and _broken(folders[here.id]))
            if not broken and self._view.state.contents[here.id].head.manifest:
                yield from self._table(".".join(name), locate(self._view, here.id))

    def _files(self, folders: Mapping[str, Folder]) -> Iterator[tuple[str, Problem]]:
        wanted = [
            (table, one, one.noted)
            for table, folder in sorted(folders.items())
            for one in folder.wanted()
            if one.noted is not None
        ]
        total, done = sum(one.size for _, one, _ in wanted), 0
        for at, found in self._digester([layout.table(table, one.name) for table, one, _ in wanted]):
            table, one, noted = wanted[at]
            done, self.compared = done + one.size, self.compared + 1
            self._progress("comparing files", done, total)
            if found != noted:
                yield table, _differs(table, one, noted, found)

    def _digests(self, names: Sequence[str]) -> Iterator[tuple[int, Sum | None]]:
        store = self._core.datasets.files.store
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="phalanx-check") as pool:
            try:
                asked: dict[Future[Sum | None], int] = {
                    pool.submit(store.digest, name): at for at, name in enumerate(names)
                }
                for answer in as_completed(asked):
                    yield asked[answer], answer.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _table(self, name: str, found: Found) -> Iterator[Problem]:
        """All rows of a table, once, with what must hold of them."""
        where = layout.table(found.table.id)
        key = list(found.shape.key)
        keys: list[pa.RecordBatch] = []
        rows = 0
        try:
            reading = self._core.reading(found)
            for batch in reading.scan():
                rows += batch.num_rows
                keys += [batch.select(key)] if key else []
            counted = reading.count()
        except PhalanxError as error:
            yield Problem(where, f"table {name!r} cannot be read: {error}")
            return
        self.rows += rows
        if rows != counted:
            yield Problem(where, f"table {name!r} says that it has {counted} rows, and has {rows}", cause=Cause.BROKEN)
        if not keys:
            return
        held = pa.Table.from_batches(keys)
        twice = superseded(held, key)
        if len(twice):
            what = f"table {name!r} has {len(twice)} rows whose key another one has, like {shown_key(held, key, int(twice[0]))}"
            yield Problem(where, what, cause=Cause.BROKEN)


def _broken(folder: Folder) -> bool:
    return any(not problem.harmless for problem in folder.problems)


def _differs(table: str, one: Wanted, noted: Sum, found: Sum | None) -> Problem:
    name = layout.table(table, one.name)
    remedy = f"`phalanx repair` sees to {one.cure}" if one.cure else "restore it from a copy"
    if found is None:
        return Problem(name, f"it was there a moment ago: {remedy}", cause=Cause.DANGLING, cure=one.cure)
    what = f"its bytes are not those that were written (SHA-256 {noted.sha256.hex()[:16]}…): {remedy}"
    return Problem(name, what, cause=Cause.CORRUPT, size=found.size, cure=one.cure)
