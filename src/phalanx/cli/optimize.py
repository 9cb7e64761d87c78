"""The verb `optimize`: small fragments and deleted rows of a table, or of all, are written anew. No row changes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, TypedDict

import typer
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from phalanx.amounts import seconds, shown_size, size
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, counted, opened, plain, show
from phalanx.cli.tasks import SparkOption, tasks_of
from phalanx.clock import SYSTEM
from phalanx.upkeep.optimize import Done, Optimized

_PATIENCE = 7 * 24 * 3600.0
_BAR = 30
_THREADS = 3


class _Limits(TypedDict):
    budget: int
    max_bytes: int | None
    max_time: float | None
    timeout: float


def optimize(
    lake: LakeArgument,
    table: Annotated[str | None, typer.Argument(help="Name of the table; all without one.", metavar="TABLE")] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be rewritten, and change nothing.")
    ] = False,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Rewrite this much of a table at the most, like 64MB.")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin nothing after that time, like 10m, 90s or 2h.")
    ] = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Put the rows in the order of this column; may be repeated."),
    ] = None,
    budget: Annotated[int, typer.Option(help="How often what changed meanwhile is planned again.")] = 5,
    threads: Annotated[
        int | None,
        typer.Option(help="Groups of fragments that are rewritten at once: 3, or as many tasks as Spark runs."),
    ] = None,
    spark: SparkOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Flush a table, or all, rewrite small fragments and those with deleted rows, and index them."""
    most = None if max_bytes is None else size(max_bytes, "--max-bytes")
    until = None if max_time is None else seconds(max_time, "--max-time")
    with opened(lake, option) as found, _bar() as moved:
        limits: _Limits = {"budget": budget, "max_bytes": most, "max_time": until, "timeout": _PATIENCE}
        columns = cluster_by or ()
        if spark is None or dry_run:
            done = found.optimize(
                table, **limits, dry_run=dry_run, cluster_by=columns, progress=moved.append, threads=threads or _THREADS
            )
        else:
            with tasks_of(found, spark) as there:
                done = there.optimize(table, **limits, cluster_by=columns, progress=moved.append, tasks=threads)
    show(done, as_json, lambda: "\n".join(_said(done, dry_run=dry_run)) or "there are no tables")


def _said(done: Mapping[str, Optimized], *, dry_run: bool) -> Iterator[str]:
    for name, one in done.items():
        yield plain(_planned(name, one) if dry_run else _rewrote(name, one))
        for skipped in one.skipped:
            what = counted(len(skipped.fragments), "fragment") if skipped.fragments else "something"
            yield plain(f"  left {what}: {skipped.reason}")


def _planned(name: str, one: Optimized) -> str:
    if not one.rewritten and not one.skipped:
        return f"{name} is in order: {counted(one.before, 'fragment')}"
    return f"{name}: would rewrite {counted(one.rewritten, 'group')} of {counted(one.before, 'fragment')}, {shown_size(one.read)}"


def _rewrote(name: str, one: Optimized) -> str:
    if not one.rewritten and not one.by_others and not one.skipped:
        return f"{name} is in order: {counted(one.after, 'fragment')}"
    others = f"; {counted(one.by_others, 'group')} done by others" if one.by_others else ""
    became = f"{counted(one.before, 'fragment')} became {one.after:,}"
    return f"rewrote {name}: {became}, {shown_size(one.read)} read and {shown_size(one.written)} written{others}"


@contextmanager
def _bar() -> Iterator[list[Done]]:
    """Where progress is put; shown on stderr if that is a terminal."""
    moved: list[Done] = []
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield moved
        return
    began, spinner = SYSTEM.steady(), Spinner("dots")

    def line() -> Table:
        return _line(moved[-1] if moved else None, spinner, SYSTEM.steady() - began)

    with Live(get_renderable=line, console=console, refresh_per_second=10, transient=True):
        yield moved


def _line(last: Done | None, spinner: Spinner, seconds: float) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        spinner,
        Text("looking" if last is None else plain(last.table), style="bold"),
        ProgressBar(total=last.of_bytes or 1 if last else 1, completed=last.bytes if last else 0, width=_BAR),
        Text("" if last is None else f"{last.groups} of {counted(last.of, 'group')}", style="green"),
        Text("" if last is None else f"{shown_size(last.bytes)} of {shown_size(last.of_bytes)}", style="cyan"),
        Text(f"{int(seconds) // 60}:{int(seconds) % 60:02}", style="dim"),
    )
    return grid
