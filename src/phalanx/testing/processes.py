"""Real processes that a test starts, stops, resumes and kills."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class Process:
    """`python -c code arguments…`, in a process of its own; killed at the latest when the block ends."""

    def __init__(self, code: str, *arguments: object, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and a test's own code
            [sys.executable, "-c", code, *(str(argument) for argument in arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},  # noqa: TID251 - passed on to the child
        )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def line(self) -> str:
        """The next line it prints; the test waits for it."""
        if self._process.stdout is None:  # pragma: no cover - it is piped
            raise AssertionError
        return self._process.stdout.readline().strip()

    def tell(self, text: str) -> None:
        """Write a line to its standard input."""
        if self._process.stdin is None:  # pragma: no cover - it is piped
            raise AssertionError
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: it does nothing more, from one instruction to the next."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        halt(self.pid)

    def wait_until_stopped(self, timeout: float = 30) -> None:
        """Wait until it has stopped, by whatever stopped it."""
        _wait_until_stopped(self.pid, timeout)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def finish(self, timeout: float = 120) -> str:
        """Wait for its end and give its output; a failure fails the test, with what it said."""
        out, err = self._process.communicate(timeout=timeout)
        if self._process.returncode != 0:
            raise AssertionError(f"process ended with {self._process.returncode}:\n{out}\n{err}")
        return out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def halt(pid: int) -> None:
    """SIGSTOP, and wait until all threads of a process have stopped: until then they go on, and answer."""
    os.kill(pid, signal.SIGSTOP)
    _wait_until_stopped(pid)


def _wait_until_stopped(pid: int, timeout: float = 30) -> None:
    end = time.monotonic() + timeout
    while set(_states(pid)) != {"T"}:
        if time.monotonic() > end:
            raise AssertionError(f"process {pid} did not stop within {timeout} s")
        time.sleep(0.001)


def _states(pid: int) -> Iterator[str]:
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),  # it has ended
            open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file,  # noqa: PTH123
        ):
            yield file.read().rpartition(")")[2].split()[0]
