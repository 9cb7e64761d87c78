"""The program around the verbs: what it does before any of them begins."""

import sys

import pytest

from phalanx.cli.app import main


def test_work_that_can_wait_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program stands back for upkeep, and for nothing else."""
    stood: list[str] = []
    monkeypatch.setattr("phalanx.cli.app.stand_back", lambda: stood.append(sys.argv[1]))
    for verb in ("optimize", "prune", "check", "flush", "load", "show"):
        monkeypatch.setattr(sys, "argv", ["phalanx", verb, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    assert stood == ["optimize", "prune", "check"]
