"""Acknowledgements of single rows: tasks that wait for them behave as tasks that wait for anything else do."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from phalanx.errors import InvalidInputError
from phalanx.log.row import AT_ONCE, Row, tell

SOON = 10.0


def rows(count: int) -> list[Row]:
    return [Row({"id": number}, deletes=False) for number in range(count)]


def later(rows: list[Row], outcome: int | InvalidInputError, seconds: float = 0.02) -> threading.Thread:
    """Settle rows from another thread, as a writer does, a little later."""
    thread = threading.Thread(target=lambda: (time.sleep(seconds), tell(rows, outcome)))
    thread.start()
    return thread


async def awaited(row: Awaitable[int]) -> int:
    return await row


def test_tasks_by_the_thousand_are_told() -> None:
    """More than go on at once, several of them for the same row."""

    async def main() -> None:
        many = rows(3 * AT_ONCE + 1)
        tasks = [asyncio.create_task(awaited(row)) for row in many + many[:10]]
        await asyncio.sleep(0)
        thread = later(many, 7)
        assert await asyncio.wait_for(asyncio.gather(*tasks), SOON) == [7] * len(tasks)
        thread.join()
        assert await many[0] == 7, "a row that was told before does not wait"

    asyncio.run(main())


def test_gather_and_wait_for_take_a_row_as_it_is() -> None:
    """They make tasks of awaitables by themselves."""

    async def main() -> None:
        first, second = rows(2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first, 0.01)
        later([first, second], 3)
        assert await asyncio.wait_for(asyncio.gather(first, second), SOON) == [3, 3]

    asyncio.run(main())


def test_an_error_is_raised_in_the_task() -> None:
    """Each has an instance of its own."""

    async def main() -> None:
        both = rows(2)
        later(both, InvalidInputError("no"))
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [str(one) for one in found] == ["no", "no"]
        assert found[0] is not found[1]

    asyncio.run(main())


@pytest.mark.parametrize("told_first", [True, False])
def test_a_task_that_is_cancelled_ends_at_once_and_its_row_goes_on(told_first: bool) -> None:
    """Whether the cancelling or the outcome reaches the loop first."""

    async def main() -> None:
        (row,) = rows(1)
        task = asyncio.create_task(awaited(row))
        await asyncio.sleep(0)
        if told_first:
            tell([row], 5)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await asyncio.wait_for(task, SOON)
        tell([row], 5)
        await asyncio.sleep(0)
        assert await row == 5

    asyncio.run(main())


def test_a_task_may_be_cancelled_before_it_has_begun_to_wait() -> None:
    """As asyncio asks of what it waits for."""

    async def main() -> None:
        (row,) = rows(1)

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await row

        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.create_task(cancels_itself()), SOON)

    asyncio.run(main())


def test_a_group_of_tasks_is_cancelled_together() -> None:
    """One fails, and the others, which would wait for ever, are cancelled."""

    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("mine")

    async def main() -> None:
        async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
            for row in rows(3):
                group.create_task(awaited(row))
            group.create_task(fails())

    with pytest.raises(ExceptionGroup, match="unhandled"):
        asyncio.run(main())


def test_other_work_of_the_loop_has_its_turn() -> None:
    """Tasks that are told together do not keep the loop to themselves, however many they are."""

    async def main() -> None:
        many = rows(10 * AT_ONCE)
        done: list[int] = []

        async def counts(row: Row) -> None:
            await row
            done.append(1)

        tasks = [asyncio.create_task(counts(row)) for row in many]
        await asyncio.sleep(0)
        tell(many, 1)
        seen = 0
        while len(done) < len(many):
            seen += 1
            await asyncio.sleep(0)
        assert seen >= 10
        await asyncio.gather(*tasks)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_task_that_ends_the_loop_takes_no_other_with_it(kind: type[BaseException]) -> None:
    """Ctrl-C in one task: whoever runs the loop on finds the others told."""
    loop = asyncio.new_event_loop()
    many = rows(5)

    async def stops(row: Row) -> None:
        await row
        raise kind

    bad = loop.create_task(stops(many[1]))
    tasks = [loop.create_task(awaited(row)) for row in many]
    try:
        loop.run_until_complete(asyncio.sleep(0))
        tell(many, 9)
        with pytest.raises(kind):
            loop.run_until_complete(asyncio.gather(*tasks))
        assert loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks), SOON)) == [9] * len(many)
        assert isinstance(bad.exception(), kind)
    finally:
        loop.close()


def test_a_task_keeps_its_own_context() -> None:
    """What it set before it waited is what it sees afterwards, and it is the current task again."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def works(row: Row, mine: str) -> None:
        name.set(mine)
        task = asyncio.current_task()
        await row
        assert name.get() == mine
        assert asyncio.current_task() is task

    async def main() -> None:
        many = rows(20)
        tasks = [asyncio.create_task(works(row, str(at))) for at, row in enumerate(many)]
        await asyncio.sleep(0)
        later(many, 1)
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)

    asyncio.run(main())


def test_two_loops_and_a_thread_may_wait_for_one_row() -> None:
    """Each is told in its own way."""
    (row,) = rows(1)
    told: list[int] = []
    ways: list[Callable[[], int]] = [lambda: asyncio.run(awaited(row))] * 2 + [lambda: row.result(SOON)]
    threads = [threading.Thread(target=lambda way=way: told.append(way())) for way in ways]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    tell([row], 4)
    for thread in threads:
        thread.join(SOON)
    assert told == [4, 4, 4]


def test_settling_while_a_task_begins_to_wait_loses_nobody() -> None:
    """The writer settles before it looks who waits; the task registers before it looks whether it is settled."""

    class JustMissed(list[object]):
        def append(self, waiter: object) -> None:
            tell([row], 2)
            super().append(waiter)

    (row,) = rows(1)
    row._told = JustMissed()  # type: ignore[assignment]

    async def main() -> None:
        assert await asyncio.wait_for(awaited(row), SOON) == 2

    asyncio.run(main())
