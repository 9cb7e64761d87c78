"""Columns as users change them: one statement each, or several in a transaction.

The change is one entry in the log; rows are converted as they are read, and written anew by the flush that follows. Open
snapshots keep the columns they had. Writers that have not heard of it go on: their rows are converted like those that
were there, unless a column is gone that they bring.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from phalanx.errors import InvalidInputError
from phalanx.expr.text import spelled
from phalanx.log import item as it
from phalanx.tail.columns import one_field


class Alterable(ABC):
    """A table whose columns can be changed."""

    @abstractmethod
    def _alter(self, steps: Sequence[it.Step], timeout: float | None) -> int | None: ...

    def add_column(
        self,
        name: str,
        type: pa.DataType | None = None,  # noqa: A002 - what users call it
        *,
        default: Any = None,  # noqa: ANN401 - a value of that type
        expression: str | None = None,
        nullable: bool = True,
        timeout: float | None = None,
    ) -> int | None:
        """Add a column, the last one; rows that are there get the default, or the value of an expression, or null.

        The default is for the rows that are there: later ones bring their own value, or null.
        """
        if default is not None and expression is not None:
            raise InvalidInputError("give a default or an expression: rows get one value")
        if default is None and type is None:
            raise InvalidInputError("give the column's type, for example pyarrow.int64()")
        kind = pa.scalar(default).type if type is None else type
        value = expression if default is None else _spelled(default, kind)
        return self._alter([it.AddColumn(one_field(pa.field(name, kind, nullable)), value)], timeout)

    def drop_column(self, name: str, *, timeout: float | None = None) -> int | None:
        """Drop a column; snapshots of earlier versions still have it."""
        return self._alter([it.DropColumn(name)], timeout)

    def rename_column(self, name: str, to: str, *, timeout: float | None = None) -> int | None:
        """Give a column another name."""
        return self._alter([it.RenameColumn(name, to)], timeout)

    def widen_column(self, name: str, type: pa.DataType, *, timeout: float | None = None) -> int | None:  # noqa: A002
        """Give a column a type that holds every value it can have now: int32 to int64, float32 to float64, …."""
        return self._alter([it.WidenColumn(name, one_field(pa.field(name, type)))], timeout)

    def order_columns(self, names: Sequence[str], *, timeout: float | None = None) -> int | None:
        """Put the columns in another order; every one must be named."""
        return self._alter([it.OrderColumns(tuple(names))], timeout)

    def set_nullable(self, name: str, nullable: bool = True, *, timeout: float | None = None) -> int | None:  # noqa: FBT001, FBT002
        """Let a column be null, or no longer: then no row may be null there."""
        return self._alter([it.SetNullable(name, nullable)], timeout)


def _spelled(value: Any, kind: pa.DataType) -> str:  # noqa: ANN401 - a value of that type
    """A value as an expression."""
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{value!r} cannot be the default of a column of type {kind}: {error}") from error
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return spelled(value)
