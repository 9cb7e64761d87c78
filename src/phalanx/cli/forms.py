"""In which form rows are wanted, as of when, and handing them over: what the verbs share that answer with rows."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import typer
from rich.text import Text

from phalanx.cli.answer import rows_table, write_list, write_rows
from phalanx.cli.files import Format, suffix_format
from phalanx.cli.output import console, counted, plain, show
from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot

SHOWN = 20
"""Rows that people see if they do not say how many."""
_BINARY = {Format.PARQUET, Format.ARROW}

_DIGITS = 19
"""Of the largest number that a version can be."""

Shape = Format | Literal["table", "list"]

AsOfOption = Annotated[
    str | None, typer.Option("--as-of", help="As of this time, as 2026-01-31T12:00; UTC if it has no zone.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="table, json (lines), csv, tsv, parquet, arrow; by the output's name."),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", help="Write a file instead; it appears when it is complete.")
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=0, max=(1 << 62), help=f"So many rows; {SHOWN} for people, all for programs."),
]


def chosen_shape(form: str | None, output: Path | None, as_json: bool) -> Shape:
    """The form that was asked for, by name or by that of the output."""
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
    if output.is_dir():
        raise InvalidInputError(f"--output is a file, and {output} is a folder: name a file in it")
    if not output.parent.is_dir():
        raise InvalidInputError(f"there is no folder {output.parent} to write {output.name} into: create it first")
    return found


def parse_time(text: str, option: str = "--as-of") -> datetime:
    """A time as people write it; UTC if it has no zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{option} takes a time like 2026-01-31T12:00+01:00: {text!r} is not") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def snapshot_at(lake: Lake, version: int | None, tag: str | None, as_of: str | None) -> Snapshot:
    """The lake as of a version, a tag or a time."""
    return lake.snapshot(version=version, tag=tag, as_of=None if as_of is None else parse_time(as_of))


def version_of(lake: Lake, given: str) -> int:
    """A version that is given by its number or by a tag."""
    if not given.isdecimal():
        return lake.snapshot(tag=given).version
    if len(given) > _DIGITS:
        raise InvalidInputError(f"there is no version {given[:_DIGITS]}…: the lake is at version {lake.version}")
    return int(given)


def hand_over(rows: pa.RecordBatchReader, shape: Shape, output: Path | None, as_json: bool) -> None:
    """Write all rows for a program, or into a file."""
    if shape == "list":
        write_list(rows)
        return
    written = write_rows(rows, Format(shape), output)
    if output is not None:
        value = {"output": str(output), "format": shape, "rows": written}
        show(value, as_json, lambda: plain(f"wrote {counted(written, 'row')} to {output}"))


def print_rows(rows: pa.Table, limit: int, how: str) -> None:
    """Show rows to people; where there are more than `limit`, say how to get at them."""
    shown = rows.slice(0, limit)
    if shown.num_rows:
        console.print(rows_table(shown))
    what = counted(shown.num_rows, "row") if shown.num_rows else "no rows"
    more = f"; there are more: {how}" if rows.num_rows > limit else ""
    console.print(Text(what + more, style="dim"))


def first_rows(rows: pa.RecordBatchReader, count: int) -> pa.RecordBatchReader:
    """The first rows; those behind them are not waited for."""

    def batches() -> Iterator[pa.RecordBatch]:
        left = count
        while left > 0:
            batch = next(rows, None)
            if batch is None:
                return
            yield batch.slice(0, left)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())
