"""`load --follow`: JSON lines from standard input for as long as they come, each acknowledged by itself.

A line that is wrong fails alone, and the stream goes on; what is nobody's fault (storage, a table that was dropped) stops
it, because the lines after it would be lost. Only so many lines are on their way: then standard input is left waiting.
"""

import signal
import sys
from collections import deque
from collections.abc import Callable
from itertools import groupby

import msgspec
import typer

from phalanx.cli.lines import line_blocks
from phalanx.cli.output import counted, exit_code, opened, plain, print_json, show
from phalanx.cli.progress import progress
from phalanx.cli.single import Line, Singly
from phalanx.cli.stopping import Pipe, StoppedError, Stopping
from phalanx.errors import InvalidInputError, PhalanxError, UnavailableError
from phalanx.log.ack import Ack
from phalanx.writer import Writer

READ = 256 << 10
"""Bytes that are read at a time, if they are there."""
MOST_BYTES = 8 << 20
"""Text of lines on their way; beyond, standard input waits."""


class Batch(msgspec.Struct, frozen=True):
    """Lines that landed together."""

    version: int
    rows: int
    lines: tuple[int, int]


class Outcome(msgspec.Struct, frozen=True):
    """What became of all lines."""

    table: str
    acknowledged: int
    failed: int
    version: int | None


class _StrictError(Exception):
    """A line was wrong, and it was asked for to stop there."""


class Following:
    """Lines on their way into a table; `rows` is the number of those that are acknowledged."""

    def __init__(
        self, writer: Writer, singly: Singly, *, strict: bool, as_json: bool, learn: Callable[[], Singly] | None = None
    ) -> None:
        self._writer = writer
        self._singly = singly
        self._learn = learn
        """What makes rows by the columns that the table has by now."""
        self._outdated = False
        self._strict = strict
        self._as_json = as_json
        self._sent: deque[tuple[list[tuple[int, Ack]], int]] = deque()
        self._bytes = 0
        self.file = "standard input"
        self.rows = 0
        self.failed = 0
        self.version: int | None = None
        self.error: PhalanxError | None = None

    def share(self) -> float | None:
        """Nobody knows."""
        return None

    def read(self, stopping: Stopping) -> None:
        """Take lines until there are no more, or somebody stops it; then wait for those that were taken."""
        try:
            for number, block in line_blocks(Pipe(sys.stdin.fileno(), stopping, self._tell), READ):
                self._send(number, block)
                self._tell()
        except (StoppedError, _StrictError):
            pass
        except PhalanxError as error:  # a line that is too long to be one
            self._fail(error)
        except OSError as error:
            self._fail(UnavailableError(f"standard input cannot be read: {error}"))
        while self._sent:
            self._hear()

    def _send(self, number: int, block: bytes) -> None:
        acks: list[tuple[int, Ack]] = []
        self._sent.append((acks, len(block)))
        self._bytes += len(block)
        for line in self._lines(number, block):
            if line.row is not None:
                acks.append((line.number, self._writer.append(line.row)))
            else:
                self._refuse(line)
        while self._bytes > MOST_BYTES:
            self._hear()

    def _lines(self, number: int, block: bytes) -> list[Line]:
        """The lines of a block. If one was refused, the table's columns may have changed: they are learned once."""
        lines = [] if self._outdated else list(self._singly.lines(number, block))
        if self._learn is not None and (self._outdated or any(line.row is None for line in lines)):
            self._singly, self._outdated = self._learn(), False
            return list(self._singly.lines(number, block))
        return lines

    def _refuse(self, line: Line) -> None:
        self.failed += 1
        self._fail(line.error or InvalidInputError(f"line {line.number} is no row"))
        if self._strict:
            raise _StrictError

    def _tell(self) -> None:
        """Hear what is known by now of the lines on their way, oldest first; stop where going on would lose lines."""
        while self._sent and all(ack.done() for _, ack in self._sent[0][0]):
            self._hear()
        if self.error is not None and (self._strict or not isinstance(self.error, InvalidInputError)):
            raise _StrictError

    def _hear(self) -> None:
        """Wait for the oldest lines on their way."""
        acks, size = self._sent.popleft()
        self._bytes -= size
        for outcome, run in groupby(((number, _outcome(ack)) for number, ack in acks), key=lambda one: one[1]):
            numbers = [number for number, _ in run]
            if isinstance(outcome, int):
                self._landed(Batch(outcome, len(numbers), (numbers[0], numbers[-1])))
            else:
                self.failed += len(numbers)
                self._outdated = self._learn is not None
                lines = f"line {numbers[0]}" if len(numbers) == 1 else f"lines {numbers[0]} to {numbers[-1]}"
                self._fail(outcome[0](f"{lines}: {outcome[1]}"))

    def _landed(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.version = batch.version
        if self._as_json:
            print_json(batch)

    def _fail(self, error: PhalanxError) -> None:
        typer.echo(f"phalanx: {plain(error)}", err=True)
        if self.error is None or isinstance(self.error, InvalidInputError):
            self.error = error


def follow(uri: str, table: str, options: list[str] | None, *, upsert: bool, strict: bool, as_json: bool) -> None:
    """Write the lines of standard input into a table until they end, or until Ctrl-C."""
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed, and the lines to follow come from there: pipe them in")
    stopping = Stopping("lines that were not acknowledged may be missing", (signal.SIGINT, signal.SIGTERM))
    with stopping, opened(uri, options) as lake, lake.writer(table) as writer:
        target = lake[table]
        if upsert and not target.key:
            raise InvalidInputError("upsert needs a key, and this table has none: use append")

        def learn() -> Singly:
            return Singly(target.schema, target.key)

        following = Following(writer, learn(), strict=strict, as_json=as_json, learn=learn)
        with progress(following, stopping):
            following.read(stopping)
    outcome = Outcome(table, following.rows, following.failed, following.version)
    show(outcome, as_json, lambda: plain(_said(outcome)))
    if stopping.asked:
        raise typer.Exit(stopping.code)
    if following.error is not None:
        raise typer.Exit(exit_code(following.error))


def _outcome(ack: Ack) -> int | tuple[type[PhalanxError], str]:
    try:
        return ack.result()
    except PhalanxError as error:
        return type(error), str(error)


def _said(outcome: Outcome) -> str:
    at = "" if outcome.version is None else f" (version {outcome.version})"
    failed = f"; {counted(outcome.failed, 'line')} failed" if outcome.failed else ""
    return f"acknowledged {counted(outcome.acknowledged, 'row')} into {outcome.table}{at}{failed}"
