"""Suites `mixed` and `tables` run beside their peers, keep their shape, and find Phalanx right; how fast is not asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.systems.port import peers

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "mixed": ["mixed", "appends", "readers"],
    "tables": ["commits", "small", "many", "scan", "upsert", "bulk"],
}
ASKED = {
    "mixed": [
        "operations/s: Phalanx, disk (fsync) / pylance",
        "p99: Phalanx, disk (fsync) / pylance",
        "rows that are wrong",
    ],
    "appends": ["operations/s: Phalanx, disk (fsync) / pylance", "p99: Phalanx, disk (fsync) / pylance"],
    "readers": ["first read of everything pending"],
    "commits": ["transaction: 4 tables / 1", "bare entry: 4 tables / 1"],
    "many": ["staged commit: many tables", "logged commit: many tables"],
    "scan": ["all columns: Lance's time / Phalanx's, best", "where n = 7"],
}
"""Comparisons that have a target."""

Result = tuple[dict[str, Any], str]


def _run(out: Path, suite: str, *more: str) -> Result:
    command = [sys.executable, "-m", "bench", suite, "--quick", "--out", str(out), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    (written,) = out.iterdir()  # and nothing else is left
    return json.loads(written.read_text()), done.stdout


@pytest.fixture(scope="module", params=SECTIONS)
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One quick run of each suite: what it wrote and what it printed."""
    return _run(tmp_path_factory.mktemp("bench"), request.param)


def test_every_section_has_figures_and_its_targets(quick: Result) -> None:
    result, printed = quick
    assert result["complete"] is True
    assert [section["key"] for section in result["sections"]] == SECTIONS[result["suite"]]
    for section in result["sections"]:
        assert section["complete"] is True
        assert section["rows"], section["key"]
        for wanted in ASKED.get(section["key"], []):
            found = [one for one in section["comparisons"] if one["name"].startswith(wanted)]
            assert found, wanted
            assert any(one["met"] is not None for one in found), wanted
    asked = [one for section in result["sections"] for one in section["comparisons"] if one["met"] is not None]
    assert f"{sum(one['met'] for one in asked)} of {len(asked)} targets met" in printed


def test_peers_are_measured_in_the_same_run_and_it_is_said_that_they_do_not_sync(quick: Result) -> None:
    result, printed = quick
    text = json.dumps(result["sections"])
    for peer in peers():
        assert peer.name in text
        assert "(no fsync)" in peer.name
    assert "only Phalanx syncs to disk" in " ".join(printed.split())
    assert {"pylance", "deltalake", "lancedb"} <= set(result["machine"]["versions"])


def test_all_that_phalanx_acknowledged_is_there(quick: Result) -> None:
    result, _ = quick
    counted = {"rows that are wrong, Phalanx", "operations that failed, Phalanx"}
    found = [one for section in result["sections"] for one in section["comparisons"] if one["name"] in counted]
    assert all(one["met"] for one in found)
    assert found or result["suite"] != "mixed"


def test_a_count_that_no_suite_knows_is_said(tmp_path: Path) -> None:
    small = (
        "--set",
        "tables=3",
        "--set",
        "versions=20",
        "--set",
        "rows=1000",
        "--set",
        "keyed_rows=100",
        "--set",
        "keys=10",
    )
    result, printed = _run(tmp_path, "tables", *small, "--set", "nothing=1")
    assert "this suite has no number 'nothing' to set" in printed
    (scan,) = (section for section in result["sections"] if section["key"] == "scan")
    assert scan["note"].startswith("1,000 rows")
