"""The verb `check`: read everything and name what is damaged, missing, foreign or left behind."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer

from phalanx.amounts import shown_size
from phalanx.catalog import Catalog
from phalanx.cli.bar import bar
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, console, counted, grid, show, storage_options
from phalanx.cli.tasks import SparkOption, tasks_of
from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError, InvalidInputError
from phalanx.lake import TIMEOUT, join
from phalanx.log.check import check as check_log
from phalanx.objects import Store, open_store
from phalanx.upkeep.check import Report

DAMAGED = 9
_MANY = 20
"""Harmless findings of one cause are counted beyond this, unless all are asked for."""


def check(
    lake: LakeArgument,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare every byte with its checksum, and read tables.")
    ] = False,
    all_of_it: Annotated[bool, typer.Option("--all", help="Name every finding, however many there are.")] = False,
    spark: SparkOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the log and look at every version of every table: what is damaged, missing, foreign. Changes nothing.

    Ends with 0 if every version can be read, whatever harmless is found, and with 9 if something is damaged.
    """
    if spark is not None and not deep:
        raise InvalidInputError("--spark is for comparing every byte: give --deep too")
    found = looked_at(open_store(lake, storage_options(option)), deep=deep, spark=spark)
    show(told(found), as_json, lambda: _say(found, all_of_it=all_of_it))
    if not found.whole:
        raise typer.Exit(DAMAGED)


def looked_at(store: Store, *, deep: bool, spark: str | None = None) -> Report:
    """What a check finds; of a lake that cannot be opened, what is wrong with its log."""
    try:
        opened = join(store, SYSTEM, None, timeout=TIMEOUT)
    except CorruptionError:
        return Report.of(check_log(store, Catalog(), SYSTEM))
    with opened, bar() as moved:
        if spark is None:
            return opened.check(deep=deep, progress=moved)
        with tasks_of(opened, spark) as there:
            return there.check(deep=deep, progress=moved)


def told(found: Report) -> dict[str, object]:
    """A report for programs."""
    return {"whole": found.whole} | {name: getattr(found, name) for name in found.__struct_fields__}


def problems(found: Report, *, all_of_it: bool) -> Iterator[tuple[str, str, str]]:
    """What was found, what is worst first; the many that are harmless are counted."""
    seen = Counter[str]()
    for problem in sorted(found.problems, key=lambda one: (one.harmless, one.cause.value, one.name)):
        cause = problem.cause.value
        seen[cause] += problem.harmless
        if all_of_it or not problem.harmless or seen[cause] <= _MANY:
            size = f" ({shown_size(problem.size)})" if problem.size else ""
            yield problem.name, f"{cause}{', harmless' if problem.harmless else ''}", problem.what + size
    for cause, many in sorted(seen.items()):
        if many > _MANY and not all_of_it:
            yield "…", f"{cause}, harmless", f"and {counted(many - _MANY, 'more')[:-1]}: --all names them"


def _say(found: Report, *, all_of_it: bool) -> str:
    rows = list(problems(found, all_of_it=all_of_it))
    if rows:
        console.print(grid(["object", "cause", "what"], rows, ""))
    said = f"checked entries {found.floor} to {found.end}, {counted(found.bases, 'stored fold')}"
    said += f", {counted(found.tables, 'table')} and {counted(found.files, 'file')} ({shown_size(found.bytes)})"
    if found.deep:
        said += (
            f"; compared {counted(found.compared, 'file')} with what was written, and read {counted(found.rows, 'row')}"
        )
        if found.unrecorded:
            said += f"; of {counted(found.unrecorded, 'file')} no checksum is recorded"
    return f"{said}: {'nothing is wrong' if found.whole else 'the lake is damaged: see `phalanx repair`'}"
