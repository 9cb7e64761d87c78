"""Keeps the deadlines of those who do not wait with one of their own.

A caller in a thread waits with a time-out. For a thousand tasks on an event loop a timer each would cost more than the
commit itself, so one thread looks after all of them, a few times a second, for as long as there is anything to look at.
"""

import threading
from collections.abc import Callable

TICK = 0.1
"""Seconds between two looks: how late a deadline may be noticed."""


class Watch:
    """Calls `look` again and again while it answers that there is something left to watch."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._on = False
        self._pause = threading.Event()

    def begin(self) -> None:
        """There is something to watch now."""
        with self._lock:
            if not self._on:
                self._on = True
                threading.Thread(target=self._run, name="phalanx-watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._pause.wait(TICK)
            with self._lock:
                if not self._look():
                    self._on = False
                    return
