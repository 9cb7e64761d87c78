"""A bar on the terminal for work that says how far it is; in a pipe there is none."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Moved:
    """What is being done, how far it is, and of how much; of nothing, it is only said."""

    def __init__(self, shown: Progress | None) -> None:
        self._shown = shown
        self._task = None if shown is None else shown.add_task("looking", total=None)

    def __call__(self, what: str, done: int, of: int) -> None:
        """Move on."""
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, completed=done, total=of or None, description=what)


@contextmanager
def bar() -> Iterator[Moved]:
    """A bar on stderr, if that is a terminal."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Moved(None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        yield Moved(shown)
