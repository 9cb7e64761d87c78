"""Suite `spark` runs beside Parquet on a disk and alone in an object store, and keeps its shape; how fast is not asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.spark.ground import NO_STREAM, OURS, PARQUET, SOURCE
from bench.spark.others import KINDS

if TYPE_CHECKING:
    from tests.servers import Server

ROOT = Path(__file__).parents[2]
READ = f"all columns: {NO_STREAM}"
RUNS = {
    "disk": {
        "read": {f"{what}: {one}" for what in ("all columns", "sum(x)") for one in (OURS, SOURCE, PARQUET)} | {READ},
        "write": {OURS, PARQUET},
        "pipeline": {f"whole job: {OURS}", f"whole job: {PARQUET}", "new rows: Phalanx"},
        "others": {f"{what}, {kind.table}: {one}" for what in ("read", "write") for kind in KINDS for one in (OURS, PARQUET)},
    },
    "store": {
        "read": {f"{what}: {one}" for what in ("all columns", "sum(x)") for one in (OURS, SOURCE)} | {READ},
        "write": {OURS},
        "pipeline": {f"whole job: {OURS}", "new rows: Phalanx"},
        "others": set(),
    },
}  # fmt: skip
"""The rows of each section: Parquet is measured on a disk only, and rows of other kinds only beside it."""

Result = tuple[str, dict[str, Any], str]


@pytest.fixture(scope="module", params=[pytest.param("disk", marks=pytest.mark.torture), "store"])
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One quick run at each place: where, what it wrote and what it printed."""
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", "spark", "--quick", "--out", str(out)]
    if request.param == "store":
        server: Server = request.getfixturevalue("s3_server")
        command += ["--lake", server.uri("bench-spark")]
        command += [word for key, value in server.options.items() for word in ("--option", f"{key}={value}")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    (written,) = out.iterdir()  # and nothing else is left
    return request.param, json.loads(written.read_text()), done.stdout


def test_every_section_has_figures(quick: Result) -> None:
    """All that is measured at a place has rows and samples, and whatever has a target says whether it was met."""
    where, result, printed = quick
    assert result["complete"] is True
    assert {section["key"]: {row["name"] for row in section["rows"]} for section in result["sections"]} == RUNS[where]
    for section in result["sections"]:
        assert section["complete"] is True
        assert all(samples["count"] > 0 for samples in section["samples"].values())
        assert all(row["figures"]["p50 s"] > 0 for row in section["rows"])
    asked = [one for section in result["sections"] for one in section["comparisons"] if one["met"] is not None]
    assert asked
    assert f"{sum(one['met'] for one in asked)} of {len(asked)} targets met" in printed
