"""LanceDB: one table of a database in a folder; it commits as Lance does."""

from datetime import timedelta

import lancedb
import pyarrow as pa

from bench.systems.port import Address

TABLE = "t"


def _connected(address: Address) -> lancedb.DBConnection:
    return lancedb.connect(address.uri, read_consistency_interval=timedelta(0))


def fill(address: Address, rows: pa.Table) -> None:
    """See `Module`."""
    _connected(address).create_table(TABLE, rows)


def read(address: Address) -> pa.Table:
    """See `Module`."""
    return _connected(address).open_table(TABLE).to_arrow()


class Client:
    """See `bench.systems.port.Client`."""

    def __init__(self, address: Address) -> None:
        self._table = _connected(address).open_table(TABLE)

    def append(self, rows: pa.Table) -> None:
        """Add rows."""
        self._table.add(rows)

    def delete(self, number: int) -> None:
        """Remove a row."""
        self._table.delete(f"id = {number}")

    def update(self, number: int) -> None:
        """Count up a row."""
        self._table.update(where=f"id = {number}", values_sql={"v": "v + 1"})

    def renew(self) -> None:
        """Begin from the newest version."""
        self._table.checkout_latest()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Nothing is held."""


def connect(address: Address) -> Client:
    """See `Module`."""
    return Client(address)
