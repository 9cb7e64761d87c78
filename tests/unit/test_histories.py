"""The checker of histories: good ones have no anomaly, and each planted one is found and named, among thousands too."""

import time
from collections.abc import Sequence

import msgspec
import pytest

from phalanx.testing.histories import Anomaly, Isolation, Transaction, check
from tests.unit.planted import PLANTED, SKEWS, append, one, read
from tests.unit.simulated import LAPSES, Simulation, serial

SEED = 31
BOTH: tuple[Isolation, Isolation] = ("snapshot", "serializable")


def named(transactions: Sequence[Transaction], isolation: Isolation) -> set[Anomaly]:
    return {finding.anomaly for finding in check(transactions, isolation)}


@pytest.fixture(scope="module")
def good() -> list[Transaction]:
    """Free of anomalies in both modes."""
    return Simulation(SEED, "serializable").run(500)


def among(good: Sequence[Transaction], planted: Sequence[Transaction]) -> list[Transaction]:
    """The planted transactions happen in the middle of the good ones."""
    half = len(good) // 2
    offset = good[half].begin
    moved = [
        msgspec.structs.replace(
            one, begin=offset + one.begin / 100, end=None if one.end is None else offset + one.end / 100
        )
        for one in planted
    ]
    return [*good[:half], *moved, *good[half:]]


@pytest.mark.parametrize("isolation", BOTH)
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_anomaly_is_found_and_named(what: str, isolation: Isolation, good: list[Transaction]) -> None:
    """In a history of its own, and among hundreds of good transactions, and nobody else is accused."""
    anomaly, planted = PLANTED[what]
    assert anomaly in named(planted, isolation)
    findings = check(among(good, planted), isolation)
    assert anomaly in {finding.anomaly for finding in findings}
    culprits = {one.name for one in planted}
    for finding in findings:
        assert set(finding.transactions) <= culprits, str(finding)


@pytest.mark.parametrize("what", SKEWS)
def test_write_skew_is_fine_in_snapshot_mode_only(what: str, good: list[Transaction]) -> None:
    """Two adjacent transactions that did not see each other: allowed, and found by who asks for more."""
    for history in (SKEWS[what], among(good, SKEWS[what])):
        assert check(history, "snapshot") == []
        assert named(history, "serializable") == {Anomaly.WRITE_SKEW}


def test_what_was_seen_must_agree_with_the_log() -> None:
    """Positions against values, snapshots against values, and a serial order that is not the log's."""
    wrote, later = one("a", 0, 9, append("x", 1), position=7), one("b", 0, 9, read("x", 1), append("y", 2), position=6)
    assert named([wrote, later], "snapshot") == {Anomaly.COMMIT_ORDER}
    for missed in (one("b", 0, 9, read("x"), snapshot=7), one("b", 0, 9, read("x"), position=7)):
        assert named([wrote, missed], "snapshot") == {Anomaly.COMMIT_ORDER}
        assert check([wrote, msgspec.structs.replace(missed, snapshot=6)], "serializable") == []
    assert named([wrote, one("b", 0, 9, read("x", 1), snapshot=6)], "snapshot") == {Anomaly.COMMIT_ORDER}
    unchecked = [wrote, one("b", 0, 9, read("x"), append("y", 2), position=8, snapshot=6)]
    assert check(unchecked, "snapshot") == []
    assert named(unchecked, "serializable") == {Anomaly.COMMIT_ORDER}


def test_who_was_told_nothing_may_have_committed_or_not() -> None:
    """Both are fine, as long as all agree."""
    maybe = one("a", 0, None, append("x", 1), append("y", 2), outcome="unknown")
    for after in (one("b", 5, 6, read("x"), read("y")), one("b", 5, 6, read("x", 1), read("y", 2))):
        assert check([maybe, after], "serializable") == []


def test_transactions_of_one_position_are_in_no_order() -> None:
    """Several land together."""
    together = [one("a", 0, 9, append("x", 1), position=5), one("b", 0, 9, read("x", 1), append("y", 2), position=5)]
    assert check(together, "serializable") == check(together[::-1], "serializable") == []


@pytest.mark.parametrize("seed", range(5))
def test_good_histories_have_no_anomaly(seed: int) -> None:
    """Serial ones, those of a serializable store, and those of a store with snapshots, which has write skew."""
    assert check(serial(seed, 1000), "serializable") == []
    assert check(Simulation(seed, "serializable").run(2000), "serializable") == []
    snapshots = Simulation(seed, "snapshot").run(2000)
    assert check(snapshots, "snapshot") == []
    assert Anomaly.WRITE_SKEW in named(snapshots, "serializable")


EXPECTED = {
    "no check": {Anomaly.LOST_UPDATE},
    "late reads": {Anomaly.NON_REPEATABLE_READ, Anomaly.FRACTURED_READ},
    "old snapshot": {Anomaly.REAL_TIME},
    "kept writes": {Anomaly.ABORTED_READ},
    "missed rows": {Anomaly.PHANTOM},
    "early writes": {Anomaly.INTERMEDIATE_READ},
}


@pytest.mark.parametrize("lapse", LAPSES)
def test_a_store_that_lapses_is_found_out(lapse: str) -> None:
    """One transaction of 170 gets something wrong."""
    findings = check(Simulation(SEED, "snapshot", lapse).run(4000), "snapshot")
    assert EXPECTED[lapse] <= {finding.anomaly for finding in findings}


def test_a_finding_can_be_read() -> None:
    """It names the anomaly, who took part, and each step."""
    finding = check(PLANTED["fractured read"][1])[0]
    assert finding.transactions == ("a", "first")
    assert str(finding) == (
        "fractured read (part of what a transaction wrote was seen, and part was not):\n"
        "  a read planted/y without what first appended to it\n"
        "  a read what first appended to planted/x"
    )


def test_a_value_that_is_appended_twice_is_no_history() -> None:
    """Nothing could be told from it."""
    with pytest.raises(ValueError, match="1 is appended to planted/x twice"):
        check([one("a", 0, 1, append("x", 1)), one("b", 2, 3, append("x", 1))])


def test_among_twenty_thousand_transactions_each_is_found_within_seconds() -> None:
    """The time grows with the history, not with its square."""
    history = Simulation(SEED, "serializable").run(20_000)
    began = time.process_time()
    assert check(history, "serializable") == []
    assert time.process_time() - began < 20
    for number, (_, planted) in enumerate(PLANTED.values()):
        history = among(history, [apart(one, number) for one in planted])
    findings = check(history, "serializable")
    for number, (anomaly, _) in enumerate(PLANTED.values()):
        mine = {one.anomaly for one in findings if all(name.endswith(f"-{number}") for name in one.transactions)}
        assert anomaly in mine
    assert all("-" in name for finding in findings for name in finding.transactions)


def apart(one: Transaction, number: int) -> Transaction:
    """The same, with keys and a name of its own."""
    text = msgspec.json.encode(one).replace(b"planted", b"planted%d" % number)
    return msgspec.structs.replace(msgspec.json.decode(text, type=Transaction), name=f"{one.name}-{number}")
