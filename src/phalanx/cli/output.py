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
TableArgument = Annotated[str, typer.Argument(help="Name of the table.", metavar="TABLE")]
VersionOption = Annotated[int | None, typer.Option("--version", help="As of this version of the lake.")]
TagOption = Annotated[str | None, typer.Option("--tag", help="As of this tag.")]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be repeated.")
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", "-k", metavar="COLUMN", help="Column of the new table's key; may be repeated."),
]
NoteOption = Annotated[str, typer.Option("--note", help="A word for the history.")]
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
    return pairs(options, "--option", "region=eu-central-1") or None


def pairs(given: Sequence[str] | None, what: str, example: str = "owner=ann") -> dict[str, str]:
    """Options like `--property key=value` as a dictionary."""
    found: dict[str, str] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise InvalidInputError(f"{what} takes KEY=VALUE, for example {what} {example}")
        found[key] = value
    return found


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


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> Table | str:
    """A table for people, numbers to the right; `empty` says what to do when there is nothing."""
    if not rows:
        return empty
    table = Table(box=None, header_style="bold", pad_edge=False)
    for at, column in enumerate(columns):
        number = all(isinstance(row[at], int) or row[at] == "" for row in rows)
        table.add_column(column, overflow="fold", justify="right" if number else "left")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    return table


def facts(rows: Sequence[tuple[str, object]]) -> Table:
    """What is known of one thing, a line for each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, said in rows:
        table.add_row(plain(name), plain(said))
    return table
