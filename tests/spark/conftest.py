"""One Spark session for all tests of this folder: local mode, two tasks at once, little memory."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import phalanx
import phalanx.spark
from phalanx.spark import SparkLake


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session; Spark leaves sockets to the garbage collector, which warns of them."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.task.maxFailures": "4",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session = phalanx.spark.session("local[2,4]", memory="1g", settings=settings)
        yield session
        session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[phalanx.Lake]:
    """A lake on a disk."""
    with phalanx.open(tmp_path / "lake", create=True) as found:
        yield found


@pytest.fixture
def there(lake: phalanx.Lake, spark: SparkSession) -> SparkLake:
    """The lake with Spark."""
    return phalanx.spark.on(lake, spark)
