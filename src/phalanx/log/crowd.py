"""How long to wait so that many processes share the log fairly (rule B6). Liveness only; nothing depends on it.

A loser that tries again at once mostly loses again, and costs everybody the reading, the sync and the processor; one that
waits too long leaves the log idle. The entries that were read say how many processes are committing and how often one
of them succeeds, so a loser waits for a random part of the time in which each of them could commit twice (less if they
are few), and less and less after several losses in a row: whoever has lost most often comes first. One rival is not
waited for.

Where a put takes long (an object store), the winner alone knows the end, and could win for ever: whoever has just read
who won is always one request late. So a winner that has rivals waits as well before its next put; and one that has seen
none for many commits stands back for a moment now and then, ever more rarely, to let itself be overtaken.
"""

from collections import deque

from phalanx.clock import Clock

_MEMORY = 64
_HORIZON = 3.0
_SHORTEST = 0.0003
_ROUNDS = 2
_CROWDED = 10
_PATIENT_LOSSES = 3
_FAR_APART = 4
"""So many puts fit between two commits of others: three of four times, the next put is alone."""
_REQUESTS_OF_A_LOSER = 3
_MOST_REQUESTS = 4
_FIRST_STREAK = 8
_LONGEST_STREAK = 256


class Crowd:
    """The commits of others that this process has read lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, str]] = deque(maxlen=_MEMORY)
        self._streak = 0
        self._longest = _FIRST_STREAK

    def saw(self, writer: str) -> None:
        """An entry of this writer was read now."""
        self._seen.append((self._clock.steady(), writer))
        self._streak, self._longest = 0, _FIRST_STREAK

    def patience(self, losses: int, request: float) -> float:
        """Seconds that a loser waits before its next try, after this many losses in a row; a put takes `request` seconds."""
        rivals, interval = self._measure()
        if rivals < 2 or interval > _FAR_APART * request:
            return 0.0
        rounds = _ROUNDS * min(1.0, rivals / _CROWDED)
        round_ = rounds * rivals * interval / (1 << max(0, min(losses, 16) - _PATIENT_LOSSES))
        wait = self._clock.jitter() * round_
        return wait if wait >= _SHORTEST else 0.0

    def courtesy(self, request: float) -> float:
        """Seconds that a winner waits before its next put, where one request takes `request` seconds."""
        rivals, _ = self._measure()
        if rivals:
            return self._clock.jitter() * min(rivals, _MOST_REQUESTS) * request
        self._streak += 1
        if self._streak < self._longest:
            return 0.0
        self._streak, self._longest = 0, min(2 * self._longest, _LONGEST_STREAK)
        return _REQUESTS_OF_A_LOSER * request

    def _measure(self) -> tuple[int, float]:
        """How many others commit, and how many seconds pass between two of their commits."""
        now = self._clock.steady()
        while self._seen and now - self._seen[0][0] > _HORIZON:
            self._seen.popleft()
        if not self._seen:
            return 0, 0.0
        return len({writer for _, writer in self._seen}), (now - self._seen[0][0]) / len(self._seen)
