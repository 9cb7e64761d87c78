"""What a transaction may carry: the vocabulary of the log, as it stands in an entry.

Each action is small, frozen and complete: it names what it expects to find (a table's incarnation, a source's last
number), so whether it still applies can be judged on the state alone. What an action does is left to `catalog.py`,
whether it may to `txn/conflict.py`. The changes of a table's rows are in `item.py`. A new kind of action needs a new feature bit (`FEATURES`), so that an older
reader stops instead of guessing (I14); a new optional detail goes into a transaction's `extra` map, which is kept.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from phalanx.log import item

FEATURES = 0
"""The required features this version knows, a bit each; the actions below need none."""

MAX_PARTS = 16
MAX_TEXT = 1 << 16

Part = Annotated[str, Meta(min_length=1, max_length=255)]
Name = Annotated[tuple[Part, ...], Meta(min_length=1, max_length=MAX_PARTS)]
"""A name of one or more parts: ("crm", "turns") is shown as crm.turns."""
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Table = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
Position = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is decided once, when a lake is created, because all processes must agree on it (docs/defaults.md)."""

    durability: Literal["disk", "os"] = "disk"
    grace: Annotated[float, Meta(ge=0, le=1e9)] = 600.0
    checkpoint_every: Annotated[int, Meta(ge=1, le=1_000_000)] = 250
    remembered: Annotated[int, Meta(ge=0, le=1_000_000)] = 10_000


class _Action(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag_field="do", gc=False):
    pass


class Found(_Action, frozen=True, tag="found"):
    """The first action of entry 1: this is a lake, with these settings."""

    settings: Settings


class CreateNamespace(_Action, frozen=True, tag="create_namespace"):
    """A namespace is new; the one above it must exist."""

    name: Name
    properties: dict[Part, Text]


class AlterNamespace(_Action, frozen=True, tag="alter_namespace"):
    """Properties of a namespace are set, or removed where None."""

    name: Name
    properties: dict[Part, Text | None]


class DropNamespace(_Action, frozen=True, tag="drop_namespace"):
    """A namespace goes; it must be empty."""

    name: Name


class CreateTable(_Action, frozen=True, tag="create_table"):
    """A table is new, under a name that is free, as an incarnation that never was."""

    name: Name
    table: Table
    properties: dict[Part, Text]
    schema: Annotated[bytes, Meta(max_length=1 << 24)] = b""
    """The Arrow schema, as an IPC message."""
    key: tuple[item.Column, ...] = ()
    manifest: item.Manifest = 0
    """The version that the table begins with, which is empty."""


class DropTable(_Action, frozen=True, tag="drop_table"):
    """This very incarnation goes."""

    name: Name
    table: Table


class DeregisterTable(_Action, frozen=True, tag="deregister_table"):
    """This very incarnation is no longer part of the lake; its files stay, for whoever uses them elsewhere."""

    name: Name
    table: Table


class ReviveTable(_Action, frozen=True, tag="revive_table"):
    """An incarnation that was dropped is there again, as yet without contents; its versions go on behind the last."""

    name: Name
    table: Table
    properties: dict[Part, Text]
    created: Position
    version: Position
    versions: Annotated[bytes, Meta(max_length=1 << 24)] = b""
    """Where its versions landed."""
    deleted: tuple[tuple[Position, Position], ...] = ()
    """Versions of which nothing was left after the prune at `pruned`, the last one that was known of."""
    pruned: Position = 0


class RenameTable(_Action, frozen=True, tag="rename_table"):
    """This very incarnation gets another name, possibly in another namespace."""

    name: Name
    table: Table
    to: Name


class PutTag(_Action, frozen=True, tag="tag"):
    """A tag names a position at or below the one this lands on; only with `move` may it have named another."""

    name: Part
    position: Position
    move: bool


class Untag(_Action, frozen=True, tag="untag"):
    """A tag goes."""

    name: Part


class SetProperty(_Action, frozen=True, tag="property"):
    """A property of the lake is set, or removed where None; the last one in the log counts."""

    key: Part
    value: Text | None


class Progress(_Action, frozen=True, tag="progress"):
    """A source has come from `expected` (None: it is new) to `new`: compare-and-set (rule B7)."""

    source: Text
    expected: Number | None
    new: Number


class Prune(_Action, frozen=True, tag="prune"):
    """What may go (rule E1): entries below `floor`, versions of tables, staged files that nobody is going to name.

    `kept` are positions below the floor that tags and pins need. Files go that were there when the log ended at `since`,
    all older than `cutoff`; those of the writers in `exempt` stay. `by_itself` says that nobody asked for it.
    """

    floor: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    since: Position
    cutoff: Position
    kept: tuple[Position, ...] = ()
    exempt: tuple[tuple[Annotated[bytes, Meta(min_length=16, max_length=16)], Position], ...] = ()
    versions: tuple[tuple[Table, tuple[tuple[Position, Position], ...]], ...] = ()
    by_itself: bool = False


Action = (
    Found
    | CreateNamespace
    | AlterNamespace
    | DropNamespace
    | CreateTable
    | DropTable
    | DeregisterTable
    | ReviveTable
    | RenameTable
    | PutTag
    | Untag
    | SetProperty
    | Progress
    | Prune
    | item.Item
    | item.Upkeep
    | item.Indexing
    | item.Other
)
