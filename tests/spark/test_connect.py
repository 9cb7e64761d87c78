"""Spark Connect, and what stands on it: Spark's own declarative pipelines. Each is a program of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import environment
from tests.spark.rows import run_program

PROGRAM = """
import sys
import phalanx, phalanx.spark
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as Remote

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert isinstance(spark, Remote), spark
with phalanx.open(sys.argv[1], create=True) as lake:
    lake.create_table("t", [{"id": number, "s": str(number)} for number in range(100)], key="id")
    lake.create_table("log", [{"id": 0}])
    there = phalanx.spark.on(lake, spark)
    before = lake.version
    read = spark.read.format("phalanx").option("lake", sys.argv[1]).option("table", "t")
    print("read", read.load().count(), there.table("t", columns=["id"], where="id < 10").count())
    there.views()
    print("sql", spark.sql("select count(*) as n from t join log using (id)").collect()[0].n)
    there.write(spark.range(5).selectExpr("id", "'x' as s"), "t", mode="upsert")
    with there.transaction() as txn:
        txn.write("t", spark.range(2).selectExpr("id + 900 as id", "'y' as s"))
        txn["log"].append([{"id": 1}])
    frame = spark.range(3).selectExpr("id + 200 as id", "'z' as s")
    frame.write.format("phalanx").option("lake", sys.argv[1]).option("table", "t").mode("append").save()
    print("written", lake["t"].count(), lake["log"].count(), lake["t"].count("s = 'x'"))
    print("changes", there.changes("t", since=before).count())
    words = phalanx.spark.Pipeline("words")
    words.sql("twice", "select id, concat(s, s) as s from t", reads={"t": phalanx.spark.added("t")}, writes="twice", create=True)

    @words.step(reads={"made": phalanx.spark.made("twice")}, writes="counts", create=True)
    def counts(made):
        return made.groupBy("s").count()

    for number in (1, 2):
        ran = phalanx.spark.run_pipeline(there, words)
        print("run", ran.number, [step.rows for step in ran.steps], lake["twice"].count(), ran.version == lake.version)
        lake["t"].append([{"id": 300 + number, "s": "new"}])
spark.stop()
"""


def test_a_session_of_spark_connect_reads_and_writes(tmp_path: Path) -> None:
    """Frames, views, upserts, the data source, changes, a transaction over two tables, and a pipeline."""
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = run_program(PROGRAM, str(tmp_path / "lake"), cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr[-4000:]
    said = [line for line in done.stdout.splitlines() if line.startswith(("read", "sql", "written", "changes", "run"))]
    runs = ["run 1 [105, 98] 105 True", "run 2 [1, 1] 106 True"]
    assert said == ["read 100 10", "sql 1", "written 105 2 5", "changes 15", *runs]


@pytest.mark.timeout(600)
def test_a_declarative_pipeline_moves_each_row_once(tmp_path: Path) -> None:
    """The example as its README says it is run; run again, only what is new arrives."""
    folder = tmp_path / "pipeline"
    shutil.copytree(Path("examples/declarative"), folder)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text().replace("STORAGE", (tmp_path / "storage").as_uri())
    spec.write_text(text.replace("LAKE", str(tmp_path / "lake")))
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        lake.create_table("turns", [{"id": 1, "text": "hello big world"}, {"id": 2, "text": "good day"}], key="id")
        lake.create_table("words", pa.schema([("id", pa.int64()), ("word", pa.string())]))
        _run(spec)
        words = ["hello", "big", "world", "good", "day"]
        assert sorted(lake["words"].to_arrow()["word"].to_pylist()) == sorted(words)
        lake["turns"].append([{"id": 3, "text": "once more"}])
        _run(spec)
        assert sorted(lake["words"].to_arrow()["word"].to_pylist()) == sorted([*words, "once", "more"])


def _run(spec: Path) -> None:
    here = Path(sys.executable).parent
    path = f"{here}:{environment()['PATH']}"
    done = subprocess.run(
        [here / "spark-pipelines", "run", "--spec", spec],
        env={**environment(), "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
