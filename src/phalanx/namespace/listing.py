"""Pages: names in order, and versions of a table, of which no more is read than is asked for."""

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from phalanx.contents import is_deleted
from phalanx.errors import InvalidInputError, PhalanxError, SnapshotExpiredError
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.namespace.materialise import describe, public
from phalanx.namespace.wire import Request, field
from phalanx.objects import layout
from phalanx.tables.dataset import manifest_name
from phalanx.tables.manifest import MANAGED, managed_name
from phalanx.txn.core import Core, Found
from phalanx.versions import Landed

log = logging.getLogger("phalanx.namespace")

MOST = 1000
"""Names or versions in a page where none is asked for."""


def page(names: Sequence[str], request: Request) -> tuple[list[str], str | None]:
    """The names that come after the page before, and the token of this one."""
    after, limit = field(request, "page_token", ""), _limit(request)
    rest = [name for name in sorted(names) if name > after]
    return rest[:limit], rest[limit - 1] if len(rest) > limit else None


def list_versions(core: Core, here: Found, request: Request) -> dict[str, Any]:
    """A page of a table's versions: newest first if asked for, oldest first otherwise."""
    limit, token = _limit(request), field(request, "page_token", "")
    if token and not str(token).isdigit():
        raise InvalidInputError(f"{token!r} is no page token of this list: begin without one")
    versions = here.contents.versions
    found: Iterator[Landed]
    if field(request, "descending", default=False):
        found = versions.newest_first(int(token) if token else None)
    else:
        found = versions.oldest_first(int(token) if token else 0)
    there = (one for one in found if not is_deleted(here.contents, one.version))
    chosen = list(itertools.islice(there, limit + 1))
    token = str(chosen[limit - 1].version) if len(chosen) > limit else None
    sizes = _sizes(core, here)
    return {"versions": [_told(core, here, one, sizes) for one in chosen[:limit]], "page_token": token}


def _sizes(core: Core, here: Found) -> dict[str, int]:
    return {one.name: one.size for one in core.store.list(layout.table(here.table.id, MANAGED))}


def _told(core: Core, here: Found, one: Landed, sizes: dict[str, int]) -> dict[str, Any]:
    """A version: where its manifest is or will be, when it was made; and that it is damaged, if it is."""
    name = layout.table(here.table.id, managed_name(one.version))
    told: dict[str, Any] = {"version": one.version, "manifest_path": public(core, name)}
    if name in sizes:
        told["manifest_size"] = sizes[name]
    try:
        if one.version == here.contents.version and name not in sizes:
            told["manifest_size"] = describe(core, here, one.version).size  # clients open it without asking again
        told["metadata"] = {"lake_version": str(one.position)}
        entry = core.log.read(one.position)
        told["timestamp_millis"] = entry.time // 1000
        missing = _missing(core, here, entry.transactions[one.place].actions)
        problem = f"{missing} is missing" if missing else None
    except SnapshotExpiredError:
        problem = None  # its entry was pruned, and it was kept: only when it was made is not known any more
    except PhalanxError as error:
        problem = str(error)
    if problem is not None:
        log.warning("version %s of table %s is damaged: %s", one.version, ".".join(here.name), problem)
        told.setdefault("metadata", {})["damaged"] = problem
    return told


def _missing(core: Core, here: Found, actions: Sequence[object]) -> str | None:
    """The manifest that a commit named for this table, if it is not there."""
    named = [_named(action) for action in actions if getattr(action, "table", None) == here.table.id]
    for manifest in filter(None, named):
        name = layout.table(here.table.id, manifest_name(manifest))
        if core.store.get(name, limit=1 << 30) is None:
            return name
    return None


def _named(action: object) -> int | None:
    if isinstance(action, it.Advance | it.Restore):
        return action.head
    if isinstance(action, do.CreateTable):
        return action.manifest
    rows = getattr(action, "rows", None)
    return rows.manifest if isinstance(rows, it.Staged) else None


def _limit(request: Request) -> int:
    limit = field(request, "limit", MOST)
    if not isinstance(limit, int) or limit < 1:
        raise InvalidInputError(f"limit is a number of results: {limit!r} is not")
    return min(limit, MOST)
