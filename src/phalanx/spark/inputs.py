"""What a step of a pipeline reads: a whole table, its changes since the last run, or what an earlier step has made."""

from collections.abc import Sequence

import msgspec


class Whole(msgspec.Struct, frozen=True):
    """A table at the run's snapshot, with what earlier steps of the run have written to it."""

    table: str
    columns: tuple[str, ...] | None = None
    where: str | None = None


class Changed(msgspec.Struct, frozen=True):
    """What happened to a table since the last run. With `added`, the new rows alone, of a table that is only added to."""

    table: str
    added: bool = False
    columns: tuple[str, ...] | None = None
    where: str | None = None


class Made(msgspec.Struct, frozen=True):
    """The rows that an earlier step has made in this run."""

    step: str


Input = Whole | Changed | Made


def whole(table: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> Whole:
    """A whole table, or some of its columns and rows: what is left out here is not read."""
    return Whole(table, None if columns is None else tuple(columns), where)


def changes(table: str) -> Changed:
    """The changes of a table since the last run, with `_change_type`, `_commit_version`, `_commit_timestamp`, `_commit_order`.

    In the first run, all rows of the table, as inserts.
    """
    return Changed(table)


def added(table: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> Changed:
    """The rows that were added to a table since the last run, or some; the run fails if others changed or went."""
    return Changed(table, added=True, columns=None if columns is None else tuple(columns), where=where)


def made(step: str) -> Made:
    """The rows that another step of the pipeline makes in this run."""
    return Made(step)
