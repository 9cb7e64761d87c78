"""The fold: what the entries of the log add up to. Pure; no storage, no clock.

Keeps I1 and I10. A `State` is immutable and shares structure with the one before it, so a step costs the same however
many tables there are (I11), and every position can be held on to. Whether an action may be applied was judged before
its entry was put (`txn/conflict.py`); one that cannot be applied here means that the log is damaged.
"""

from __future__ import annotations  # HashTrieMap cannot be subscripted at run time

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import msgspec
from rpds import HashTrieMap

from phalanx import contents as held
from phalanx.claims import Claims
from phalanx.contents import Contents, Head
from phalanx.errors import CorruptionError
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.action import Settings
from phalanx.log.entry import Landing, Transaction
from phalanx.retained import Retained, pruned
from phalanx.versions import Versions
from phalanx.waiting import Items, Weight

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


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """A table that was dropped: where that landed, its last version, and those that had been deleted."""

    position: int
    deleted: tuple[tuple[int, int], ...]
    place: int
    version: int


class State(msgspec.Struct, frozen=True):
    """The lake at a position; `founded` from entry 1 on. `names` and `contents` are by incarnation."""

    founded: bool = False
    settings: Settings = Settings()
    namespaces: HashTrieMap[Name, Namespace] = HashTrieMap()
    tables: HashTrieMap[Name, Table] = HashTrieMap()
    names: HashTrieMap[str, Name] = HashTrieMap()
    contents: HashTrieMap[str, Contents] = HashTrieMap()
    tags: HashTrieMap[str, Tag] = HashTrieMap()
    properties: HashTrieMap[str, str] = HashTrieMap()
    progress: HashTrieMap[str, Mark] = HashTrieMap()
    deregistered: HashTrieMap[str, int] = HashTrieMap()
    """Incarnations whose files are no longer the lake's, and the position of the commit that said so."""
    retained: Retained = Retained()
    """What prune has left."""
    dropped: HashTrieMap[str, Dropped] = HashTrieMap()
    """What cannot be read of tables that are gone, for as long as the lake can be read where they were there."""


def within(state: State, namespace: Name) -> tuple[list[Name], list[Name]]:
    """The namespaces and the tables directly inside a namespace; () is the lake itself."""
    size = len(namespace)
    inside = [
        sorted(name for name in names if len(name) == size + 1 and name[:size] == namespace)
        for names in (state.namespaces, state.tables)
    ]
    return inside[0], inside[1]


def is_lost(state: State, table: str, version: int) -> bool:
    """Whether a version of a table was deleted, also if the table was dropped since."""
    contents, gone = state.contents.get(table), state.dropped.get(table)
    if contents is not None:
        return held.is_deleted(contents, version)
    return gone is not None and any(first <= version <= last for first, last in gone.deleted)


def step(state: State, landing: Landing, transaction: Transaction) -> State:
    """The state after one more transaction."""
    try:
        for action in transaction.actions:
            state = apply(state, landing, action)
    except (KeyError, IndexError) as error:
        msg = f"entry {landing.position} cannot be applied to the state before it ({error}): run `phalanx check`"
        raise CorruptionError(msg) from error
    return state


def apply(state: State, landing: Landing, action: do.Action) -> State:
    """The state after one more action."""
    return _STEPS[type(action)](state, landing, action)


def _found(state: State, landing: Landing, action: do.Found) -> State:
    if landing.position != 1:
        raise KeyError(landing.position)
    return msgspec.structs.replace(state, founded=True, settings=action.settings)


def _create_namespace(state: State, landing: Landing, action: do.CreateNamespace) -> State:
    made = Namespace(landing.position, action.properties)
    return msgspec.structs.replace(state, namespaces=state.namespaces.insert(action.name, made))


