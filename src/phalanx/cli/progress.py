"""A line on the terminal that says how far a load is: drawn from what the stream says of itself, ten times a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from phalanx.cli.output import plain
from phalanx.cli.stopping import Stopping
from phalanx.clock import SYSTEM

_LONGEST_NAME = 32
_BAR = 30


class Moving(Protocol):
    """What says of itself how far it is: see `Stream`."""

    rows: int

    @property
    def file(self) -> str: ...  # noqa: D102 - said there
    def share(self) -> float | None: ...  # noqa: D102


@contextmanager
def progress(stream: Moving, stopping: Stopping, console: Console | None = None) -> Iterator[None]:
    """Show how far a stream is, on stderr, while this is entered and if that is a terminal."""
    console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield
        return
    began = SYSTEM.steady()
    spinner = Spinner("dots")

    def line() -> Table:
        return _line(stream, stopping, spinner, SYSTEM.steady() - began)

    with Live(get_renderable=line, console=console, refresh_per_second=10, transient=True):
        yield


def _line(stream: Moving, stopping: Stopping, spinner: Spinner, seconds: float) -> Table:
    share = stream.share()
    name = plain(stream.file)
    if stopping.landing:
        name = "committing"
    elif stopping.asked:
        name = "stopping"
    rate = stream.rows / seconds if seconds > 0 else 0.0
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        spinner,
        Text(name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}", style="bold"),
        ProgressBar(total=1.0, completed=share or 0.0, width=_BAR, pulse=share is None),
        Text("" if share is None else f"{share:4.0%}"),
        Text(f"{stream.rows:,} rows", style="green"),
        Text(f"{rate:,.0f} rows/s", style="cyan"),
        Text(f"{int(seconds) // 60}:{int(seconds) % 60:02}", style="dim"),
    )
    return grid
