"""Where Spark finds the data source `phalanx` by itself: it looks for modules named `pyspark_*` with a `DefaultSource`.

It is imported when it is asked for: what starts workers (`daemon.py`) is a module of this package, and must not have Lance's threads.
"""

from typing import Any


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as every module's
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from phalanx.spark.source import PhalanxSource  # noqa: PLC0415 - said above

    return PhalanxSource
