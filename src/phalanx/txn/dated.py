"""A table at one of its own versions, which count its changes: where that landed, and what it held there (rule G1)."""

from phalanx.catalog import step
from phalanx.contents import is_deleted
from phalanx.errors import NotFoundError, VersionDeletedError
from phalanx.log.cursor import View
from phalanx.txn.core import Core, Found, locate
from phalanx.versions import Landed


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
    found = locate(core.log.at(at.position), here.table.id)
    if found.contents.version == at.version:
        return found
    walked = next(iter(core.log.walk(at.position - 1, at.position)))  # later changes of the same entry are left out
    state = walked.before.state
    for landing, transaction in walked.landings:
        state = step(state, landing, transaction)
        if landing.place == at.place:
            break
    return locate(View(at.position, walked.time, state), here.table.id)
