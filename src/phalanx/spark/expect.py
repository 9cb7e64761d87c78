"""What the rows of a step must be like, checked before anything of the run is published.

The rows that a step has staged are looked at, not computed again: all that it made, also those that a table with a key does
not keep, because another one of the same key comes later. One query answers all conditions; a failed one is named
with how many rows break it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from phalanx.errors import InvalidInputError

_MANY = "_phalanx_many"


class Expectation(msgspec.Struct, frozen=True):
    """Something that is declared of a step's rows."""


class Rows(Expectation, frozen=True):
    """So many rows, at the least and at the most."""

    least: int = 0
    most: int | None = None


class NotNull(Expectation, frozen=True):
    """Columns that have a value in every row."""

    columns: tuple[str, ...]


class Unique(Expectation, frozen=True):
    """Columns that together have different values in every row."""

    columns: tuple[str, ...]


class Holds(Expectation, frozen=True):
    """A condition, in Spark SQL, that is true of every row."""

    condition: str


class Custom(Expectation, frozen=True):
    """A function of the rows that says what is wrong with them, or returns nothing."""

    check: Callable[[DataFrame], str | None]


def rows(at_least: int = 0, at_most: int | None = None) -> Rows:
    """Expect so many rows."""
    return Rows(at_least, at_most)


def not_null(*columns: str) -> NotNull:
    """Expect a value in these columns of every row."""
    return NotNull(columns)


def unique(*columns: str) -> Unique:
    """Expect no two rows with the same values in these columns."""
    return Unique(columns)


def holds(condition: str) -> Holds:
    """Expect a condition of Spark SQL to be true of every row."""
    return Holds(condition)


def custom(check: Callable[[DataFrame], str | None]) -> Custom:
    """Expect whatever a function checks: it returns what is wrong, or None."""
    return Custom(check)


def broken(expected: Sequence[Expectation], count: int, made: Callable[[], DataFrame]) -> list[str]:
    """What is wrong with the rows of a step, of which there are `count`; they are read only if need be."""
    found = [said for one in expected if isinstance(one, Rows) for said in _rows(one, count)]
    counted = {text: column for one in expected for text, column in _counted(one)}
    others = [one for one in expected if isinstance(one, Unique | Custom)]
    if not (counted or others):
        return found
    frame = made()
    if counted and count:
        columns = [f.sum(f.when(column, 1).otherwise(0)).alias(f"n{at}") for at, column in enumerate(counted.values())]
        answer: Any = frame.agg(*columns).first()
        found += [f"{text} in {many:,} of {count:,} rows" for text, many in zip(counted, answer, strict=True) if many]
    return found + [said for one in others for said in _looked_at(one, frame)]


def _rows(one: Rows, count: int) -> Iterator[str]:
    if count < one.least:
        yield f"there are {count:,} rows, and at least {one.least:,} are expected"
    if one.most is not None and count > one.most:
        yield f"there are {count:,} rows, and at most {one.most:,} are expected"


def _counted(one: Expectation) -> Iterator[tuple[str, Column]]:
    """The conditions that a row must not meet, with words for them."""
    if isinstance(one, NotNull):
        for name in one.columns:
            yield f"column {name!r} is null", f.col(name).isNull()
    if isinstance(one, Holds):
        yield f"{one.condition!r} does not hold", ~f.coalesce(f.expr(one.condition), f.lit(False))  # noqa: FBT003


def _looked_at(one: Expectation, frame: DataFrame) -> Iterator[str]:
    if isinstance(one, Unique):
        many = f.count(f.lit(1)).alias(_MANY)  # a column may be called count
        twice = frame.groupBy(*one.columns).agg(many).where(f.col(_MANY) > 1).first()
        if twice is not None:
            shown = ", ".join(f"{name} = {twice[name]!r}" for name in one.columns)
            yield f"({shown}) is there {twice[_MANY]} times, and is expected once"
    if isinstance(one, Custom):
        said = one.check(frame)
        if said is not None and not isinstance(said, str):
            raise InvalidInputError("a check of a pipeline returns what is wrong as text, or None")
        if said:
            yield said
