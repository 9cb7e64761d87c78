"""The verb `optimize`: small fragments and deleted rows of a table, or of all, are written anew. No row changes."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, counted, opened, plain, show
from phalanx.clock import SYSTEM
from phalanx.errors import InvalidInputError
from phalanx.upkeep.optimize import Done, Optimized

_PATIENCE = 7 * 24 * 3600.0
_BAR = 30
_NUMBER = re.compile(r"(\d+(?:\.\d+)?) *([a-z]*)", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


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
    threads: Annotated[int, typer.Option(help="Groups of fragments that are rewritten at once.")] = 2,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Flush a table, or all, rewrite small fragments and those with deleted rows, and index them."""
    size = None if max_bytes is None else _amount(max_bytes, _BYTES, "--max-bytes", "64MB")
    seconds = None if max_time is None else _amount(max_time, _SECONDS, "--max-time", "10m")
    with opened(lake, option) as found, _bar() as moved:
        done = found.optimize(
            table,
            budget=budget,
            max_bytes=None if size is None else int(size),
            max_time=seconds,
            dry_run=dry_run,
            cluster_by=cluster_by or (),
            progress=moved.append,
            threads=threads,
            timeout=_PATIENCE,
        )
    show(done, as_json, lambda: "\n".join(_said(done, dry_run=dry_run)) or "there are no tables")


def _amount(text: str, units: Mapping[str, int], option: str, example: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2].lower() not in units:
        known = ", ".join(unit for unit in units if unit)
        raise InvalidInputError(f"{option} takes a number and a unit ({known}), for example {option} {example}")
    return float(found[1]) * units[found[2].lower()]


def _said(done: Mapping[str, Optimized], *, dry_run: bool) -> Iterator[str]:
    for name, one in done.items():
        yield plain(_planned(name, one) if dry_run else _rewrote(name, one))
        for skipped in one.skipped:
            what = counted(len(skipped.fragments), "fragment") if skipped.fragments else "something"
            yield plain(f"  left {what}: {skipped.reason}")


def _planned(name: str, one: Optimized) -> str:
    if not one.rewritten and not one.skipped:
        return f"{name} is in order: {counted(one.before, 'fragment')}"
    return f"{name}: would rewrite {counted(one.rewritten, 'group')} of {counted(one.before, 'fragment')}, {_size(one.read)}"


def _rewrote(name: str, one: Optimized) -> str:
    if not one.rewritten and not one.by_others and not one.skipped:
        return f"{name} is in order: {counted(one.after, 'fragment')}"
    others = f"; {counted(one.by_others, 'group')} done by others" if one.by_others else ""
    became = f"{counted(one.before, 'fragment')} became {one.after:,}"
    return f"rewrote {name}: {became}, {_size(one.read)} read and {_size(one.written)} written{others}"


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number} bytes"


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
        Text("" if last is None else f"{_size(last.bytes)} of {_size(last.of_bytes)}", style="cyan"),
        Text(f"{int(seconds) // 60}:{int(seconds) % 60:02}", style="dim"),
    )
    return grid
