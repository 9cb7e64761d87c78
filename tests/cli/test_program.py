"""The program around the verbs: what it does before any of them begins."""

import subprocess
import sys

import pytest

import phalanx
from phalanx.cli.program import main


def test_work_that_can_wait_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program stands back for upkeep, and for nothing else."""
    stood: list[str] = []
    monkeypatch.setattr("phalanx.cli.program.stand_back", lambda: stood.append(sys.argv[1]))
    for verb in ("optimize", "prune", "check", "flush", "load", "show"):
        monkeypatch.setattr(sys, "argv", ["phalanx", verb, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    assert stood == ["optimize", "prune", "check"]


def test_nothing_heavy_is_loaded_before_standing_back() -> None:
    """Importing the package and the program takes neither Lance nor Arrow: their loading is work that can wait as well."""
    asked = "import sys, phalanx.cli.program; print(*sorted({'lance', 'pyarrow', 'datafusion'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "\n"


def test_what_the_package_offers_is_there() -> None:
    """Every public name is found, listed, and stays the same object; others are said not to be there."""
    for name in phalanx.__all__:
        assert getattr(phalanx, name) is getattr(phalanx, name)
        assert name in dir(phalanx)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = phalanx.nothing  # type: ignore[attr-defined]


def test_interrupted_while_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before the verb has begun ends like Ctrl-C within it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["phalanx", "show"])
    monkeypatch.delitem(sys.modules, "phalanx.cli.app", raising=False)
    monkeypatch.setattr("builtins.__import__", interrupt)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
