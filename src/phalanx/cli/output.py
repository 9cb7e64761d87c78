"""What the command line prints, and how it ends.

Everything that is printed for people is also there as JSON (`--json`): one value for a listing, one line for each item
of a stream. Errors go to stderr, in one line that says what to do, and the exit code says of which kind they are.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    StateError,
    UnavailableError,
    UnsupportedError,
)
from phalanx.lake import Lake, open_lake

EXIT_CODES: Mapping[type[PhalanxError], int] = {
    InvalidInputError: 2,
    NotFoundError: 3,
    AlreadyExistsError: 4,
    ConflictError: 5,
    StateError: 6,
    UnavailableError: 7,
    CommitUnknownError: 8,
    CorruptionError: 9,
    UnsupportedError: 10,
    InternalError: 70,
}
"""By the error's kind; a subclass has the code of the class it is listed under."""

LakeArgument = Annotated[str, typer.Argument(help="Path or URI of the lake.", metavar="LAKE")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="Storage option of an object store; may be repeated."),
]

_PIPE_WIDTH = 4096
console = Console(
    highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH, soft_wrap=False
)
"""In a pipe nothing is folded, so that lines can be searched."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def exit_code(error: PhalanxError) -> int:
    """The exit code for an error."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


@contextmanager
def opened(uri: str, options: Sequence[str] | None, *, create: bool = False, **settings: Any) -> Iterator[Lake]:  # noqa: ANN401 - passed on
    """The lake, for as long as a command runs."""
    with open_lake(uri, create=create, storage_options=storage_options(options), **settings) as lake:
        yield lake


def storage_options(options: Sequence[str] | None) -> dict[str, str] | None:
    """`--option key=value` as a dictionary."""
    found: dict[str, str] = {}
    for option in options or ():
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise InvalidInputError("--option takes KEY=VALUE, for example --option region=eu-central-1")
        found[key] = value
    return found or None


def show(value: object, as_json: bool, text: Callable[[], object]) -> None:
    """Print a value as JSON, or what `text` makes of it."""
    if as_json:
        print_json(value)
    else:
        console.print(text())


def print_json(value: object) -> None:
    """One line of JSON, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def plain(text: object) -> str:
    """Text that somebody else wrote, without what could steer the terminal."""
    return _CONTROL.sub(" ", str(text))


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> Table | str:
    """A table for people; `empty` says what to do when there is nothing."""
    if not rows:
        return empty
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    return table
