"""Operations of the namespace that land together: one entry for all of them, or nothing.

Each is checked on the lake as the ones before it leave it, and everything a client staged is made durable, before the one
commit. What is only tidying up (manifests of deleted versions, manifests for the next client) comes after it, best effort.
"""

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import lance_namespace as spec
import msgspec

from phalanx.catalog import State, apply
from phalanx.contents import is_deleted
from phalanx.errors import AlreadyExistsError, InvalidInputError, PhalanxError, StateError
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.cursor import View
from phalanx.log.entry import Landing
from phalanx.namespace import wire
from phalanx.namespace.adopt import adopt, staged
from phalanx.namespace.materialise import forget, keep, public
from phalanx.namespace.wire import Request, field, table_id
from phalanx.objects import layout
from phalanx.pinned import seen
from phalanx.pins import AT, FROM, STAGING, Pin
from phalanx.tables.manifest import Manifest, managed_name
from phalanx.txn.commit import refusal
from phalanx.txn.conflict import judge_action
from phalanx.txn.core import Found, find
from phalanx.txn.dated import NoVersionError
from phalanx.txn.verdict import Conflict

log = logging.getLogger("phalanx.namespace")


class _Planned(msgspec.Struct):
    """An operation: what it does to the lake, what it answers, and what is left to do once it has landed.

    One without an action changes nothing that the lake knows.
    """

    action: do.Action | None
    answer: Any
    after: Callable[[], object] | None = None


