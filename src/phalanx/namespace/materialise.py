"""Versions for stock clients: a table at one of its versions, written out under an ordinary number (rule G2).

The first one who asks for a version that was made past the namespace has it written out; whoever comes later is told
where it is, and no dataset is opened. What is written is never ahead of the log, and may be lost: it is made again.
"""

import logging

import msgspec

from phalanx.errors import NotFoundError, UnavailableError
from phalanx.objects import Exists, Unknown, layout
from phalanx.tables.dataset import Version, manifest_name
from phalanx.tables.manifest import MANAGED, Manifest, managed_name
from phalanx.txn.core import Core, Found
from phalanx.txn.dated import at_version, landed

log = logging.getLogger("phalanx.namespace")

_LIMIT = 1 << 30


class Described(msgspec.Struct, frozen=True):
    """A version as clients are told of it: the path of its manifest from the root of its storage."""

    version: int
    path: str
    size: int | None


def describe(core: Core, here: Found, version: int) -> Described:
    """Where a version's manifest is; it is written if it is not there."""
    at = landed(here, version)
    name = layout.table(here.table.id, managed_name(version))
    data = core.store.get(name, limit=_LIMIT)
    if data is None:
        reading = core.reading(at_version(core, here, at))
        made = core.overlays.written_out(reading.overlay)
        data = keep(core, name, _manifest(core, made).sealed(version))
        del reading, made  # until now: what they hold is named by what was put
    return Described(version, public(core, name), len(data))


def keep(core: Core, name: str, data: bytes) -> bytes:
    """Put a manifest for clients, and say what is there: somebody else may have put one of the same rows."""
    with core.store.prepare([data]) as blob:
        outcome = blob.put(name)
    if isinstance(outcome, Unknown):
        raise UnavailableError(f"cannot write {name}: {outcome.cause}; nothing was changed, try again")
    found = core.store.get(name, limit=_LIMIT) if isinstance(outcome, Exists) else None
    return data if found is None else found


def _manifest(core: Core, version: Version) -> Manifest:
    name = layout.table(version.table, manifest_name(version.manifest))
    data = core.store.get(name, limit=_LIMIT)
    if data is None:
        raise NotFoundError(f"{name} is missing: run `phalanx check`")
    return Manifest.read(data, name)


def public(core: Core, name: str) -> str:
    """The path of an object as Lance has it: from the root of the file system or the bucket, without a slash."""
    uri = core.datasets.files.uri
    rest = uri.partition("://")[2] if "://" in uri else uri
    inside = rest.partition("/")[2] if "://" in uri else rest
    return f"{inside.strip('/')}/{name}".lstrip("/")


def private(core: Core, path: str) -> str | None:
    """The inverse of `public`; None for a path that is not inside the lake."""
    root = public(core, "")
    return path.lstrip("/").removeprefix(root) if path.lstrip("/").startswith(root) else None


def forget(core: Core, here: Found, ranges: tuple[tuple[int, int], ...]) -> None:
    """Remove what was written of versions that were deleted: best effort, nobody can read them any more."""
    folder = layout.table(here.table.id, MANAGED)
    try:
        names = [one.name for one in core.store.list(folder)]
        gone = [name for name in names if any(first <= _number(name) <= last for first, last in ranges)]
        core.store.delete(gone)
    except UnavailableError as error:
        log.warning("manifests of deleted versions of %s stay for now: %s", ".".join(here.name), error)


def _number(name: str) -> int:
    word = name.rpartition("/")[2].partition(".")[0]
    return int(word) if word.isdigit() else -1
