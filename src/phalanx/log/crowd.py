"""How long to wait after losing a position, so that many processes share the log fairly (rule B6). Liveness only.

A loser that tries again at once mostly loses again, and costs everybody the reading, the sync and the processor; one that
waits too long leaves the log idle. The entries that were read say how many processes are committing and how often one
of them succeeds, so a loser waits for a random part of the time in which each of them could commit once, and half as
long after each further loss: whoever has lost most often comes first. Two processes do not wait: the one that has just
won is busy syncing.
"""

from collections import deque

from phalanx.clock import Clock

_MEMORY = 64
_HORIZON = 1.0
_SHORTEST = 0.0003


class Crowd:
    """The commits of others that this process has read lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, str]] = deque(maxlen=_MEMORY)

    def saw(self, writer: str) -> None:
        """An entry of this writer was read now."""
        self._seen.append((self._clock.steady(), writer))

    def patience(self, losses: int) -> float:
        """Seconds to wait before the next try, after this many losses in a row; often 0."""
        now = self._clock.steady()
        while self._seen and now - self._seen[0][0] > _HORIZON:
            self._seen.popleft()
        rivals = len({writer for _, writer in self._seen})
        if rivals < 2:
            return 0.0
        interval = (now - self._seen[0][0]) / len(self._seen)
        wait = self._clock.jitter() * interval * rivals / (1 << min(losses - 1, 16))
        return wait if wait >= _SHORTEST else 0.0
