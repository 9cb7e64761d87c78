"""A clock that stands still until a test moves it, with repeatable chance."""

import random
import threading


class ManualClock:
    """Time passes when `advance` is called, or when somebody sleeps; tokens and jitter follow from the seed."""

    def __init__(self, start: float = 1_700_000_000.0, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._wall = start
        self._steady = 1000.0
        self._random = random.Random(seed)
        self.slept: list[float] = []

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return int(self._wall * 1e6)

    def steady(self) -> float:
        """Seconds that never go back."""
        return self._steady

    def sleep(self, seconds: float) -> None:
        """Returns at once, later."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        with self._lock:
            self._wall += seconds
            self._steady += seconds

    def set_wall(self, seconds: float) -> None:
        """Jump, as a wall clock may."""
        self._wall = seconds

    def token(self, size: int) -> bytes:
        """Bytes that follow from the seed."""
        with self._lock:
            return self._random.randbytes(size)

    def jitter(self) -> float:
        """A number in [0, 1) that follows from the seed."""
        with self._lock:
            return self._random.random()
