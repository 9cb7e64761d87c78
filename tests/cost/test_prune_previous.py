"""What a write costs that prunes what came before it: the same however long the log is (I11)."""

from pathlib import Path

import pytest

from phalanx.testing import CountingStore
from phalanx.upkeep import prune
from tests.unit.pruning import SCHEMA, SETTINGS, Ground, bulk, few

LONG = 300


def reads(ground: Ground) -> int:
    """The objects that such a write reads, of the log and of the table."""
    store = CountingStore(ground.store())
    with ground.process(store) as lake:
        for _ in range(3):
            lake["t"].overwrite(bulk(0), prune_previous=True)
            for one in (lake, ground.lake):
                one.core.pins.renew()  # it has not moved on with the log yet, and would hold what came before
        with store.counted() as counts:
            lake["t"].overwrite(bulk(0), prune_previous=True)
    return counts["get"]


@pytest.mark.parametrize("planted", [False, True])
def test_a_write_that_prunes_reads_what_its_table_still_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, planted: bool
) -> None:
    ground = Ground(tmp_path)
    ground.lake.set_property("prune.protect", "0")
    ground.lake.create_table("t", SCHEMA).append(bulk(0))
    other = ground.lake.create_table("other", SCHEMA)
    if planted:  # as if all of the log mattered
        monkeypatch.setattr(prune._Run, "_oldest", lambda *_: 0)
    before = reads(ground)
    for number in range(LONG):
        other.append(few(number))
    more = reads(ground) - before
    print(f"{before} reads, and {more} more with {LONG} more entries")
    assert (more > LONG - SETTINGS.checkpoint_every) if planted else (more < 2 * SETTINGS.checkpoint_every)
    ground.close()
