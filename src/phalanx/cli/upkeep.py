"""Verbs of upkeep: flush, optimize. No row changes, and no writer waits."""

from collections.abc import Mapping
from typing import Annotated

import typer

from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    counted,
    grid,
    opened,
    plain,
    show,
)
from phalanx.upkeep.flush import Flushed
from phalanx.upkeep.optimize import Optimized


def flush(
    lake: LakeArgument,
    table: Annotated[str | None, typer.Argument(help="Name of the table; all without one.", metavar="TABLE")] = None,
    *,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write out what is pending in a table, or in all: readers get faster."""
    with opened(lake, option) as found:
        done = found.flush(table)
        show(done, as_json, lambda: _flushed(done))


def optimize(
    lake: LakeArgument, table: TableArgument, *, option: StorageOption = None, as_json: JsonOption = False
) -> None:
    """Flush a table, and rewrite small fragments and those with many deleted rows."""
    with opened(lake, option) as found:
        done = found.optimize(table)
        show(done, as_json, lambda: _optimized(table, done))


def _flushed(done: Mapping[str, Flushed]) -> object:
    rows = [(name, one.items, one.rows, one.version) for name, one in done.items() if one.version is not None]
    return grid(["table", "changes", "rows written", "version"], rows, "nothing was pending")


def _optimized(table: str, done: Optimized) -> str:
    if not done.rewritten and not done.skipped:
        return plain(f"{table} is in order: {counted(done.after, 'fragment')}")
    others = f"; {counted(done.skipped, 'group')} had been done by another process" if done.skipped else ""
    return plain(f"rewrote {table}: {counted(done.before, 'fragment')} became {done.after:,}{others}")
