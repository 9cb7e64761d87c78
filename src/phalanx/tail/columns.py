"""Columns that change: what an alteration makes of a schema, and of rows that were written before it (rule C7).

An alteration is an item like any other: rows on disk keep their columns until a flush writes the next head. Until then
a `Conversion` turns them into what they have become, column by column: whoever reads two columns converts two.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.expr import plan_assignments
from phalanx.log import item as it
from phalanx.schema import check_schema, decode_schema, encode_schema

Steps = tuple[it.Step, ...]


def altered(schema: pa.Schema, key: tuple[str, ...], steps: Sequence[it.Step]) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns and the key after some steps; `InvalidInputError` if one of them cannot be taken."""
    for step in steps:
        _check(schema, key, step)
        schema, key = _after(schema, key, step)
    return check_schema(schema, key), key


def one_field(field: "pa.Field[Any]") -> bytes:
    """A single column as a step carries it."""
    return encode_schema(pa.schema([field]))


def metadata_only(steps: Sequence[it.Step]) -> bool:
    """Whether no value changes: files that were written before can stay as they are."""
    return not any(isinstance(step, it.WidenColumn | it.AddColumn) for step in steps)


class Conversion:
    """From rows of one layout to rows of a later one."""

    def __init__(self, before: pa.Schema, steps: Steps) -> None:
        self.before = before
        self.steps = steps
        self._schemas = [before]
        for step in steps:
            self._schemas.append(_after(self._schemas[-1], (), step)[0])

    @property
    def after(self) -> pa.Schema:
        """The columns that come out."""
        return self._schemas[-1]

    def needed(self, names: Sequence[str]) -> list[str]:
        """The columns that these are made of."""
        wanted = set(names)
        for step, schema in zip(reversed(self.steps), reversed(self._schemas[:-1]), strict=True):
            if isinstance(step, it.RenameColumn) and step.to in wanted:
                wanted = wanted - {step.to} | {step.name}
            elif isinstance(step, it.AddColumn):
                field = decode_schema(step.field).field(0)
                if field.name in wanted:
                    wanted.discard(field.name)
                    wanted.update(() if step.value is None else _value(schema, field, step.value).columns)
        return [name for name in self.before.names if name in wanted]

    def origin(self, name: str) -> str | None:
        """The column that this one is, whatever it is called; None if its values are other ones."""
        for step in reversed(self.steps):
            if isinstance(step, it.RenameColumn) and step.to == name:
                name = step.name
            elif (isinstance(step, it.AddColumn) and decode_schema(step.field).field(0).name == name) or (
                isinstance(step, it.WidenColumn) and step.name == name
            ):
                return None
        return name

    def back(self, rows: pa.Table) -> pa.Table:
        """Rows as they would have been before: columns by what they were called there, null where nobody knows."""
        came = {self.lineage(name): name for name in self.after.names}
        columns: list[Any] = []
        for field in self.before:
            name = came.get(field.name)
            columns.append(
                pa.nulls(rows.num_rows, field.type) if name is None else as_type(rows.column(name), field.type)
            )
        return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in self.before]))

    def lineage(self, name: str) -> str | None:
        """The column that this one came from, whatever its name and type; None if it was added."""
        for step in reversed(self.steps):
            if isinstance(step, it.RenameColumn) and step.to == name:
                name = step.name
            elif isinstance(step, it.AddColumn) and decode_schema(step.field).field(0).name == name:
                return None
        return name

    def rows(self, rows: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
        """Rows that have what is needed, as they are now: these columns, or all."""
        wanted = list(self.after.names if names is None else names)
        held: dict[str, Any] = {name: rows.column(name) for name in rows.schema.names if name in self.before.names}
        for step, schema in zip(self.steps, self._schemas[:-1], strict=True):
            held = _stepped(held, rows.num_rows, step, schema)
        fields = [self.after.field(name) for name in wanted]
        columns = [held[field.name] for field in fields]
        fitting = [
            one if one.type == field.type else one.cast(field.type) for one, field in zip(columns, fields, strict=True)
        ]
        return pa.table(fitting, schema=pa.schema(fields))

    def batch(self, batch: pa.RecordBatch, names: Sequence[str], extra: Sequence[str] = ()) -> pa.RecordBatch:
        """As `rows`, for a batch; `extra` columns (row ids) are kept as they are."""
        made = self.rows(pa.Table.from_batches([batch]), names)
        arrays: list[Any] = [made.column(name).combine_chunks() for name in names]
        fields = [made.schema.field(name) for name in names]
        arrays += [batch.column(name) for name in extra]
        fields += [batch.schema.field(name) for name in extra]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def as_type(column: Any, kind: Any) -> Any:  # noqa: ANN401 - a column of Arrow
    """A column of another type; null where its values do not fit."""
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


@lru_cache(maxsize=256)
def conversion(before: pa.Schema, steps: Steps) -> Conversion:
    """A conversion, made once."""
    return Conversion(before, steps)


def _stepped(held: dict[str, Any], count: int, step: it.Step, schema: pa.Schema) -> dict[str, Any]:
    """The columns after one step; those it is not given are not made."""
    if isinstance(step, it.DropColumn):
        return {name: column for name, column in held.items() if name != step.name}
    if isinstance(step, it.RenameColumn):
        return {step.to if name == step.name else name: column for name, column in held.items()}
    if isinstance(step, it.WidenColumn) and step.name in held:
        return {**held, step.name: held[step.name].cast(decode_schema(step.field).field(0).type)}
    if isinstance(step, it.AddColumn):
        field = decode_schema(step.field).field(0)
        nothing: Any = pa.chunked_array([pa.nulls(count, field.type)])
        if step.value is None:
            return {**held, field.name: nothing}
        value = _value(schema, field, step.value)
        if set(value.columns) <= set(held):
            given: dict[str, Any] = {name: held[name] for name in value.columns}
            made = value.apply(pa.table({**given, field.name: nothing}))
            return {**held, field.name: made.column(field.name)}
    return held


def _value(schema: pa.Schema, field: "pa.Field[Any]", sql: str) -> Any:  # noqa: ANN401 - a plan
    return plan_assignments({field.name: sql}, schema.append(field))


def _after(schema: pa.Schema, key: tuple[str, ...], step: it.Step) -> tuple[pa.Schema, tuple[str, ...]]:
    fields = list(schema)
    if isinstance(step, it.AddColumn):
        fields.append(decode_schema(step.field).field(0))
    elif isinstance(step, it.DropColumn):
        fields = [field for field in fields if field.name != step.name]
    elif isinstance(step, it.RenameColumn):
        fields = [field.with_name(step.to) if field.name == step.name else field for field in fields]
        key = tuple(step.to if name == step.name else name for name in key)
    elif isinstance(step, it.WidenColumn):
        wide = decode_schema(step.field).field(0).type
        fields = [field.with_type(wide) if field.name == step.name else field for field in fields]
    elif isinstance(step, it.OrderColumns):
        fields = [schema.field(name) for name in step.names]
    else:
        fields = [field.with_nullable(step.nullable) if field.name == step.name else field for field in fields]
    return pa.schema(fields), key


def _check(schema: pa.Schema, key: tuple[str, ...], step: it.Step) -> None:
    """Refuse a step that cannot be taken."""
    there = ", ".join(schema.names)
    name = getattr(step, "name", None)
    if name is not None and name not in schema.names:
        raise InvalidInputError(f"there is no column {name!r}; there is: {there}")
    if name in key and not isinstance(step, it.RenameColumn):
        raise InvalidInputError(f"column {name!r} is part of the key: it can be renamed, and nothing else")
    if isinstance(step, it.RenameColumn) and step.to in schema.names:
        raise InvalidInputError(f"there is a column {step.to!r} already: choose another name")
    if isinstance(step, it.DropColumn) and len(schema.names) == 1:
        raise InvalidInputError("a table needs at least one column: drop the table instead")
    if isinstance(step, it.OrderColumns) and sorted(step.names) != sorted(schema.names):
        raise InvalidInputError(f"give every column once, in the order that is wanted; there is: {there}")
    if isinstance(step, it.WidenColumn):
        _check_wider(step.name, schema.field(step.name).type, decode_schema(step.field).field(0).type)
    if isinstance(step, it.AddColumn):
        _check_added(schema, step)


def _check_added(schema: pa.Schema, step: it.AddColumn) -> None:
    field = decode_schema(step.field).field(0)
    if field.name in schema.names:
        raise InvalidInputError(f"there is a column {field.name!r} already: choose another name")
    if step.value is None:
        if not field.nullable:
            raise InvalidInputError(f"column {field.name!r} cannot be null: give it a default or an expression")
        return
    planned = _value(schema, field, step.value)
    if field.name in planned.columns:
        raise InvalidInputError(f"column {field.name!r} cannot be made of itself")
    if not planned.loggable:
        raise InvalidInputError(
            f"{step.value!r} may fail on some row ({planned.obstacle}): add the column without it, then update"
        )


_WIDER: dict[Callable[[pa.DataType], bool], tuple[Callable[[pa.DataType], bool], ...]] = {
    types.is_signed_integer: (types.is_signed_integer, types.is_floating),
    types.is_unsigned_integer: (types.is_unsigned_integer, types.is_signed_integer, types.is_floating),
    types.is_floating: (types.is_floating,),
    types.is_string: (types.is_large_string,),
    types.is_binary: (types.is_large_binary,),
    types.is_decimal: (types.is_decimal,),
}
_MANTISSA = {16: 11, 32: 24, 64: 53}


def _check_wider(name: str, old: Any, new: Any) -> None:  # noqa: ANN401 - types of Arrow
    """Refuse a type that does not hold every value of the old one."""
    fits = any(is_old(old) and any(is_new(new) for is_new in wider) for is_old, wider in _WIDER.items())
    if fits and types.is_decimal(old):
        fits = new.scale == old.scale and new.precision >= old.precision
    elif fits and types.is_integer(old) and types.is_floating(new):
        fits = old.bit_width <= _MANTISSA[new.bit_width]
    elif (fits and types.is_unsigned_integer(old) and types.is_signed_integer(new)) or (
        fits and (types.is_integer(old) or types.is_floating(old))
    ):
        fits = new.bit_width > old.bit_width
    if not fits or new == old:
        raise InvalidInputError(f"column {name!r} is of type {old}, and {new} does not hold more: choose a wider type")
