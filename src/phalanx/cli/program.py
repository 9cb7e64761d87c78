"""The program `phalanx`: what is decided before its verbs, and the libraries below them, are loaded; and how it ends."""

import atexit
import os
import sys

from phalanx.clock import stand_back

_CAN_WAIT = {"optimize", "prune", "check"}
"""Verbs whose work is nobody's hurry: writers beside them go first. Loading Lance is part of that work."""

_NOT_PRINTED = 120
"""The exit code of Python's where the end of an answer could not be printed."""


def main() -> None:
    """Run the command line."""
    ending = _Ending()
    atexit.register(ending.leave)  # the first, so that it is called last, when all threads are done
    if len(sys.argv) > 1 and sys.argv[1] in _CAN_WAIT:
        stand_back()
    try:
        from phalanx.cli.app import run  # noqa: PLC0415 - after standing back: loading takes a second of processor
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        run()
    except SystemExit as ended:
        ending.code = ended.code if isinstance(ended.code, int) else None if ended.code else 0
        raise
    ending.code = 0


class _Ending:
    """Ends the process without taking Python apart.

    Threads of Arrow that read for Python, ahead of what was needed, may still be there. One that asks for the interpreter while
    it is taken apart ends the whole process by an abort, though all work was done (apache/arrow#45017).
    """

    code: int | None = None

    def leave(self) -> None:
        """Leave with the exit code; if there is none, an error ends the process in Python's own way."""
        if self.code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            self.code = self.code or _NOT_PRINTED
        os._exit(self.code)
