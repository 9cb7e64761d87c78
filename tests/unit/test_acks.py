"""Acknowledgements: one outcome, for threads and event loops alike."""

import asyncio
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from phalanx.errors import ConflictError, PhalanxError, StateError
from phalanx.log.ack import Ack, settle


def test_an_outcome_reaches_every_waiter() -> None:
    """Threads that wait, tasks that await on several loops, and whoever asks later."""
    ack = Ack()
    assert not ack.done()

    async def awaiting() -> list[int]:
        async def one() -> int:
            return await ack

        return await asyncio.gather(*(one() for _ in range(10)))

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(ack.result, 5) for _ in range(4)]
        loops = [pool.submit(asyncio.run, awaiting()) for _ in range(3)]
        time.sleep(0.02)
        settle([(ack, 7)])
        assert [found.result(5) for found in threads] == [7] * 4
        assert [found.result(5) for found in loops] == [[7] * 10] * 3
    assert ack.done()
    assert ack.result() == ack.result(0) == 7
    assert asyncio.run(awaiting()) == [7] * 10


def test_an_error_is_raised_to_every_waiter() -> None:
    """By `result` and by `await` alike."""
    ack = Ack()
    settle([(ack, ConflictError("no", position=3))])

    async def awaiting() -> None:
        await ack

    for ask in (ack.result, lambda: asyncio.run(awaiting())):
        with pytest.raises(ConflictError) as caught:
            ask()
        assert caught.value.position == 3


def test_the_first_outcome_stands() -> None:
    """Told twice, an acknowledgement keeps what it was told first."""
    ack, error = Ack(), Ack()
    settle([(ack, 7), (ack, 8), (ack, StateError("late")), (error, StateError("first")), (error, 9)])
    assert ack.result() == 7
    with pytest.raises(StateError, match="first"):
        error.result()


def test_two_may_settle_at_once() -> None:
    """The one that gave up and the one that committed: the first stands, and neither is hurt."""
    ack = Ack()

    class Interrupted(int):
        """An outcome that another one overtakes while it is being settled."""

        @property
        def __class__(self) -> type:
            settle([(ack, 2)])
            return int

        @__class__.setter
        def __class__(self, _: type) -> None: ...

    settle([(ack, Interrupted(1))])
    assert ack.result(0) == ack.result(0) == 1


@contextmanager
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_settling_while_somebody_begins_to_wait_loses_nobody() -> None:
    """A task that registers at the very moment is woken, by one side or the other."""
    acks = [Ack() for _ in range(2000)]

    async def awaiting() -> int:
        return sum([await ack for ack in acks])

    def tell() -> None:
        for ack in acks:
            settle([(ack, 1)])

    with hasty_threads(), ThreadPoolExecutor(1) as pool:
        told = pool.submit(tell)
        assert asyncio.run(asyncio.wait_for(awaiting(), 30)) == 2000
        told.result(5)


def test_waiting_may_end_without_an_outcome() -> None:
    """A time-out says nothing about the commit, which is still to come."""
    ack = Ack()
    assert not ack.wait(0.01)
    with pytest.raises(TimeoutError, match="the commit goes on"):
        ack.result(0.01)
    settle([(ack, 7)])
    assert ack.wait(float("inf"))
    assert ack.result(0) == 7


def test_cancelling_a_task_does_not_cancel_the_commit() -> None:
    """B5: whoever else waits gets the outcome, and so does the same caller if it asks again."""

    async def run() -> tuple[int, int]:
        ack = Ack()

        async def awaiting() -> int:
            return await ack

        cancelled, other = asyncio.ensure_future(awaiting()), asyncio.ensure_future(awaiting())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cancelled, 0.01)
        assert not ack.done()
        settle([(ack, 7)])
        return await other, await ack

    assert asyncio.run(run()) == (7, 7)


def test_a_loop_that_is_closed_keeps_nobody_else_from_hearing() -> None:
    """Its tasks are gone; the others are told all the same."""
    first, second = Ack(), Ack()
    loop = asyncio.new_event_loop()

    async def awaiting() -> int:
        return await first

    task = loop.create_task(awaiting())
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    waiting = list(first._waiters)
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    first._waiters = waiting  # as if the loop had been closed with the task still in it
    loop.close()
    settle([(first, 7), (second, 8)])
    assert (first.result(0), second.result(0)) == (7, 8)


def test_errors_that_are_settled_are_ours() -> None:
    """What an acknowledgement raises can be caught as one kind, and says whether the change is committed."""
    ack = Ack()
    settle([(ack, StateError("x"))])
    with pytest.raises(PhalanxError) as caught:
        ack.result()
    assert caught.value.committed is False
