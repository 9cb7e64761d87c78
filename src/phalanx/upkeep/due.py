"""What upkeep is due, and whether it is done by itself: a property of the lake, read afresh before each decision.

upkeep          "off", "suggested" (the default: `phalanx show` says what is due) or "on"
upkeep.bytes    how much one round of optimize rewrites of a table, when nobody asked for it
upkeep.entries  how long the log grows between two prunes that nobody asked for
prune.keep, prune.older_than   what a prune keeps that nobody asked for, or that was asked for without saying
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from phalanx.amounts import seconds, size
from phalanx.catalog import State
from phalanx.clock import environment
from phalanx.errors import InvalidInputError, NotFoundError, SnapshotExpiredError
from phalanx.log.cursor import View
from phalanx.tables import rewrite
from phalanx.txn.core import Core, Found, locate
from phalanx.txn.kept import UPKEEP
from phalanx.upkeep.limits import limits
from phalanx.upkeep.retention import Decision, Needs, Wish, decide, live
from phalanx.upkeep.window import DEFAULT, MODE, PROPERTY, protection

SMALL_FRAGMENTS = 16
"""So many of a table are worth an optimize: fewer cost a scan little."""
Habit = Literal["off", "suggested", "on"]


class Habits(msgspec.Struct, frozen=True):
    """What a lake's properties say of upkeep."""

    upkeep: Habit = "suggested"
    bytes: int = 4 << 30
    entries: int = 10_000
    keep: int = 10
    older_than: float = 7 * 86_400.0


class Due(msgspec.Struct, frozen=True):
    """Something that should be done, and why."""

    table: str
    what: Literal["flush", "optimize", "prune"]
    why: str


def habits(properties: Mapping[str, str]) -> Habits:
    """What holds; what cannot be read counts as not given."""
    found = Habits()
    for key, field in _FIELDS.items():
        if key in properties:
            try:
                found = msgspec.structs.replace(found, **{field: _read(key, properties[key])})
            except InvalidInputError:
                continue  # written by a newer Phalanx, or past the checks: the default is always safe
    return found


def check_habit(key: str, value: str | None) -> None:
    """Refuse a property of upkeep that makes no sense, before it is written."""
    if value is None:
        return
    if key in _FIELDS:
        _read(key, value)
    elif key == PROPERTY:
        seconds(value, key)
    elif key == MODE and value not in {"eager", "background"}:
        raise InvalidInputError(f"{key} is eager or background: {value!r} is neither")
    elif key.startswith(("upkeep.", "prune.")) and key != MODE:
        known = ", ".join([*_FIELDS, PROPERTY, MODE])
        raise InvalidInputError(f"there is no property {key!r} that upkeep obeys; there is: {known}")


_FIELDS = {
    UPKEEP: "upkeep",
    "upkeep.bytes": "bytes",
    "upkeep.entries": "entries",
    "prune.keep": "keep",
    "prune.older_than": "older_than",
}


def _read(key: str, text: str) -> object:
    if key == UPKEEP:
        if text not in {"off", "suggested", "on"}:
            raise InvalidInputError(f"{key} is off, suggested or on: {text!r} is none of them")
        return text
    if key == "prune.older_than":
        return seconds(text, key)
    number = size(text, key)
    if number < 1:
        raise InvalidInputError(f"{key} is 1 at the least: {text!r} is not")
    return number


def due(core: Core, view: View[State]) -> list[Due]:
    """What should be done. Opens the head of each table, and scans nothing."""
    found: list[Due] = []
    bounds = limits(view.state.properties)
    for name, table in sorted(view.state.tables.items()):
        contents = view.state.contents[table.id]
        shown = ".".join(name)
        if bounds.load(contents.weight) >= 1:
            found.append(Due(shown, "flush", "its tail is over the soft limit"))
        if contents.head.manifest:
            small, worn = worth_rewriting(core, locate(view, table.id))
            if small or worn:
                found.append(Due(shown, "optimize", f"{small} fragments are small, {worn} have deleted rows"))
    return found + prune_due(core, view)


def worth_rewriting(core: Core, here: Found) -> tuple[int, int]:
    """How many fragments of a table are small, if they are many, and how many have deleted rows: nothing is planned."""
    head = core.datasets.open(here.table.id, here.contents.head.manifest)
    small, worn = rewrite.small_and_worn(head)
    return small if small >= SMALL_FRAGMENTS else 0, worn


def prune_due(core: Core, view: View[State]) -> list[Due]:
    """Whether the log has grown, or tables have many more versions than are kept, and a prune would let go of some of it.

    By what the log tells: pins and files are not looked at.
    """
    how, tables = habits(view.state.properties), sorted(view.state.tables.items())
    grown = view.position - max(view.state.retained.made, view.state.retained.floor)
    counts = {table.id: len(live(view.state.contents[table.id])) for _, table in tables}
    many = {table for table, count in counts.items() if count >= how.keep + how.entries}
    if grown < how.entries and not many:
        return []
    floor = max(core.log.oldest(), view.state.retained.floor)
    would = _would(core, view, how, floor)
    found: list[Due] = []
    if grown >= how.entries and (would.floor > floor or would.going):
        found.append(Due("", "prune", f"{grown:,} commits since the last one"))
    for name, table in tables:
        if table.id in many and table.id in would.going:
            found.append(Due(".".join(name), "prune", f"{counts[table.id]:,} versions are kept"))
    return found


def _would(core: Core, view: View[State], how: Habits, floor: int) -> Decision:
    """What a prune that is not told anything would decide, if nobody had pinned anything."""
    try:
        window = protection(None, environment(), view.state.properties)
    except InvalidInputError:
        window = DEFAULT  # a prune will refuse it, and say so
    wish = Wish(how.keep, _old(core, view, max(how.older_than, window)), anchor=True)
    return decide(view.state, view.state.retained.last(view.position), floor, wish, Needs.of(view.state, ()))


def _old(core: Core, view: View[State], seconds: float) -> int:
    """The last position that is so old, by the times in the log and the store's clock."""
    if seconds <= 0:
        return view.position
    try:
        return core.log.as_of(int((core.store.now() - seconds) * 1e6)).position
    except (NotFoundError, SnapshotExpiredError):
        return 0  # all that the log still has is younger
