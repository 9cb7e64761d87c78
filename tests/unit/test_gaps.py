"""An entry that is missing is never taken for the end of what was asked for: the past is what it was, or an error."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import CorruptionError
from phalanx.lake import Lake
from phalanx.objects import layout

SCHEMA = pa.schema([("id", pa.int64())])
GAP = 12


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake of which an entry is gone; checkpoints behind it hide that from whoever opens it."""
    where = tmp_path / "lake"
    with phalanx.open(where, create=True, settings={"checkpoint_every": 10, "durability": "os"}) as made:
        made.set_property("flush.background", "off")
        table = made.create_table("t", SCHEMA)
        for number in range(30):
            table.append([{"id": number}])
            made.core.log.close()  # a checkpoint is left out while the one before is being written
    (where / layout.entry(GAP)).unlink()
    with phalanx.open(where) as opened:
        yield opened


ASKED: dict[str, Callable[[Lake], Any]] = {
    "snapshot": lambda lake: lake.snapshot(version=GAP + 1)["t"].count(),
    "tag": lambda lake: lake.tag("gone", version=GAP + 1),
    "changes": lambda lake: lake.changes("t", GAP - 1, GAP + 1).read_all(),
    "restore": lambda lake: lake.restore(version=GAP + 3),
    "floor": lambda lake: lake._log.raise_floor(GAP + 4, lake.core.deadline(None)),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_lies_behind_a_gap_is_refused(lake: Lake, asked: str) -> None:
    assert lake["t"].count() == 30
    version = lake.version
    with pytest.raises(CorruptionError, match="missing"):
        ASKED[asked](lake)
    assert lake.refresh().version == version
    assert len(list(Path(lake.uri).glob("floor/*"))) == 1


def test_a_time_behind_a_gap_is_refused(lake: Lake) -> None:
    """The last version before the gap is not what there was then."""
    entry = lake.core.log.read(GAP + 2)
    with pytest.raises(CorruptionError, match="missing"):
        lake.snapshot(as_of=datetime.fromtimestamp(entry.time / 1e6, UTC))


def test_what_lies_before_a_gap_or_behind_a_checkpoint_is_there(lake: Lake) -> None:
    assert [lake.snapshot(version=GAP - 2)["t"].count(), lake.snapshot(version=25)["t"].count()] == [GAP - 5, 22]
