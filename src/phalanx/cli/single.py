"""JSON lines, each for itself: a block is parsed as a whole, and if that fails, its bad lines are found by halving."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from phalanx.cli.lines import parse_lines
from phalanx.cli.textual import json_schema, plain_error, to_values, understood
from phalanx.data import Source, conform
from phalanx.errors import InvalidInputError
from phalanx.schema import require_keys

_Lines = Sequence[tuple[int, bytes]]


class Line(msgspec.Struct, frozen=True):
    """A line by its number: its row, or what is wrong with it."""

    number: int
    row: dict[str, Any] | None
    error: InvalidInputError | None = None


class Singly:
    """Makes rows of a table out of lines."""

    def __init__(self, schema: pa.Schema, key: tuple[str, ...]) -> None:
        self._schema = schema
        self._key = key
        self._asked = json_schema(schema)

    def lines(self, number: int, block: bytes) -> Iterator[Line]:
        """The lines of a block, in their order, blank ones left out; `number` is that of the first."""
        found = [(number + at, line) for at, line in enumerate(block.split(b"\n")) if line.strip()]
        return self._some(found)

    def _some(self, lines: _Lines) -> Iterator[Line]:
        if not lines:
            return
        try:
            rows = self._rows(lines)
        except (InvalidInputError, pa.ArrowException, ValueError) as error:
            if len(lines) == 1:
                yield Line(lines[0][0], None, _named(lines[0][0], error))
                return
            middle = len(lines) // 2
            yield from self._some(lines[:middle])
            yield from self._some(lines[middle:])
        else:
            yield from (Line(number, row) for (number, _), row in zip(lines, rows, strict=True))

    def _rows(self, lines: _Lines) -> list[dict[str, Any]]:
        parsed = parse_lines(lines[0][0], b"\n".join(line for _, line in lines), self._asked)
        if parsed.num_rows != len(lines):
            raise InvalidInputError("there is more than one object on it: put one on each line")
        batch = parsed.combine_chunks().to_batches()[0]
        batch = understood(batch, self._schema, cells=False)
        rows = conform(Source(batch.schema, iter([batch])), self._schema).table()
        require_keys(rows, self._key)
        return to_values(rows.combine_chunks().to_batches()[0])


def _named(number: int, error: Exception) -> InvalidInputError:
    said = plain_error(error).removesuffix(": row 0 is")
    return InvalidInputError(said if said.startswith("line ") else f"line {number}: {said}")
