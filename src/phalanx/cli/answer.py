"""Rows as an answer: in a file or on standard output, streamed, in any format; or as a table that people can read."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet, types
from rich.table import Table
from rich.text import Text

from phalanx.cli.files import Format
from phalanx.cli.output import console, plain
from phalanx.cli.textual import to_cells, to_rows
from phalanx.clock import SYSTEM

_LONGEST_CELL = 48
_LONGEST_TYPE = 26
_SHOWN_VALUES = 3
_arrow: Any = pa
_csv: Any = csv
"""The stubs know less than these functions take."""


class Counted(io.RawIOBase):
    """Standard output, with the number of bytes written so far: some formats end with where they began."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._at = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer
        """See `io.RawIOBase`."""
        self._sink.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """How much was written."""
        return self._at

    def flush(self) -> None:
        """See `io.RawIOBase`."""
        self._sink.flush()


def write_rows(rows: pa.RecordBatchReader, form: Format, output: Path | None) -> int:
    """Write all rows; how many there were. A file appears when it is complete."""
    with _sink(output) as sink:
        return _WRITERS[form](rows, sink, output is not None)


def write_list(rows: pa.RecordBatchReader) -> None:
    """All rows as one JSON list on one line."""
    before = "["
    for batch in rows:
        for row in to_rows(batch):
            sys.stdout.write(before + msgspec.json.encode(row).decode())
            before = ","
    sys.stdout.write("]\n" if before == "," else "[]\n")
    sys.stdout.flush()


def rows_table(rows: pa.Table) -> Table:
    """Rows for people: values shortened, and as many columns as fit."""
    held = [row for batch in rows.to_batches() for row in to_rows(batch)]
    return Sheet(rows.schema).table([[cell(row[name]) for name in rows.schema.names] for row in held])


class Sheet:
    """Rows for people, a part at a time: the first part decides how wide each column is, and how many there are."""

    def __init__(self, schema: pa.Schema, before: Sequence[str] = ()) -> None:
        self._before = list(before)
        self._fields = list(schema)
        self._widths: list[int] | None = None

    def table(self, rows: Sequence[Sequence[Text]]) -> Table:
        """The next rows, under a header if they are the first; each begins with what stands `before` the columns."""
        first = self._widths is None
        if self._widths is None:
            self._widths = self._measured(rows)
        widths, before = self._widths, len(self._before)
        fitting = _fitting(widths) if console.is_terminal else len(widths)
        table = Table(box=None, pad_edge=False, header_style="none", show_header=first)
        for at, width in enumerate(widths[:fitting]):
            header, right = self._header(at)
            table.add_column(
                header, justify="right" if right else "left", no_wrap=True, overflow="ellipsis", min_width=width - 2
            )
        more = len(widths) - max(fitting, before)
        if more:
            table.add_column(Text(f"+{more}\ncolumns", style="dim"), no_wrap=True)
        for row in rows:
            table.add_row(*row[:fitting], *([Text("…", style="dim")] if more else []))
        return table

    def _measured(self, rows: Sequence[Sequence[Text]]) -> list[int]:
        heads = [len(name) for name in self._before]
        heads += [max(len(plain(field.name)), len(_kind(field.type))) for field in self._fields]
        return [
            min(_LONGEST_CELL, max(1, head, *(len(row[at]) for row in rows), 0)) + 2 for at, head in enumerate(heads)
        ]

    def _header(self, at: int) -> tuple[Text, bool]:
        if at < len(self._before):
            return Text(f"{self._before[at]}\n", style="bold"), False
        field = self._fields[at - len(self._before)]
        right = types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type)
        return Text.assemble((plain(field.name), "bold"), "\n", (_kind(field.type), "dim")), right


def _kind(kind: pa.DataType) -> str:
    return _short(str(kind).replace("item: ", ""), _LONGEST_TYPE)


def _fitting(widths: Sequence[int]) -> int:
    """How many columns have room."""
    if sum(widths) <= console.width + 2:
        return len(widths)
    room = console.width - len("columns")
    return max(1, sum(sum(widths[: at + 1]) <= room for at in range(len(widths))))


def cell(value: object) -> Text:
    """A value in a few characters."""
    if value is None:
        return Text("null", style="dim")
    return Text(_short(plain(_said(value)), _LONGEST_CELL))


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _said(value: object) -> str:
    if isinstance(value, bytes):
        return f"{value[:8].hex()}{'…' if len(value) > 8 else ''} ({len(value)} bytes)"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else repr(value)
    if isinstance(value, list):
        shown = ", ".join(_said(one) for one in value[:_SHOWN_VALUES])
        return f"[{shown}]" if len(value) <= _SHOWN_VALUES else f"[{shown}, … {len(value)} values]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_said(one)}" for name, one in value.items()) + "}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _sink(output: Path | None) -> Iterator[Any]:
    if output is None:
        yield Counted(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if output.exists() and not output.is_file():  # a pipe or a device: whoever reads it waits for it, not for another
        with output.open("wb") as file:
            yield file
        return
    part = output.with_name(f".{output.name}.{SYSTEM.token(4).hex()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _lines(rows: pa.RecordBatchReader, sink: Any, _in_file: bool) -> int:  # noqa: ANN401 - a file of any kind
    count = 0
    for batch in rows:
        sink.write(b"".join(msgspec.json.encode(row) + b"\n" for row in to_rows(batch)))
        count += batch.num_rows
    return count


def _separated(delimiter: str) -> Callable[[pa.RecordBatchReader, Any, bool], int]:
    def write(rows: pa.RecordBatchReader, sink: Any, _in_file: bool) -> int:  # noqa: ANN401 - as above
        empty = to_cells(pa.RecordBatch.from_pylist([], schema=rows.schema))
        with _csv.CSVWriter(sink, empty.schema, write_options=_csv.WriteOptions(delimiter=delimiter)) as writer:
            return _pass_on((to_cells(batch) for batch in rows), writer)

    return write


def _parquet(rows: pa.RecordBatchReader, sink: Any, _in_file: bool) -> int:  # noqa: ANN401 - as above
    with parquet.ParquetWriter(sink, rows.schema) as writer:
        return _pass_on(rows, writer)


def _ipc(rows: pa.RecordBatchReader, sink: Any, in_file: bool) -> int:  # noqa: ANN401 - as above
    with _arrow.ipc.new_file(sink, rows.schema) if in_file else _arrow.ipc.new_stream(sink, rows.schema) as writer:
        return _pass_on(rows, writer)


def _pass_on(batches: Any, writer: Any) -> int:  # noqa: ANN401 - as above
    count = 0
    for batch in batches:
        writer.write_batch(batch)
        count += batch.num_rows
    return count


_WRITERS: Mapping[Format, Callable[[pa.RecordBatchReader, Any, bool], int]] = {
    Format.JSON: _lines,
    Format.CSV: _separated(","),
    Format.TSV: _separated("\t"),
    Format.PARQUET: _parquet,
    Format.ARROW: _ipc,
}
