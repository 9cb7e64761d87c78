"""Other columns for a version: those that stay keep their files, those that are new get files of their own.

Lance knows a column by the number of its field, so that renaming, dropping and reordering change the schema alone. New
values are written beside the old files, fragment by fragment, under a name that nobody has; then the schema says what
the columns are called. Row ids and indexes of columns that stay are not touched.

A schema is changed as Lance itself would send it to another process: a message for each field, of which the name, the
number, the parent and whether it may be null are read and written here (lance.file.Field: 2 to 6).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance.dataset import LanceOperation
from lance.schema import LanceSchema

from phalanx.tables import proto
from phalanx.tables.dataset import Datasets, Version, manifest_name
from phalanx.tables.speaking import speaking

_NAME, _ID, _PARENT, _TYPE, _NULLABLE = 2, 3, 4, 5, 6
_NEW = "phalanx_new_"
_TOP = (1 << 64) - 1
"""-1, as the parent of a field that has none is written."""

Make = Callable[[pa.RecordBatch], pa.RecordBatch]
"""From a batch of the columns that are needed to one of the columns that are new."""


def evolve(
    datasets: Datasets,
    base: Version,
    after: pa.Schema,
    origins: Mapping[str, str | None],
    needed: Sequence[str],
    make: Make,
) -> Version:
    """The base with the columns `after`; each is one that the base has (its origin), or is made of others."""
    new = [field for field in after if origins[field.name] is None]
    version = _with_columns(datasets, base, new, needed, make) if new else base
    held = _Fields(version.dataset.lance_schema)
    fields: list[bytes] = []
    for field in after:
        origin = origins[field.name]
        own = held.own(_NEW + field.name if origin is None else origin)
        fields += [_renamed(own[0], field.name, nullable=field.nullable), *own[1:]]
    with speaking("changing columns"):
        schema = LanceSchema._from_protos("{}", *fields)  # noqa: SLF001 - how a schema is unpickled
    made = datasets.commit(version, LanceOperation.Project(schema))
    datasets.persist(base.table, [manifest_name(made.manifest)])
    return made


def same_fields(one: Version, other: Version) -> bool:
    """Whether fragments of one can be part of the other: what has a number in both has the same name and type there."""
    mine, theirs = _Fields(one.dataset.lance_schema).numbered(), _Fields(other.dataset.lance_schema).numbered()
    return all(theirs.get(number, told) == told for number, told in mine.items())


def _with_columns(
    datasets: Datasets, base: Version, new: Sequence["pa.Field[Any]"], needed: Sequence[str], make: Make
) -> Version:
    """The base with more columns, under names that nobody has."""
    schema = pa.schema([field.with_name(_NEW + field.name).with_nullable(nullable=True) for field in new])

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(make(batch).columns, schema=schema)

    written: list[Any] = []
    names: list[str] = []
    grown: Any = None
    for number in base.fragments:
        before = {file.path for file in base.fragment(number).metadata.files}
        with speaking("writing a column"):
            made, grown = base.fragment(number).merge_columns(
                values, columns=list(needed) or [base.dataset.schema.names[0]]
            )
        written.append(made)
        names += [f"data/{file.path}" for file in made.files if file.path not in before]
    if grown is None:
        grown = _appended(base.dataset.lance_schema, schema)
    version = datasets.commit(base, LanceOperation.Merge(written, grown))
    datasets.persist(base.table, [*names, manifest_name(version.manifest)])
    return version


def _appended(held: LanceSchema, new: pa.Schema) -> LanceSchema:
    """A schema with more fields, numbered behind its own."""
    fields = _Fields(held)
    above = 1 + max(fields.numbers(), default=-1)
    with speaking("adding a column"):
        more = LanceSchema.from_pyarrow(new)
        shifted = [_shifted(one, above) for one in _messages(more)]
        return LanceSchema._from_protos("{}", *_messages(held), *shifted)  # noqa: SLF001 - how a schema is unpickled


class _Fields:
    """The fields of a schema as messages, each followed by those inside it."""

    def __init__(self, schema: LanceSchema) -> None:
        self._groups: list[list[bytes]] = []
        for message in _messages(schema):
            if proto.number_of(message, _PARENT) == _TOP:
                self._groups.append([message])
            else:
                self._groups[-1].append(message)

    def own(self, name: str) -> list[bytes]:
        """A column: its own message, and those of the fields inside it."""
        return next(group for group in self._groups if proto.bytes_of(group[0], _NAME) == name.encode())

    def numbers(self) -> list[int]:
        """The numbers of all fields."""
        return [proto.number_of(message, _ID) for group in self._groups for message in group]

    def numbered(self) -> dict[int, bytes]:
        """What each number stands for: the type, wherever it is and whatever it is called."""
        return {
            proto.number_of(message, _ID): proto.bytes_of(message, _TYPE) for group in self._groups for message in group
        }


def _messages(schema: LanceSchema) -> list[bytes]:
    return list(schema.__reduce__()[1][1:])


def _renamed(message: bytes, name: str, *, nullable: bool) -> bytes:
    kept = proto.without(message, _NAME, _NULLABLE)
    return proto.content(_NAME, name.encode()) + kept + (proto.number(_NULLABLE, 1) if nullable else b"")


def _shifted(message: bytes, above: int) -> bytes:
    number, parent = proto.number_of(message, _ID), proto.number_of(message, _PARENT)
    inside = parent if parent == _TOP else parent + above
    return proto.without(message, _ID, _PARENT) + proto.number(_ID, number + above) + proto.number(_PARENT, inside)
