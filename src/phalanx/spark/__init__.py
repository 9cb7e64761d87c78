"""The data pipeline on Spark: read, write and follow the tables of a lake with PySpark.

`session()` is a Spark session that needs no setting up, and `on(lake, spark)` is the lake with it: `table`, `views` and
`changes` give data frames, `write` and `transaction` take them.
"""

try:
    import pyspark  # noqa: F401
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("phalanx.spark needs PySpark: pip install 'phalanx-lake[spark]'") from error

from phalanx.spark.lake import SparkLake, SparkSnapshot, on
from phalanx.spark.session import session
from phalanx.spark.transaction import SparkTransaction

__all__ = ["SparkLake", "SparkSnapshot", "SparkTransaction", "on", "session"]
