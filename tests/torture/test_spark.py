"""A pipeline over five tables, killed again and again at every step: readers only ever see whole runs."""

from pathlib import Path

import pytest

import phalanx
from tests.spark import shop
from tests.spark.test_kills import killed_driver

ROUNDS = 20


@pytest.mark.torture
def test_a_pipeline_killed_at_every_step_leaves_whole_runs_only(tmp_path: Path) -> None:
    """Twenty drivers, each killed in a step, before its commit or right after it; then one that is left alone."""
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        shop.prepare(lake)
        seen = 0
        for number in range(ROUNDS):
            where = shop.KILLED_AT[number % len(shop.KILLED_AT)]
            killed_driver(lake.uri, where)
            now = shop.whole_runs(lake)
            print(f"round {number}: killed at {where}, {now} orders are derived")
            assert now == (lake["orders"].count() if where == "landed" else seen)
            seen = now
            shop.prepare(lake, 3)
        assert killed_driver(lake.uri, "") == 0
        assert shop.whole_runs(lake) == lake["orders"].count()
