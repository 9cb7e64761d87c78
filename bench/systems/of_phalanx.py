"""Phalanx: one table of a lake. Statements are logged as what they mean, so none of them ever has to be run again."""

from typing import Literal, cast

import pyarrow as pa

from bench.systems.port import Address
from phalanx import Lake
from phalanx import open as open_lake

TABLE = "t"


def opened(address: Address, *, create: bool = False) -> Lake:
    """The lake at an address."""
    durability = cast("Literal['disk', 'os']", address.durability)
    options = address.options or None
    return open_lake(address.uri, create=create, storage_options=options, durability=durability if create else None)


def fill(address: Address, rows: pa.Table) -> None:
    """See `Module`."""
    with opened(address, create=True) as lake:
        lake.create_table(TABLE, rows)
        lake.flush(TABLE)


def read(address: Address) -> pa.Table:
    """See `Module`."""
    with opened(address) as lake:
        return lake[TABLE].to_arrow()


class Client:
    """See `bench.systems.port.Client`."""

    def __init__(self, address: Address) -> None:
        self._lake = opened(address)
        self._table = self._lake[TABLE]

    def append(self, rows: pa.Table) -> None:
        """Add rows."""
        self._table.append(rows)

    def delete(self, number: int) -> None:
        """Remove a row."""
        self._table.delete(f"id = {number}")

    def update(self, number: int) -> None:
        """Count up a row."""
        self._table.update({"v": "v + 1"}, f"id = {number}")

    def renew(self) -> None:
        """Nothing: every statement lands on what is newest."""

    def close(self) -> None:
        """Let go."""
        self._lake.close()


def connect(address: Address) -> Client:
    """See `Module`."""
    return Client(address)
