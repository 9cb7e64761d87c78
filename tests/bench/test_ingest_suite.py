"""Suite `ingest` runs beside its peers, keeps its shape, and finds every acknowledged row; how fast is not asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.ingest.sinks import DISK, OS, PEERS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One quick run: what it wrote."""
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", "ingest", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    (written,) = out.iterdir()
    found: dict[str, Any] = json.loads(written.read_text())
    return found


def test_producers_of_both_kinds_are_measured_beside_all_others(result: dict[str, Any]) -> None:
    sections = {section["key"]: section for section in result["sections"]}
    assert list(sections) == ["client", "threads", "asyncio", "distant"]
    for kind in ("threads", "asyncio"):
        assert {row["name"] for row in sections[kind]["rows"]} == {DISK, OS, *PEERS}
        assert all(row["figures"].get("rows/s", 1) > 0 for row in sections[kind]["rows"])
        assert any("the best of the others" in one["name"] and one["target"] for one in sections[kind]["comparisons"])


def test_every_acknowledged_row_is_there_and_a_distant_commit_is_one_request(result: dict[str, Any]) -> None:
    found = {one["name"]: one for section in result["sections"] for one in section["comparisons"]}
    assert found["rows acknowledged and not found, Phalanx"]["value"] == 0
    assert found["requests of a commit of three tables"]["value"] == 1
