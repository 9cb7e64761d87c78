"""Which suites there are."""

from collections.abc import Mapping

from bench.frame import Suite
from bench.ingest.suite import suite as ingest_suite
from bench.keys.suite import suite as keys_suite
from bench.log.suite import suite as log_suite
from bench.mixed.suite import suite as mixed_suite
from bench.search.suite import suite as search_suite
from bench.spark.suite import suite as spark_suite
from bench.sql.suite import suite as sql_suite
from bench.tables.suite import suite as tables_suite
from bench.upkeep.suite import suite as upkeep_suite

SUITES: Mapping[str, Suite] = {
    "log": log_suite,
    "mixed": mixed_suite,
    "tables": tables_suite,
    "ingest": ingest_suite,
    "keys": keys_suite,
    "search": search_suite,
    "sql": sql_suite,
    "upkeep": upkeep_suite,
    "spark": spark_suite,
}
