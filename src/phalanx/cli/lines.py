"""JSON lines in blocks: whole lines are parsed together, and a line that cannot be read is found and named."""

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import json

from phalanx.cli.textual import plain_error
from phalanx.errors import InvalidInputError

BLOCK = 8 << 20
LONGEST_LINE = 256 << 20

_json: Any = json
"""The stubs know less than these functions take."""


_NULL = re.compile(rb"^[ \t\r]*null\b", re.MULTILINE)
"""A line that Arrow takes for a row, or dies of if it is the first."""


def line_blocks(source: Any, size: int | None = None) -> Iterator[tuple[int, bytes]]:  # noqa: ANN401 - a file of Python or of Arrow
    """Whole lines, with the number of the first; so many bytes are asked for at a time."""
    number, parts, held = 1, [], 0
    while chunk := source.read(size or BLOCK):
        cut = chunk.rfind(b"\n") + 1
        parts.append(chunk[:cut] if cut else chunk)
        held += len(parts[-1])
        if held > LONGEST_LINE:
            raise InvalidInputError(f"line {number} is longer than {LONGEST_LINE >> 20} MiB: is it one object a line?")
        if cut:
            block = b"".join(parts)
            if block.strip():
                yield number, block
            number += block.count(b"\n")
            parts, held = [chunk[cut:]], len(chunk) - cut
    last = b"".join(parts)
    if last.strip():
        yield number, last


def parse_lines(number: int, block: bytes, schema: pa.Schema | None) -> pa.Table:
    """The rows of some lines, the first of which has this number; fields beyond the schema get a type of their own."""
    try:
        return _parse(block, schema)
    except pa.ArrowException as error:
        raise _blamed(number, block.split(b"\n"), schema, error) from error


def _blamed(number: int, lines: list[bytes], schema: pa.Schema | None, error: pa.ArrowException) -> InvalidInputError:
    """The shortest beginning that cannot be read ends with the line to blame."""
    fits, fails = 0, len(lines)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            _parse(b"\n".join(lines[:middle]), schema)
            fits = middle
        except pa.ArrowException as earlier:
            error, fails = earlier, middle
    said = re.sub(r" in row \d+$", "", plain_error(error).removeprefix("JSON parse error: ").rstrip("."))
    line = lines[fails - 1].decode(errors="replace")[:80]
    return InvalidInputError(f"line {number + fails - 1} cannot be read: {said}: {line}")


def _parse(block: bytes, schema: pa.Schema | None) -> pa.Table:
    if not block.strip():
        return pa.table({})
    try:
        block.decode()
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"this is not UTF-8: {error.reason}") from error
    if _NULL.search(block):
        raise pa.ArrowInvalid("null is not a row: put one object on each line")
    options = _json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    found: pa.Table = _json.read_json(
        io.BytesIO(block), _json.ReadOptions(block_size=len(block) + 1, use_threads=False), options
    )
    return found
