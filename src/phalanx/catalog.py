"""The fold: what the entries of the log add up to. Pure; no storage, no clock.

Keeps I1 and I10. A `State` is immutable and shares structure with the one before it, so a step costs the same however
many tables there are (I11), and every position can be held on to. Whether an action may be applied was judged before
its entry was put (`txn/conflict.py`); one that cannot be applied here means that the log is damaged.
"""

from __future__ import annotations  # HashTrieMap cannot be subscripted at run time

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from rpds import HashTrieMap

from phalanx.errors import CorruptionError
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.log.entry import Transaction

Name = tuple[str, ...]


class Table(msgspec.Struct, frozen=True):
    """A table as the catalog knows it: `id` is its incarnation, `created` the position it was created at."""

    id: str
    created: int
    properties: dict[str, str]


class Namespace(msgspec.Struct, frozen=True):
    """A namespace and its properties."""

    created: int
    properties: dict[str, str]


class Tag(msgspec.Struct, frozen=True):
    """A name for a position; `made` is the position of the commit that set it."""

    position: int
    made: int


class Mark(msgspec.Struct, frozen=True):
    """How far a source has come; `made` is the position of the commit that said so."""

    number: int
    made: int


class State(msgspec.Struct, frozen=True):
    """The lake at a position; `founded` from entry 1 on."""

    founded: bool = False
    settings: Settings = Settings()
    namespaces: HashTrieMap[Name, Namespace] = HashTrieMap()
    tables: HashTrieMap[Name, Table] = HashTrieMap()
    tags: HashTrieMap[str, Tag] = HashTrieMap()
    properties: HashTrieMap[str, str] = HashTrieMap()
    progress: HashTrieMap[str, Mark] = HashTrieMap()


def within(state: State, namespace: Name) -> tuple[list[Name], list[Name]]:
    """The namespaces and the tables directly inside a namespace; () is the lake itself."""
    size = len(namespace)
    inside = [
        sorted(name for name in names if len(name) == size + 1 and name[:size] == namespace)
        for names in (state.namespaces, state.tables)
    ]
    return inside[0], inside[1]


def step(state: State, position: int, transaction: Transaction) -> State:
    """The state after one more transaction, which landed at `position`."""
    try:
        for action in transaction.actions:
            state = apply(state, position, action)
    except KeyError as error:
        msg = f"entry {position} cannot be applied to the state before it ({error}): run `phalanx check`"
        raise CorruptionError(msg) from error
    return state


def apply(state: State, position: int, action: do.Action) -> State:
    """The state after one more action."""
    return _STEPS[type(action)](state, position, action)


def _found(state: State, position: int, action: do.Found) -> State:
    if position != 1:
        raise KeyError(position)
    return msgspec.structs.replace(state, founded=True, settings=action.settings)


def _create_namespace(state: State, position: int, action: do.CreateNamespace) -> State:
    made = Namespace(position, action.properties)
    return msgspec.structs.replace(state, namespaces=state.namespaces.insert(action.name, made))


def _alter_namespace(state: State, position: int, action: do.AlterNamespace) -> State:
    held = state.namespaces[action.name]
    merged = {key: value for key, value in {**held.properties, **action.properties}.items() if value is not None}
    changed = Namespace(held.created, merged)
    return msgspec.structs.replace(state, namespaces=state.namespaces.insert(action.name, changed))


def _drop_namespace(state: State, position: int, action: do.DropNamespace) -> State:
    return msgspec.structs.replace(state, namespaces=state.namespaces.remove(action.name))


def _create_table(state: State, position: int, action: do.CreateTable) -> State:
    made = Table(action.table, position, action.properties)
    return msgspec.structs.replace(state, tables=state.tables.insert(action.name, made))


def _drop_table(state: State, position: int, action: do.DropTable) -> State:
    return msgspec.structs.replace(state, tables=state.tables.remove(action.name))


def _rename_table(state: State, position: int, action: do.RenameTable) -> State:
    table = state.tables[action.name]
    return msgspec.structs.replace(state, tables=state.tables.remove(action.name).insert(action.to, table))


def _tag(state: State, position: int, action: do.PutTag) -> State:
    return msgspec.structs.replace(state, tags=state.tags.insert(action.name, Tag(action.position, position)))


def _untag(state: State, position: int, action: do.Untag) -> State:
    return msgspec.structs.replace(state, tags=state.tags.remove(action.name))


def _set_property(state: State, position: int, action: do.SetProperty) -> State:
    held = state.properties
    changed = held.discard(action.key) if action.value is None else held.insert(action.key, action.value)
    return msgspec.structs.replace(state, properties=changed)


def _progress(state: State, position: int, action: do.Progress) -> State:
    mark = Mark(action.new, position)
    return msgspec.structs.replace(state, progress=state.progress.insert(action.source, mark))


_STEPS: Mapping[type, Callable[[State, int, Any], State]] = {
    do.Found: _found,
    do.CreateNamespace: _create_namespace,
    do.AlterNamespace: _alter_namespace,
    do.DropNamespace: _drop_namespace,
    do.CreateTable: _create_table,
    do.DropTable: _drop_table,
    do.RenameTable: _rename_table,
    do.PutTag: _tag,
    do.Untag: _untag,
    do.SetProperty: _set_property,
    do.Progress: _progress,
}


class _Dump(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state as it is stored: plain lists, sorted, so that equal states are equal bytes."""

    founded: bool
    settings: Settings
    namespaces: list[tuple[Name, Namespace]]
    tables: list[tuple[Name, Table]]
    tags: list[tuple[str, Tag]]
    properties: list[tuple[str, str]]
    progress: list[tuple[str, Mark]]


_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(_Dump)
_K = TypeVar("_K", bound=Any)
_V = TypeVar("_V")


class Catalog:
    """The fold as the log wants it: see `phalanx.log.base.Fold`."""

    version = 1

    def empty(self) -> State:
        """See `Fold`."""
        return State()

    def step(self, state: State, position: int, transaction: Transaction) -> State:
        """See `Fold`."""
        return step(state, position, transaction)

    def settings(self, state: State) -> Settings:
        """See `Fold`."""
        return state.settings

    def dump(self, state: State) -> bytes:
        """See `Fold`."""
        return _encoder.encode(
            _Dump(
                state.founded,
                state.settings,
                _sorted(state.namespaces),
                _sorted(state.tables),
                _sorted(state.tags),
                _sorted(state.properties),
                _sorted(state.progress),
            )
        )

    def load(self, data: bytes) -> State:
        """See `Fold`."""
        held = _decoder.decode(data)
        return State(
            held.founded,
            held.settings,
            HashTrieMap(held.namespaces),
            HashTrieMap(held.tables),
            HashTrieMap(held.tags),
            HashTrieMap(held.properties),
            HashTrieMap(held.progress),
        )


def _sorted(mapping: HashTrieMap[_K, _V]) -> list[tuple[_K, _V]]:
    return sorted(mapping.items(), key=lambda pair: pair[0])
