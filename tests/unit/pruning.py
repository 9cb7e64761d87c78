"""What the tests of prune share: lakes whose time can be moved, and an account of every file that is there."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from phalanx import Lake, Table
from phalanx.clock import SYSTEM
from phalanx.contents import is_deleted
from phalanx.errors import PhalanxError
from phalanx.lake import join
from phalanx.log.action import Settings
from phalanx.objects import Store, open_store
from phalanx.testing.aging import AgingStore

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
SETTINGS = Settings(durability="os", checkpoint_every=50, remembered=500, grace=0.0)
BULK = 6000
"""Rows that are staged, not logged."""


class Ground:
    """One lake in a folder, and processes that have it open."""

    def __init__(self, folder: Path, life: float = 600.0) -> None:
        self.folder = folder / "lake"
        self.life = life
        self._open = ExitStack()
        self.lake = self.process()
        self.lake.set_property("flush.background", "off")

    def process(self, store: Store | None = None) -> Lake:
        """One more process."""
        found = join(store or self.store(), SYSTEM, SETTINGS, timeout=20.0, carry=False, pin_life=self.life)
        return self._open.enter_context(found)

    def store(self) -> AgingStore:
        """One more view of the storage, with a clock of its own."""
        return AgingStore(open_store(self.folder))

    def close(self) -> None:
        """All processes end."""
        self._open.close()

    def files(self) -> set[str]:
        """All files of all tables."""
        found = (self.folder / "tables").rglob("*") if (self.folder / "tables").exists() else ()
        return {str(path.relative_to(self.folder)) for path in found if path.is_file()}

    def kept(self) -> list[str]:
        """What is kept below the floor."""
        return sorted(path.name for path in (self.folder / "kept").rglob("*") if path.is_file())

    def entries(self) -> list[int]:
        """The positions whose entries are there."""
        return sorted(int(path.name) for path in (self.folder / "log").rglob("*") if path.is_file())


def bulk(first: int, v: int = 0, count: int = BULK) -> pa.Table:
    """Rows that are too many to be logged."""
    return pa.table({"id": range(first, first + count), "v": [v] * count}, schema=SCHEMA)


def grown(ground: Ground, versions: int = 5) -> Table:
    """A table with a version for each bulk append, after the one that it was created with."""
    table = ground.lake.create_table("t", SCHEMA, key="id")
    for number in range(versions):
        table.append(bulk(number * BULK, number))
    return table


def few(*ids: int, v: int = 0) -> list[dict[str, Any]]:
    """Rows that are logged."""
    return [{"id": one, "v": v} for one in ids]


def live(lake: Lake, name: str) -> list[int]:
    """The versions of a table that can be read, by reading each."""
    lake.refresh()
    here = lake._core.log.view.state
    contents = here.contents[lake[name].id]
    found = []
    for one in contents.versions.oldest_first():
        try:
            lake[name].at(one.version).count()
        except PhalanxError:
            assert is_deleted(contents, one.version), one
            continue
        assert not is_deleted(contents, one.version), one
        found.append(one.version)
    return found
