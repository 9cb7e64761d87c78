"""In which order groups of fragments are rewritten: a long one that is begun last would be waited for alone."""

from typing import Any

import pyarrow as pa
import pytest

from phalanx.lake import Lake
from phalanx.tables import rewrite
from phalanx.upkeep.optimize import Options, optimize
from tests.unit.covering import soon
from tests.unit.test_optimize import filled, lake, rows

__all__ = ["lake"]

ROWS = 400


@pytest.mark.parametrize("longest", range(4))
def test_the_largest_group_is_begun_first(lake: Lake, monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Wherever it lies in the table; which of the others comes next is left to chance."""
    fields: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("text", pa.string())]
    table = lake.create_table("t", pa.schema(fields))
    for part in range(8):
        text = f"{part}" * (1000 if part // 2 == longest else 10)
        table.append([{"id": at, "text": f"{at}{text}"} for at in range(ROWS)], stage=True)
    begun, run = list[int](), rewrite.run

    def noting(version: Any, group: rewrite.Group) -> Any:
        begun.append(group.size)
        return run(version, group)

    monkeypatch.setattr(rewrite, "run", noting)
    optimize(lake._core, lake["t"].id, soon(), Options(target_rows=2 * ROWS, threads=1))
    assert len(begun) == 4
    assert begun[0] == max(begun) > 2 * min(begun)


def test_nothing_is_begun_when_there_is_no_time(lake: Lake) -> None:
    """Not even an index."""
    filled(lake)
    lake["t"].create_index("v", kind="btree")
    lake["t"].append(rows(5000), stage=True)
    done = lake.optimize("t", max_time=0)["t"]
    assert (done.rewritten, done.indexed) == (0, ())
