"""Rules of the judge on what was pruned and deleted, and what must not be (rules E1, E2, G5).

Prune decides by an entry, so whoever comes after it is judged on what it has left, and it on what they have named before.
"""

from phalanx.catalog import State
from phalanx.contents import is_deleted
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Transaction
from phalanx.txn.verdict import Conflict, Kind, dotted

UPKEEP = "upkeep"
"""The property of a lake that says what is done by itself."""
STAGED, OLDEST = "staged", "oldest"
"""What a transaction says in its `extra`: the staging pins under which its files were written; for those that were
written by somebody who does not pin, the stamp of the oldest, in microseconds."""


def version_needed(state: State, action: it.DeleteVersions, position: int) -> Conflict | None:
    """The newest version stays, and so does every one that a tag names (rule G5)."""
    return _needed(state, action.table, action.ranges)


def _needed(state: State, table: str, ranges: tuple[tuple[int, int], ...]) -> Conflict | None:
    contents = state.contents[table]
    name = dotted(state.names[table])
    for first, last in ranges:
        if not 1 <= first <= last <= contents.version:
            text = f"table {name!r} has no versions {first} to {last}: it is at version {contents.version}"
            return Conflict(Kind.MISSING, text)
        if last == contents.version:
            return Conflict(Kind.IN_USE, f"version {last} of table {name!r} is its newest: it cannot be deleted")
    created = state.tables[state.names[table]].created
    for tag, named in sorted(state.tags.items()):
        held = contents.versions.at(named.position) if named.position >= created else None
        if held is not None and any(first <= held.version <= last for first, last in ranges):
            text = f"version {held.version} of table {name!r} is named by tag {tag!r}: remove the tag first"
            return Conflict(Kind.IN_USE, text, named.made)
    return None


def tag_expired(state: State, action: do.PutTag, position: int) -> Conflict | None:
    """A tag names what can still be read."""
    if state.retained.has(action.position):
        return None
    text = f"version {action.position} is no longer kept: the oldest that is kept is {state.retained.floor - 1}"
    return Conflict(Kind.IN_USE, text, state.retained.made)


def source_expired(state: State, action: it.Restore, position: int) -> Conflict | None:
    """What is brought back must still be there: its files are named anew (rule E2)."""
    contents = state.contents[action.table]
    then = contents.versions.at(action.source)
    if state.retained.has(action.source) and not (then is not None and is_deleted(contents, then.version)):
        return None
    name = dotted(state.names[action.table])
    return Conflict(Kind.IN_USE, f"version {action.source} of the lake is no longer kept for table {name!r}")


def revival_pruned(state: State, action: do.ReviveTable, position: int) -> Conflict | None:
    """What is left of a table's versions was looked up before the last prune, which did not know of the table."""
    if state.retained.made <= action.pruned:
        return None
    text = f"a prune has landed since it was looked up what is left of table {dotted(action.name)!r}"
    return Conflict(Kind.VOID, text, state.retained.made)


def pruned_by_itself(state: State, action: do.Prune, position: int) -> Conflict | None:
    """Once it is said that nothing prunes by itself, nobody does, however little they have heard (known bug 36)."""
    if action.by_itself and state.properties.get(UPKEEP) != "on":
        return Conflict(Kind.IN_USE, f"the lake does not prune by itself: its property {UPKEEP} is not on")
    return None


def prune_too_far(state: State, action: do.Prune, position: int) -> Conflict | None:
    """The last entry stays (rule A2)."""
    if action.floor < position:
        return None
    return Conflict(Kind.MISSING, f"the floor cannot be {action.floor}: the lake is at version {position - 1}")


def prune_overtaken(state: State, action: do.Prune, position: int) -> Conflict | None:
    """Another prune has gone further meanwhile, and may keep what this one knows nothing of: it has to be decided anew."""
    if action.floor >= state.retained.floor:
        return None
    return Conflict(Kind.VOID, f"another prune has raised the floor to {state.retained.floor}", state.retained.made)


def prune_needed(state: State, action: do.Prune, position: int) -> Conflict | None:
    """Somebody has tagged meanwhile what it would let go, or let go of what it would keep: decided anew as well."""
    for tag, named in sorted(state.tags.items()):
        passed = named.position < action.floor - 1 and named.position not in action.kept
        if passed and state.retained.has(named.position):
            return Conflict(Kind.VOID, f"tag {tag!r} names version {named.position}", named.made)
    for one in action.kept:
        if not state.retained.has(one):
            return Conflict(Kind.VOID, f"version {one} was let go by another prune", state.retained.made)
    for table, ranges in action.versions:
        if table in state.contents:
            found = _needed(state, table, ranges)
            if found is not None:
                return Conflict(Kind.VOID, found.message, found.position)
    return None


def let_go(transaction: Transaction, state: State) -> Conflict | None:
    """Whether a prune has let go of files that it names (rule E2)."""
    for one in transaction.extra.get(STAGED, ()):
        if not state.retained.lets((bytes(one[0]), int(one[1]))):
            text = "files that were written for this change were pruned, because its pin was not renewed in time"
            return Conflict(Kind.RESTAGE, text, state.retained.made)
    oldest = transaction.extra.get(OLDEST)
    if oldest is not None and oldest < state.retained.cutoff:
        text = "files of this change are older than the window within which a version has to be created"
        return Conflict(Kind.RESTAGE, text, state.retained.made)
    return None
