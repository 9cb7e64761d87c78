"""A snapshot: the whole lake at one position, as an immutable value."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from phalanx.catalog import Name, Namespace, State, Table, within
from phalanx.describe import TableInfo, TableSummary, describe, summarize
from phalanx.errors import NotFoundError
from phalanx.log.cursor import View
from phalanx.names import parse_name
from phalanx.table import SnapshotTable
from phalanx.txn.core import Core, Found, find

if TYPE_CHECKING:
    from phalanx.sql import Answer


class Snapshot:
    """The lake at a version. Later commits do not change it."""

    def __init__(self, view: View[State], core: Core) -> None:
        self._view = view
        self._core = core
        self._held = core.hold(view.position)

    def __getitem__(self, name: str) -> SnapshotTable:
        """A table at this version."""
        return SnapshotTable(self._core, find(self._view, name), self._held)

    def found(self, name: str) -> Found:
        """A table as the fold has it."""
        return find(self._view, name)

    @property
    def view(self) -> View[State]:
        """The position, its time and the fold."""
        return self._view

    def sql(self, text: str, *, params: Sequence[object] | Mapping[str, object] | None = None) -> "Answer":
        """The answer to a statement that reads tables at this version, as DuckDB speaks SQL; `params` for ? or $name."""
        from phalanx.sql import ask  # noqa: PLC0415 - an engine takes time to load, and few ask

        return ask(self._core, self._view, text, params)

    @property
    def version(self) -> int:
        """The position in the log."""
        return self._view.position

    @property
    def time(self) -> datetime:
        """When that position was committed."""
        return datetime.fromtimestamp(self._view.time / 1e6, tz=UTC)

    @property
    def state(self) -> State:
        """The fold itself."""
        return self._view.state

    def tables(self, namespace: str | None = None) -> list[str]:
        """The names of all tables, or of those directly inside a namespace."""
        if namespace is None:
            return sorted(".".join(name) for name in self.state.tables)
        self.namespace(namespace)
        return [".".join(name) for name in within(self.state, parse_name(namespace, "namespace"))[1]]

    def table(self, name: str) -> tuple[Name, Table]:
        """A table as the catalog knows it."""
        found = find(self._view, name)
        return found.name, found.table

    def describe(self, name: str) -> TableInfo:
        """A table's columns, key, rows, head and tail; nothing is scanned."""
        return describe(self._core, find(self._view, name))

    def summaries(self, namespace: str | None = None) -> list[TableSummary]:
        """A few words on each table: its version, and how much of it is not written out. Reads nothing."""
        return summarize(self.state, self.tables(namespace))

    def namespaces(self, inside: str | None = None) -> list[str]:
        """The names of all namespaces, or of those directly inside one."""
        if inside is None:
            return sorted(".".join(name) for name in self.state.namespaces)
        self.namespace(inside)
        return [".".join(name) for name in within(self.state, parse_name(inside, "namespace"))[0]]

    def namespace(self, name: str) -> Namespace:
        """A namespace with its properties."""
        found = self.state.namespaces.get(parse_name(name, "namespace"))
        if found is None:
            msg = f"there is no namespace {name!r} at version {self.version}: create it with create_namespace"
            raise NotFoundError(msg)
        return found

    def tags(self) -> dict[str, int]:
        """Tags, and the versions they name."""
        return {name: tag.position for name, tag in sorted(self.state.tags.items())}

    def properties(self) -> dict[str, str]:
        """The lake's properties."""
        return dict(sorted(self.state.properties.items()))

    def progress(self, source: str) -> int | None:
        """How far a source has come; None if it is not known."""
        mark = self.state.progress.get(source)
        return None if mark is None else mark.number
