"""What starts Spark's Python workers: Spark's own program, but for two things.

With Unix sockets, a worker that was idle for a minute finds that the JVM has let go of it; Spark has it say so on the console,
with a traceback. And after every task a worker looks for garbage among all that it has ever imported, which takes longer
than Spark's part of a small task: what is there when modules were imported is not looked at again.
"""

import gc
import sys
import traceback
from types import SimpleNamespace
from typing import Any

from pyspark import daemon

_modules = 0


def main() -> None:
    """Serve the JVM until it is gone."""
    patched: Any = daemon
    patched.traceback = SimpleNamespace(print_exc=_say, format_exc=traceback.format_exc)
    patched.gc = SimpleNamespace(collect=_collect)
    daemon.manager()


def _say() -> None:
    """What a worker dies of, unless nobody needs it any more."""
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc()


def _collect() -> None:
    """After a task, in a worker."""
    global _modules  # noqa: PLW0603 - of the process
    gc.collect()
    if len(sys.modules) != _modules:
        gc.freeze()
        _modules = len(sys.modules)


if __name__ == "__main__":
    main()
