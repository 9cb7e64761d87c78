"""The verb `load`: rows of files into a table, all in one commit; or lines for ever, see `follow.py`."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from phalanx.cli.files import STDIN, Format, find_files
from phalanx.cli.follow import follow as follow_lines
from phalanx.cli.output import (
    JsonOption,
    KeyOption,
    LakeArgument,
    NoteOption,
    StorageOption,
    TableArgument,
    counted,
    opened,
    plain,
    show,
)
from phalanx.cli.progress import progress
from phalanx.cli.reading import Ask
from phalanx.cli.stopping import Stopping
from phalanx.cli.stream import Stream, blame
from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.lake import Lake

_PATIENCE = 7 * 86_400.0
"""Seconds: the deadline counts from the first row, and files may be large."""


class Mode(StrEnum):
    """What becomes of the rows that are there."""

    APPEND = "append"
    UPSERT = "upsert"
    INSERT = "insert"
    OVERWRITE = "overwrite"


FilesArgument = Annotated[
    list[str], typer.Argument(help="Files, folders or globs; - is standard input.", metavar="FILES")
]
ModeOption = Annotated[
    Mode, typer.Option(help="append; upsert: replace by key; insert: keys must be new; overwrite: replace all.")
]
FormatOption = Annotated[Format | None, typer.Option("--format", help="Format of the files; by their names otherwise.")]
NullOption = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Cell of CSV that means null, besides an empty one.")
]

CreateOption = Annotated[bool, typer.Option("--create", help="Make the table, with the columns of the first file.")]
FollowOption = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Json lines of standard input until they end, each acknowledged by itself."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="With --follow: stop at the first line that fails.")]


def load(
    lake: LakeArgument,
    table: TableArgument,
    files: FilesArgument,
    *,
    mode: ModeOption = Mode.APPEND,
    create: CreateOption = False,
    key: KeyOption = None,
    file_format: FormatOption = None,
    null: NullOption = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Json lines of standard input until they end, each acknowledged by itself."
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="With --follow: stop at the first line that fails.")] = False,
    note: NoteOption = "",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load files into a table, in one commit: parquet, csv, tsv, json lines, arrow."""
    if strict and not follow:
        raise InvalidInputError("--strict belongs to --follow: without it, nothing is loaded if a line fails")
    if follow:
        _require_lines(files, mode, file_format, one_commit=bool(create or key or note or null))
        follow_lines(lake, table, option, upsert=mode is Mode.UPSERT, strict=strict, as_json=as_json)
        return
    if key and not create:
        raise InvalidInputError("--key belongs to a new table: give --create too, or leave it out")
    found = find_files(files, file_format)
    ask = Ask(Stopping(), ("", *(null or ())))
    with ask.stopping, opened(lake, option) as here, Stream(found, ask) as stream:
        try:
            with progress(stream, ask.stopping), _blaming(stream):
                landed = (
                    _create(here, table, key, stream, mode, note) if create else _add(here, table, stream, mode, note)
                )
        except KeyboardInterrupt:
            typer.echo("phalanx: stopped: nothing was loaded", err=True)
            raise typer.Exit(130) from None
    value = {"table": table, "mode": mode, "created": create, "files": len(found), "rows": stream.rows}
    sources = found[0].name if len(found) == 1 else f"{len(found)} files"
    said = f"loaded {counted(stream.rows, 'row')} from {sources} into {table} (version {landed})"
    show({**value, "version": landed}, as_json, lambda: plain(said))


def _require_lines(files: list[str], mode: Mode, file_format: Format | None, *, one_commit: bool) -> None:
    if files != [STDIN] or file_format not in {None, Format.JSON}:
        raise InvalidInputError("--follow reads json lines from standard input: phalanx load LAKE TABLE - --follow")
    if mode not in {Mode.APPEND, Mode.UPSERT}:
        raise InvalidInputError(f"--follow appends or upserts, a line at a time: --mode {mode} is for files")
    if one_commit:
        raise InvalidInputError("--create, --key, --note and --null are for files: `phalanx create` makes the table")


def _add(lake: Lake, name: str, stream: Stream, mode: Mode, note: str) -> int:
    try:
        table = lake[name]
    except NotFoundError as error:
        raise NotFoundError(f"{error}; --create makes it with the columns of the file") from error
    landed: int = getattr(table, mode)(stream.reader(table.schema), note=note, timeout=_PATIENCE)
    return landed


def _create(lake: Lake, name: str, key: list[str] | None, stream: Stream, mode: Mode, note: str) -> int:
    with lake.transaction(note, timeout=_PATIENCE) as work:
        table = work.create_table(name, stream.schema(), key=key or ())
        getattr(table, mode)(stream.reader(table.schema))
        return work.commit()


@contextmanager
def _blaming(stream: Stream) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise blame(error, stream) from error
