"""What clients need to know of a server, and how one is started as a process of its own.

The process prints where it listens and ends when its standard input closes, so that none is left behind, however the
process that started it ends.
"""

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

START_SECONDS = 60.0
"""How long a server may take to say where it listens; far more than it needs on an idle machine."""

_LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Server:
    """A bucket on a loopback server."""

    scheme: str
    bucket: str
    port: int
    path: str = ""
    """What the endpoint's address has after the port."""
    credentials: Mapping[str, str] = field(default_factory=dict)

    def uri(self, prefix: str) -> str:
        """The address of a prefix in the bucket."""
        return f"{self.scheme}://{self.bucket}/{prefix}"

    @property
    def endpoint(self) -> str:
        """Where requests go."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    @property
    def options(self) -> dict[str, str]:
        """The `storage_options` for it."""
        return {**self.credentials, "endpoint": self.endpoint, "allow_http": "true"}

    def at(self, port: int) -> "Server":
        """The same bucket, reached through another port."""
        return replace(self, port=port)


@contextmanager
def running(command: Sequence[str | Path], folder: Path) -> Iterator[int]:
    """Start a server in `folder`, wait until it says where it listens, give its port, and end it."""
    log = folder / "errors"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    try:
        port = _port(process, log)
        timer.cancel()
        yield port
    finally:
        timer.cancel()
        _end(process)


def _port(process: "subprocess.Popen[str]", log: Path) -> int:
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        if found := _LISTENS.search(line):
            threading.Thread(target=_drain, args=[process.stdout], daemon=True).start()
            return int(found[1])
        said.append(line)
    msg = f"the server did not start: {process.args!r} said {''.join(said)} {log.read_text()}"
    raise RuntimeError(msg)


def _drain(said: IO[str]) -> None:
    """Read what nobody wants to know, so that the server never waits for a reader."""
    with said:
        said.read()


def _end(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