def _alter_namespace(state: State, landing: Landing, action: do.AlterNamespace) -> State:
    old = state.namespaces[action.name]
    merged = {key: value for key, value in {**old.properties, **action.properties}.items() if value is not None}
    changed = Namespace(old.created, merged)
    return msgspec.structs.replace(state, namespaces=state.namespaces.insert(action.name, changed))


def _drop_namespace(state: State, landing: Landing, action: do.DropNamespace) -> State:
    return msgspec.structs.replace(state, namespaces=state.namespaces.remove(action.name))


def _create_table(state: State, landing: Landing, action: do.CreateTable) -> State:
    made = Table(action.table, landing.position, action.properties)
    empty = held.created(landing, action.manifest, it.Layout(0, action.schema, action.key))
    return msgspec.structs.replace(
        state,
        tables=state.tables.insert(action.name, made),
        names=state.names.insert(action.table, action.name),
        contents=state.contents.insert(action.table, empty),
    )


def _drop_table(state: State, landing: Landing, action: do.DropTable) -> State:
    held_then = state.contents[action.table]
    gone = Dropped(landing.position, held_then.deleted, landing.place, held_then.version)
    return msgspec.structs.replace(
        state,
        tables=state.tables.remove(action.name),
        names=state.names.remove(action.table),
        contents=state.contents.remove(action.table),
        dropped=state.dropped.insert(action.table, gone),
    )


def _deregister_table(state: State, landing: Landing, action: do.DeregisterTable) -> State:
    left = state.deregistered.insert(action.table, landing.position)
    return msgspec.structs.replace(
        _drop_table(state, landing, do.DropTable(action.name, action.table)), deregistered=left
    )


def _revive_table(state: State, landing: Landing, action: do.ReviveTable) -> State:
    made = Table(action.table, action.created, action.properties)
    nothing = held.revived(action.version, action.versions, action.deleted)
    return msgspec.structs.replace(
        state,
        tables=state.tables.insert(action.name, made),
        names=state.names.insert(action.table, action.name),
        contents=state.contents.insert(action.table, nothing),
        deregistered=state.deregistered.discard(action.table),
        dropped=state.dropped.discard(action.table),
    )


def _rename_table(state: State, landing: Landing, action: do.RenameTable) -> State:
    table = state.tables[action.name]
    return msgspec.structs.replace(
        state,
        tables=state.tables.remove(action.name).insert(action.to, table),
        names=state.names.insert(action.table, action.to),
    )


def _tag(state: State, landing: Landing, action: do.PutTag) -> State:
    return msgspec.structs.replace(state, tags=state.tags.insert(action.name, Tag(action.position, landing.position)))


def _untag(state: State, landing: Landing, action: do.Untag) -> State:
    return msgspec.structs.replace(state, tags=state.tags.remove(action.name))


def _set_property(state: State, landing: Landing, action: do.SetProperty) -> State:
    old = state.properties
    changed = old.discard(action.key) if action.value is None else old.insert(action.key, action.value)
    return msgspec.structs.replace(state, properties=changed)


def _progress(state: State, landing: Landing, action: do.Progress) -> State:
    mark = Mark(action.new, landing.position)
    return msgspec.structs.replace(state, progress=state.progress.insert(action.source, mark))


def _holding(state: State, table: str, contents: Contents) -> State:
    """The state in which a table holds that. All fields in order: replacing one by name costs more than the rest."""
    return State(
        state.founded,
        state.settings,
        state.namespaces,
        state.tables,
        state.names,
        state.contents.insert(table, contents),
        state.tags,
        state.properties,
        state.progress,
        state.deregistered,
        state.retained,
        state.dropped,
    )


def _prune(state: State, landing: Landing, action: do.Prune) -> State:
    contents = state.contents
    for table, ranges in action.versions:
        if table in contents:  # or it was dropped meanwhile
            contents = contents.insert(table, held.delete_versions(contents[table], ranges))
    retained = pruned(state.retained, landing, action)
    dropped = state.dropped
    for table, gone in state.dropped.items():
        if gone.position < retained.floor and all(one >= gone.position for one in retained.kept):
            dropped = dropped.remove(table)
    return msgspec.structs.replace(state, contents=contents, retained=retained, dropped=dropped)


