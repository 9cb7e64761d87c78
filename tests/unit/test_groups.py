"""Groups: a queue, one leader at a time, and never none while there is something to do."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from phalanx.errors import StateError
from phalanx.log.ack import Ack, settle
from phalanx.log.group import Group


class Job:
    """Something to be worked on, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ack = Ack()

    def done(self) -> bool:
        """See `group.Job`."""
        return self.ack.done()


class Workshop:
    """A group whose work can be held up, interrupted and watched."""

    def __init__(self, *, inline: bool, most: int = 100) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[threading.Thread] = set()
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.trouble: list[BaseException] = []
        self.at_once = self.most_at_once = 0
        self.group: Group[Job] = Group(self.work, most, inline=inline)

    def work(self, batch: list[Job]) -> None:
        """Note the batch, wait for the gate, and tell everybody."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.batches.append([job.name for job in batch])
        self.threads.add(threading.current_thread())
        self.begun.release()
        try:
            assert self.gate.wait(10)
            if self.trouble:
                raise self.trouble.pop()
        finally:
            self.at_once -= 1
            settle((job.ack, len(self.batches)) for job in batch)

    def submit(self, *names: str) -> list[Job]:
        """Queue jobs without waiting for them."""
        jobs = [Job(name) for name in names]
        for job in jobs:
            self.group.submit(job)
        return jobs

    def run(self, name: str) -> Job:
        """Queue a job and wait for it."""
        job = Job(name)
        self.group.run(job)
        job.ack.result(5)
        return job


def test_a_lone_caller_does_its_own_work() -> None:
    """Where that is quick; a hand-over to another thread costs more than it saves."""
    shop = Workshop(inline=True)
    shop.run("a")
    shop.run("b")
    assert (shop.batches, shop.threads) == ([["a"], ["b"]], {threading.current_thread()})


def test_where_a_call_may_take_long_a_worker_does_it() -> None:
    """So the caller's deadline is kept whatever the network does."""
    shop = Workshop(inline=False)
    shop.run("a")
    assert threading.current_thread() not in shop.threads


@pytest.mark.parametrize("inline", [True, False])
def test_what_comes_while_a_batch_is_worked_on_is_the_next_batch(inline: bool) -> None:
    """In the order in which it came, and never more than fit."""
    shop = Workshop(inline=inline, most=3)
    shop.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.run, "first")
        assert shop.begun.acquire(timeout=5)
        jobs = shop.submit("a", "b", "c", "d", "e")
        shop.gate.set()
        first.result(5)
    assert [job.ack.result(5) for job in jobs] == [2, 2, 2, 3, 3]
    assert shop.batches == [["first"], ["a", "b", "c"], ["d", "e"]]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt(), SystemExit(1), RuntimeError("bug"), MemoryError()])
def test_an_interrupted_leader_leaves_no_queue_without_a_leader(trouble: BaseException) -> None:
    """It gets what interrupted it; what had gathered meanwhile, and what comes later, is worked on all the same."""
    shop = Workshop(inline=True)
    shop.gate.clear()
    shop.trouble = [trouble]
    with ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(shop.run, "first")
        assert shop.begun.acquire(timeout=5)
        gathered = shop.submit("a", "b")
        shop.gate.set()
        with pytest.raises(type(trouble)):
            interrupted.result(5)
    assert [job.ack.result(5) for job in gathered] == [2, 2]
    shop.run("later")
    shop.group.close()
    assert shop.batches == [["first"], ["a", "b"], ["later"]]


@pytest.mark.parametrize("gathered", [[], ["a", "b"]])
def test_a_worker_survives_a_batch_that_fails(gathered: list[str]) -> None:
    """A bug that one batch meets does not stop all those after it."""
    shop = Workshop(inline=False)
    shop.gate.clear()
    shop.trouble = [RuntimeError("bug")]
    jobs = shop.submit("first")
    assert shop.begun.acquire(timeout=5)
    jobs += shop.submit(*gathered)
    shop.gate.set()
    assert all(job.ack.wait(5) for job in jobs)
    shop.run("later")
    shop.group.close()


def test_a_job_can_be_withdrawn_until_it_is_begun() -> None:
    """Then it is nobody's; afterwards it is too late, and the rest of the queue does not notice."""
    shop = Workshop(inline=False)
    shop.gate.clear()
    (begun,) = shop.submit("begun")
    assert shop.begun.acquire(timeout=5)
    queued, other = shop.submit("queued", "other")
    assert shop.group.withdraw(queued)
    assert not shop.group.withdraw(queued)
    assert not shop.group.withdraw(begun)
    shop.gate.set()
    assert (begun.ack.result(5), other.ack.result(5), queued.done()) == (1, 2, False)
    assert not shop.group.withdraw(other)


@pytest.mark.parametrize("inline", [True, False])
def test_closing_finishes_what_is_queued_and_takes_no_more(inline: bool) -> None:
    """It waits for the one who leads, worker or caller, and for all that has gathered behind."""
    shop = Workshop(inline=inline)
    shop.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shop.run, "first")
        assert shop.begun.acquire(timeout=5)
        gathered = shop.submit("a", "b")
        closing = pool.submit(shop.group.close)
        while not shop.group._closed:
            time.sleep(0.001)
        for late in (lambda: shop.submit("late"), lambda: shop.run("late")):
            with pytest.raises(StateError, match="closed"):
                late()
        assert not closing.done()
        shop.gate.set()
        closing.result(5)
        assert all(job.done() for job in gathered)
        first.result(5)
    assert (shop.batches, shop.most_at_once) == ([["first"], ["a", "b"]], 1)
    assert not any(thread.is_alive() for thread in shop.threads - {threading.current_thread()})


def test_closing_after_everything_was_withdrawn_does_not_hang() -> None:
    """The worker that was called finds nothing to do."""
    for _ in range(50):
        shop = Workshop(inline=False)
        (job,) = shop.submit("a")
        shop.group.withdraw(job)
        closing = threading.Thread(target=shop.group.close, daemon=True)
        closing.start()
        closing.join(5)
        assert not closing.is_alive()


@contextmanager
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_at_most_one_thread_leads_at_any_moment() -> None:
    """Whatever mixture of waiting, submitting, interrupting and closing there is."""
    for inline in (True, False):
        shop = Workshop(inline=inline)

        def busy(number: int, shop: Workshop = shop) -> list[Job]:
            jobs: list[Job] = []
            steps: list[Callable[[], None]] = [
                lambda: jobs.append(shop.run(f"{number}")),
                lambda: jobs.extend(shop.submit(f"{number}", f"{number}")),
            ]
            for step in range(60):
                steps[(number + step) % 2]()
            return jobs

        with hasty_threads(), ThreadPoolExecutor(6) as pool:
            jobs = [job for found in pool.map(busy, range(6)) for job in found]
            shop.group.close()
        assert all(job.done() for job in jobs)
        assert shop.most_at_once == 1
        assert sum(map(len, shop.batches)) == len(jobs)
