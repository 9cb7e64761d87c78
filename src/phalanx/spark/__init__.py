"""The data pipeline on Spark: read, write and follow the tables of a lake with PySpark.

`session()` is a Spark session that needs no setting up, and `on(lake, spark)` is the lake with it: `table`, `views` and
`changes` give data frames, `write` and `transaction` take them. A `Pipeline` is declared with steps, and run by `run_pipeline`.
"""

try:
    import pyspark  # noqa: F401
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("phalanx.spark needs PySpark: pip install 'phalanx-lake[spark]'") from error

from phalanx.spark import expect
from phalanx.spark.inputs import added, changes, made, whole
from phalanx.spark.lake import SparkLake, SparkSnapshot, on
from phalanx.spark.pipeline import Pipeline, load_pipeline
from phalanx.spark.run import Ran, StepRan, run_pipeline
from phalanx.spark.session import session
from phalanx.spark.transaction import SparkTransaction

__all__ = [
    "Pipeline",
    "Ran",
    "SparkLake",
    "SparkSnapshot",
    "SparkTransaction",
    "StepRan",
    "added",
    "changes",
    "expect",
    "load_pipeline",
    "made",
    "on",
    "run_pipeline",
    "session",
    "whole",
]
