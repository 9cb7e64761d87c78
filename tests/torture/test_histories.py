"""The same law as in `tests/race/test_histories.py`, with 20,000 transactions, more kills and fresh seeds."""

import secrets
from pathlib import Path

import pytest

from phalanx.testing.histories import Isolation
from tests.race.histories import judge

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_twenty_thousand_transactions_of_eight_processes(tmp_path: Path, isolation: Isolation) -> None:
    """Forty processes are killed on the way."""
    judge(tmp_path, isolation, secrets.randbits(32), count=20_000, kills=40)
