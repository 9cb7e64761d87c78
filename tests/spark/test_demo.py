"""`make demo`: the main job, short."""

import json
import subprocess
import sys
from pathlib import Path

from examples.agent_memory.picture import blocks
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


def test_a_line_of_blocks_is_as_high_as_its_values() -> None:
    """Zero is blank, the greatest is full, and many values are averaged."""
    assert blocks([0.0, 5.0, 10.0]) == " ▄█"
    assert len(blocks([1.0] * 1000)) == 60
