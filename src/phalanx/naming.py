"""The part of a lake that is only names: namespaces, tags, properties and the progress of sources."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from phalanx.log import action as do
from phalanx.names import parse_name, parse_word
from phalanx.snapshot import Snapshot
from phalanx.upkeep.due import check_habit
from phalanx.upkeep.limits import check_property


class Naming(ABC):
    """What a lake knows by name, besides its tables."""

    @abstractmethod
    def refresh(self) -> Snapshot:
        """The newest snapshot."""

    @abstractmethod
    def commit(self, actions: Sequence[do.Action], *, note: str = "", timeout: float | None = None) -> int:
        """Bring these actions into the log as one transaction; the position they landed on."""

    def namespaces(self, inside: str | None = None) -> list[str]:
        """The names of all namespaces, or of those directly inside one."""
        return self.refresh().namespaces(inside)

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> int:
        """Create a namespace; the one above it must exist."""
        parts = parse_name(name, "namespace")
        return self.commit([do.CreateNamespace(parts, dict(properties or {}))], timeout=timeout)

    def alter_namespace(self, name: str, properties: Mapping[str, str | None], *, timeout: float | None = None) -> int:
        """Set properties of a namespace, or remove those that are None."""
        parts = parse_name(name, "namespace")
        return self.commit([do.AlterNamespace(parts, dict(properties))], timeout=timeout)

    def drop_namespace(self, name: str, *, timeout: float | None = None) -> int:
        """Drop an empty namespace."""
        return self.commit([do.DropNamespace(parse_name(name, "namespace"))], timeout=timeout)

    def tags(self) -> dict[str, int]:
        """Tags, and the versions they name."""
        return self.refresh().tags()

    def untag(self, name: str, *, timeout: float | None = None) -> int:
        """Remove a tag."""
        return self.commit([do.Untag(parse_word(name, "tag"))], timeout=timeout)

    def properties(self) -> dict[str, str]:
        """The lake's properties."""
        return self.refresh().properties()

    def set_property(self, key: str, value: str | None, *, timeout: float | None = None) -> int:
        """Set a property of the lake, or remove it with None."""
        check_property(key, value)
        check_habit(key, value)
        return self.commit([do.SetProperty(parse_word(key, "property"), value)], timeout=timeout)

    def progress(self, source: str) -> int | None:
        """How far a source (a stream, a pipeline, a feed) has come; None if it is not known."""
        return self.refresh().progress(source)

    def record_progress(self, source: str, new: int, *, expected: int | None, timeout: float | None = None) -> int:
        """Move a source from `expected` to `new`; done before, it answers the same again; from elsewhere, it refuses."""
        return self.commit([do.Progress(source, expected, new)], timeout=timeout)
