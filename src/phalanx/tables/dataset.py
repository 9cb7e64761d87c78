"""The Lance datasets of a lake: one folder for each incarnation of a table, holding detached versions only.

A detached version is a pure function of its base and an operation: nobody finds it unless told its number, so that the
log alone decides what a table is (I1). `Datasets` makes the first version of a table and opens any of them; `Version`
reads one. Writing is in `stage.py` and `rewrite.py`; keeping plain writers out in `guard.py`.
"""

import functools
import hashlib
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import LanceDataset, LanceOperation, LanceScanner
from lance.fragment import LanceFragment
from lance.query import MatchQuery
from lance.schema import LanceSchema

from phalanx.errors import CorruptionError, UnavailableError
from phalanx.objects import Files, Sum, Unknown, layout
from phalanx.pins import Pin, Pins
from phalanx.tables import sums
from phalanx.tables.guard import genesis, guard, intruders
from phalanx.tables.nearest import nearest
from phalanx.tables.rowids import treemap
from phalanx.tables.speaking import speaking

log = logging.getLogger("phalanx.tables")

ROW_ID = "_rowid"

Ids = npt.NDArray[np.int64]

_MANIFEST = re.compile(r"_versions/d(\d+)\.manifest")
_OPEN_VERSIONS = 64
_PLANNED = 1024
_SCALAR = {"BTree", "Bitmap"}
_METADATA_CACHE = 256 << 20
_INDEX_CACHE = 512 << 20
_BLOBS: Literal["all_binary"] = "all_binary"  # Lance tells where the bytes of blobs are otherwise
_READAHEAD = 2 * pa.cpu_count()  # batches at once: Lance leaves a core to others, and of two cores that is half
_LARGE = 1 << 16  # rows of a batch where single rows are left out of many: a sixth less time than with usual ones


