"""The program `phalanx`: what is decided before its verbs, and the libraries below them, are loaded."""

import sys

from phalanx.clock import stand_back

_CAN_WAIT = {"optimize", "prune", "check"}
"""Verbs whose work is nobody's hurry: writers beside them go first. Loading Lance is part of that work."""


def main() -> None:
    """Run the command line."""
    if len(sys.argv) > 1 and sys.argv[1] in _CAN_WAIT:
        stand_back()
    try:
        from phalanx.cli.app import run  # noqa: PLC0415 - after standing back: loading takes a second of processor
    except KeyboardInterrupt:
        sys.exit(130)
    run()
