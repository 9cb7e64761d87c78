"""A cluster of several processes on this machine: executors that are other JVMs, one of which is killed at work."""

from pathlib import Path

import phalanx
from tests.spark.rows import EVENTS, run_program

PROGRAM = """
import os, signal, sys
import phalanx, phalanx.spark
uri, mark = sys.argv[1:]
spark = phalanx.spark.session("local-cluster[2,1,1024]", memory="1g", settings={
    "spark.executor.memory": "700m", "spark.task.maxFailures": "4", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"})

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

def kill_the_executor(batches):
    for batch in batches:
        yield batch
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(parent(parent(os.getpid())), signal.SIGKILL)

with phalanx.open(uri) as lake:
    there = phalanx.spark.on(lake, spark)
    rows = spark.range(0, 40_000, 1, 4).selectExpr("id", "'a' as kind", "id / 2 as x")
    there.write(rows.mapInArrow(kill_the_executor, rows.schema), "events")
    print("read", there.table("events").count())
spark.stop()
"""


def test_an_executor_that_is_killed_at_work_loses_and_doubles_nothing(lake: phalanx.Lake, tmp_path: Path) -> None:
    """Its tasks are run again elsewhere; what they had written is seen by nobody."""
    table = lake.create_table("events", EVENTS)
    done = run_program(PROGRAM, lake.uri, str(tmp_path / "killed"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    assert "read 40000" in done.stdout
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == list(range(40_000))
