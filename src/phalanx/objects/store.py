"""The port to storage: named bytes that are created once and never change.

`Blob.put` is the only way to create an object, and its answer is a value:

- `Created`: the object exists, it is ours, and it is as durable as the lake asks for;
- `Exists`: the name is taken. It may be by us, if an earlier call's answer was lost: read the slot to know;
- `Unknown`: the call may or may not have taken effect, now or later.

A call that certainly had no effect (disk full, permission denied, no such bucket) raises `UnavailableError`. Deciding
what an outcome means for a commit is left to `log/`; names are made in `layout.py`; fault injection wraps this port
(`phalanx.testing.faults`), so product code has no failpoints.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec


class Created(msgspec.Struct, frozen=True):
    """The object is there, ours and durable."""


class Exists(msgspec.Struct, frozen=True):
    """The name was taken before this call could create it."""


class Unknown(msgspec.Struct, frozen=True):
    """Nothing can be said of the effect; `cause` is for people."""

    cause: str


Put = Created | Exists | Unknown


class Listed(msgspec.Struct, frozen=True):
    """One object in a listing; `modified` is in seconds, by the store's own clock."""

    name: str
    size: int
    modified: float


class Sum(msgspec.Struct, frozen=True, array_like=True):
    """How large an object is, and the SHA-256 of its bytes."""

    size: int
    sha256: bytes


class Files(msgspec.Struct, frozen=True):
    """Where whole files live that others write and read by their own means: a Lance dataset needs an address."""

    uri: str
    options: Mapping[str, str]
    store: "Store"
    """The same place, through this port."""

    def __repr__(self) -> str:
        """Without the options: they may hold keys."""
        return f"Files({self.uri!r})"


class Blob(Protocol):
    """Bytes made ready to be put: on a local disk they are written and synced once, however often a name is lost."""

    def put(self, name: str) -> Put:
        """Create the object `name` with these bytes, unless it exists."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let go of the bytes; what was put stays."""
        ...


class Store(Protocol):
    """One lake's storage. Names are relative, with `/` between parts. Safe to use from many threads."""

    uri: str
    """Where this is, for people: never with a secret in it."""

    probes: bool
    """Whether asking for a name costs next to nothing (a local disk), so that nothing need be listed or deferred."""

    def prepare(self, parts: Sequence[bytes], *, lasting: bool = True) -> Blob:
        """Make the concatenation of `parts` ready to be put; not `lasting`, it need not survive a power loss."""
        ...

    def get(self, name: str, *, limit: int) -> bytes | None:
        """The object's bytes, None if it is absent; more than `limit` bytes is a `CorruptionError`."""
        ...

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """Several objects in order, fetched in parallel where that helps; what comes before a failing one is given."""
        ...

    def digest(self, name: str) -> Sum | None:
        """An object's size and SHA-256, with bounded memory however large it is; None if it is absent."""
        ...

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Listed]:
        """The objects below the folder `prefix`, in the order of their names; only those > `after` and < `before`."""
        ...

    def last(self, folder: str) -> str | None:
        """The greatest name directly inside a folder; None if there is none."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; one that is absent already is fine."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove a folder if it has nothing but empty folders (rule A8); nothing to do where folders do not exist."""
        ...

    def sync(self, names: Iterable[str]) -> None:
        """Make the existence of these objects durable, whoever created them (rule H2)."""
        ...

    def persist(self, names: Iterable[str]) -> None:
        """Make files that others wrote durable: their bytes, their existence and every folder above them."""
        ...

    def files(self) -> Files:
        """Where files are, for those who cannot go through this port."""
        ...

    def place(self) -> str | None:
        """The same for two processes of this machine only if they share this storage; None if others cannot see it."""
        ...

    def relax(self) -> None:
        """Stop asking the disk to sync: the lake was created with durability "os" (rule F3)."""
        ...

    def now(self) -> float:
        """The time in seconds by the clock that stamps `Listed.modified` (rule E4)."""
        ...
