"""What a system is asked to do, and which systems there are.

A process imports only the system that it is told to use: importing one takes seconds, and forty processes do it.
"""

import importlib
from collections.abc import Mapping
from typing import Any, Literal, Protocol, cast

import msgspec
import pyarrow as pa

Kind = Literal["append", "delete", "update"]
"""A small operation: ten rows are added, the row of an id goes, or `v = v + 1` in the row of an id."""

_FIELDS: "list[pa.Field[Any]]" = [pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("text", pa.string())]
SCHEMA = pa.schema(_FIELDS)
"""The table without a key that all of them change."""


class Address(msgspec.Struct, frozen=True):
    """Where a system keeps the table: a URI, the storage's options, and for Phalanx the lake's durability."""

    uri: str
    options: dict[str, str]
    durability: str = ""


class Client(Protocol):
    """One process's handle on the table."""

    def append(self, rows: pa.Table) -> None:
        """Add rows."""

    def delete(self, number: int) -> None:
        """Remove the row of this id."""

    def update(self, number: int) -> None:
        """Count up `v` in the row of this id."""

    def renew(self) -> None:
        """See what others committed, before an operation that failed is tried again."""

    def close(self) -> None:
        """Let go."""


class Module(Protocol):
    """What a module of this package offers."""

    def fill(self, address: Address, rows: pa.Table) -> None:
        """Make the table, with these rows."""

    def connect(self, address: Address) -> Client:
        """Open the table."""

    def read(self, address: Address) -> pa.Table:
        """All rows, by somebody who opens the table now."""


class System(msgspec.Struct, frozen=True):
    """One contestant."""

    name: str
    module: str
    durability: str = ""
    tries_again: bool = True
    """Whether the caller runs an operation again that failed. For Phalanx there is no need to, so nobody does."""

    @property
    def peer(self) -> bool:
        """Whether it is somebody else's."""
        return not self.durability

    def load(self) -> Module:
        """Import it."""
        return cast("Module", importlib.import_module(f"bench.systems.{self.module}"))


DISK = "Phalanx, disk (fsync)"
OS = "Phalanx, os (no fsync)"
PYLANCE = "pylance (no fsync)"
DELTA = "delta-rs (no fsync)"
LANCEDB = "LanceDB (no fsync)"

SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(DISK, "of_phalanx", "disk", tries_again=False),
        System(OS, "of_phalanx", "os", tries_again=False),
        System(PYLANCE, "of_pylance"),
        System(DELTA, "of_delta"),
        System(LANCEDB, "of_lancedb"),
    )
}

LEFT_OUT: Mapping[str, str] = {"note": "left out"}
"""What a table says of a system that is not measured on an object store."""


def own(*, local: bool) -> list[System]:
    """Phalanx in its ways; on an object store there is one, for durability is the store's business there."""
    return [system for system in SYSTEMS.values() if not system.peer and (local or system.name == DISK)]


def peers() -> list[System]:
    """The others."""
    return [system for system in SYSTEMS.values() if system.peer]


def caveat(*, local: bool) -> str:
    """What has to be said beside every comparison."""
    if local:
        return "Of all systems only Phalanx syncs to disk, with durability disk; the others never do."
    return "On an object store the other systems are left out."


def prefilled(count: int) -> pa.Table:
    """The rows that a table begins with: ids from 0 on."""
    return numbered(0, count)


def numbered(first: int, count: int) -> pa.Table:
    """So many rows, with ids from `first` on."""
    ids = range(first, first + count)
    texts = [f"the text of row {one}" for one in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([0] * count, pa.int64()), "text": texts}, SCHEMA)
