"""What every table can be asked, and a table at one version of the lake, which can be asked nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx.errors import InvalidInputError
from phalanx.frames import as_polars
from phalanx.pins import Hold
from phalanx.tail.search import Search, Vector
from phalanx.txn.core import Core, Found

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from phalanx.log.item import Index
    from phalanx.tail.overlay import Shape
    from phalanx.tail.read import Reading


class Readable(ABC):
    """What every table can be asked."""

    _core: Core

    @property
    @abstractmethod
    def _shape(self) -> Shape: ...

    @abstractmethod
    def _found(self) -> Found: ...

    @abstractmethod
    def _reading(self) -> Reading: ...

    def _indexes(self) -> tuple[Index, ...]:
        """Those that were declared, as far as is known."""
        return self._found().contents.indexes

    @property
    def name(self) -> str:
        """The table's name."""
        return ".".join(self._found().name)

    @property
    def id(self) -> str:
        """The table's incarnation."""
        return self._shape.table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._found().shape.schema

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that make up the key; empty without one."""
        return self._shape.key

    @property
    def version(self) -> int:
        """How often the table's rows were changed, its creation included."""
        return self._found().contents.version

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, with bounded memory."""
        return self._reading().scan(columns, where, limit, batch_size)

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Rows as an Arrow table."""
        return self._reading().table(columns, where, limit)

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Rows as a pandas frame."""
        return self.to_arrow(columns, where, limit).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """Rows as a polars frame."""
        return as_polars(self.to_arrow(columns, where, limit))

    def count(self, where: str | None = None) -> int:
        """The number of rows, or of those that match."""
        return self._reading().count(where)

    def get(self, key: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a key's value
        """The row of a key (of a tuple, if the key has several columns), or None."""
        return self._reading().get(key)

    def get_many(self, keys: Iterable[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these keys, in no particular order; keys that are absent have none, and each counts once."""
        return self._reading().get_many(keys, columns)

    def search(
        self,
        vector: Vector | None = None,
        *,
        text: str | None = None,
        k: int = 10,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        vector_column: str | None = None,
        text_column: str | None = None,
        metric: str | None = None,
        **options: Any,  # noqa: ANN401 - Lance's own: nprobes, refine_factor, ef, …
    ) -> pa.Table:
        """The k rows nearest to a vector, or whose text matches best, or both (fused by rank), best first.

        Rows that are not flushed or not indexed yet are found too. Full text needs an index; vectors do not. The metric
        is that of the vector index unless it is named, and `l2` without an index.
        """
        reading = self._reading()
        if reading.overlay.converts:
            reading = self._core.overlays.settled(reading)
        search = Search(reading, columns, where, k, self._indexes())
        search.require(vector_column, metric, options)
        if vector is not None and text is None:
            return search.by_vector(vector, vector_column, metric, options)
        if text is None:
            raise InvalidInputError("give a vector to search by, a text, or both")
        version = self._core.overlays.written_out(reading.overlay)
        if vector is None:
            return search.by_text(version, text, text_column)
        return search.by_both(version, vector, text, (vector_column, text_column), metric, options)


class SnapshotTable(Readable):
    """A table at one version of the lake; later commits do not change it."""

    def __init__(self, core: Core, found: Found, held: Hold | None = None) -> None:
        self._core = core
        self._here = found
        self._held = held or core.hold(found.position, of=found)

    @property
    def _shape(self) -> Shape:
        return self._here.shape

    def _found(self) -> Found:
        return self._here

    def _reading(self) -> Reading:
        return self._core.reading(self._here)

    def __repr__(self) -> str:
        return f"<Table {self.name} at version {self._here.position}>"
