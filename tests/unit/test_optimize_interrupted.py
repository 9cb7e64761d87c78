"""Ctrl-C while groups of fragments are rewritten: what was begun lands, nothing else begins."""

import os
import signal
import time
from typing import Any

import pytest

from phalanx.lake import Lake
from phalanx.tables import rewrite
from phalanx.upkeep.optimize import Options, optimize
from tests.unit.covering import head, soon
from tests.unit.test_optimize import filled, lake, multiset

__all__ = ["lake"]


def test_after_ctrl_c_no_other_group_is_begun(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being written is waited for, and lands; those that wait for their turn do not get it any more."""
    filled(lake, parts=8)
    before, begun, run = multiset(lake), list[int](), rewrite.run

    def interrupting(*arguments: Any) -> Any:
        begun.append(1)
        time.sleep(
            0.2
        )  # all are handed in by then: a pool that is interrupted while it starts a thread loses sight of it
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        return run(*arguments)

    monkeypatch.setattr(rewrite, "run", interrupting)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            optimize(lake._core, lake["t"].id, soon(), Options(target_rows=40, threads=1))
    finally:
        signal.signal(signal.SIGINT, previous)
    assert len(begun) == 1
    assert multiset(lake) == before
    assert len(head(lake, "t").fragments) == 7
    monkeypatch.undo()
    assert optimize(lake._core, lake["t"].id, soon(), Options(target_rows=40)).after == 4