class Batch:
    """Operations on their way into one commit. Belongs to one thread."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._core = lake.core
        self._view: View[State] = self._core.refresh()
        self._planned: list[_Planned] = []
        self._advanced: set[str] = set()
        self._pins: list[Pin] = []
        self._oldest: int | None = None

    def add(self, kind: str, request: Request) -> None:
        """One more operation, on what the ones before it leave."""
        plans: dict[str, Callable[[Request], _Planned]] = {
            "declare_table": self._declare,
            "create_table_version": self._create_version,
            "delete_table_versions": self._delete_versions,
            "deregister_table": self._deregister,
        }
        try:
            self._add(plans[kind](request), request)
        except BaseException:
            self._pins.clear()
            raise

    def _add(self, planned: _Planned, request: Request) -> None:
        self._planned.append(planned)
        if planned.action is None:
            return
        state, position = self._view.state, self._view.position
        objection = judge_action(state, planned.action, position + 1)
        if isinstance(objection, Conflict):
            raise refusal(objection)
        if isinstance(planned.action, it.DeleteVersions):
            self._require_unpinned(self._found(request), planned.action.ranges)
        self._view = View(
            position, self._view.time, apply(state, Landing(position + 1, len(self._planned)), planned.action)
        )

    def commit(self) -> tuple[int, list[Any]]:
        """All of it lands; the version of the lake, and the answers in order."""
        if not self._planned:
            raise InvalidInputError("there is nothing to do: give at least one operation")
        actions = [planned.action for planned in self._planned if planned.action is not None]
        try:
            landed = self._land(actions) if actions else self._view.position
        finally:
            self._pins.clear()  # a batch is a circle: without this they would stand until it is found
        for planned in self._planned:
            try:
                if planned.after is not None:
                    planned.after()
            except PhalanxError as error:
                log.warning("committed at version %s; what is left is made up for later: %s", landed, error)
            if "transaction_id" in type(planned.answer).model_fields:
                planned.answer.transaction_id = str(landed)
        return landed, [planned.answer for planned in self._planned]

    def _land(self, actions: list[do.Action]) -> int:
        deadline = self._core.deadline(None)
        intent = self._core.intent(actions, deadline, pins=self._pins, oldest=self._oldest)
        return self._core.committer.commit(intent)

    def _declare(self, request: Request) -> _Planned:
        name = wire.name_of(request)
        if not name:
            raise InvalidInputError("the request names no table: give its id, for example ['turns']")
        if field(request, "location") is not None:
            raise InvalidInputError("the lake decides where a table is: leave location out")
        if name[:-1] and name[:-1] not in self._view.state.namespaces:
            raise wire.NoNamespaceError(f"namespace {'.'.join(name[:-1])!r} does not exist: create it first")
        table = self._core.new_table_id()
        properties = dict(field(request, "properties", {}))
        options = dict(self._core.datasets.files.options) or None
        answer = spec.DeclareTableResponse(
            location=self._core.datasets.uri(table),
            storage_options=options,
            properties=properties,
            managed_versioning=True,
        )
        return _Planned(do.CreateTable(name, table, properties), answer)

    def _create_version(self, request: Request) -> _Planned:
        wire.refuse_branches(request)
        here, version = self._found(request), wire.number(request, "version")
        if version <= here.contents.version:
            raise AlreadyExistsError(f"table {'.'.join(here.name)!r} is at version {here.contents.version} already")
        if version > here.contents.version + 1:
            text = f"version {version} of table {'.'.join(here.name)!r} cannot come after {here.contents.version}"
            raise InvalidInputError(f"{text}: stage the next one")
        if here.table.id in self._advanced:
            raise InvalidInputError(f"table {'.'.join(here.name)!r} is given two versions: one in a commit is enough")
        self._advanced.add(here.table.id)
        name = layout.table(here.table.id, managed_name(version))
        path = str(field(request, "manifest_path", ""))
        given = staged(self._core, here, path)
        if self._changes_nothing(here, version, given):
            told = spec.TableVersion(version=version, manifest_path=public(self._core, name))
            return _Planned(None, spec.CreateTableVersionResponse(version=told))
        self._pins.append(self._core.pins.staging())
        adopted = adopt(self._core, here, version, given)
        if adopted.oldest is not None:
            self._oldest = adopted.oldest if self._oldest is None else min(self._oldest, adopted.oldest)
        data = adopted.shown(version)
        told = spec.TableVersion(version=version, manifest_path=public(self._core, name), manifest_size=len(data))
        return _Planned(
            adopted.action, spec.CreateTableVersionResponse(version=told), lambda: keep(self._core, name, data)
        )

    def _changes_nothing(self, here: Found, version: int, given: Manifest) -> bool:
        """Whether a client only kept numbers of fragments for itself, before it says what it does with them.

        It will ask for the same version again, and would not find the one that it was given now (see docs/tradeoffs.md).
        """
        if version != here.contents.version + 1 or not here.contents.version:
            return False
        if not given.fits:  # it goes on from what it wrote itself, before that was written anew
            return given.reserves
        base = layout.table(here.table.id, managed_name(here.contents.version))
        data = self._core.store.get(base, limit=1 << 30)
        return data is not None and given.says_the_same_as(Manifest.read(data, base))

    def _delete_versions(self, request: Request) -> _Planned:
        wire.refuse_branches(request)
        here = self._found(request)
        ranges = tuple(_range(one, here) for one in field(request, "ranges", []))
        if not ranges:
            raise InvalidInputError("no versions are named: give at least one range")
        answer = spec.BatchDeleteTableVersionsResponse(deleted_count=len(_going(here, ranges)))
        action = it.DeleteVersions(here.table.id, ranges)
        return _Planned(action, answer, lambda: forget(self._core, here, ranges))

    def _require_unpinned(self, here: Found, ranges: tuple[tuple[int, int], ...]) -> None:
        """Refuse to delete what somebody reads at this moment, by name (rule G5)."""
        core = self._core
        core.pins.renew()  # what this process no longer reads is in nobody's way
        store = core.datasets.files.store
        now = store.now()
        for pin in seen(store.list(layout.PINS)):
            idle = pin.kind == FROM and core.pins.owns(pin.id) and pin.position >= core.log.view.position
            if pin.kind == STAGING or pin.expired(now) or idle:
                continue
            held = here.contents.versions.at(pin.position)
            if held is None and pin.kind == AT:
                continue
            version = 0 if held is None else held.version
            for first, last in ranges:
                exactly = pin.kind == AT and first <= version <= last
                if exactly or (pin.kind == FROM and version <= last):
                    which = max(version, first)
                    raise StateError(
                        f"version {which} of table {'.'.join(here.name)!r} is pinned by a running reader: nothing was "
                        "deleted; wait until it is done, then try again"
                    )

    def _deregister(self, request: Request) -> _Planned:
        here = self._found(request)
        location = self._core.datasets.uri(here.table.id)
        answer = spec.DeregisterTableResponse(
            id=list(here.name), location=location, properties=dict(here.table.properties)
        )
        return _Planned(do.DeregisterTable(here.name, here.table.id), answer)

    def _found(self, request: Request) -> Found:
        return find(self._view, table_id(request))


def _range(asked: Request, here: Found) -> tuple[int, int]:
    """A range of the specification (its end is not part of it; -1 is the newest version) as first and last."""
    begin, end = wire.number(asked, "start_version"), wire.number(asked, "end_version")
    first, last = max(begin, 1), here.contents.version if end == -1 else end - 1
    if last < first:
        raise InvalidInputError(f"no version is in the range from {begin} to {end}: its end is not part of it")
    if last > here.contents.version:
        text = f"table {'.'.join(here.name)!r} has no versions {first} to {last}"
        raise NoVersionError(f"{text}: it is at version {here.contents.version}")
    return first, last


def _going(here: Found, ranges: Iterable[tuple[int, int]]) -> set[int]:
    """The versions in these ranges that are there now."""
    there: set[int] = set()
    for first, last in ranges:
        found = itertools.takewhile(lambda one: one.version <= last, here.contents.versions.oldest_first(first - 1))  # noqa: B023
        there.update(one.version for one in found if not is_deleted(here.contents, one.version))
    return there