def _within_table(state: State, landing: Landing, action: held.TableAction) -> State:
    return _holding(state, action.table, held.step(state.contents[action.table], landing, action))


_STEPS: Mapping[type, Callable[[State, Landing, Any], State]] = {
    do.Found: _found,
    do.CreateNamespace: _create_namespace,
    do.AlterNamespace: _alter_namespace,
    do.DropNamespace: _drop_namespace,
    do.CreateTable: _create_table,
    do.DropTable: _drop_table,
    do.DeregisterTable: _deregister_table,
    do.ReviveTable: _revive_table,
    do.RenameTable: _rename_table,
    do.PutTag: _tag,
    do.Untag: _untag,
    do.SetProperty: _set_property,
    do.Progress: _progress,
    do.Prune: _prune,
    **dict.fromkeys(get_args(held.TableAction), _within_table),
}


class _Contents(msgspec.Struct, frozen=True, array_like=True):
    """A table's contents as they are stored."""

    generation: int
    version: int
    head: Head
    first: int
    until: int
    items: bytes
    serial: int
    changed: int
    place: int
    moved: int
    flushed: int
    weight: Weight
    indexes: tuple[it.Index, ...]
    layouts: tuple[it.Layout, ...]
    versions: Versions
    deleted: tuple[tuple[int, int], ...]
    claims: Claims


class _Dump(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state as it is stored: plain lists, sorted, so that equal states are equal bytes."""

    founded: bool
    settings: Settings
    namespaces: list[tuple[Name, Namespace]]
    tables: list[tuple[Name, Table]]
    contents: list[tuple[str, _Contents]]
    tags: list[tuple[str, Tag]]
    properties: list[tuple[str, str]]
    progress: list[tuple[str, Mark]]
    deregistered: list[tuple[str, int]]
    retained: Retained
    dropped: list[tuple[str, Dropped]]


_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(_Dump)
_K = TypeVar("_K", bound=Any)
_V = TypeVar("_V")


class Catalog:
    """The fold as the log wants it: see `phalanx.log.base.Fold`."""

    version = 9

    def empty(self) -> State:
        """See `Fold`."""
        return State()

    def step(self, state: State, landing: Landing, transaction: Transaction) -> State:
        """See `Fold`."""
        return step(state, landing, transaction)

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
                [(table, _dumped(contents)) for table, contents in _sorted(state.contents)],
                _sorted(state.tags),
                _sorted(state.properties),
                _sorted(state.progress),
                _sorted(state.deregistered),
                state.retained,
                _sorted(state.dropped),
            )
        )

    def load(self, data: bytes) -> State:
        """See `Fold`."""
        found = _decoder.decode(data)
        return State(
            found.founded,
            found.settings,
            HashTrieMap(found.namespaces),
            HashTrieMap(found.tables),
            HashTrieMap([(table.id, name) for name, table in found.tables]),
            HashTrieMap([(table, _loaded(contents)) for table, contents in found.contents]),
            HashTrieMap(found.tags),
            HashTrieMap(found.properties),
            HashTrieMap(found.progress),
            HashTrieMap(found.deregistered),
            found.retained,
            HashTrieMap(found.dropped),
        )


def _dumped(contents: Contents) -> _Contents:
    fields = {name: getattr(contents, name) for name in Contents.__struct_fields__}
    return _Contents(**{**fields, "items": contents.items.dump()})


def _loaded(stored: _Contents) -> Contents:
    fields = {name: getattr(stored, name) for name in Contents.__struct_fields__}
    return Contents(**{**fields, "items": Items.load(stored.first, stored.until, stored.items)})


def _sorted(mapping: HashTrieMap[_K, _V]) -> list[tuple[_K, _V]]:
    return sorted(mapping.items(), key=lambda pair: pair[0])
