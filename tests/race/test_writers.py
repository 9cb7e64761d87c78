"""Many processes on one lake: positions dense, what was acknowledged is there exactly once, what failed is not."""

from pathlib import Path

import pytest

import phalanx
from tests.race.writers import Job, race
from tests.servers import ABANDON, LOSE_ANSWER, REFUSE, RESET_AFTER, RESET_BEFORE, Server, proxied

SEED = 4217
PROCESSES = 8
WIRE_FAULTS = [REFUSE, LOSE_ANSWER, RESET_BEFORE, RESET_AFTER, ABANDON, REFUSE.answering(409)]


def jobs(tmp_path: Path, uri: str, commits: int, **more: object) -> list[Job]:
    return [
        Job(uri=uri, acks=str(tmp_path / "acks"), name=f"w{number}", commits=commits, seed=SEED + number, **more)  # type: ignore[arg-type]
        for number in range(PROCESSES)
    ]


@pytest.mark.parametrize("faults", [0.0, 0.08], ids=["healthy", f"faults seed {SEED}"])
def test_eight_processes_on_a_local_disk_lose_nothing(tmp_path: Path, faults: float) -> None:
    """500 commits each, from two threads each, with lost, late and false answers in the second run."""
    uri = str(tmp_path / "lake")
    phalanx.open(uri, create=True).close()
    lake, found = race(jobs(tmp_path, uri, 500, threads=2, faults=faults), uri)
    print(found)
    assert found, found.wrong[:5]
    assert found.acknowledged + found.unknown + found.failed == PROCESSES * 500
    if not faults:
        assert (found.acknowledged, found.found) == (PROCESSES * 500,) * 2
        assert lake.version <= PROCESSES * 500 + 1


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_eight_processes_on_an_object_store_lose_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """50 commits each, on a healthy server."""
    server: Server = request.getfixturevalue(f"{kind}_server")
    uri = server.uri(tmp_path.name)
    phalanx.open(uri, create=True, storage_options=server.options).close()
    lake, found = race(jobs(tmp_path, uri, 50, options=server.options), uri, server.options)
    print(found)
    assert found, found.wrong[:5]
    assert found.acknowledged == found.found == PROCESSES * 50
    assert lake.version == PROCESSES * 50 + 1


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_lost_answers_on_the_wire_lose_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """50 commits each, with errors before and after the effect, broken connections and late effects on every tenth request."""
    server: Server = request.getfixturevalue(f"{kind}_server")
    uri = server.uri(tmp_path.name)
    phalanx.open(uri, create=True, storage_options=server.options).close()
    with proxied(server) as proxy:
        proxy.fail_by_chance(SEED, 0.1, WIRE_FAULTS)
        _, found = race(jobs(tmp_path, uri, 50, options=proxy.server.options), uri, server.options)
        struck = [fault for fault in proxy.seen() if fault != "pass"]
    print(f"seed {SEED}: {found}, {len(struck)} faults")
    assert found, found.wrong[:5]
    assert len(struck) > 50
    assert found.acknowledged > PROCESSES * 50 * 0.9


def test_the_oracle_is_not_blind(tmp_path: Path) -> None:
    """A lost, a doubled and a falsely failed commit are each found."""
    from phalanx.log.action import Progress
    from phalanx.testing import Acks, verdict

    (tmp_path / "acks").mkdir()
    acks = Acks(tmp_path / "acks" / "w")
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        acks.committed("good", lake.commit([Progress("a", None, 1)], note="good"))
        assert verdict(lake, tmp_path / "acks")
        acks.committed("lost", 99)
        acks.failed("there", phalanx.UnavailableError("no"))
        lake.commit([Progress("b", None, 1)], note="there")
        lake.commit([Progress("c", None, 1)], note="good")
        wrong = verdict(lake, tmp_path / "acks").wrong
    assert len(wrong) == 3, wrong
