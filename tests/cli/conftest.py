"""What the tests of the command line share: a way to run it, and a lake."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.cli.program import main
from tests.cli.running import Result, Run

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process, as its script does."""
    monkeypatch.setattr("phalanx.cli.program.stand_back", lambda: None)  # all tests after it would stand back as well

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["phalanx", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return Result(int(ended.value.code or 0), found.out, found.err)

    return call


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with two tables, a namespace, a tag and a property; at version 5."""
    place = tmp_path / "lake"
    with phalanx.open(place, create=True, durability="os") as made:
        made.create_namespace("crm")
        with made.transaction("two") as both:
            both.create_table("crm.turns", COLUMNS)
            both.create_table("t", COLUMNS)
        made.tag("release", version=2)
        made.set_property("owner", "ann")
    return place
