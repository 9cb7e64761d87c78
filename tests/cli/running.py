"""How the tests run the command: in a process of its own, on a terminal, or (see `conftest.py`) in this process."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phalanx.clock import environment


class Result(msgspec.Struct):
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


def real(*arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "phalanx", *map(str, arguments)]
    asked = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run(command, check=False, **asked)  # type: ignore[call-overload, no-any-return]


def start(*arguments: object, before: Sequence[str] = (), **options: object) -> "subprocess.Popen[str]":
    """Start the command, with a buffered stdout as users have it; `before` is what runs it."""
    command = [*before, sys.executable, "-m", "phalanx", *map(str, arguments)]
    buffered = {key: value for key, value in environment().items() if key != "PYTHONUNBUFFERED"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, env=buffered, **pipes)  # type: ignore[call-overload, no-any-return]


def on_a_terminal(*arguments: object, folder: Path, interrupt_at: str | None = None, width: int = 100) -> Result:
    """Run the command on a terminal, and interrupt it once it shows a text. Both outputs come as one."""
    command = [sys.executable, "-m", "phalanx", *map(str, arguments)]
    terminal = {**environment(), "COLUMNS": str(width), "LINES": "40", "TERM": "xterm-256color"}
    screen, inner = pty.openpty()
    shown = b""
    with subprocess.Popen(command, env=terminal, cwd=folder, stdin=inner, stdout=inner, stderr=inner) as process:
        os.close(inner)
        while True:
            try:
                part = os.read(screen, 1 << 16)
            except OSError:  # nobody has the terminal open any more
                break
            shown += part
            if interrupt_at is not None and interrupt_at.encode() in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
        process.wait(60)
    os.close(screen)
    return Result(process.returncode, shown.decode(errors="replace"), "")
