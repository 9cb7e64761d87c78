"""Search over head and tail: every row counts by its newest value, and no hidden one is found.

By vector: the head is asked without its hidden rows (so answers are never short), staged rows and rows in memory are
compared one by one, and the nearest of all are the answer; distances are exact where Lance refines them. By text, and by
both: a real Lance version is needed, so head and tail are written out unpublished, once for each state of the table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.expr import Predicate, plan_predicate
from phalanx.log.item import Index
from phalanx.tables.dataset import ROW_ID, Version
from phalanx.tables.index import VECTOR
from phalanx.tail.overlay import Segment
from phalanx.tail.read import Reading, chosen_columns

DISTANCE, SCORE, RELEVANCE = "_distance", "_score", "_relevance_score"
METRICS = ("l2", "cosine", "dot")
_OPTIONS = frozenset({"nprobes", "minimum_nprobes", "maximum_nprobes", "refine_factor", "use_index", "ef"})
"""Those of Lance that say how well a search is done, and not what it finds."""
_RANK = 60
"""What a rank is damped by when two rankings are fused (reciprocal rank fusion)."""
_CANDIDATES = 200
"""Rows of each ranking that are fused at the least: a row that is second in both comes before the first of one."""

_FEW = 64
_SPARE = 4

Vector = Sequence[float] | npt.NDArray[np.floating[Any]]


class Search:
    """One question to one state of a table."""

    def __init__(
        self,
        reading: Reading,
        columns: Sequence[str] | None,
        where: str | None,
        k: object,
        indexes: Sequence[Index] = (),
    ) -> None:
        if not isinstance(k, int) or k < 1:
            raise InvalidInputError(f"k is the number of rows that are wanted: {k!r} is not")
        self._reading = reading
        self._schema = reading.overlay.shape.schema
        self._names = chosen_columns(columns, self._schema)
        self._predicate = None if where is None else plan_predicate(where, self._schema)
        self._k = k
        self._indexes = indexes

    def by_vector(self, vector: Vector, column: str | None, metric: str | None, options: Mapping[str, Any]) -> pa.Table:
        """The k nearest rows, nearest first, with their distance."""
        name = self._vector_column(column)
        metric = self._metric(name, metric)
        query = self._query(vector, name, metric, options)
        segments, held = self._reading.overlay.segments, self._reading.overlay.memory
        parts = [self._near_in(segment, query) for segment in segments]
        if held.count() or not parts:
            parts.append(self._near_in_memory(name, query["q"].to_numpy().astype(np.float64), metric))
        return self._best(parts)

    def _best(self, parts: list[pa.Table]) -> pa.Table:
        """The k nearest of all parts. One part alone is mostly in order already, with just these columns."""
        names = [*self._names, DISTANCE]
        found = parts[0]
        if len(parts) > 1 or found.column_names != names:
            wanted = pa.schema([*(self._schema.field(one) for one in self._names), pa.field(DISTANCE, pa.float32())])
            chosen = [part.select(names) for part in parts]
            found = pa.concat_tables([part if part.schema.equals(wanted) else part.cast(wanted) for part in chosen])
        distances = found.column(DISTANCE).to_numpy()
        if found.num_rows <= self._k and np.count_nonzero(distances[1:] >= distances[:-1]) >= found.num_rows - 1:
            return found
        return found.take(np.argsort(distances, kind="stable")[: self._k])

    def by_text(self, version: Version, text: str, column: str | None) -> pa.Table:
        """The k rows that match best, best first, with their score; `version` is the table written out."""
        name = self._text_column(text, column, version)
        return version.matches(self._names, text, name, self._k, **self._limits(version)).drop_columns([ROW_ID])

    def by_both(
        self,
        version: Version,
        vector: Vector,
        text: str,
        columns: tuple[str | None, str | None],
        metric: str | None,
        options: Mapping[str, Any],
    ) -> pa.Table:
        """The k best rows of both rankings, fused by their ranks."""
        name = self._vector_column(columns[0])
        most = max(2 * self._k, _CANDIDATES)
        query = {**self._query(vector, name, self._metric(name, metric), options), "k": most}
        limits = self._limits(version)
        near = version.nearest([], query, **limits).sort_by([(DISTANCE, "ascending"), (ROW_ID, "ascending")])
        words = version.matches([], text, self._text_column(text, columns[1], version), most, **limits)
        scores: dict[int, float] = {}
        for ranking in (near, words.sort_by([(SCORE, "descending"), (ROW_ID, "ascending")])):
            for rank, row in enumerate(ranking.column(ROW_ID).to_numpy().tolist()):
                scores[row] = scores.get(row, 0.0) + 1.0 / (_RANK + rank + 1)
        best = sorted(scores, key=lambda row: (-scores[row], row))[: self._k]
        rows = version.scan(self._names, only=np.array(sorted(best), dtype=np.int64), row_ids=True).read_all()
        at = {row: place for place, row in enumerate(rows.column(ROW_ID).to_numpy().tolist())}
        found = rows.take(pa.array([at[row] for row in best], pa.int64())).drop_columns([ROW_ID])
        return found.append_column(RELEVANCE, pa.array([scores[row] for row in best], pa.float32()))

    def _metric(self, column: str, metric: str | None) -> str:
        """The metric that is meant: unless one is named that of the column's index, which serves no other."""
        if metric is not None:
            return metric
        built = {str(one.options.get("metric", "l2")).lower() for one in self._indexes if _serves(one, column)}
        return built.pop() if len(built) == 1 and built <= set(METRICS) else "l2"

    def require(self, column: str | None, metric: str | None, options: Mapping[str, Any]) -> None:
        """Refuse what says how vectors are compared and makes no sense, also where none are."""
        if column is not None:
            self._vector_column(column)
        if metric is not None and metric not in METRICS:
            raise InvalidInputError(f"there is no metric {metric!r}; there is: {', '.join(METRICS)}")
        if not options.keys() <= _OPTIONS:
            unknown = min(options.keys() - _OPTIONS)
            raise InvalidInputError(f"a search has no option {unknown!r}; there is: {', '.join(sorted(_OPTIONS))}")

    def _query(self, vector: Vector, column: str, metric: str, options: Mapping[str, Any]) -> dict[str, Any]:
        size = self._schema.field(column).type.list_size
        try:
            given = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError):
            given = np.empty(0, dtype=np.float32)
        if given.shape != (size,) or np.count_nonzero(np.isfinite(given)) < size:
            raise InvalidInputError(f"column {column!r} holds vectors of {size} numbers: give one such vector")
        return {"column": column, "q": pa.array(given), "k": self._k, "metric": metric, "refine_factor": 1, **options}

    def _near_in(self, segment: Segment, query: Mapping[str, Any]) -> pa.Table:
        version = self._reading.version(segment.manifest)
        pushed = None if self._predicate is None else self._pushed(version, self._predicate)
        if segment.is_head and (self._predicate is None or pushed is not None):
            return self._near_in_head(version, segment, query, pushed)
        if self._predicate is None:
            rows = np.setdiff1d(segment.first + np.arange(segment.count, dtype=np.int64), segment.hidden)
        else:
            rows = self._reading.matching(segment, self._predicate)
        return version.nearest(self._names, query, only=rows)

    def _near_in_head(
        self, version: Version, segment: Segment, query: Mapping[str, Any], where: str | None
    ) -> pa.Table:
        """The nearest rows of the head that are not hidden.

        To tell Lance which ones are doubles the time of a search. So a few more are asked for than are wanted, and the
        hidden ones are dropped; only if too few are left it is asked again, and told.
        """
        if not len(segment.hidden):
            return version.nearest(self._names, query, where=where, row_ids=False)
        spare = _SPARE + 3 * self._k * len(segment.hidden) // max(1, version.rows)
        if spare <= self._k + _SPARE:
            found = version.nearest(self._names, {**query, "k": self._k + spare}, where=where)
            found = found.filter(pa.array(~segment.hides(found.column(ROW_ID).to_numpy())))
            if found.num_rows >= self._k:
                return found
        return version.nearest(self._names, query, where=where, without=segment.hidden)

    def _near_in_memory(self, column: str, query: npt.NDArray[np.float64], metric: str) -> pa.Table:
        held = self._reading.overlay.memory
        only = held.alive
        if self._predicate is not None and held.count():
            only = only.copy()  # what is asked of a row may not make sense of one that is gone
            only[held.alive] = self._predicate.mask(held.living()).to_numpy(zero_copy_only=False)
        nearest, distances = held.vectors(column).nearest(query, metric, self._k, None if only.all() else only)
        found = _few(held.rows.select(self._names), nearest)
        return found.append_column(DISTANCE, pa.array(distances, pa.float32()))

    def _limits(self, version: Version) -> dict[str, Any]:
        if self._predicate is None:
            return {}
        pushed = self._pushed(version, self._predicate)
        if pushed is not None:
            return {"where": pushed}
        return {"only": self._reading.matching(Segment(version.manifest), self._predicate)}

    def _pushed(self, version: Version, predicate: Predicate) -> str | None:
        return predicate.lance if predicate.lance is not None and version.plans(predicate.lance) else None

    def _vector_column(self, column: str | None) -> str:
        return _chosen(column, [one.name for one in self._schema if _is_vector(one.type)], "vectors")

    def _text_column(self, text: object, column: str | None, version: Version) -> str:
        if not isinstance(text, str):
            raise InvalidInputError(f"a text is searched by its words: {text!r} is no text")
        fitting = [one.name for one in self._schema if types.is_string(one.type) or types.is_large_string(one.type)]
        indexed = [name for name in fitting if name in version.searchable]
        chosen = _chosen(column, indexed if column is None else fitting, "text")
        if chosen not in indexed:
            raise InvalidInputError(
                f"column {chosen!r} has no full-text index: create_index({chosen!r}, 'inverted') first"
            )
        return chosen


def _serves(index: Index, column: str) -> bool:
    return index.column == column and index.kind in VECTOR


def _few(rows: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """Rows by their places. To take some from a table in pieces puts all of it together first."""
    if len(places) > _FEW or not len(places):
        return rows.take(places)
    return pa.concat_tables([rows.slice(place, 1) for place in places.tolist()])


def _is_vector(kind: Any) -> bool:  # noqa: ANN401 - a type
    return types.is_fixed_size_list(kind) and types.is_floating(kind.value_type)


def _chosen(column: str | None, fitting: list[str], what: str) -> str:
    if column is None and len(fitting) == 1:
        return fitting[0]
    if column in fitting:
        return str(column)
    if column is None and not fitting:
        first = (
            " with a full-text index: create_index(column, 'inverted') makes one" if what == "text" else " to search"
        )
        raise InvalidInputError(f"there is no column of {what}{first}")
    asked = "name the column to search" if column is None else f"column {column!r} cannot be searched"
    raise InvalidInputError(f"{asked}: columns of {what} (indexed, for full text) are {', '.join(fitting) or 'none'}")
