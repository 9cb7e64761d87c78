"""Rows on their way from the JVM to Python in batches of so many rows, where no row is large.

Spark weighs a batch after every row that it adds, to keep it below a limit of bytes: a third of the time of a write. Where
rows are small, a batch of some thousand is small as well. So they are sent unweighed, with a column that breaks the job
off at the first row that is large; then it is run again as Spark runs it by itself. Nothing else that the session does is
concerned: the job has a session of its own, with the same settings but for these.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql import types as t

from phalanx.spark.telling import JOB_ERRORS

ROWS = 8192
MOST_BYTES = 32 << 10
"""Of a row: a batch has a quarter of a gigabyte at the most, and hardly ever a hundredth of that."""
_NO_LIMIT = (1 << 31) - 1
"""What Spark takes for none: then it does not weigh."""
_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_NO_LIMIT),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS),
}
_LARGE = "phalanx: a row is too large to be sent unweighed"
_WIDTHS: tuple[tuple[type[t.DataType], int], ...] = (
    (t.DecimalType, 16),
    (t.TimestampType, 8),
    (t.TimestampNTZType, 8),
    (t.DateType, 4),
    (t.NumericType, 8),
    (t.BooleanType, 1),
)
_NOT_TO_BE_HAD: tuple[type[Exception], ...] = (AttributeError, TypeError, *JOB_ERRORS)
Run = Callable[[DataFrame], list[Row]]
_large: set[str] = set()
"""Tables whose rows were found to be large: not tried again by this process."""


def collected(frame: DataFrame, table: str, run: Run) -> list[Row]:
    """What `run` answers for the rows of a frame that go to a table: unweighed if they can, weighed if they must."""
    swift = None if table in _large else _unweighed(frame)
    if swift is not None:
        try:
            return run(swift)
        except JOB_ERRORS as error:
            if _LARGE not in str(error):
                raise
            _large.add(table)
    return run(frame)


def _unweighed(frame: DataFrame) -> DataFrame | None:
    """The same rows in a session that does not weigh them; None if they cannot be bounded, or it cannot be had."""
    columns = {field.name: f.col(f"`{field.name.replace('`', '``')}`") for field in frame.schema.fields}
    bytes_of = [_bytes(columns[field.name], field.dataType) for field in frame.schema.fields]
    known = [one for one in bytes_of if one is not None]
    if len(known) < len(bytes_of) or not known:
        return None
    size = sum(known[1:], known[0])
    first, *others = columns
    # A condition would be tried where the rows come from, and what columns are computed of would be computed twice.
    checked = f.when(size > MOST_BYTES, f.raise_error(f.lit(_LARGE))).otherwise(columns[first]).alias(first)
    try:
        return _elsewhere(frame.select(checked, *(columns[name] for name in others)))
    except _NOT_TO_BE_HAD:
        return None


def _elsewhere(frame: DataFrame) -> DataFrame:
    """A frame in a copy of its session. Clients of Spark Connect have no Java beside them, and so no such thing."""
    there: Any = frame
    session = there.sparkSession
    copy = session._jsparkSession.cloneSession()  # noqa: SLF001 - Spark has it for itself only, here and below
    for key, value in _SETTINGS.items():
        copy.conf().set(key, value)
    rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(copy, there._jdf.logicalPlan())  # noqa: SLF001
    made: DataFrame = type(there)(rows, session)  # one of its own in Python would be the default of others
    return made


def _bytes(column: Column, kind: t.DataType) -> Column | None:
    """The bytes of a value, or a bound of them; None if that takes a look at its parts."""
    fixed = _width(kind)
    if fixed is not None:
        return f.lit(fixed)
    if isinstance(kind, t.StringType | t.BinaryType):
        return f.coalesce(f.octet_length(column), f.lit(0))
    if isinstance(kind, t.ArrayType) and (width := _width(kind.elementType)) is not None:
        return f.coalesce(f.size(column), f.lit(0)) * width
    return None


def _width(kind: t.DataType) -> int | None:
    """The bytes of every value of a type."""
    if isinstance(kind, t.StructType):
        widths = [_width(field.dataType) for field in kind.fields]
        known = [one for one in widths if one is not None]
        return sum(known) if len(known) == len(widths) else None
    return next((width for of, width in _WIDTHS if isinstance(kind, of)), None)
