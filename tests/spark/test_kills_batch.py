"""Drivers of a write killed before, within or after its commit: all of its rows are there, or none; a token lands them once."""

from pathlib import Path

import pytest

import phalanx
from phalanx.spark import SparkLake
from tests.spark.rows import EVENTS, events, run_program

ROWS = 20_000
DRIVER = """
import os, signal, sys
import phalanx, phalanx.spark
from phalanx.spark import source
uri, how, when, rows, token = sys.argv[1:]
spark = phalanx.spark.session("local[2]", memory="1g")
driver, jvm = os.getpid(), spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()

def die():
    os.kill(jvm, signal.SIGKILL)
    os.kill(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def dying(commit):
    def run(*given):
        if when == "before":
            die()
        if when == "within":
            link = os.link
            def linked(source, target, **how):
                link(source, target, **how)
                if "/log/" in target:
                    die()
            os.link = linked
        commit(*given)
        die()
    return run

class Dying(source.TableWriter):
    def commit(self, messages):
        dying(super().commit)(messages)

class Source(source.PhalanxSource):
    @classmethod
    def name(cls):
        return "dying"
    def writer(self, schema, overwrite):
        made = super().writer(schema, overwrite)
        return Dying(made._place, made._mode, made._asked, made._identity)

spark.dataSource.register(Source)
frame = spark.range(0, int(rows), 1, 2).selectExpr("id", "'s' as kind", "id / 2 as x")
with phalanx.open(uri) as lake:
    there = phalanx.spark.on(lake, spark)
    if how == "source":
        frame.write.format("dying").options(lake=uri, table="events").mode("append").save()
    lake.core.committer.commit = dying(lake.core.committer.commit)
    if how == "helper":
        there.write(frame, "events")
    with there.transaction(token=token) as txn:
        txn.write("events", frame)
        txn["counts"].append([{"rows": int(rows)}])
"""


def killed(lake: phalanx.Lake, tmp_path: Path, how: str, when: str, token: str) -> None:
    """A driver that writes in this way, and is killed then, together with its JVM."""
    done = run_program(DRIVER, lake.uri, how, when, str(ROWS), token, cwd=tmp_path)
    assert done.returncode == -9, done.stderr[-3000:]


@pytest.mark.parametrize("how", ["helper", "source"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_whose_driver_is_killed_is_there_as_a_whole_or_not_at_all(
    lake: phalanx.Lake, there: SparkLake, tmp_path: Path, how: str, when: str
) -> None:
    """Nothing before the commit, and everything after it; the next write is not held up."""
    table = lake.create_table("events", EVENTS)
    table.append(events(-5, 5))
    killed(lake, tmp_path, how, when, "")
    landed = 0 if when == "before" else ROWS
    assert table.count() == 5 + landed
    assert table.to_arrow(where="id >= 0").sort_by("id").to_pylist() == events(0, landed, "s")
    assert lake.check(deep=True).whole
    there.write(there.table("events", where="id < 0"), "events")
    assert table.count() == 10 + landed


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_transaction_whose_driver_was_killed_is_run_again_with_its_token_and_lands_once(
    lake: phalanx.Lake, there: SparkLake, tmp_path: Path, when: str
) -> None:
    """Both of its tables, though the driver died when the entry had its name and nobody was told, or before that."""
    table = lake.create_table("events", EVENTS)
    counts = lake.create_table("counts", [{"rows": 0}])
    token = lake.token()
    killed(lake, tmp_path, "transaction", when, token)
    landed = 0 if when == "before" else 1
    assert (table.count(), counts.count()) == (landed * ROWS, 1 + landed)
    versions = set()
    for _ in range(2):
        with there.transaction(token=token) as txn:
            txn.write("events", there.spark.range(ROWS).selectExpr("id", "'s' as kind", "id / 2 as x"))
            txn["counts"].append([{"rows": ROWS}])
        versions.add(txn.version)
    assert len(versions) == 1, "it is told where it has landed"
    assert table.to_arrow().sort_by("id").to_pylist() == events(0, ROWS, "s")
    assert counts.count() == 2
    assert lake.check(deep=True).whole
