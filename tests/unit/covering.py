"""What the tests of indexes share: coverage at once, the head of a table, and what was asked of Lance."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import SYSTEM, Deadline
from phalanx.lake import Lake
from phalanx.tables.dataset import Version
from phalanx.tables.index import segments
from phalanx.txn.core import Found, find
from phalanx.upkeep.cover import Covered, cover
from phalanx.upkeep.flush import flush


def opened(folder: Path) -> Lake:
    """A lake that does no upkeep by itself."""
    lake = phalanx.open(folder / "lake", create=True, durability="os")
    lake.set_property("flush.background", "off")
    return lake


def soon() -> Deadline:
    """Time enough."""
    return Deadline.after(SYSTEM, 60)


def covered(lake: Lake, name: str, least_rows: int = 1) -> Covered:
    """Cover a table now, however few rows lack an index."""
    return cover(lake._core, found(lake, name).table.id, soon(), least_rows=least_rows)


def written_out(lake: Lake, name: str) -> None:
    """Flush a table, and index nothing."""
    flush(lake._core, found(lake, name).table.id, soon())


def found(lake: Lake, name: str) -> Found:
    """A table as the log tells it."""
    return find(lake._core.refresh(), name)


def head(lake: Lake, name: str) -> Version:
    """The version that a table stands on."""
    here = found(lake, name)
    return lake._core.datasets.open(here.table.id, here.contents.head.manifest)


def held(lake: Lake, name: str) -> dict[str, list[set[int]]]:
    """The fragments that each segment of each index is for, by what Lance calls the index, without its number."""
    there: dict[str, list[set[int]]] = {}
    for one in segments(head(lake, name)):
        there.setdefault(one.name.rpartition("-")[0] or one.name, []).append(set(one.fragments))
    return there


def coverage(lake: Lake, name: str) -> dict[str, tuple[int, int]]:
    """For each index how many fragments it covers, and of how many."""
    return {info.name: (info.fragments, info.of) for info in lake[name].indexes()}


@dataclass
class Asked:
    """The scans that were made: their conditions, and how many rows Lance handed over."""

    version: list[Version] = field(default_factory=list)
    where: list[str | None] = field(default_factory=list)
    rows: int = 0

    def plans(self) -> list[str]:
        """How Lance answers the scans that had a condition."""
        return [
            str(version.dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan())
            for version, where in zip(self.version, self.where, strict=True)
            if where is not None
        ]


@contextmanager
def asked() -> Iterator[Asked]:
    """What is asked of Lance inside the block."""
    record = Asked()
    scan, rows_of = Version.scan, Version.rows_of

    def watched(self: Version, *arguments: Any, **options: Any) -> pa.RecordBatchReader:
        reader = scan(self, *arguments, **options)
        record.version.append(self)
        record.where.append(options.get("where"))

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                record.rows += batch.num_rows
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, counted())

    def watched_at_once(self: Version, *arguments: Any, **options: Any) -> pa.Table:
        rows = rows_of(self, *arguments, **options)
        record.version.append(self)
        record.where.append(options.get("where"))
        record.rows += rows.num_rows
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Version, "scan", watched)
        patch.setattr(Version, "rows_of", watched_at_once)
        yield record
