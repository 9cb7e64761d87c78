"""The same laws as in `tests/race` and `tests/crash`, with more commits, more seeds and more kills."""

import secrets
from pathlib import Path

import pytest

import phalanx
from tests.crash import test_power_loss as power
from tests.race.test_kills import kill_writers
from tests.race.test_writers import WIRE_FAULTS, jobs
from tests.race.writers import race
from tests.servers import Server, proxied

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("faulty", [False, True], ids=["healthy", "faults"])
@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_eight_processes_with_500_commits_each_on_an_object_store(
    kind: str, faulty: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Positions dense, every acknowledged commit there exactly once, none that failed."""
    server: Server = request.getfixturevalue(f"{kind}_server")
    seed = secrets.randbits(32)
    uri = server.uri(tmp_path.name)
    phalanx.open(uri, create=True, storage_options=server.options).close()
    with proxied(server) as proxy:
        if faulty:
            proxy.fail_by_chance(seed, 0.1, WIRE_FAULTS)
        _, found = race(jobs(tmp_path, uri, 500, options=proxy.server.options), uri, server.options)
    print(f"{kind}, faults {faulty}, seed {seed}: {found}")
    assert found, found.wrong[:5]
    assert found.acknowledged + found.unknown + found.failed == 8 * 500


@pytest.mark.parametrize("round_", range(5))
def test_writers_on_a_local_disk_with_a_fresh_seed(round_: int, tmp_path: Path) -> None:
    """Lost, late and false answers, from three threads in each of eight processes."""
    seed = secrets.randbits(24)
    uri = str(tmp_path / "lake")
    phalanx.open(uri, create=True, settings={"checkpoint_every": 50}).close()
    work = jobs(tmp_path, uri, 900, threads=3, faults=0.15)
    for number, job in enumerate(work):
        job.seed = seed + number
    _, found = race(work, uri)
    print(f"round {round_}, seed {seed}: {found}")
    assert found, found.wrong[:5]


@pytest.mark.parametrize("round_", range(10))
def test_many_kills(round_: int, tmp_path: Path) -> None:
    """Forty writers killed at random moments, ten times over."""
    kill_writers(tmp_path, seed=secrets.randbits(32), doomed=40)


@pytest.mark.parametrize("round_", range(5))
def test_power_loss_with_a_fresh_seed(round_: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other subsets of what was not synced."""
    seed = secrets.randbits(32)
    monkeypatch.setattr(power, "SEED", seed)
    print(f"round {round_}, seed {seed}")
    power.test_no_power_loss_loses_an_acknowledged_commit(tmp_path)
