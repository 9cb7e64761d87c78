"""What stays readable below the floor: the lake where tags and pins need it, and versions of tables one by one (rule A6).

Stored before the floor passes it, and removed by the first prune that finds nobody who needs it any more.
"""

from collections.abc import Iterable, Iterator

import msgspec

from phalanx.catalog import Name, State, Table, step
from phalanx.contents import Contents, is_deleted
from phalanx.objects import layout
from phalanx.txn.core import Core
from phalanx.txn.dated import keep_version, load_kept


class Replaced(msgspec.Struct, frozen=True):
    """A version of a table as it was when the next one landed."""

    name: Name
    table: Table
    contents: Contents
    time: int

    def keep(self, core: Core, newest: State) -> None:
        """Store it, unless it was deleted since."""
        now = newest.contents.get(self.table.id)
        if now is not None and not is_deleted(now, self.contents.version):
            keep_version(core, self.name, self.table, self.contents, self.time)


def replaced(core: Core, newest: State, since: int, floor: int) -> Iterator[Replaced]:
    """The versions that stay, and that the floor is about to pass."""
    for walked in core.log.walk(max(since - 1, 1), floor - 1):
        state = walked.before.state
        for landing, transaction in walked.landings:
            before, state = state, step(state, landing, transaction)
            for table in {one for action in transaction.actions if (one := getattr(action, "table", None))}:
                old, new, now = before.contents.get(table), state.contents.get(table), newest.contents.get(table)
                if old is None or now is None or not old.version or (new is not None and new.version == old.version):
                    continue
                if not is_deleted(now, old.version):  # also the last one of a table that was dropped and is back
                    name = before.names[table]
                    yield Replaced(name, before.tables[name], old, walked.before.time)


def kept_states(core: Core, wanted: set[int]) -> list[tuple[str, State]]:
    """What is kept: the lake at the positions that are wanted, and all versions of tables that are kept by themselves."""
    found: list[tuple[str, State]] = []
    for listed in core.store.list(layout.KEPT):
        position, version = layout.kept_position(listed.name), layout.version_kept(listed.name)
        if version is not None or (position is not None and position - 1 in wanted):
            base = load_kept(core, listed.name)
            found += [] if base is None else [(listed.name, base.state)]
    return found


def needless(names: Iterable[str], newest: State, exactly: set[int], pinned: set[str]) -> list[str]:
    """What was kept for tags and pins that are gone, and of versions that were deleted.

    Versions of a table that somebody reads stay, whatever became of the table.
    """
    gone: list[str] = []
    for name in names:
        position, version = layout.kept_position(name), layout.version_kept(name)
        needed = position is None or position - 1 in exactly
        if version is not None:
            needed = name in pinned or is_listed(newest, *version)
        gone += [] if needed else [name]
    return gone


def is_listed(state: State, table: str, version: int) -> bool:
    """Whether a version of a table can still be asked for: a table that was dropped and is back may not list all it had."""
    contents = state.contents.get(table)
    return contents is not None and contents.versions.of(version) is not None and not is_deleted(contents, version)


def is_pinned(name: str, state: State, exactly: set[int]) -> bool:
    """Whether somebody reads what is kept here: the lake at a position, or a version of a table."""
    position, version = layout.kept_position(name), layout.version_kept(name)
    if position is not None:
        return position - 1 in exactly
    if version is None or version[0] not in state.contents:
        return False
    found = [state.contents[version[0]].versions.at(one) for one in exactly]
    return any(one is not None and one.version == version[1] for one in found)
