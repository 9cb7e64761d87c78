"""Rows without a key are known by an identity, which a flush changes: who resolved them before still finds them (D2)."""

from pathlib import Path

import pytest

import phalanx


@pytest.mark.parametrize("stage", [True, False])
@pytest.mark.parametrize("where", [None, "id >= 1"])
def test_a_row_that_was_staged_and_updated_is_deleted_after_a_flush(
    tmp_path: Path, stage: bool, where: str | None
) -> None:
    """It is on disk twice then, as it was and as it is; the identity means the one that counts."""
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("t", [{"id": 0, "v": 0}])
        table.append([{"id": 9, "v": 9}])  # a tail, so that what follows does not become the head
        table.append([{"id": 1, "v": 1}, {"id": 2, "v": 2}], stage=stage)
        table.update({"v": "v + 10"}, where)
        txn = lake.transaction()
        assert txn["t"].delete("id = 1") == 1
        assert txn["t"].update({"v": "v + 100"}, "id = 2") == 1
        lake.flush()
        txn.commit()
        expected = {0: 0 if where else 10, 9: 19, 2: 112}
        assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
        lake.flush()
        assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
