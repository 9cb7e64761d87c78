"""What goes wrong in a task, told in the driver as the error that it is.

Spark wraps an exception of a task into one of its own, with the traces of all processes that it came through. If it was
one of Phalanx's, its kind and its message are found in there, and raised as if it had happened here.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException

from phalanx import errors
from phalanx.errors import InvalidInputError, PhalanxError, UnavailableError

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
except ImportError:  # a client of Spark Connect has no Java beside it
    JOB_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    JOB_ERRORS = (PySparkException, Py4JError)
"""What a job fails with: PySpark has no class of its own for one that was cancelled, or that lost its executors."""

_OURS = re.compile(r"phalanx\.errors\.(\w+): (.*)")
_JAVA = re.compile(r"^: [\w.$]+(?:Exception|Error): (.*)$", re.MULTILINE)
"""The first words of what Java raised, behind those of py4j."""
_PYTHON = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt)): (.*)$", re.MULTILINE)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Run a job; `what` it does is said if it fails for a reason that is not Phalanx's."""
    try:
        yield
    except JOB_ERRORS as error:
        raise translated(error, what) from None


def translated(error: Exception | str, what: str) -> PhalanxError:
    """The error that one of Spark's, or its text, speaks of. A statement that is wrong will be wrong again."""
    text = str(error)
    for kind, message in reversed(_OURS.findall(text)):
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, PhalanxError):
            return found(message)
    inner = _PYTHON.findall(text)
    java = _JAVA.search(text)
    if inner:
        reason = f"{inner[-1][0]}: {inner[-1][1]}"
    else:
        reason = java[1] if java else next(filter(None, map(str.strip, text.splitlines())), "no reason was given")
    if isinstance(error, ParseException | AnalysisException):
        return InvalidInputError(f"{what} cannot be done: {reason}")
    return UnavailableError(f"{what} failed, and nothing was committed: {reason}")
