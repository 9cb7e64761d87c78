"""Restore: tables become again what they were. A change like any other: nothing that happened since is forgotten.

What a table held then is written out, unless it was, and named as its head in one entry for all tables (rule C6). The
generation goes up, so that whatever was staged on the rows in between does not fit any more. Tags, properties and the
progress of sources stay as they are (rule J2).
"""

import logging
from collections.abc import Collection, Sequence

from phalanx.catalog import Dropped, Name, State, Table
from phalanx.contents import Contents
from phalanx.errors import ConflictError, NotFoundError, SnapshotExpiredError, StateError
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.cursor import View
from phalanx.log.entry import MAX_TRANSACTIONS
from phalanx.names import parse_name
from phalanx.tail.writeout import write_out
from phalanx.txn.core import Core, Found, find, locate
from phalanx.txn.dated import state_before
from phalanx.versions import Versions, pack_versions

log = logging.getLogger("phalanx")

ATTEMPTS = 8
_ASIDE = "phalanx_restoring_"


def restore(core: Core, past: View[State], names: Sequence[str] | None, *, note: str, timeout: float | None) -> int:
    """Bring back some tables, or all of them, as they were at a version of the past; the version it landed on."""
    held, deadline = core.hold(past.position), core.deadline(timeout)
    for tries in range(ATTEMPTS, 0, -1):
        now, pin = core.refresh(), core.pins.staging()
        try:
            actions = _some(core, past, now, names) if names is not None else _all(core, past, now)
            if not actions:
                break
            return core.commit(actions, deadline.left(), note=note or f"restore version {past.position}", pins=[pin])
        except (ConflictError, SnapshotExpiredError) as error:
            # A prune may have passed positions that only tell what is left of a table.
            if tries == 1 or not core.refresh().state.retained.has(past.position):
                raise
            log.debug("a restore is planned anew: %s", error)
    del held  # until now: what was there then is named again
    return now.position


def named(past: View[State], now: View[State], names: Sequence[str]) -> list[Found]:
    """Tables of the past, by names that they have now or, if they were dropped since, had then."""
    found = []
    for parts in dict.fromkeys(map(parse_name, names)):
        name = ".".join(parts)
        gone = past.state.tables.get(parts) if parts not in now.state.tables else None
        if gone is None:
            here = find(now, name).table
            try:
                found.append(locate(past, here.id))
            except NotFoundError as error:
                raise NotFoundError(
                    f"table {name!r} did not exist at version {past.position}: it was created at {here.created}"
                ) from error
        elif called := now.state.names.get(gone.id):
            raise NotFoundError(f"there is no table {name!r} any more: it was renamed to {'.'.join(called)!r}")
        else:
            found.append(locate(past, gone.id))
    return found


def _some(core: Core, past: View[State], now: View[State], names: Sequence[str]) -> list[do.Action]:
    """These get what they held; those of them that were dropped come back."""
    found = named(past, now, names)
    actions = _namespaces(past, now, [one.name for one in found if one.table.id not in now.state.names])
    for there in found:
        if there.table.id not in now.state.names:
            actions.append(_revived(core, there.name, there.table, past, now))
        actions += _contents(core, there, now)
    return actions


def _namespaces(past: View[State], now: View[State], tables: Collection[Name]) -> list[do.Action]:
    """Those that are gone, and that tables are in."""
    return [
        do.CreateNamespace(name, held.properties)
        for name, held in sorted(past.state.namespaces.items())
        if name not in now.state.namespaces and any(_inside(table, name) for table in tables)
    ]


def _all(core: Core, past: View[State], now: View[State]) -> list[do.Action]:
    """Tables that are new go, those that went come back, the others get their names and what they held."""
    gone = [(name, table) for name, table in sorted(now.state.tables.items()) if table.id not in past.state.names]
    actions: list[do.Action] = [do.DropTable(name, table.id) for name, table in gone]
    actions += _namespaces(past, now, list(past.state.tables))
    renamed = {
        table.id: name
        for name, table in sorted(past.state.tables.items())
        if now.state.names.get(table.id, name) != name
    }
    aside = {table: (*name[:-1], _ASIDE + table) for table, name in renamed.items()}  # two may have swapped names
    actions += [do.RenameTable(now.state.names[table], table, aside[table]) for table in renamed]
    actions += [do.RenameTable(aside[table], table, name) for table, name in renamed.items()]
    for name, table in sorted(past.state.tables.items()):
        if table.id not in now.state.names:
            actions.append(_revived(core, name, table, past, now))
        actions += _contents(core, locate(past, table.id), now)
    return actions


def _inside(name: Name, namespace: Name) -> bool:
    return len(name) > len(namespace) and name[: len(namespace)] == namespace


def _contents(core: Core, there: Found, now: View[State]) -> list[do.Action]:
    """What brings back the rows of a table; nothing if they have not changed since."""
    held = now.state.contents.get(there.table.id)
    then = there.contents
    if held is not None and (held.changed, held.place) == (then.changed, then.place):
        return []
    if not then.head.manifest:
        raise StateError(
            f"table {'.'.join(there.name)!r} was only declared at version {there.position}: there is nothing to go back to"
        )
    head, next_row_id = then.head.manifest, then.head.next_row_id
    if then.first != then.until or then.head.layout != then.layout.id:
        core.reading(there)
        out = write_out(core.overlays.at(there.shape, then), core.datasets)
        head, next_row_id = out.version.manifest, out.next_row_id
    else:
        core.datasets.open(there.table.id, head)
    return [it.Restore(there.table.id, there.position, head, next_row_id, then.layouts, then.indexes)]


def _revived(core: Core, name: Name, table: Table, past: View[State], now: View[State]) -> do.ReviveTable:
    """A table that was dropped: its versions go on behind the last, and those that the log still has can be asked for.

    Whatever was kept of earlier ones was let go with the table; where a tag names one, the tag reads it.
    """
    retained = now.state.retained
    lowest = max(core.log.oldest(), retained.floor) - 1  # a prune that has decided is still on its way
    gone = now.state.dropped.get(table.id)
    last = None if gone is None or gone.position <= lowest else _last(core, table.id, gone)
    known = last or past.state.contents[table.id]
    # If the floor has passed the drop, it may not be known any more how many versions it had.
    version = known.version + (lowest - past.position) * MAX_TRANSACTIONS if gone is None else gone.version
    there = list(known.versions.oldest_first())
    ends = [*(one.position for one in there[1:]), 0 if gone is None or last is None else gone.position]
    versions = Versions()
    for one, end in zip(there, ends, strict=True):
        if end > lowest:
            versions = versions.add(one.version, one.position, one.place)
    deleted = () if gone is None else gone.deleted
    packed = pack_versions(versions)
    return do.ReviveTable(name, table.id, table.properties, table.created, version, packed, deleted, retained.made)


def _last(core: Core, table: str, gone: Dropped) -> Contents | None:
    """What a table held before the transaction that dropped it."""
    return state_before(core, gone.position, gone.place).contents.get(table)
