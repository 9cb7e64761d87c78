"""A table at one of its own versions, which count its changes: where that landed, and what it held there (rule G1)."""

from rpds import HashTrieMap

from phalanx.catalog import Catalog, State, Table, step
from phalanx.clock import Deadline
from phalanx.contents import Contents, is_deleted
from phalanx.errors import NotFoundError, SnapshotExpiredError, VersionDeletedError
from phalanx.log import base as bases
from phalanx.log.base import NO_CHAIN, NOBODY, Base
from phalanx.log.cursor import View
from phalanx.log.floor import MAX_BASE, put_base
from phalanx.log.recent import Recent
from phalanx.objects import layout
from phalanx.txn.core import Core, Found, locate
from phalanx.versions import Landed

_TRIES = 4


class NoVersionError(NotFoundError):
    """The table is there, and has no such version."""


def landed(here: Found, version: int) -> Landed:
    """Where a version of a table landed."""
    found = here.contents.versions.of(version)
    name = ".".join(here.name)
    if found is None:
        raise NoVersionError(f"table {name!r} has no version {version}: it is at version {here.contents.version}")
    if is_deleted(here.contents, version):
        raise VersionDeletedError(f"version {version} of table {name!r} was deleted: choose another one")
    return found


def at_version(core: Core, here: Found, at: Landed) -> Found:
    """The table at one of its versions."""
    if here.contents.version == at.version:
        return here
    for _ in range(_TRIES):
        try:
            return _at_version(core, here, at)
        except SnapshotExpiredError:
            now = locate(core.refresh(), here.table.id)
            if is_deleted(now.contents, at.version):
                break
            # Somebody has raised the floor meanwhile: what was in the log is kept by itself now.
    return _at_version(core, here, at)


def _at_version(core: Core, here: Found, at: Landed) -> Found:
    """As it was when the next one landed, because that is what prune keeps of it: a flush may have moved its rows since."""
    lowest = core.log.oldest() - 1
    following = next(here.contents.versions.oldest_first(at.version), None)
    if following is not None and following.position > lowest:
        found = _before(core, here, following)
        if found is not None and found.contents.version == at.version:
            return found  # otherwise it was dropped in between, and is back
    if at.position < lowest:  # what made it is no longer in the log
        return _kept(core, here, at)
    found = locate(core.log.at(at.position), here.table.id)
    if found.contents.version == at.version:
        return found
    if at.position == lowest:  # later changes of the same entry are in the floor, and the entry is gone
        return _kept(core, here, at)
    walked = next(iter(core.log.walk(at.position - 1, at.position)))  # later changes of the same entry are left out
    state = walked.before.state
    for landing, transaction in walked.landings:
        state = step(state, landing, transaction)
        if landing.place == at.place:
            break
    return locate(View(at.position, walked.time, state), here.table.id)


def _before(core: Core, here: Found, following: Landed) -> Found | None:
    """The table just before a version of it landed; None if it was not there."""
    view = core.log.at(following.position - 1)
    if following.place:
        view = View(view.position, view.time, state_before(core, following.position, following.place))
    return locate(view, here.table.id) if here.table.id in view.state.names else None


def state_before(core: Core, position: int, place: int) -> State:
    """The lake just before one of the transactions of an entry."""
    walked = next(iter(core.log.walk(position - 1, position)))
    state = walked.before.state
    for landing, transaction in walked.landings:
        if landing.place == place:
            break
        state = step(state, landing, transaction)
    return state


def keep_version(core: Core, name: tuple[str, ...], table: Table, contents: Contents, time: int) -> None:
    """Keep one version of a table, tail included, before the floor passes it (rule A6)."""
    state = State(
        founded=True,
        settings=core.log.settings,
        tables=HashTrieMap([(name, table)]),
        names=HashTrieMap([(table.id, name)]),
        contents=HashTrieMap([(table.id, contents)]),
    )
    base = Base(core.log.lake, contents.changed + 1, NOBODY, NO_CHAIN, time, Recent(0), state)
    where = layout.kept_version(table.id, contents.version)
    put_base(core.store, where, base, Catalog(), Deadline.after(core.clock, core.timeout), core.clock)


def load_kept(core: Core, name: str) -> Base[State] | None:
    """A fold that was kept, of the whole lake or of one table; None if it is gone."""
    data = core.store.get(name, limit=MAX_BASE)
    return None if data is None else bases.decode(data, Catalog(), name)


def _kept(core: Core, here: Found, at: Landed) -> Found:
    base = load_kept(core, layout.kept_version(here.table.id, at.version))
    if base is None:
        raise SnapshotExpiredError(
            f"version {at.version} of table {'.'.join(here.name)!r} is no longer kept: choose a newer one"
        )
    return locate(View(base.position - 1, base.time, base.state), here.table.id)
