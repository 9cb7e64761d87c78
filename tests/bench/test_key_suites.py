"""Suites `keys`, `search`, `sql` and `upkeep` run beside Lance, keep their shape, and find every answer fresh; how fast is not asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.search.changed import Changed, right
from bench.search.vectors import SIZE, K, distances, nearest, rows

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "keys": ["get", "get_many", "fresh", "flush", "tail_scan", "opening"],
    "search": ["search", "changed"],
    "sql": ["sql", "sql_tail"],
    "upkeep": ["compaction", "writers", "prune"],
}
ASKED = {
    "get": ["Phalanx: lake[…].get / Lance, the same files", "Phalanx: lake[…].get / Lance, a dataset of its own"],
    "fresh": ["stale answers"],
    "compaction": ["Phalanx's throughput / Lance's, best", "rows lost"],
    "writers": ["rows a second beside optimize / alone", "rounds of optimize that failed"],
    "prune": ["files that a second prune finds", "rows lost"],
    "flush": ["pylance (no fsync), merge of 500 rows / Phalanx, disk (fsync): flush"],
    "tail_scan": ["all columns: time written out / with the tail, best"],
    "opening": ["opening with 1 entries to read", "opening with 250 entries to read"],
    "search": ["latency: Phalanx / Lance", "recall: Phalanx / Lance"],
    "changed": ["latency: with the tail", "wrong answers of 10, asked for what rows are now"],
    "sql": [
        f"{name}: {one}'s time / Phalanx's, best"
        for name in ("group-by", "join", "top-n")
        for one in ("DuckDB", "DuckDB kept")
    ],
}
"""Comparisons that have a target."""
EXACT = ("stale answers", "wrong answers", "rows lost", "files that a second prune finds")
"""Those that hold on any machine."""

Result = tuple[dict[str, Any], str]


@pytest.fixture(scope="module", params=SECTIONS)
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One quick run of each suite: what it wrote and what it printed."""
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", request.param, "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    (written,) = out.iterdir()  # and nothing else is left
    return json.loads(written.read_text()), done.stdout


def test_every_section_has_figures_and_its_targets(quick: Result) -> None:
    result, printed = quick
    assert result["complete"] is True
    assert [section["key"] for section in result["sections"]] == SECTIONS[result["suite"]]
    for section in result["sections"]:
        assert section["complete"] is True
        assert section["rows"], section["key"]
        assert all(samples["count"] > 0 for samples in section["samples"].values())
        for wanted in ASKED.get(section["key"], []):
            found = [one for one in section["comparisons"] if one["name"].startswith(wanted)]
            assert found, wanted
            assert all(one["met"] is not None for one in found), wanted
    asked = [one for section in result["sections"] for one in section["comparisons"] if one["met"] is not None]
    assert f"{sum(one['met'] for one in asked)} of {len(asked)} targets met" in printed


def test_every_answer_is_fresh(quick: Result) -> None:
    result, _ = quick
    found = [one for section in result["sections"] for one in section["comparisons"] if one["name"].startswith(EXACT)]
    assert found
    assert all(one["met"] for one in found), found


def _case() -> tuple[Changed, np.ndarray[Any, np.dtype[np.float32]]]:
    """Some rows that have changed, and a query near what one of them is now."""
    random = np.random.default_rng(3)
    before = random.standard_normal((200, SIZE), dtype=np.float32)
    ids, new = np.arange(0, 200, 10), random.standard_normal((20, SIZE), dtype=np.float32)
    now = before.copy()
    now[ids] = new
    return Changed(ids, before[ids], new, now), new[4] + np.float32(0.01)


def _answer(ids: list[int], changed: Changed, query: "np.ndarray[Any, np.dtype[np.float32]]") -> pa.Table:
    found = np.array(ids)
    far = distances(changed.now[found], query)
    table = rows(found, changed.now[found]).append_column("_distance", pa.array(far, pa.float32()))
    return table.sort_by("_distance")


def test_what_is_nearest_is_right() -> None:
    changed, query = _case()
    (truth,) = nearest(changed.now, query[np.newaxis])
    by_hand = np.argsort(distances(changed.now, query))[:K]
    assert truth == set(by_hand.tolist())
    assert right(_answer(sorted(truth), changed, query), query, changed)


def test_an_answer_with_a_row_as_it_was_is_found_wrong() -> None:
    changed, query = _case()
    (truth,) = nearest(changed.now, query[np.newaxis])
    answer = _answer(sorted(truth), changed, query)
    at = answer.column("id").to_pylist().index(int(changed.ids[4]))
    shown = np.stack(answer.column("vec").to_pylist()).astype(np.float32)
    shown[at] = changed.old[4]
    stale = answer.set_column(1, answer.schema.field("vec"), rows(np.arange(K), shown).column("vec"))
    assert not right(stale, query, changed)


def test_an_answer_that_misses_a_changed_row_is_found_wrong() -> None:
    changed, query = _case()
    order = np.argsort(distances(changed.now, query)).tolist()
    others = [one for one in order[: K + 1] if one != changed.ids[4]]
    assert not right(_answer(others, changed, query), query, changed)


def test_an_answer_with_a_row_twice_or_too_few_is_found_wrong() -> None:
    changed, query = _case()
    order = np.argsort(distances(changed.now, query)).tolist()
    assert not right(_answer(order[: K - 1], changed, query), query, changed)
    assert not right(_answer([*order[: K - 1], order[0]], changed, query), query, changed)
