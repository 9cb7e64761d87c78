"""`LanceNamespace` over a lake: what stock pylance and LanceDB ask of a catalog, answered from the log (rules G1-G3).

Tables are managed: a client that writes stages a version and asks for it to be created; that is a commit like any other.
A version is a table's own, which counts its changes; Lance's numbers are never shown.
"""

import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import lance_namespace as spec

from phalanx.errors import InvalidInputError, NotFoundError, UnsupportedError
from phalanx.lake import Lake, open_lake
from phalanx.namespace import materialise, wire
from phalanx.namespace.batch import Batch
from phalanx.namespace.listing import list_versions, page
from phalanx.namespace.wire import NoNamespaceError, Request, field, table_id, told
from phalanx.txn.core import Core, Found, find
from phalanx.txn.dated import landed

log = logging.getLogger("phalanx.namespace")

R = TypeVar("R")


_THREADS = 16
_Method = Callable[["PhalanxNamespace", Request], R]


def _apart(method: _Method[R]) -> _Method[R]:
    """In a thread of its own: Lance asks from inside its own runtime, where it cannot be called again."""

    @functools.wraps(method)
    def call(self: "PhalanxNamespace", request: Request) -> R:
        return self._pool.submit(method, self, request).result()

    return call


class PhalanxNamespace(spec.LanceNamespace):
    """The tables of a lake for stock Lance clients. Safe to use from many threads."""

    def __init__(self, lake: Lake | None = None, **properties: str) -> None:
        if lake is None:
            if "uri" not in properties:
                raise InvalidInputError("give a lake, or the property 'uri' that says where it is")
            options = {name: value for name, value in properties.items() if name != "uri"}
            lake = open_lake(properties["uri"], create=True, storage_options=options or None)
            weakref.finalize(self, lake.close)
        self._lake = lake
        self._pool = ThreadPoolExecutor(_THREADS, "phalanx-namespace")

    @property
    def lake(self) -> Lake:
        """The lake behind it."""
        return self._lake

    @property
    def _core(self) -> Core:
        return self._lake.core

    def namespace_id(self) -> str:
        """Which lake this is: equal for two of the same."""
        return f"phalanx:{self._lake.uri}"

    @_apart
    def list_namespaces(self, request: Request) -> spec.ListNamespacesResponse:
        """The namespaces directly inside one."""
        with told():
            names = self._inside(request, self._lake.refresh().namespaces)
            chosen, token = page(names, request)
            return spec.ListNamespacesResponse(namespaces=chosen, page_token=token)

    @_apart
    def describe_namespace(self, request: Request) -> spec.DescribeNamespaceResponse:
        """A namespace's properties."""
        with told(missing=spec.NamespaceNotFoundError):
            name = wire.name_of(request)
            held = self._lake.refresh().namespace(".".join(name)).properties if name else {}
            return spec.DescribeNamespaceResponse(properties=dict(held))

    def namespace_exists(self, request: Request) -> spec.NamespaceExistsResponse:
        """An error if there is none."""
        self.describe_namespace(request)
        return spec.NamespaceExistsResponse()

    @_apart
    def create_namespace(self, request: Request) -> spec.CreateNamespaceResponse:
        """Create a namespace; the mode says what to do if there is one."""
        mode = str(field(request, "mode", "create")).lower()
        properties = field(request, "properties", {})
        with told(spec.NamespaceAlreadyExistsError, spec.NamespaceNotFoundError):
            if mode not in ("create", "exist_ok", "existok"):
                raise UnsupportedError(f"mode {mode!r} is not there for namespaces: use create or exist_ok")
            name = ".".join(wire.name_of(request))
            if mode in ("exist_ok", "existok") and name in self._lake.namespaces():
                properties = self._lake.refresh().namespace(name).properties
            else:
                self._lake.create_namespace(name, properties)
            return spec.CreateNamespaceResponse(properties=dict(properties))

    @_apart
    def drop_namespace(self, request: Request) -> spec.DropNamespaceResponse:
        """Drop an empty namespace."""
        with told():
            self._core.refresh()
        with told(missing=spec.NamespaceNotFoundError, state=spec.NamespaceNotEmptyError):
            self._lake.drop_namespace(".".join(wire.name_of(request)))
            return spec.DropNamespaceResponse(properties={})

    @_apart
    def list_tables(self, request: Request) -> spec.ListTablesResponse:
        """The tables directly inside a namespace."""
        with told():
            snapshot = self._lake.refresh()
            names = self._inside(request, snapshot.tables)
            if field(request, "include_declared", default=True) is False:
                prefix = wire.name_of(request)
                names = [name for name in names if find(snapshot.view, ".".join((*prefix, name))).contents.version]
            chosen, token = page(names, request)
            return spec.ListTablesResponse(tables=chosen, page_token=token)

    @_apart
    def describe_table(self, request: Request) -> spec.DescribeTableResponse:
        """Where a table is, and that its versions are managed."""
        with told():
            wire.refuse_branches(request)
            if field(request, "tag") is not None:
                raise UnsupportedError("tags are those of the lake, not of a table: give a version, or leave tag out")
            here = self._found(request)
            version = field(request, "version")
            if version is not None:
                landed(here, version)
            location = self._core.datasets.uri(here.table.id)
            return spec.DescribeTableResponse(
                table=here.name[-1],
                namespace=list(here.name[:-1]),
                version=version or here.contents.version or None,
                location=location,
                table_uri=location,
                storage_options=dict(self._core.datasets.files.options) or None,
                properties=dict(here.table.properties),
                managed_versioning=True,
                is_only_declared=not here.contents.version,
            )

    def table_exists(self, request: Request) -> spec.TableExistsResponse:
        """An error if there is none."""
        self.describe_table(request)
        return spec.TableExistsResponse()

    @_apart
    def drop_table(self, request: Request) -> spec.DropTableResponse:
        """Drop a table; older versions of the lake still have it."""
        with told():
            here = self._found(request)
            self._lake.drop_table(table_id(request))
            return spec.DropTableResponse(id=list(here.name), location=self._core.datasets.uri(here.table.id))

    @_apart
    def rename_table(self, request: Request) -> spec.RenameTableResponse:
        """Give a table another name, possibly in another namespace."""
        with told():
            parent = field(request, "new_namespace_id", list(wire.name_of(request)[:-1]))
            to = (*wire.parse_id(parent), field(request, "new_table_name"))
            self._lake.rename_table(table_id(request), ".".join(to))
            return spec.RenameTableResponse()

    @_apart
    def declare_table(self, request: Request) -> spec.DeclareTableResponse:
        """A table that somebody is about to write: it has a place, and no version yet."""
        with told():
            declared: spec.DeclareTableResponse = self._one("declare_table", request)
            return declared

    @_apart
    def deregister_table(self, request: Request) -> spec.DeregisterTableResponse:
        """A table is no longer the lake's; its files stay."""
        with told():
            gone: spec.DeregisterTableResponse = self._one("deregister_table", request)
            return gone

    @_apart
    def create_table_version(self, request: Request) -> Any:  # noqa: ANN401 - Lance takes a dictionary
        """What a client staged becomes a table's next version, unless there is one of that number."""
        with told(spec.ConcurrentModificationError):
            return self._one("create_table_version", request).model_dump(exclude_none=True)

    @_apart
    def batch_create_table_versions(self, request: Request) -> spec.BatchCreateTableVersionsResponse:
        """Versions of several tables, in one commit: one that exists already rejects all."""
        with told(spec.ConcurrentModificationError):
            batch = Batch(self._lake)
            for entry in field(request, "entries", []):
                batch.add("create_table_version", entry)
            landed, results = batch.commit()
            versions = [result.version for result in results]
            return spec.BatchCreateTableVersionsResponse(transaction_id=str(landed), versions=versions)

    @_apart
    def list_table_versions(self, request: Request) -> Any:  # noqa: ANN401 - Lance takes a dictionary
        """A table's versions, in order; a page is read, not the whole list."""
        with told():
            wire.refuse_branches(request)
            return list_versions(self._core, self._found(request), request)

    @_apart
    def describe_table_version(self, request: Request) -> Any:  # noqa: ANN401 - Lance takes a dictionary
        """Where a version's manifest is; the newest without a number."""
        with told():
            wire.refuse_branches(request)
            here = self._found(request)
            found = materialise.describe(self._core, here, field(request, "version", here.contents.version))
            return {"version": {"version": found.version, "manifest_path": found.path, "manifest_size": found.size}}

    @_apart
    def batch_delete_table_versions(self, request: Request) -> spec.BatchDeleteTableVersionsResponse:
        """Ranges of versions of one table, or `entries` of several, go in one commit; one refusal rejects all."""
        with told():
            batch = Batch(self._lake)
            for entry in field(request, "entries", [request]):
                batch.add("delete_table_versions", entry)
            landed, results = batch.commit()
            deleted = sum(result.deleted_count for result in results)
            return spec.BatchDeleteTableVersionsResponse(deleted_count=deleted, transaction_id=str(landed))

    @_apart
    def batch_commit_tables(self, request: Request) -> spec.BatchCommitTablesResponse:
        """Any mix of declare, create version, delete versions and deregister, in one commit; results in order."""
        with told(spec.ConcurrentModificationError):
            batch = Batch(self._lake)
            kinds = []
            for operation in field(request, "operations", []):
                [(kind, asked)] = _operation(operation)
                kinds.append(kind)
                batch.add(kind, asked)
            landed, results = batch.commit()
            named = [spec.CommitTableResult(**{kind: one}) for kind, one in zip(kinds, results, strict=True)]
            return spec.BatchCommitTablesResponse(transaction_id=str(landed), results=named)

    def _one(self, kind: str, request: Request) -> Any:  # noqa: ANN401 - the response of that kind
        batch = Batch(self._lake)
        batch.add(kind, request)
        return batch.commit()[1][0]

    def _found(self, request: Request) -> Found:
        return find(self._core.refresh(), table_id(request))

    def _inside(self, request: Request, names: Any) -> list[str]:  # noqa: ANN401 - tables or namespaces of a snapshot
        """Last parts of the names directly inside the namespace that a request names."""
        inside = wire.name_of(request)
        try:
            found: Sequence[str] = names(".".join(inside)) if inside else [one for one in names() if "." not in one]
        except NotFoundError as error:
            raise NoNamespaceError(str(error)) from error
        return [one.rpartition(".")[2] for one in found]


def _operation(operation: Request) -> list[tuple[str, Request]]:
    kinds = ("declare_table", "create_table_version", "delete_table_versions", "deregister_table")
    found = [(kind, field(operation, kind)) for kind in kinds if field(operation, kind) is not None]
    if len(found) != 1:
        raise InvalidInputError(f"an operation is one of {', '.join(kinds)}: give exactly one")
    return found
