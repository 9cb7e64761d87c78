"""Memory that is filled with what can be dropped, before something is measured."""

import os
import re
from pathlib import Path

import pytest

from bench import memory
from bench.memory import Memory


def test_free_memory_becomes_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So much of it is read as was free, nothing is written, and nothing is left behind."""
    free = iter([3000 << 20, 2744 << 20, 2488 << 20, 400 << 20])
    monkeypatch.setattr(memory, "_free", lambda: next(free))
    monkeypatch.setattr(memory, "_BLOCK", 1 << 20)
    held = Memory(tmp_path)
    assert held.fill() == 3 * 256 << 20
    assert os.fstat(held._file.fileno()).st_blocks == 0
    assert not list(tmp_path.iterdir())
    held.close()


def test_it_ends_where_a_limit_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then reading takes no free memory any more: the cache itself gives it."""
    free = iter([3000 << 20, 2744 << 20, 2740 << 20])
    monkeypatch.setattr(memory, "_free", lambda: next(free))
    held = Memory(tmp_path)
    assert held.fill() == 2 * 256 << 20
    held.close()


def test_what_is_free_is_known() -> None:
    """As the kernel tells it."""
    told = re.search(r"MemFree:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert told is not None
    assert 0 < memory._free() < 1 << 50
