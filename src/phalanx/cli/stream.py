"""Many files as one stream of rows, so that all of them land in one commit, or none.

Lance reads the stream in threads of its own and turns what is raised there into a text; so the stream remembers what went
wrong (`trouble`), and whoever started the write asks it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec
import pyarrow as pa
from pyarrow import types

from phalanx.cli.files import File
from phalanx.cli.reading import Ask, Opened, open_file, telling
from phalanx.cli.stopping import StoppedError
from phalanx.data import Source, conform
from phalanx.errors import InvalidInputError, PhalanxError


class Stream:
    """The rows of some files, to be read once; `rows` and `file` say how far it is."""

    def __init__(self, files: Sequence[File], ask: Ask) -> None:
        self._files = files
        self._ask = ask
        self._sizes = [file.size for file in files]
        self._first = ExitStack()
        self._opened: Opened | None = None
        self._number = 0
        self.rows = 0
        self.trouble: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._first.close()

    def schema(self) -> pa.Schema:
        """The columns of the first file, for a table that is yet to be made."""
        with telling(self._files[0], self._ask.stopping):
            self._opened = open_file(self._files[0], self._ask, self._first)
        unknown = [field.name for field in self._opened.schema if types.is_null(field.type)]
        if unknown:
            raise InvalidInputError(
                f"{self._files[0].name}: column {unknown[0]!r} has no value, so that its type is not known: "
                "create the table with `phalanx create --schema`"
            )
        return self._opened.schema

    def reader(self, schema: pa.Schema) -> pa.RecordBatchReader:
        """All rows, with exactly these columns."""
        return pa.RecordBatchReader.from_batches(schema, self._remembering(schema))

    @property
    def file(self) -> str:
        """The file that is being read."""
        return self._files[min(self._number, len(self._files) - 1)].name

    def share(self) -> float | None:
        """Which share of all files is done; None where nobody knows."""
        total = sum(self._sizes)
        if not all(self._sizes):
            return None
        now = self._opened.share() if self._opened is not None else 0.0
        current = self._sizes[self._number] if self._number < len(self._sizes) else 0
        return (sum(self._sizes[: self._number]) + (now or 0.0) * current) / total

    def _remembering(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches(schema)
        except Exception as error:
            self.trouble = error
            raise
        self._ask.stopping.landing = True

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        ask = msgspec.structs.replace(self._ask, wanted=schema)
        for number, file in enumerate(self._files):
            self._number = number
            with ExitStack() as held, telling(file, ask.stopping):
                begun = self._opened if number == 0 else None
                self._opened = opened = begun or open_file(file, ask, held)
                _require_distinct(opened.schema)
                for batch in opened.batches:
                    self._ask.stopping.check()
                    yield from conform(Source(batch.schema, iter([batch])), schema).batches
                    self.rows += batch.num_rows
        self._number = len(self._files)


def _require_distinct(schema: pa.Schema) -> None:
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"column {twice!r} is there twice: give each column its own name")


def blame(error: BaseException, stream: Stream) -> BaseException:
    """What to tell: what went wrong in the files, if anything did; Ctrl-C as such."""
    found = stream.trouble or error
    if isinstance(found, StoppedError):
        return KeyboardInterrupt()
    if isinstance(found, PhalanxError) and found is stream.trouble:
        return type(found)(f"{found}; nothing was loaded")
    return found
