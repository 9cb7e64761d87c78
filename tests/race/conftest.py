"""Lakes for the tests of carrying."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx
from phalanx import Lake
from tests.race.carriers import crowded


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "lake")
    with phalanx.open(path, create=True, durability="os") as lake:
        lake.create_table("t", {"id": [0], "v": [0]})
    return path


@pytest.fixture
def pair(uri: str) -> Iterator[tuple[Lake, Lake]]:
    """Two handles: the first is the carrier, and has carried something for the second."""
    with phalanx.open(uri) as first, phalanx.open(uri) as second:
        crowded(first).append([{"id": 1, "v": 0}])
        crowded(second).append([{"id": 2, "v": 0}])
        assert first._committer._passenger._carrier is not None
        assert second._committer._passenger._connection is not None
        yield first, second
