"""Rows as frames of other libraries, which users may have or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from phalanx.errors import InvalidInputError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def as_polars(rows: pa.Table) -> pl.DataFrame:
    """Rows as a polars frame."""
    try:
        import polars  # noqa: ICN001, PLC0415 - an optional package
    except ImportError as error:
        raise InvalidInputError("polars is not installed: `pip install polars`, or use to_arrow()") from error
    return cast("pl.DataFrame", polars.from_arrow(rows))
