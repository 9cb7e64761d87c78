"""What is measured, again and again: a small commit, and its bare system calls.

Imports no more than it needs, because every measuring process imports it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.raw import RawFiles
from bench.workers import Step
from phalanx import Lake
from phalanx import open as open_lake
from phalanx.log.action import SetProperty

_DATA = bytes(range(256))
"""As long as the entry of a small commit, nearly."""


def small_commit(lake: Lake, key: str = "bench") -> Callable[[], int]:
    """A function that makes a small commit, another one each time; it conflicts with nothing."""
    numbers = count()
    return lambda: lake.commit([SetProperty(key, str(next(numbers)))])


@contextmanager
def committing(uri: str, options: dict[str, str], number: int) -> Iterator[Step]:
    """The order for a process: open the lake, then make small commits."""
    with open_lake(uri, storage_options=options or None) as lake:
        yield small_commit(lake, f"process-{number}")


@contextmanager
def putting(folder: str, number: int) -> Iterator[Step]:
    """The order for a process: the bare system calls, in a folder that all of them use."""
    with RawFiles(Path(folder), prefix=f"{number}-") as files:
        yield lambda: files.put(_DATA)
