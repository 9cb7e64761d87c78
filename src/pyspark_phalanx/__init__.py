"""Where Spark finds the data source `phalanx` by itself: it looks for modules named `pyspark_*` with a `DefaultSource`."""

from phalanx.spark.source import PhalanxSource


class DefaultSource(PhalanxSource):
    """The data source `phalanx`."""
