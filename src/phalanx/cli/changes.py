"""Verbs on what changed in a table, row by row: `changes` in the order of the log, `diff` between two versions.

For people an update is one line, in which a value that changed stands beside the one it had.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.text import Text

from phalanx.cli.answer import Sheet, cell
from phalanx.cli.files import Format
from phalanx.cli.forms import (
    FormatOption,
    OutputOption,
    Shape,
    chosen_shape,
    first_rows,
    hand_over,
    version_of,
)
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, TableArgument, console, counted, opened
from phalanx.cli.textual import to_rows
from phalanx.clock import SYSTEM
from phalanx.errors import InvalidInputError
from phalanx.feed import CHANGE, NAMES, ORDER, TIME, VERSION
from phalanx.lake import Lake
from phalanx.tail.effects import Kind

_POLL = 0.2
"""Seconds between two looks at the end of the log."""
_PART = 1000
"""Rows that are laid out together."""
_BEFORE, _AFTER = NAMES[Kind.BEFORE], NAMES[Kind.AFTER]
_MARKS = {
    NAMES[Kind.INSERT]: ("+", "bold green"),
    NAMES[Kind.DELETE]: ("-", "bold red"),
    _AFTER: ("~", "bold yellow"),
}
_WORDS = {"+": "inserted", "-": "deleted", "~": "updated"}

RowsOption = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="So many rows; all without it.")]


def changes(
    lake: LakeArgument,
    table: TableArgument,
    *,
    since: Annotated[
        str | None, typer.Option(metavar="VERSION", help="What came after this version of the lake, or this tag.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Up to this version, or this tag; the newest by default.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as commits land, until Ctrl-C; from now on without --since.")
    ] = False,
    limit: RowsOption = None,
    form: FormatOption = None,
    output: OutputOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which rows of a table were inserted (+), deleted (-) or updated (~), in the order of the log."""
    if since is None and not follow:
        raise InvalidInputError("say since when: --since VERSION, or --follow for what happens from now on")
    shape = chosen_shape(form, output, as_json)
    if follow and (until is not None or limit is not None or output is not None or shape not in _FOLLOWED):
        raise InvalidInputError(
            "--follow prints a table or json lines and never ends: leave --until, --limit, --output and other formats out"
        )
    with opened(lake, option) as found:
        began = found.version if since is None else version_of(found, since)
        if follow:
            _follow(found, table, began, Format.JSON if shape == "list" else shape)
        rows = found.changes(table, began, None if until is None else version_of(found, until))
        _answer(rows, limit, shape, output, as_json)


def diff(
    lake: LakeArgument,
    table: TableArgument,
    old: Annotated[str, typer.Argument(metavar="OLD", help="A version of the lake, or a tag.")],
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="Another version or tag; the newest without one.")
    ] = None,
    *,
    limit: RowsOption = None,
    form: FormatOption = None,
    output: OutputOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show in which rows two versions of a table differ: only in the newer (+), only in the older (-), changed (~)."""
    shape = chosen_shape(form, output, as_json)
    with opened(lake, option) as found:
        rows = found.diff(table, version_of(found, old), None if new is None else version_of(found, new))
        _answer(rows.to_reader(), limit, shape, output, as_json)


_FOLLOWED = ("table", "list", Format.JSON)


def _answer(rows: pa.RecordBatchReader, limit: int | None, shape: Shape, output: Path | None, as_json: bool) -> None:
    if shape != "table":
        hand_over(rows if limit is None else first_rows(rows, limit), shape, output, as_json)
        return
    printer = Printer(rows.schema)
    whole = printer.print(rows, limit)
    more = "" if whole else "; there are more: --limit shows them"
    console.print(Text(printer.said() + more, style="dim"))


def _follow(lake: Lake, name: str, position: int, shape: Shape) -> None:
    """Never ends by itself. The table may get another name meanwhile, and other columns: then a new header is shown."""
    table = lake[name]
    printer: Printer | None = None
    while True:
        end = lake.version
        if end > position:
            rows = lake.changes(table.name, position, end)
            if shape == "table":
                printer = (
                    printer if printer is not None and printer.schema.equals(rows.schema) else Printer(rows.schema)
                )
                printer.print(rows)
            else:
                hand_over(rows, shape, None, as_json=False)
            position = end
        SYSTEM.sleep(_POLL)


class Printer:
    """Changes as lines for people: a mark, when it was (if the rows say so), and the values."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._dated = VERSION in schema.names
        self._names = [name for name in schema.names if name not in {CHANGE, VERSION, TIME, ORDER}]
        before = ["", "version", "time (UTC)"] if self._dated else [""]
        self._sheet = Sheet(pa.schema([schema.field(name) for name in self._names]), before)
        self._counts = dict.fromkeys(_WORDS, 0)

    def print(self, rows: pa.RecordBatchReader, limit: int | None = None) -> bool:
        """Print all rows, or the first ones; whether that was all."""
        lines = self._lines(rows)
        chosen = lines if limit is None else itertools.islice(lines, limit)
        while part := list(itertools.islice(chosen, _PART)):
            console.print(self._sheet.table(part))
            for line in part:
                self._counts[line[0].plain] += 1
        return limit is None or next(lines, None) is None

    def said(self) -> str:
        """What was printed, in numbers."""
        told = [f"{counted(many, 'row')} {_WORDS[mark]}" for mark, many in self._counts.items() if many]
        return ", ".join(told) or "no changes"

    def _lines(self, rows: pa.RecordBatchReader) -> Iterator[list[Text]]:
        before: Mapping[str, Any] = {}
        for row in _rows(rows):
            if row[CHANGE] == _BEFORE:
                before = row
                continue
            line = [Text(*_MARKS[row[CHANGE]])]
            if self._dated:
                line += [Text(str(row[VERSION])), Text(row[TIME][:19].replace("T", " "), style="dim")]
            old = before if row[CHANGE] == _AFTER else row
            yield line + [_value(old[name], row[name]) for name in self._names]


def _rows(rows: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in rows:
        for at in range(0, batch.num_rows, _PART):
            yield from to_rows(batch.slice(at, _PART))


def _value(old: object, new: object) -> Text:
    if old == new or repr(old) == repr(new):  # a NaN is not equal to itself
        return cell(new)
    return Text.assemble(cell(old), (" → ", "yellow"), cell(new))
