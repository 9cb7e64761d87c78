"""Planned expressions that run: on rows in memory, by kernels if they can, by one query of DataFusion if not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from datafusion import Expr
from pyarrow import compute as pc
from pyarrow import types

from phalanx.errors import InternalError, InvalidInputError
from phalanx.expr import engine, kernels
from phalanx.expr.kernels import Kernel

Rows = pa.Table | pa.RecordBatch
_COALESCE, _IF_ELSE = pc.get_function("coalesce"), pc.get_function("if_else")
_FALSE = pa.scalar(False)  # noqa: FBT003 — pyarrow's own signature.


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One expression, ready to run; its values are of one type."""

    sql: str
    type: pa.DataType
    columns: tuple[tuple[str, pa.DataType], ...]
    """What it reads, with the types it was planned for."""
    obstacle: str | None
    expression: Expr
    kernel: Kernel | None
    computes_floats: bool

    def run(self, rows: Rows) -> Any:  # noqa: ANN401 — an array of this type.
        """The values, one a row."""
        kernel = self.kernel
        if kernel is None:
            return evaluate([self], rows)[0]
        return _as_array(kernel({name: _column(rows, name, kind) for name, kind in self.columns}), rows.num_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """A condition on rows; null counts as false."""

    sql: str
    columns: tuple[str, ...]
    """The top-level columns that are needed to evaluate it."""
    obstacle: str | None
    """Why it may not be logged, or None if it may."""
    lance: str | None
    """The same condition for Lance's scanner, which may refuse it; None if only `mask` can tell."""
    _program: Program = field(repr=False)

    @property
    def loggable(self) -> bool:
        """Whether it cannot fail on any row and means the same to every reader."""
        return self.obstacle is None

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Which rows it holds for: one value a row, never null."""
        found: Any = self._program.run(rows)
        whole: pa.BooleanArray = _COALESCE.call([found, _FALSE]) if found.null_count else found
        return whole


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """New values of columns; all right-hand sides see the old row."""

    sql: dict[str, str]
    """The expression of each column that is assigned to: what is logged."""
    columns: tuple[str, ...]
    """The top-level columns that are needed to evaluate it."""
    obstacle: str | None
    """Why it may not be logged, or None if it may."""
    _programs: "tuple[tuple[pa.Field[Any], Program], ...]" = field(repr=False)

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that are assigned to."""
        return tuple(self.sql)

    @property
    def loggable(self) -> bool:
        """Whether it cannot fail on any row and means the same to every reader."""
        return self.obstacle is None

    def apply(self, rows: pa.Table, mask: pa.BooleanArray | None = None) -> pa.Table:
        """The rows with new values in all rows, or in those of the mask; types are those of the schema."""
        if mask is not None and not mask.true_count:
            return rows
        slow = [one for _, one in self._programs if one.kernel is None]
        found = dict(zip(map(id, slow), _evaluate_where(slow, rows, mask), strict=True)) if slow else {}
        new = [(target, _merged(target, one, rows, mask, found.get(id(one)))) for target, one in self._programs]
        for target, values in new:
            rows = rows.set_column(rows.schema.get_field_index(target.name), target, values)
        return rows


def _evaluate_where(programs: Sequence[Program], rows: pa.Table, mask: pa.BooleanArray | None) -> list[Any]:
    """What may fail is evaluated on the rows of the mask only."""
    if mask is None:
        return evaluate(programs, rows)
    names = sorted({name for one in programs for name, _ in one.columns}) or rows.schema.names[:1]
    return evaluate(programs, rows.select(names).filter(mask))


def _merged(target: Any, program: Program, rows: pa.Table, mask: Any, found: Any) -> Any:  # noqa: ANN401
    """The target's new column: values of the rows in the mask, old values elsewhere."""
    values = program.run(rows) if found is None else found
    if program.computes_floats and types.is_floating(values.type):
        values = _one_nan(values)
    everywhere = mask is None or mask.true_count == len(mask)
    if not target.nullable and values.null_count:
        absent = values.is_null() if found is not None or everywhere else pc.and_(values.is_null(), mask)
        if absent.true_count:
            raise InvalidInputError(f"{program.sql!r} is null for a row, and {target.name} must not be null")
    if everywhere:
        return values
    old = _column(rows, target.name, target.type)
    if found is None and kernels.simple(target.type):
        return _IF_ELSE.call([mask, values, old])
    return _woven(old, values.filter(mask) if found is None else values, mask)


def _woven(old: Any, new: Any, mask: Any) -> Any:  # noqa: ANN401
    """The old values, with the new ones in turn where the mask is true; for types that have no kernel for it."""
    kind = old.type
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_woven(old.storage, new.storage, mask))
    # Dictionaries cannot be joined if they differ, and views not be taken from: both go through plain values.
    plain = next((target(kind) for check, target in _PLAIN if check(kind)), kind)
    places = np.arange(len(old))
    places[np.asarray(mask)] = np.arange(len(old), len(old) + len(new))
    woven = pa.concat_arrays([old.cast(plain), new.cast(plain)] if plain != kind else [old, new]).take(pa.array(places))
    return woven.cast(kind) if plain != kind else woven


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (types.is_dictionary, lambda kind: kind.value_type),
    (types.is_string_view, lambda _: pa.large_string()),
    (types.is_binary_view, lambda _: pa.large_binary()),
)


def _one_nan(values: Any) -> Any:  # noqa: ANN401
    """A NaN that was computed has the sign that the processor likes: all are stored as one."""
    odd = pc.is_nan(values)
    return _IF_ELSE.call([odd, pa.scalar(float("nan"), values.type), values]) if odd.true_count else values


def evaluate(programs: Sequence[Program], rows: Rows) -> list[Any]:
    """The values of expressions by one query of DataFusion."""
    read = dict(one for program in programs for one in program.columns)
    # A constant needs some column to have as many values as there are rows.
    kinds = read or {rows.schema.names[0]: rows.schema.field(0).type}
    arrays = [_column(rows, name, kind) for name, kind in kinds.items()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
    certain = all(one.obstacle is None for one in programs)
    try:
        with engine.refused(", ".join(one.sql for one in programs), list(kinds), "fails on a row"):
            found = engine.evaluate([one.expression for one in programs], batch, judged=certain)
        return [_of_type(one.type, value) for one, value in zip(programs, found, strict=True)]
    except InvalidInputError as error:
        if certain:
            raise InternalError(f"{error}, although it was judged as one that cannot fail") from error
        raise


def _of_type(kind: pa.DataType, values: Any) -> Any:  # noqa: ANN401
    """DataFusion returns what an extension type is stored as."""
    return kind.wrap_array(values) if isinstance(kind, pa.BaseExtensionType) else values


def _column(rows: Rows, name: str, kind: pa.DataType) -> Any:  # noqa: ANN401
    found: Any = rows.column(name)
    if found.type != kind:
        raise InvalidInputError(f"{name} is of type {found.type} in these rows, and was planned as {kind}")
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    return found


def _as_array(found: Any, length: int) -> Any:  # noqa: ANN401
    if not isinstance(found, pa.Scalar):
        return found
    value: Any = found
    return pa.repeat(value, length) if value.is_valid else pa.nulls(length, value.type)
