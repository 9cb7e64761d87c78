"""The places over which the laws of the storage port are run."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from phalanx.objects import Store, open_store
from tests.servers import FaultProxy, Server, proxied


@dataclass(frozen=True)
class Place:
    """Where stores can be opened; all of them show the same objects."""

    kind: str
    uri: str
    options: Mapping[str, str] | None = None
    prepare: Callable[[Store], None] = lambda _: None

    def open(self, timeout: float = 10.0) -> Store:
        """Another store in the same place."""
        store = open_store(self.uri, self.options, timeout=timeout)
        self.prepare(store)
        return store

    @property
    def remote(self) -> bool:
        """Whether it is behind a network protocol."""
        return self.options is not None


def at(server: Server, prefix: str) -> Place:
    """A prefix on a server."""
    return Place(server.scheme, server.uri(prefix), server.options)


KINDS = ["memory", "local", "local, named temporary files", "local, durability os", "s3", "azure"]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty place, of every kind in turn."""
    if request.param == "memory":
        return Place("memory", f"memory://{tmp_path.name}")
    if request.param in {"s3", "azure"}:
        return at(request.getfixturevalue(f"{request.param}_server"), tmp_path.name)
    if request.param == "local, named temporary files":
        refuse_nameless_files(monkeypatch)
    if request.param == "local, durability os":
        return Place("local", str(tmp_path / "lake"), prepare=lambda store: store.relax())
    return Place("local", str(tmp_path / "lake"))


@pytest.fixture
def store(place: Place) -> Store:
    """A store in that place."""
    return place.open()


@pytest.fixture(params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> Server:
    """A storage server, of every kind in turn."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultProxy]:
    """A fault proxy in front of that server."""
    with proxied(server) as proxy:
        yield proxy


def refuse_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the file system does not know O_TMPFILE."""
    real = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
