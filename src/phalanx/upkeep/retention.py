"""What a prune keeps, and why: positions of the lake, and versions of its tables. Pure; no storage, no clock.

A version of a table goes if it is not its newest, not among the newest that were asked for, was replaced long enough ago,
and neither a tag nor a pin needs it; of those that would go, the newest stays as *anchor*, for whoever has begun to write
on it. Entries of the log go below the floor: as far up as time, the number of versions asked for and pins allow. A prune of
some tables lets go only of entries of which nothing is left: the versions that they made are gone.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from phalanx.catalog import State
from phalanx.contents import Contents, is_deleted
from phalanx.pinned import Seen
from phalanx.pins import AT, FROM
from phalanx.versions import Landed

Limit = tuple[int, str]
"""A position that the floor does not pass, and why."""


class Wish(msgspec.Struct, frozen=True):
    """What was asked for: how many versions to keep at the least, and up to which position time has come."""

    keep: int
    due: int
    """What was replaced after this position is too young to go."""
    anchor: bool
    tables: frozenset[str] | None = None
    """Only these, and entries of which nothing is left; otherwise all."""
    least: int = 1
    """Entries go only if they are so many: a floor is a base, and is not written for each of them."""


class Needs(msgspec.Struct, frozen=True):
    """Positions that somebody needs: each with the word for why."""

    exactly: dict[int, str]
    since: int | None
    """Everything from here on, because of pins."""

    @classmethod
    def of(cls, state: State, pins: Iterable[Seen]) -> "Needs":
        """What tags and pins need."""
        exactly = {one.position: "a reader has pinned it" for one in pins if one.kind == AT}
        exactly |= {tag.position: f"tag {name} names it" for name, tag in sorted(state.tags.items())}
        return cls(exactly, min((one.position for one in pins if one.kind == FROM), default=None))


class Decision(msgspec.Struct, frozen=True):
    """What goes: versions of tables, as ranges, and entries below the floor; and why the other versions stay."""

    floor: int
    kept: dict[int, str]
    """Positions below the floor at which the whole lake stays readable, and why."""
    going: dict[str, tuple[tuple[int, int], ...]]
    staying: dict[str, dict[int, str]]
    why: str = "nothing new is decided"
    """Why the floor does not rise further."""


def decide(state: State, end: int, floor: int, wish: Wish, needs: Needs) -> Decision:
    """What goes and what stays of a lake whose log begins with `floor` and ends with `end`."""
    going: dict[str, tuple[tuple[int, int], ...]] = {}
    staying: dict[str, dict[int, str]] = {}
    made: list[Limit] = []
    for name, table in sorted(state.tables.items()):
        contents, shown = state.contents[table.id], ".".join(name)
        if wish.tables is None or table.id in wish.tables:
            there = live(contents)
            reasons = _reasons(contents, there, table.created, wish, needs)
            ranges = tuple(_ranges(one.version for one, _ in there if one.version not in reasons))
            going |= {table.id: ranges} if ranges else {}
            staying[shown] = reasons
            left = next((one for one, _ in there if one.version in reasons and one.position >= floor), None)
        else:
            left = _oldest(contents, floor)
        made += [] if left is None else [(left.position, f"version {left.version} of table {shown!r} was made there")]
    limits = _limits(end, wish, needs)
    raised, why = min(limits if wish.tables is None else [*limits, *made, *_restorable(state, floor)], key=_position)
    if raised < floor:
        raised, why = floor, "a prune before has raised it this far"
    elif 0 < raised - floor < wish.least:
        raised, why = floor, f"fewer than {wish.least} entries would go"
    return Decision(raised, kept_below(state, raised, needs), going, staying, why)


def kept_below(state: State, floor: int, needs: Needs) -> dict[int, str]:
    """The positions that stay readable below a floor, and why."""
    # A reader may have pinned where a version of its table is kept by itself, and the lake is not.
    return {one: word for one, word in sorted(needs.exactly.items()) if one < floor - 1 and state.retained.has(one)}


def _position(limit: Limit) -> int:
    return limit[0]


def _limits(end: int, wish: Wish, needs: Needs) -> list[Limit]:
    """How far the floor can rise, and what stands in its way."""
    return [
        (end, "the last entry always stays"),
        (end - wish.keep + 1, f"the {wish.keep} newest versions of the lake stay"),
        (wish.due + 1, "what follows is younger than the window"),
        *([] if needs.since is None else [(needs.since + 1, "a reader or writer has pinned what follows")]),
    ]


def _restorable(state: State, floor: int) -> list[Limit]:
    """Tables that were dropped can be brought back as long as the lake can be read where they were there."""
    return [
        (floor, "a table that was dropped can be restored") for one in state.dropped.values() if one.position >= floor
    ][:1]


def _oldest(contents: Contents, floor: int) -> Landed | None:
    """The oldest version that was not deleted, of those that landed at the floor or above it."""
    before = contents.versions.at(floor - 1)
    above = 0 if before is None else before.version
    for first, last in contents.deleted:
        above = last if first <= above + 1 <= last else above
    return next((one for one in contents.versions.oldest_first(above) if not is_deleted(contents, one.version)), None)


def live(contents: Contents) -> list[tuple[Landed, int | None]]:
    """The versions that were not deleted, oldest first, and the position at which each was replaced."""
    gone = contents.deleted[0] if contents.deleted else (0, 0)
    first = next(contents.versions.oldest_first(), None)
    above = gone[1] if first is not None and gone[0] <= first.version else 0  # most are gone, and come first
    there = list(contents.versions.oldest_first(above))
    pairs = [*((one, later.position) for one, later in pairwise(there)), *((one, None) for one in there[-1:])]
    return [(one, until) for one, until in pairs if not is_deleted(contents, one.version)]


def _reasons(
    contents: Contents, there: list[tuple[Landed, int | None]], created: int, wish: Wish, needs: Needs
) -> dict[int, str]:
    """Why versions stay; those without a reason go."""
    newest = {one.version for one, _ in there[-wish.keep :]}
    why: dict[int, str] = {}
    for one, until in there:
        if until is None:
            why[one.version] = "it is the newest"
        elif one.version in newest:
            why[one.version] = f"it is one of the {wish.keep} newest"
        elif until > wish.due:
            why[one.version] = "it is younger than the window"
        elif needs.since is not None and until > needs.since:
            why[one.version] = "a reader or writer has pinned it"
    for position, word in needs.exactly.items():
        found = contents.versions.at(position) if position >= created else None
        if found is not None and not is_deleted(contents, found.version):
            why.setdefault(found.version, word)
    if wish.anchor:
        last = max((one.version for one, _ in there if one.version not in why), default=None)
        why |= {} if last is None else {last: "it is the anchor: who has begun to write on it needs it"}
    return why


def _ranges(versions: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for one in versions:
        if last is not None and one == last + 1:
            last = one
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = one
    if first is not None and last is not None:
        yield first, last
