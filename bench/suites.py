"""Which suites there are."""

from collections.abc import Mapping

from bench.frame import Suite
from bench.log.suite import suite as log_suite

SUITES: Mapping[str, Suite] = {"log": log_suite}
