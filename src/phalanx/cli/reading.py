"""Files as streams of Arrow batches, with bounded memory, one opener for each format.

`wanted` is the schema of the table that the rows are for: text formats read by it what they would have to guess
otherwise. Errors name the file and, where it can be found, the line.
"""

import contextlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

from phalanx.cli.files import STDIN, File, Format
from phalanx.cli.lines import line_blocks, parse_lines
from phalanx.cli.stopping import Pipe, Stopping
from phalanx.cli.textual import csv_types, json_schema, plain_error, understood
from phalanx.errors import InvalidInputError, PhalanxError, UnavailableError

ROWS = 8192
_CSV_BLOCK = 2 << 20
"""Arrow reads many of them ahead; types are guessed from the first one, where nobody says them."""

_PLACE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?")
_arrow: Any = pa
_csv: Any = csv
"""The stubs know less than these functions take."""


class Opened(msgspec.Struct, frozen=True):
    """A file that is being read: its schema, its batches, and which share of it is done (None: not known)."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    share: Callable[[], float | None]


class Ask(msgspec.Struct, frozen=True):
    """How files are read: for which schema, which cells of CSV are null, and who says stop."""

    stopping: Stopping
    nulls: Sequence[str] = ("",)
    wanted: pa.Schema | None = None


def open_file(file: File, ask: Ask, held: ExitStack) -> Opened:
    """A file, to be read while `held` is open. Open it, and read it, inside `telling`."""
    return _OPENERS[file.format](file, ask, held)


@contextlib.contextmanager
def telling(file: File, stopping: Stopping) -> Iterator[None]:
    """What goes wrong inside is said with the file's name."""
    try:
        yield
    except PhalanxError as error:
        raise type(error)(f"{file.name}: {error}") from error
    except (pa.ArrowException, ValueError, UnicodeError) as error:
        stopping.check()
        raise InvalidInputError(f"{file.name}: {_in_words(error)}") from error
    except OSError as error:
        stopping.check()
        raise UnavailableError(f"{file.name} cannot be read: {plain_error(error)}") from error


def _in_words(error: BaseException) -> str:
    """Arrow counts columns of CSV from 0 and writes them with #."""
    said = plain_error(error)
    found = _PLACE.match(said)
    if found is None:
        return said
    row = f"row {found[2]}, " if found[2] else ""
    return f"{row}column {int(found[1]) + 1}: {said[found.end() :].removeprefix('CSV conversion error: ')}"


def _parquet(file: File, ask: Ask, held: ExitStack) -> Opened:
    opened = held.enter_context(parquet.ParquetFile(_whole(file, ask, held), pre_buffer=False))
    total, done = opened.metadata.num_rows, 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal done
        for batch in opened.iter_batches(batch_size=ROWS):
            done += batch.num_rows
            yield batch

    return Opened(opened.schema_arrow, batches(), lambda: done / total if total else 1.0)


def _ipc(file: File, ask: Ask, held: ExitStack) -> Opened:
    source = _bytes(file, ask, held)
    start = source.peek(8)[:8] if isinstance(source, io.BufferedReader) else source.read(8)
    if start.startswith(b"FEA1"):
        raise InvalidInputError("this is feather of version 1: write it again as version 2 or parquet")
    if not start.startswith(b"ARROW1"):
        if not isinstance(source, io.BufferedReader):
            source.seek(0)
        reader = held.enter_context(pa.ipc.open_stream(source))
        return Opened(reader.schema, _sliced(reader), _share(file, source))
    opened = held.enter_context(pa.ipc.open_file(_whole(file, ask, held, source)))
    total, done = opened.num_record_batches, 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal done
        for number in range(total):
            done = number
            yield from _sliced([opened.get_batch(number)])

    return Opened(opened.schema, batches(), lambda: done / total if total else 1.0)


def _separated(file: File, ask: Ask, held: ExitStack) -> Opened:
    source = _bytes(file, ask, held)
    reader = held.enter_context(
        _csv.open_csv(
            _decompressed(source, file, held),
            _csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),  # with threads, errors do not know their row
            _csv.ParseOptions(delimiter="\t" if file.format is Format.TSV else ",", newlines_in_values=True),
            _csv.ConvertOptions(
                column_types=csv_types(ask.wanted) if ask.wanted is not None else None,
                null_values=list(ask.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    )
    if ask.wanted is None:
        return Opened(reader.schema, iter(reader), _share(file, source))
    batches = (understood(batch, ask.wanted, cells=True) for batch in reader)
    return Opened(reader.schema, batches, _share(file, source))


def _lines(file: File, ask: Ask, held: ExitStack) -> Opened:
    source = _bytes(file, ask, held)
    blocks = line_blocks(_decompressed(source, file, held))
    first = next(blocks, None)
    if first is None:
        raise InvalidInputError("there is no row in it")
    if first[1].lstrip().startswith(b"["):
        raise InvalidInputError("this is one JSON array: put one object on each line, for example with `jq -c '.[]'`")
    begun = parse_lines(*first, None if ask.wanted is None else json_schema(ask.wanted))
    schema = begun.schema if ask.wanted is None else json_schema(ask.wanted)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from begun.to_batches()
        for number, block in blocks:
            yield from parse_lines(number, block, schema).to_batches()

    if ask.wanted is None:
        return Opened(schema, batches(), _share(file, source))
    wanted = ask.wanted
    return Opened(schema, (understood(batch, wanted, cells=False) for batch in batches()), _share(file, source))


def _bytes(file: File, ask: Ask, held: ExitStack) -> Any:  # noqa: ANN401 - a file of Python or of Arrow
    """The file's bytes, once, from the beginning."""
    if file.path != STDIN and Path(file.path).is_file():
        if not file.size:
            raise InvalidInputError("the file is empty")
        return held.enter_context(_arrow.OSFile(file.path))
    pipe = sys.stdin if file.path == STDIN else held.enter_context(Path(file.path).open("rb", 0))  # noqa: SIM115 - held
    return held.enter_context(io.BufferedReader(Pipe(pipe.fileno(), ask.stopping), 1 << 20))


def _whole(file: File, ask: Ask, held: ExitStack, source: Any = None) -> Any:  # noqa: ANN401 - as above
    """The file, for formats that have to be read from the end; a pipe is kept on disk meanwhile."""
    source = source or _bytes(file, ask, held)
    if not isinstance(source, io.BufferedReader):
        return source
    kept = held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - held until the file is read
    shutil.copyfileobj(source, kept, 1 << 20)
    kept.seek(0)
    return kept


def _decompressed(source: Any, file: File, held: ExitStack) -> Any:  # noqa: ANN401 - as above
    if file.compression is None:
        return source
    return held.enter_context(_arrow.CompressedInputStream(source, file.compression))


def _share(file: File, source: Any) -> Callable[[], float | None]:  # noqa: ANN401 - as above
    size = file.size

    def share() -> float | None:
        try:
            return min(1.0, source.tell() / size) if size else None
        except (OSError, ValueError):  # it was closed meanwhile
            return None

    return share


def _sliced(batches: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - anything that gives batches
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


_OPENERS: Mapping[Format, Callable[[File, Ask, ExitStack], Opened]] = {
    Format.PARQUET: _parquet,
    Format.CSV: _separated,
    Format.TSV: _separated,
    Format.JSON: _lines,
    Format.ARROW: _ipc,
}
