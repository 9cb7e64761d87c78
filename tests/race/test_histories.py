"""Histories of real processes, some of them killed, hold what the isolation that they asked for promises."""

from pathlib import Path

import pytest

from phalanx.testing.histories import Isolation
from tests.race.histories import judge

SEED = 60_221


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_eight_processes_make_a_history_without_anomalies(tmp_path: Path, isolation: Isolation) -> None:
    """2,000 transactions over two tables, on rows that all want; four processes are killed on the way."""
    judge(tmp_path, isolation, SEED, count=2000, kills=4)