class Version:
    """One version of one table's dataset. Immutable, so it may be kept and shared by threads."""

    def __init__(self, table: str, dataset: LanceDataset) -> None:
        self.table = table
        self.dataset = dataset
        self.manifest = int(dataset.version)
        self._planned: dict[str, bool] = {}
        self.pin: Pin | None = None
        """What keeps its files from being pruned, if no entry names it."""

    @functools.cached_property
    def rows(self) -> int:
        """The number of live rows."""
        with speaking("counting rows"):
            return int(self.dataset.count_rows())

    @functools.cached_property
    def fragments(self) -> list[int]:
        """The ids of the fragments, ascending."""
        return sorted(fragment.fragment_id for fragment in self.dataset.get_fragments())

    @functools.cached_property
    def fields(self) -> bytes:
        """What tells its columns as they are on disk, with the numbers that Lance gives them, from others."""
        said = [_told(field) for field in self.dataset.lance_schema.fields()]
        return hashlib.blake2b(repr(said).encode(), digest_size=16).digest()

    @functools.cached_property
    def indexed(self) -> frozenset[str]:
        """The names of the indexes that it has, for some of its fragments at least."""
        with speaking("reading indexes"):
            return frozenset(one.name for one in self.dataset.describe_indices())

    @functools.cached_property
    def indexed_columns(self) -> frozenset[str]:
        """The columns that have a scalar index."""
        with speaking("reading indexes"):
            found = self.dataset.describe_indices()
        return frozenset(name for one in found if one.index_type in _SCALAR for name in one.field_names)

    @functools.cached_property
    def searchable(self) -> frozenset[str]:
        """The columns that have a full-text index."""
        with speaking("reading indexes"):
            found = self.dataset.describe_indices()
        return frozenset(name for one in found if one.index_type == "Inverted" for name in one.field_names)

    def fragment(self, number: int) -> LanceFragment:
        """One fragment."""
        found = self.dataset.get_fragment(number)
        if found is None:
            raise CorruptionError(f"version {self.manifest} of table {self.table} has no fragment {number}")
        return found

    def scan(
        self,
        columns: Sequence[str],
        *,
        where: str | None = None,
        without: Ids | None = None,
        only: Ids | None = None,
        fragments: Sequence[int] | None = None,
        limit: int | None = None,
        row_ids: bool = False,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows, streamed; without or only those of certain row ids, from all fragments or some."""
        scanner = self._scanner(columns, where, without, only, fragments, limit, row_ids=row_ids, batch_size=batch_size)
        with speaking("reading a table"):
            reader = scanner.to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, _speaking(reader))

    def part(self, columns: Sequence[str], fragment: int, rows: range, batch_size: int) -> pa.RecordBatchReader:
        """Some of the live rows of a fragment, by their places, streamed; Lance reads nothing else."""
        with speaking("reading a table"):
            reader = self.dataset.scanner(
                columns=list(columns),
                fragments=[self.fragment(fragment)],
                offset=rows.start,
                limit=len(rows),
                batch_size=batch_size,
                blob_handling=_BLOBS,
            ).to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, _speaking(reader))

    def stream(
        self,
        columns: Sequence[str],
        *,
        where: pc.Expression | None,
        without: Ids | None,
        fragments: Sequence[int] | None,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """As `scan`, straight from Lance, whose errors are not translated: for engines, which would wait for Python."""
        scanner = self._scanner(columns, where, without, None, fragments, None, row_ids=row_ids)
        with speaking("reading a table"):
            return scanner.to_reader()

    def rows_of(
        self,
        columns: Sequence[str],
        *,
        where: str | None,
        without: Ids | None,
        limit: int | None,
        row_ids: bool = False,
    ) -> pa.Table:
        """As `scan` of all fragments, at once: what Lance puts together itself need not go through Python in pieces."""
        size = _LARGE if without is not None and len(without) else None
        scanner = self._scanner(columns, where, without, None, None, limit, row_ids=row_ids, batch_size=size)
        with speaking("reading a table"):
            return scanner.to_table()

    def _scanner(
        self,
        columns: Sequence[str],
        where: str | pc.Expression | None,
        without: Ids | None,
        only: Ids | None,
        fragments: Sequence[int] | None,
        limit: int | None,
        *,
        row_ids: bool = False,
        batch_size: int | None = None,
    ) -> LanceScanner:
        chosen = None if fragments is None else [self.fragment(one) for one in fragments]
        with speaking("reading a table"):
            return self.dataset.scanner(
                columns=list(columns),
                filter=where,
                limit=limit,
                with_row_id=row_ids,
                fragments=chosen,
                batch_size=batch_size,
                batch_readahead=_READAHEAD,
                prefilter=True if where is not None else None,
                blob_handling=_BLOBS,
                row_addr_blocklist=treemap(without) if without is not None and len(without) else None,
                row_addr_allowlist=treemap(only) if only is not None else None,
            )

    def count(self, where: str | None, without: Ids | None, fragments: Sequence[int] | None) -> int:
        """The number of rows that match."""
        chosen = None if fragments is None else [self.fragment(one) for one in fragments]
        with speaking("counting rows"):
            scanner = self.dataset.scanner(
                columns=[],
                filter=where,
                with_row_id=True,
                fragments=chosen,
                row_addr_blocklist=treemap(without) if without is not None and len(without) else None,
            )
            return int(scanner.count_rows())

    def nearest(
        self,
        columns: Sequence[str],
        query: Mapping[str, Any],
        *,
        where: str | None = None,
        without: Ids | None = None,
        only: Ids | None = None,
        row_ids: bool = True,
    ) -> pa.Table:
        """The rows nearest to a vector, with `_distance` and `_rowid`; `query` is Lance's own description."""
        with speaking("searching a table"):
            gone = treemap(without) if without is not None and len(without) else None
            wanted = treemap(only) if only is not None else None
            return nearest(self.dataset, columns, query, where=where, without=gone, only=wanted, row_ids=row_ids)

    def matches(
        self,
        columns: Sequence[str],
        text: str,
        column: str,
        k: int,
        *,
        where: str | None = None,
        only: Ids | None = None,
    ) -> pa.Table:
        """The rows whose text matches best, with `_score` and `_rowid`."""
        with speaking("searching a table"):
            return self.dataset.scanner(
                columns=[*columns, "_score"],
                full_text_query=MatchQuery(text, column),
                filter=where,
                prefilter=True,
                limit=k,
                with_row_id=True,
                row_addr_allowlist=treemap(only) if only is not None else None,
            ).to_table()

    def plans(self, where: str | pc.Expression) -> bool:
        """Whether Lance's scanner takes a predicate: it refuses some that DataFusion takes, and some of Arrow's."""
        if not isinstance(where, str):
            return self._takes(where)
        known = self._planned.get(where)
        if known is None:
            known = self._takes(where)
            if len(self._planned) >= _PLANNED:
                self._planned.clear()
            self._planned[where] = known
        return known

    def _takes(self, where: str | pc.Expression) -> bool:
        try:
            self.dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan()
        except (OSError, ValueError, RuntimeError, NotImplementedError):
            return False
        return True

    def addresses(self, row_ids: Ids) -> Ids:
        """Where the live rows of these ids are: fragment << 32 | offset, ascending."""
        with speaking("finding rows"):
            found = self.dataset.scanner(
                columns=[], with_row_address=True, row_addr_allowlist=treemap(row_ids)
            ).to_table()
        return np.sort(found["_rowaddr"].to_numpy().astype(np.int64))


def _told(field: Any) -> tuple[object, ...]:  # noqa: ANN401 - a field of Lance's
    return field.id(), field.name(), str(field.to_arrow()), [_told(child) for child in field.children()]


class Datasets:
    """All datasets of a lake. Safe to use from many threads."""

    def __init__(self, files: Files, pins: Pins, properties: Callable[[], Mapping[str, str]] = dict) -> None:
        self.files = files
        self._properties = properties
        self.pins = pins
        """Whoever writes files takes a staging pin first, and holds it until an entry names them (rule E3)."""
        self._session = lance.Session(  # type: ignore[attr-defined]
            index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE
        )
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, int], Version] = OrderedDict()
        self._warned: set[str] = set()

    def begin(self, table: str, schema: pa.Schema) -> int:
        """Make the folder of a new table: its guard first, then its first version, which is empty."""
        with speaking("creating a table with this schema"):
            LanceSchema.from_pyarrow(schema)  # refuses types that it does not store, before anything is written
        name, content = guard()
        with self.files.store.prepare([content]) as blob:
            outcome = blob.put(layout.table(table, name))
        if isinstance(outcome, Unknown):
            raise UnavailableError(f"cannot create the table's folder: {outcome.cause}; nothing was committed")
        with speaking("creating a table with this schema"):
            # Lance cannot begin a dataset with a detached version: it is given one to stand on that exists nowhere.
            nothing = LanceDataset(
                self.uri(table), serialized_manifest=genesis(), storage_options=self._options(), session=self._session
            )
            made = LanceDataset.commit(nothing, LanceOperation.Overwrite(schema, []), detached=True)
        version = self.keep(Version(table, made))
        self.persist(table, [manifest_name(version.manifest)])
        return version.manifest

    def open(self, table: str, manifest: int) -> Version:
        """One version of a table."""
        key = (table, manifest)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        return self.keep(self.own(table, manifest))

    def own(self, table: str, manifest: int) -> Version:
        """As `open`, a handle that nobody else has: Lance refuses readers of a handle that indexes are built with."""
        with speaking("opening a table"):
            dataset = lance.dataset(
                self.uri(table), version=manifest, storage_options=self._options(), session=self._session
            )
        return Version(table, dataset)

    def keep(self, version: Version) -> Version:
        """Remember a version that was just made: it is likely to be read next."""
        with self._lock:
            self._open[version.table, version.manifest] = version
            while len(self._open) > _OPEN_VERSIONS:
                self._open.popitem(last=False)
        return version

    def commit(self, base: Version, operation: LanceOperation.BaseOperation) -> Version:
        """The version that an operation makes of another. Whether it is ever seen is the log's business."""
        with speaking("staging a version"):
            made = LanceDataset.commit(base.dataset, operation, read_version=base.manifest, detached=True)
        return self.keep(Version(base.table, made))

    def secure(self, table: str, names: Sequence[str]) -> dict[str, Sum]:
        """Make files durable that become part of a version later; what is to be noted of them then."""
        store, paths = self.files.store, [layout.table(table, name) for name in names]
        if not sums.wanted(store, self._properties()):
            store.persist(paths)
            return {}
        hashing = sums.Hashing(store, paths)
        store.persist(paths)
        return dict(zip(names, hashing.result(), strict=True))

    def persist(self, table: str, names: Sequence[str], secured: Mapping[str, Sum] | None = None) -> None:
        """Make staged files durable before an entry names them (I3), and note what was written (`sums.py`).

        One of them is the manifest of the version; those that are `secured` already are only noted.
        """
        if found := self.secure(table, names):
            manifest = next(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))
            sums.note(self.files.store, sums.Sums(table, manifest, {**(secured or {}), **found}))

    def look_for_intruders(self, table: str) -> list[str]:
        """Versions in a table's folder that somebody made past the log: reported, never adopted (rule G4)."""
        folder = layout.table(table, "_versions")
        names = [listed.name[len(folder) + 1 :] for listed in self.files.store.list(folder)]
        found = intruders(names)
        if found and table not in self._warned:
            self._warned.add(table)
            log.warning("somebody wrote to table folder %s past the log: %s is ignored", table, ", ".join(found))
        return found

    def uri(self, table: str) -> str:
        """The address of a table's dataset."""
        return f"{self.files.uri}/{layout.table(table)}"

    def _options(self) -> dict[str, str] | None:
        return dict(self.files.options) or None


def manifest_name(manifest: int) -> str:
    """The name of a detached version inside its table's folder."""
    return f"_versions/d{manifest}.manifest"


def _speaking(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with speaking("reading a table"):
        yield from reader
