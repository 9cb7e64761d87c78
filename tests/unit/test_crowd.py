"""Waiting, so that many processes share the log (rule B6): little when few compete, fair when many do."""

import threading
import time

from phalanx.clock import SYSTEM
from phalanx.lake import join
from phalanx.log.action import Settings
from phalanx.log.crowd import Crowd
from phalanx.objects import Blob, Put
from phalanx.objects.memory import MemoryStore
from phalanx.testing import ManualClock
from phalanx.testing.wrapping import WrappedStore


class Distant(WrappedStore):
    """An object store that takes a while to answer a put, and to be listed."""

    def __init__(self, inner: MemoryStore, seconds: float) -> None:
        super().__init__(inner)
        self.probes = False
        self._seconds = seconds

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        time.sleep(self._seconds)
        return super()._create(blob, name, data)

    def _list(self, prefix: str, after: str, before: str) -> "list[object]":  # type: ignore[override]
        time.sleep(self._seconds)
        return super()._list(prefix, after, before)  # type: ignore[return-value]


def crowd(rivals: int, interval: float) -> Crowd:
    clock = ManualClock()
    seen = Crowd(clock)
    for number in range(40):
        clock.advance(interval)
        seen.saw(f"w{number % rivals}")
    return seen


def test_nobody_waits_for_nobody() -> None:
    """Alone, or with one rival that is busy syncing, a loser tries again at once."""
    assert Crowd(ManualClock()).patience(1, 0.001) == 0.0
    assert crowd(1, 0.001).patience(1, 0.001) == 0.0


def test_a_loser_waits_for_a_part_of_the_time_in_which_all_could_commit_twice() -> None:
    """The wait follows the number of rivals and the rate at which they succeed."""
    seen = crowd(20, 0.001)
    waits = [seen.patience(1, 0.001) for _ in range(500)]
    assert 0 <= min(waits) < max(waits) <= 2 * 20 * 0.001
    assert 0.4 < sum(waits) / len(waits) / 0.02 < 1.6


def test_whoever_has_lost_most_often_comes_first() -> None:
    """After several losses the wait halves with each further one."""
    means = []
    for losses in (3, 6, 9):
        seen = crowd(20, 0.005)
        means.append(sum(seen.patience(losses, 0.005) for _ in range(500)) / 500)
    assert means[0] > 5 * means[1] > 20 * means[2]


def test_rivals_of_long_ago_are_forgotten() -> None:
    """What was seen minutes ago says nothing about now."""
    clock = ManualClock()
    seen = Crowd(clock)
    for number in range(40):
        seen.saw(f"w{number}")
    clock.advance(60)
    assert seen.patience(1, 0.001) == 0.0


def test_rivals_that_commit_rarely_are_not_waited_for() -> None:
    """Three that commit every 100 ms beside a put of 1 ms: a loser waited up to 80 ms for a log that was free."""
    seen = crowd(3, 0.1)
    assert {seen.patience(losses, 0.001) for losses in range(1, 10)} == {0.0}
    assert max(seen.patience(1, 0.05) for _ in range(100)) > 0.05


def test_a_lone_winner_stands_back_ever_more_rarely() -> None:
    """In a thousand commits without a rival it waits a handful of times."""
    seen = Crowd(ManualClock())
    waits = [seen.courtesy(0.03) for _ in range(1000)]
    assert 4 <= sum(wait > 0 for wait in waits) <= 8
    assert sum(waits) < 1000 * 0.03 * 0.05


def test_nobody_starves_on_a_distant_store() -> None:
    """Three writers with a request time of 10 ms: the unluckiest gets a tenth of the mean, and mostly far more."""
    store = MemoryStore()
    join(store, SYSTEM, Settings(), timeout=30).close()
    lakes = [join(Distant(store, 0.01), SYSTEM, None, timeout=60) for _ in range(3)]
    counts = [0, 0, 0]
    end = time.monotonic() + 5

    def write(number: int) -> None:
        lakes[number]._committer._writer = f"w{number}"
        while time.monotonic() < end:
            lakes[number].set_property("k", "v")
            counts[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(counts)
    assert min(counts) >= sum(counts) / 3 / 10, counts
