"""Rows that tests write and compare, and commands that they run as programs."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import phalanx
from phalanx.clock import environment

EVENTS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("kind", pa.string()), ("x", pa.float64())])


def events(first: int, count: int, kind: str = "a") -> list[dict[str, Any]]:
    """Rows of the table `events`."""
    return [{"id": at, "kind": kind, "x": at / 2} for at in range(first, first + count)]


def multiset(table: phalanx.Table) -> Counter[tuple[Any, ...]]:
    """All rows of a table, and how often each is there."""
    rows = table.to_arrow().to_pylist()
    return Counter(tuple(str(one) if isinstance(one, list) else one for one in row.values()) for row in rows)


def run_program(code: str, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as a program of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
