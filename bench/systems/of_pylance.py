"""Pylance: one dataset, with its own optimistic commits. What its own retries give up on, the caller runs again."""

import lance
import pyarrow as pa

from bench.systems.port import Address


def fill(address: Address, rows: pa.Table) -> None:
    """See `Module`."""
    lance.write_dataset(rows, address.uri)


def read(address: Address) -> pa.Table:
    """See `Module`."""
    return lance.dataset(address.uri).to_table()


class Client:
    """See `bench.systems.port.Client`."""

    def __init__(self, address: Address) -> None:
        self._dataset = lance.dataset(address.uri)

    def append(self, rows: pa.Table) -> None:
        """Add rows."""
        self._dataset.insert(rows, mode="append")

    def delete(self, number: int) -> None:
        """Remove a row."""
        self._dataset.delete(f"id = {number}")

    def update(self, number: int) -> None:
        """Count up a row."""
        self._dataset.update({"v": "v + 1"}, f"id = {number}")

    def renew(self) -> None:
        """Begin from the newest version."""
        self._dataset.checkout_latest()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Nothing is held."""


def connect(address: Address) -> Client:
    """See `Module`."""
    return Client(address)
