"""delta-rs: one Delta table. It refuses what conflicts by file, so the caller runs most deletes and updates again."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from bench.systems.port import SCHEMA, Address


def fill(address: Address, rows: pa.Table) -> None:
    """See `Module`."""
    write_deltalake(address.uri, rows)


def read(address: Address) -> pa.Table:
    """See `Module`."""
    return pa.table(DeltaTable(address.uri).to_pyarrow_table()).select(SCHEMA.names).cast(SCHEMA)


class Client:
    """See `bench.systems.port.Client`."""

    def __init__(self, address: Address) -> None:
        self._table = DeltaTable(address.uri)

    def append(self, rows: pa.Table) -> None:
        """Add rows."""
        write_deltalake(self._table, rows, mode="append")

    def delete(self, number: int) -> None:
        """Remove a row."""
        self._table.delete(f"id = {number}")

    def update(self, number: int) -> None:
        """Count up a row."""
        self._table.update({"v": "v + 1"}, predicate=f"id = {number}")

    def renew(self) -> None:
        """Read the newest commits."""
        self._table.update_incremental()

    def close(self) -> None:
        """Nothing is held."""


def connect(address: Address) -> Client:
    """See `Module`."""
    return Client(address)
