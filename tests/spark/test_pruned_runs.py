"""Runs of pipelines whose changes are no longer in the log: they are found by comparing with what the last run has read."""

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import phalanx
from phalanx.spark import Pipeline, SparkLake, added, changes, run_pipeline
from phalanx.upkeep.retention import Needs
from tests.spark.rows import EVENTS, events


def test_a_run_that_comes_after_the_log_was_pruned_still_reads_what_is_new(
    lake: phalanx.Lake, there: SparkLake
) -> None:
    """The version that the last run has read is kept by its tag, and compared with."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", EVENTS, key="id")
    for name in ("copy", "log"):
        lake.create_table(name, pa.schema([("id", pa.int64()), ("kind", pa.string()), ("what", pa.string())]))
    table.append(events(0, 4))
    both = Pipeline("both")
    both.sql(
        "new", "select id, kind, 'new' as what from events", reads=[added("events", where="id <> 5")], writes="copy"
    )
    both.sql("all", "select id, kind, _change_type as what from events", reads=[changes("events")], writes="log")
    run_pipeline(there, both)
    for first in range(4, 10, 2):
        table.append(events(first, 2))
    lake.prune(keep=1, older_than=0, protect=0, unconditional=True)
    with pytest.raises(phalanx.ChangesExpiredError):
        lake.changes("events", lake.snapshot(tag="pipeline.both").version)
    assert [step.rows for step in run_pipeline(there, both).steps] == [5, 6]
    assert sorted(row["id"] for row in lake["log"].to_arrow().to_pylist()) == list(range(10))
    assert lake["log"].count("what = 'insert'") == 10


@pytest.mark.parametrize("only_added", [False, True])
def test_a_prune_that_lands_in_a_run_has_it_run_again(
    lake: phalanx.Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch, *, only_added: bool
) -> None:
    """It decided before the run had pinned what its tasks read: they find that it is gone."""
    lake.set_property("flush.background", "off")
    table = lake.create_table("events", EVENTS, key="id")
    lake.create_table("copy", pa.schema([("id", pa.int64())]))
    table.append(events(0, 4))
    copy, runs = Pipeline("copy"), []
    source = added("events") if only_added else changes("events")

    @copy.step(reads={"rows": source}, writes="copy", name="it")
    def late(rows: DataFrame) -> DataFrame:
        runs.append(lake.version)
        if len(runs) == 2:
            own = Needs.of
            with monkeypatch.context() as patch:
                patch.setattr(Needs, "of", classmethod(lambda _, state, __: own(state, [])))
                assert lake.prune(keep=1, protect=0, unconditional=True).versions["events"] > 1
        return rows.select("id")

    run_pipeline(there, copy)
    for first in range(4, 12, 2):
        table.append(events(first, 2))
    done = run_pipeline(there, copy)
    assert len(runs) == 3, "and once more"
    assert (done.number, done.steps[0].rows) == (2, 8)
    assert sorted(row["id"] for row in lake["copy"].to_arrow().to_pylist()) == list(range(12))
