"""The option `--spark`: maintenance whose work tasks of Spark do, at a master that is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.errors import UnsupportedError
from phalanx.lake import Lake

if TYPE_CHECKING:
    from phalanx.spark.lake import SparkLake

SparkOption = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Let tasks of Spark do the work; local[*] is this machine."),
]


@contextmanager
def tasks_of(lake: Lake, master: str) -> Iterator["SparkLake"]:
    """A lake with a session of Spark of its own, which ends with the work."""
    try:
        from phalanx.spark import on, session  # noqa: PLC0415 - Spark takes time to load, and few ask
    except ImportError as error:
        raise UnsupportedError(str(error)) from None
    spark = session(master)
    try:
        yield on(lake, spark)
    finally:
        spark.stop()
