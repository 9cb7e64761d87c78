"""What items mean, without any storage: changes of rows, one after the other, in the order of the log.

This is the truth that the models of head and items compare with: items.py, rows.py, transactions.py. A row has an
identity, a key and a value. On a table without a key, the key is only the row's name, which nothing but the truth may
look at; it tells a row from every other one, through all its updates.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """`id` is the identity (rule D2); `in_head` says that the row stands in the head as it is, unchanged since."""

    id: int
    key: str
    value: int
    in_head: bool = False


class Change(NamedTuple):
    """One logical change. It adds a row or not, and touches rows by key, by value, by identity, or all of them.

    `value` is that of the row to add, or the least value that is touched. With `ids`, the rows of these identities are
    touched instead: a statement that a transaction has resolved at its snapshot.
    """

    kind: str
    key: str = ""
    value: int = 0
    ids: frozenset[int] | None = None

    def __str__(self) -> str:
        match self.kind:
            case "append" | "upsert" | "overwrite":
                return f"{self.kind} {self.key}={self.value}"
            case _ if self.ids is not None:
                return f"{self.kind} rows {sorted(self.ids)}"
            case _:
                return f"{self.kind} where value >= {self.value}"

    def adds(self) -> bool:
        """Whether it brings a row, which is (key, value)."""
        return self.kind in ("append", "upsert", "overwrite")

    def touches(self, row: Row) -> bool:
        """Whether it changes or removes this row."""
        match self.kind:
            case "append":
                return False
            case "upsert":
                return row.key == self.key
            case "overwrite":
                return True
            case _ if self.ids is not None:
                return row.id in self.ids
            case _:
                return row.value >= self.value

    def updates(self, row: Row) -> Row | None:
        """What becomes of a row it touches; None: it goes. An updated row keeps its identity."""
        return row._replace(value=row.value + 1, in_head=False) if self.kind == "add" else None


Truth = tuple[tuple[str, int], ...]
"""The keys and values of a table's rows, sorted."""


def truth(rows: Iterable[Row]) -> Truth:
    """What a reader sees."""
    return tuple(sorted((row.key, row.value) for row in rows))


def after(rows: Truth, change: Change) -> Truth:
    """The rows after one more change."""
    found = [Row(0, key, value) for key, value in rows]
    return truth(applied(found, change, Row(0, change.key, change.value)))


def applied(rows: Iterable[Row], change: Change, new: Row) -> list[Row]:
    """The rows after one more change; `new` is what it adds, if it adds any."""
    result: list[Row] = []
    for row in rows:
        kept = change.updates(row) if change.touches(row) else row
        if kept is not None:
            result.append(kept)
    return [*result, new] if change.adds() else result


def show(rows: Truth) -> str:
    """For people."""
    return "{" + " ".join(f"{key}={value}" for key, value in rows) + "}"
