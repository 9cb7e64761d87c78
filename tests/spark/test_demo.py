"""`make demo`: the main job, short."""

import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from rich.console import Console

import phalanx
from examples.agent_memory.__main__ import fresh_folder, report
from examples.agent_memory.picture import blocks
from examples.agent_memory.world import World
from phalanx.clock import environment

ROOT = Path(__file__).parents[2]


def test_the_demo_ends_with_nothing_lost(tmp_path: Path) -> None:
    """Agents, kills, a pipeline, optimize and prune for some seconds: acknowledged is found, and no invariant is broken."""
    command = [
        sys.executable,
        "-m",
        "examples.agent_memory",
        "--seconds",
        "15",
        "--json",
        "--folder",
        str(tmp_path / "demo"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment()), capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["verdict"]["wrong"] == outcome["violations"] == []
    assert outcome["verdict"]["acknowledged"] > 50
    assert len(outcome["killed"]) == 1
    assert outcome["runs"]
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_an_agent_that_dies_of_an_error_is_in_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, and the verdict is not a good one; who ends in time is not in it."""

    def start(_: World, name: str, seconds: float) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({3 * (name == 'agent-3')})"])

    monkeypatch.setattr(World, "_start", start)
    world = World(tmp_path / "demo", 1.0, lambda _: None)
    world._began = time.monotonic()
    world._agents()
    world.run_seconds = [1.0]
    with phalanx.open(world.uri) as lake:
        outcome = world._outcome(lake)
    assert outcome.verdict.wrong == ["agent-3 died of an error, which it has printed (exit code 3)"]
    said = io.StringIO()
    assert not report(outcome, tmp_path / "demo.png", Console(file=said))
    assert "verdict: BROKEN" in said.getvalue()


def test_two_demos_have_a_folder_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second does not take the lake of the first away."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, other = fresh_folder(), fresh_folder()
    assert one != other
    assert one.parent == other.parent == tmp_path
    assert one.is_dir()


def test_a_line_of_blocks_is_as_high_as_its_values() -> None:
    """Zero is blank, the greatest is full, and many values are averaged."""
    assert blocks([0.0, 5.0, 10.0]) == " ▄█"
    assert len(blocks([1.0] * 1000)) == 60
