"""The verb `query`: rows of a table, now or as it was, as a table, a list, or a file."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.text import Text

from phalanx.cli.answer import rows_table, write_list, write_rows
from phalanx.cli.files import Format, suffix_format
from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    TagOption,
    VersionOption,
    console,
    counted,
    opened,
    plain,
    show,
)
from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.table import SnapshotTable

_SHOWN = 20
_BINARY = {Format.PARQUET, Format.ARROW}

Shape = Format | Literal["table", "list"]


class Question(msgspec.Struct, frozen=True):
    """Which rows, and which of their columns."""

    columns: list[str] | None
    where: str | None
    limit: int | None


def query(
    lake: LakeArgument,
    table: TableArgument,
    *,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", "-c", help="Only these, as a,b; in this order.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", "-w", help="Only rows that match, as in SQL.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help=f"So many rows; {_SHOWN} for people, all for programs.")
    ] = None,
    version: VersionOption = None,
    tag: TagOption = None,
    as_of: Annotated[
        str | None, typer.Option(help="As of this time, as 2026-01-31T12:00; UTC if it has no zone.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only say how many rows match.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", help="table, json (lines), csv, tsv, parquet, arrow; by the output's name."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write a file instead; it appears when it is complete.")] = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read rows of a table."""
    if count and (columns or limit is not None or form or output):
        raise InvalidInputError(
            "--count counts all rows that match: leave --columns, --limit, --format and --output out"
        )
    shape = _shape(form, output, as_json)
    names = None if columns is None else [name.strip() for one in columns for name in one.split(",")]
    with opened(lake, option) as found:
        target = _at(found, table, version, tag, as_of)
        if count:
            number = target.count(where)
            show({"count": number}, as_json, lambda: str(number))
        else:
            _answer(target, Question(names, where, limit), shape, output, as_json)


def _shape(form: str | None, output: Path | None, as_json: bool) -> Shape:
    known = ("table", *Format)
    if form is not None and form not in known:
        raise InvalidInputError(f"--format is one of {', '.join(known)}: {form!r} is not")
    if output is None:
        if as_json and form is not None:
            raise InvalidInputError("--json prints a list: leave --format out, or leave --json out")
        if form in _BINARY and sys.stdout.isatty():
            raise InvalidInputError(f"{form} is not for terminals: give --output FILE, or pipe it")
        return "list" if as_json else Format(form) if form is not None and form != "table" else "table"
    found = suffix_format(output.name) if form is None else None if form == "table" else Format(form)
    if found is None:
        raise InvalidInputError(f"--output needs a --format, one of {', '.join(Format)}, or a name that ends like one")
    if not output.parent.is_dir():
        raise InvalidInputError(f"there is no folder {output.parent} to write {output.name} into: create it first")
    return found


def _at(lake: Lake, name: str, version: int | None, tag: str | None, as_of: str | None) -> SnapshotTable:
    time = None
    if as_of is not None:
        try:
            time = datetime.fromisoformat(as_of)
        except ValueError as error:
            raise InvalidInputError(f"--as-of takes a time like 2026-01-31T12:00+01:00: {as_of!r} is not") from error
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return lake.snapshot(version=version, tag=tag, as_of=time)[name]


def _answer(target: SnapshotTable, asked: Question, shape: Shape, output: Path | None, as_json: bool) -> None:
    if shape == "table":
        _print(target, asked)
        return
    rows = target.scan(asked.columns, asked.where, asked.limit)
    if shape == "list":
        write_list(rows)
        return
    written = write_rows(rows, Format(shape), output)
    if output is not None:
        value = {"output": str(output), "format": shape, "rows": written}
        show(value, as_json, lambda: plain(f"wrote {counted(written, 'row')} to {output}"))


def _print(target: SnapshotTable, asked: Question) -> None:
    limit = _SHOWN if asked.limit is None else asked.limit
    rows = target.to_arrow(asked.columns, asked.where, limit + 1)
    shown = rows.slice(0, limit)
    if shown.num_rows:
        console.print(rows_table(shown))
    what = counted(shown.num_rows, "row") if shown.num_rows else "no rows"
    more = "; there are more: --limit shows them, --count counts them" if rows.num_rows > limit else ""
    console.print(Text(what + more, style="dim"))
