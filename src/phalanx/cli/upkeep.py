"""The verb `flush`. No row changes, and no writer waits."""

from collections.abc import Mapping
from typing import Annotated

import typer

from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    grid,
    opened,
    show,
)
from phalanx.cli.tasks import SparkOption, tasks_of
from phalanx.upkeep.flush import Flushed


def flush(
    lake: LakeArgument,
    table: Annotated[str | None, typer.Argument(help="Name of the table; all without one.", metavar="TABLE")] = None,
    *,
    spark: SparkOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write out what is pending in a table, or in all: readers get faster."""
    with opened(lake, option) as found:
        if spark is None:
            done = found.flush(table)
        else:
            with tasks_of(found, spark) as there:
                done = there.flush(table)
        show(done, as_json, lambda: _flushed(done))


def _flushed(done: Mapping[str, Flushed]) -> object:
    rows = [(name, one.items, one.rows, one.version) for name, one in done.items() if one.version is not None]
    return grid(["table", "changes", "rows written", "version"], rows, "nothing was pending")
