"""What each process does: a few small operations, one after the other, timed one by one.

Imports no more than it needs, because every measuring process imports it.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec

from bench.systems.port import SYSTEMS, Address, Client, Kind, numbered, prefilled
from bench.workers import Work

ROWS = 10
"""Rows of an append."""
APPENDED = 1_000_000_000
"""Ids of appended rows begin here."""
_WARM_ROWS = 100
_SHORTEST, _LONGEST = 0.01, 1.0
"""Seconds between two tries of a caller, at the most: doubled with each, and a random part of it."""


class Operation(msgspec.Struct, frozen=True):
    """One small operation: on the row of this id, or of rows from this id on."""

    kind: Kind
    number: int


class Outcome(msgspec.Struct, frozen=True):
    """How it went: `seconds` from the first try to the end of the last, `ended` by the clock of all processes."""

    operation: Operation
    tries: int
    seconds: float
    ended: float
    error: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What a process did, and the processor time that it took, in all of its threads: it does not depend on neighbours."""

    outcomes: list[Outcome]
    cpu: float


class Job(msgspec.Struct, frozen=True):
    """What one process is told; `scratch` is a table of its own, where it does everything once before it counts."""

    system: str
    address: Address
    scratch: Address
    operations: list[Operation]
    cap: float


def operations(kinds: Sequence[Kind], count: int, rows: int) -> list[list[Operation]]:
    """The operations of each process: on ids of its own, so that nobody has to wait for anybody by what is asked."""
    own = rows // len(kinds)
    found = []
    for process, kind in enumerate(kinds):
        first = process * own
        numbers = {
            "append": [APPENDED + (process * count + at) * ROWS for at in range(count)],
            "delete": [first + at for at in range(count)],
            "update": [first + at % 3 for at in range(count)],  # some twice: a lost update can be told
        }
        found.append([Operation(kind, number) for number in numbers[kind]])
    return found


@contextmanager
def changing(job: Job) -> Iterator[Work[Answer]]:
    """The order for a process: open the table, do what it will do once on another one, then begin with the others."""
    system = SYSTEMS[job.system]
    module = system.load()
    _warm(job)
    with closing(module.connect(job.address)) as client:

        def work(begin: float) -> Answer:
            end = begin + job.cap
            before = time.process_time()
            found: list[Outcome] = []
            for operation in job.operations:
                if time.monotonic() > end:
                    break
                found.append(_operate(client, operation, end, again=system.tries_again))
            return Answer(found, time.process_time() - before)

        yield work


def _warm(job: Job) -> None:
    """Whatever is slow only once in a process's life is not what is asked."""
    module = SYSTEMS[job.system].load()
    module.fill(job.scratch, prefilled(_WARM_ROWS))
    with closing(module.connect(job.scratch)) as client:
        for number, kind in enumerate(sorted({operation.kind for operation in job.operations})):
            perform(client, Operation(kind, number))
            perform(client, Operation(kind, number + 10))


def _operate(client: Client, operation: Operation, end: float, *, again: bool) -> Outcome:
    """Until it succeeds, or nobody would wait for it any longer."""
    began = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            if tries > 1:
                client.renew()
            perform(client, operation)
        except Exception as failure:  # noqa: BLE001 - each system has its own, and all of them mean: it did not happen
            error: str | None = f"{type(failure).__name__}: {failure}"
        else:
            error = None
        now = time.monotonic()
        if error is None or not again or now > end:
            return Outcome(operation, tries, now - began, now, error)
        time.sleep(random.random() * min(_SHORTEST * 2**tries, _LONGEST))


def perform(client: Client, operation: Operation) -> None:
    """Do it once."""
    if operation.kind == "append":
        client.append(numbered(operation.number, ROWS))
    elif operation.kind == "delete":
        client.delete(operation.number)
    else:
        client.update(operation.number)
