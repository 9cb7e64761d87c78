"""Time and chance, as arguments.

The only module that may ask the operating system for the time, for random bytes or for its environment; everything
else is handed a `Clock`, so that tests can move time and repeat a run. Nothing here decides what is committed;
the one place where `steady` carries correctness is rule A7 (docs/protocol.md).
"""

import itertools
import os
import pwd
import random
import time
from collections.abc import Mapping
from typing import Protocol

import msgspec


class Clock(Protocol):
    """Wall time, steady time, sleep and chance."""

    def now(self) -> int:
        """Microseconds since 1970 UTC, for people to read."""
        ...

    def steady(self) -> float:
        """Seconds that never go back and go on while the machine sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def token(self, size: int) -> bytes:
        """Random bytes that no other process draws."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1), for backoff only."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1000

    def steady(self) -> float:
        """CLOCK_BOOTTIME: CLOCK_MONOTONIC stands still while a laptop sleeps, and rule A7 must not."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        time.sleep(seconds)

    def token(self, size: int) -> bytes:
        """See `Clock`."""
        return os.urandom(size)

    def jitter(self) -> float:
        """See `Clock`."""
        return random.random()  # noqa: S311 - backoff needs no secrecy


SYSTEM = SystemClock()


class Deadline(msgspec.Struct, frozen=True):
    """A moment on the steady clock after which nobody waits any longer."""

    clock: Clock
    at: float

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> "Deadline":
        """The moment `seconds` from now."""
        return cls(clock, clock.steady() + seconds)

    def left(self) -> float:
        """Seconds until then; never negative."""
        return max(0.0, self.at - self.clock.steady())

    def passed(self) -> bool:
        """Whether that moment is over."""
        return self.clock.steady() >= self.at


def environment() -> Mapping[str, str]:
    """The process's environment, read here and nowhere else."""
    return os.environ


def set_variable(name: str, value: str) -> None:
    """Set a variable of the environment, for programs that this process starts."""
    os.environ[name] = value


def stand_back(by: int = 10) -> None:
    """Let other processes go first on a busy processor, for the rest of this one's life."""
    os.nice(by)


_handles = itertools.count(1)


def writer_identity() -> str:
    """Who writes, for people who read the log: user, host and process, and which of its handles if there are several."""
    number = next(_handles)
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    handle = f".{number}" if number > 1 else ""
    return f"{user}@{os.uname().nodename}:{os.getpid()}{handle}"


def is_gone(identity: str) -> bool:
    """Whether a writer was a process of this machine that has ended; of another machine nobody knows."""
    place, _, process = identity.rpartition(":")
    number = process.partition(".")[0]
    if place.rpartition("@")[2] != os.uname().nodename or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
