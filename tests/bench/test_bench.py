"""The measurements run, keep their shape, and count requests exactly; how fast they are is not asked here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = ["single", "sharing", "processes", "order", "contended", "requests", "history"]
TIMED = {
    "single": "commit / raw",
    "sharing": "commits/s of",
    "processes": "commits/s of 40 processes / 4",
    "history": "median commit after",
}


def _start(out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", "log", "--quick", "--out", str(out)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _result(out: Path) -> dict[str, Any]:
    (written,) = out.glob("log-*.json")
    found: dict[str, Any] = json.loads(written.read_text())
    return found


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """One quick run: what it wrote and what it printed."""
    out = tmp_path_factory.mktemp("bench")
    process = _start(out)
    printed, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert [path.name for path in out.iterdir()] == [path.name for path in out.glob("log-*.json")], "nothing is left"
    return _result(out), printed


def test_the_result_says_on_what_it_was_measured(quick: tuple[dict[str, Any], str]) -> None:
    result, _ = quick
    assert result["suite"] == "log"
    assert result["quick"] is True
    assert result["complete"] is True
    assert {"cores", "kernel", "python", "versions", "processor", "memory_gib"} <= set(result["machine"])
    assert "phalanx-lake" in result["machine"]["versions"]
    assert result["place"]["file_system"]


def test_every_section_has_figures_samples_and_comparisons(quick: tuple[dict[str, Any], str]) -> None:
    result, _ = quick
    assert [section["key"] for section in result["sections"]] == SECTIONS
    for section in result["sections"]:
        assert section["complete"] is True
        assert section["rows"], section["key"]
        assert section["comparisons"], section["key"]
        assert all(row["figures"] for row in section["rows"])
        for samples in section["samples"].values():
            assert samples["count"] > 0
            assert samples["least"] <= samples["p50"] <= samples["most"]


def test_times_are_compared_with_their_targets(quick: tuple[dict[str, Any], str]) -> None:
    """They are compared; whether they are met depends on the machine, and is not asserted."""
    result, printed = quick
    for section in result["sections"]:
        if section["key"] in TIMED:
            found = [one for one in section["comparisons"] if one["name"].startswith(TIMED[section["key"]])]
            assert found
            assert any(one["met"] is not None and one["target"] for one in found)
            assert all(one["kind"] == "ratio" for one in found)
    asked = [one for section in result["sections"] for one in section["comparisons"] if one["met"] is not None]
    met = sum(one["met"] for one in asked)
    assert f"{met} of {len(asked)} targets met" in printed


def test_requests_are_exactly_what_the_design_promises(quick: tuple[dict[str, Any], str]) -> None:
    result, _ = quick
    section = next(section for section in result["sections"] if section["key"] == "requests")
    missed = [one for one in section["comparisons"] if one["met"] is False]
    assert not missed
    counts = {one["name"]: one["value"] for one in section["comparisons"]}
    assert (counts["puts of a commit"], counts["reads of a commit"]) == (1, 0)
    for newer in (1, 5, 50):
        assert counts[f"puts, {newer} newer"] == 2
        assert counts[f"gets, {newer} newer"] == newer
        assert counts[f"lists, {newer} newer"] <= 1


@pytest.mark.parametrize("after", [0.1, 2.5], ids=["while processes start", "while they measure"])
def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path, after: float) -> None:
    process = _start(tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("measuring: Many processes"):
            break
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: the whole group
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in printed
    result = _result(tmp_path)
    assert result["complete"] is False
    keys = [section["key"] for section in result["sections"]]
    assert keys == SECTIONS[: len(keys)]
    assert "processes" in keys
    assert all(section["complete"] for section in result["sections"][:-1])
    assert not list(tmp_path.glob("lakes-*")), "its lakes are removed"


def test_what_does_not_exist_is_refused_with_what_does() -> None:
    for arguments, said in (
        (["nothing"], "there is no suite 'nothing'; there is: log"),
        (["--option", "x"], "key=value"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert said in done.stderr
