"""Writers that are killed at any moment leave a lake that others go on with at once, and nothing acknowledged is lost."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

import phalanx
from phalanx.testing import Process, verdict
from tests.race.writers import Job

SEED = 977
_RUN = "import sys; from tests.race.writers import main; main(sys.argv[1])"


def kill_writers(tmp_path: Path, seed: int, doomed: int) -> None:
    uri, acks = str(tmp_path / "lake"), tmp_path / "acks"
    acks.mkdir()
    phalanx.open(uri, create=True, settings={"checkpoint_every": 20}).close()
    chance = random.Random(seed)
    with ExitStack() as stack:

        def start(name: str, commits: int, threads: int) -> Process:
            job = Job(uri=uri, acks=str(acks), name=name, commits=commits, threads=threads)
            process = stack.enter_context(Process(_RUN, msgspec.json.encode(job).decode()))
            assert process.line() == "ready"
            process.tell("go")
            return process

        living = [start(f"living{number}", 300, 1) for number in range(3)]
        for number in range(doomed):
            process = start(f"doomed{number}", 100_000, 1 + number % 3)
            time.sleep(chance.uniform(0.02, 0.25))
            process.kill()
        for process in living:
            process.finish()
    lake = phalanx.open(uri)
    found = verdict(lake, acks)
    print(f"seed {seed}: {found}")
    assert found, found.wrong[:5]
    assert found.failed == found.unknown == 0
    assert found.acknowledged >= 900 + doomed
    assert lake.set_property("still", "works") == lake.version


def test_killed_writers_take_nothing_with_them(tmp_path: Path) -> None:
    """Twelve writers, killed one after the other at random moments, beside three that live; then all is compared."""
    kill_writers(tmp_path, SEED, doomed=12)
