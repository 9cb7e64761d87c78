"""Group commit: transactions that share an entry do not share their fate (rules B3-B5, B8)."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from phalanx.clock import SYSTEM, Deadline
from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    DeadlineError,
    NotFoundError,
    PhalanxError,
    StateError,
)
from phalanx.lake import Lake, join
from phalanx.log import action as do
from phalanx.log.ack import Ack
from phalanx.log.action import Settings
from phalanx.log.attempt import Outcome
from phalanx.objects import Blob, Put, layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing.wrapping import WrappedStore
from phalanx.txn.intent import intend

A = "a" * 32


class HeldStore(WrappedStore):
    """Puts of entries wait until they are let go."""

    def __init__(self, inner: MemoryStore, *, remote: bool) -> None:
        super().__init__(inner)
        self.probes = not remote
        self.reached = threading.Semaphore(0)
        self.held = False
        self.passes = threading.Semaphore(0)

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        if name.startswith(layout.LOG):
            self.reached.release()
            assert not self.held or self.passes.acquire(timeout=10)
        return super()._create(blob, name, data)


class Setting:
    """A lake whose puts can be held, with a second process next to it."""

    def __init__(self, *, remote: bool) -> None:
        inner = MemoryStore()
        self.store = HeldStore(inner, remote=remote)
        self.lake = join(self.store, SYSTEM, Settings(), timeout=10)
        self.rival = join(inner, SYSTEM, None, timeout=10)
        self.store.reached.acquire()

    def hold(self) -> Ack:
        """Hold a commit in the middle of its put, so that what comes now gathers behind it."""
        self.store.held = True
        ack = self.submit(note="held")
        self.until_put()
        return ack

    def until_put(self) -> None:
        """Until the next put has been reached."""
        assert self.store.reached.acquire(timeout=10)

    def let_one_pass(self) -> None:
        """Let the put that is held pass, and wait until the next one is held."""
        self.store.passes.release()
        self.until_put()

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.store.held = False
        self.store.passes.release()

    def submit(self, *actions: do.Action, note: str = "", producer: object = None, timeout: float = 10) -> Ack:
        """Submit without waiting."""
        deadline = Deadline.after(SYSTEM, timeout)
        intent = intend(actions, SYSTEM.token(16), deadline, note=note, producer=producer)
        return self.lake._committer.submit(intent)

    def entries(self) -> dict[int, list[str]]:
        """The notes in each entry, in their order."""
        found: dict[int, list[str]] = {}
        for commit in reversed(self.rival.log(1000)):
            found.setdefault(commit.version, []).append(commit.note)
        return found


@pytest.fixture(params=[False, True], ids=["local", "remote"])
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """On a local disk callers lead, on an object store the worker does."""
    made = Setting(remote=request.param)
    yield made
    made.let_go()
    made.lake.close()


def outcome(ack: Ack) -> int | type[PhalanxError]:
    try:
        return ack.result(10)
    except PhalanxError as error:
        return type(error)


def test_what_gathers_shares_one_entry(setting: Setting) -> None:
    """In the order in which it came, each acknowledged where it stands, one put for all."""
    held = setting.hold()
    gathered = [setting.submit(note=str(number)) for number in range(50)]
    setting.let_go()
    assert (held.result(10), {ack.result(10) for ack in gathered}) == (2, {3})
    assert setting.entries()[3] == [str(number) for number in range(50)]


def test_one_bad_transaction_fails_alone(setting: Setting) -> None:
    """B3: its neighbours land, before it and behind it."""
    setting.hold()
    acks = [
        setting.submit(do.SetProperty("k", "1"), note="good"),
        setting.submit(do.Untag("none"), note="bad"),
        setting.submit(do.Progress("feed", 3, 4), note="behind"),
        setting.submit(do.CreateTable(("t",), A, {}), note="fine"),
    ]
    setting.let_go()
    assert [outcome(ack) for ack in acks] == [3, NotFoundError, ConflictError, 3]
    assert setting.entries()[3] == ["good", "fine"]


def test_of_two_neighbours_that_conflict_one_wins_and_the_other_hears_afterwards(setting: Setting) -> None:
    """B4: nobody fails because of one that has not landed yet."""
    setting.hold()
    winner = setting.submit(do.CreateTable(("x",), A, {}), note="winner")
    loser = setting.submit(do.CreateNamespace(("x",), {}), note="loser")
    setting.let_one_pass()
    time.sleep(0.02)
    assert not winner.done()
    assert not loser.done()
    setting.let_go()
    assert (outcome(winner), outcome(loser)) == (3, AlreadyExistsError)
    assert setting.entries()[3] == ["winner"]


def test_a_neighbour_that_never_lands_refuses_nobody(setting: Setting) -> None:
    """B4: T2 and T3 conflict; X of another process beats T2; so T3 lands."""
    setting.hold()
    second = setting.submit(do.CreateTable(("x",), A, {}), do.Progress("feed", None, 1), note="T2")
    third = setting.submit(do.CreateNamespace(("x",), {}), note="T3")
    setting.let_one_pass()
    setting.rival.commit([do.Progress("feed", None, 2)], note="X")
    setting.let_go()
    assert (outcome(second), outcome(third)) == (ConflictError, 4)
    assert setting.entries() == {1: [""], 2: ["held"], 3: ["X"], 4: ["T3"]}


def test_the_same_step_twice_in_one_batch_is_done_once(setting: Setting) -> None:
    """B7: the second is answered with the position of the first."""
    setting.hold()
    acks = [setting.submit(do.Progress("feed", None, 1), note=name) for name in "ab"]
    setting.let_go()
    assert [outcome(ack) for ack in acks] == [3, 3]
    assert setting.entries()[3] == ["a"]


def test_what_a_producer_sends_lands_in_order(setting: Setting) -> None:
    """B4: behind a transaction that has to wait, its producer's later ones wait too; those of others do not."""
    setting.hold()
    setting.submit(do.CreateTable(("x",), A, {}), note="neighbour")
    first = setting.submit(do.CreateNamespace(("x",), {}), note="P1", producer="P")
    second = setting.submit(do.SetProperty("k", "P"), note="P2", producer="P")
    other = setting.submit(do.SetProperty("k", "Q"), note="Q1", producer="Q")
    nobody = setting.submit(note="free")
    setting.let_go()
    assert [outcome(ack) for ack in (first, second, other, nobody)] == [AlreadyExistsError, 4, 3, 3]
    assert setting.entries()[3] == ["neighbour", "Q1", "free"]
    assert setting.rival.properties() == {"k": "P"}


def test_chains_of_many_producers_survive_a_rival(setting: Setting) -> None:
    """B3, B4: each step names the one before it, so a single one out of order would be refused."""

    def disturb() -> None:
        for number in range(20):
            setting.rival.commit([], note=f"rival{number}")

    with ThreadPoolExecutor(1) as pool:
        rival = pool.submit(disturb)
        acks = [
            setting.submit(do.Progress(name, number or None, number + 1), producer=name)
            for number in range(40)
            for name in "PQR"
        ]
        positions = [ack.result(10) for ack in acks]
        rival.result(10)
    assert positions == sorted(positions)
    assert [setting.rival.progress(name) for name in "PQR"] == [40] * 3


def test_a_deadline_in_the_queue_is_known_not_to_be_committed(setting: Setting) -> None:
    """B8: it was put nowhere, for a thread and for a task alike, and never will be."""
    setting.hold()
    with pytest.raises(DeadlineError, match="not committed") as caught:
        setting.lake.commit([], note="late", timeout=0.03)
    assert caught.value.committed is False
    with pytest.raises(DeadlineError):
        asyncio.run(setting.lake.commit_async([], note="late", timeout=0.03))
    forgotten = setting.submit(note="late", timeout=0.03)
    time.sleep(0.05)
    setting.let_go()
    assert outcome(forgotten) is DeadlineError
    setting.lake.commit([], note="after")
    assert [note for notes in setting.entries().values() for note in notes] == ["", "held", "after"]


@pytest.mark.parametrize(
    "commit",
    [
        pytest.param(lambda lake: lake.commit([], note="late", timeout=0.3), id="thread"),
        pytest.param(lambda lake: asyncio.run(lake.commit_async([], note="late", timeout=0.3)), id="task"),
    ],
)
def test_a_deadline_in_the_middle_of_a_put_is_unknown(commit: Callable[[Lake], int]) -> None:
    """B8, I4: what is on its way cannot be called back; here it lands after its caller has given up."""
    setting = Setting(remote=True)
    setting.store.held = True
    with pytest.raises(CommitUnknownError, match="while it was being written") as caught:
        commit(setting.lake)
    assert caught.value.committed is None
    setting.let_go()
    setting.lake.close()
    assert setting.entries()[2] == ["late"]


def test_cancelling_a_task_does_not_cancel_its_commit(setting: Setting) -> None:
    """B5: it lands all the same."""

    async def give_up() -> None:
        task = asyncio.ensure_future(setting.lake.commit_async([], note="cancelled"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    setting.hold()
    asyncio.run(give_up())
    setting.let_go()
    setting.lake.close()
    assert setting.entries()[3] == ["cancelled"]


def test_a_producer_reads_what_it_wrote(setting: Setting) -> None:
    """B5: what is acknowledged is readable, without another look at storage."""
    for number in range(20):
        at = setting.submit(do.SetProperty("k", str(number))).result(10)
        view = setting.lake._log.view
        assert (view.position, view.state.properties["k"]) == (at, str(number))


def test_closing_finishes_what_was_submitted(setting: Setting) -> None:
    """And takes no more, whether it waits or not."""
    setting.hold()
    acks = [setting.submit(note=str(number)) for number in range(5)]
    with ThreadPoolExecutor(1) as pool:
        closing: Future[None] = pool.submit(setting.lake.close)
        time.sleep(0.02)
        assert not closing.done()
        setting.let_go()
        closing.result(10)
    assert all(ack.done() for ack in acks)
    assert setting.entries()[3] == ["0", "1", "2", "3", "4"]
    for late in (lambda: setting.lake.commit([]), setting.submit):
        with pytest.raises(StateError, match="closed"):
            late()


def broken_once(lake: Lake, monkeypatch: pytest.MonkeyPatch, trouble: BaseException) -> None:
    """The next append raises this, and those after it work."""

    def append(*_: object) -> Outcome:
        monkeypatch.undo()
        raise trouble

    monkeypatch.setattr(lake._log, "append", append)


def test_ctrl_c_in_a_commit_stops_no_other(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever led gets the interrupt, nothing is said of a bug, and the lake goes on."""
    lake = Setting(remote=False).lake
    broken_once(lake, monkeypatch, KeyboardInterrupt())
    with caplog.at_level(logging.DEBUG), pytest.raises(KeyboardInterrupt):
        lake.commit([])
    assert caplog.records == []
    assert lake.commit([], timeout=5) == 2
    assert asyncio.run(lake.commit_async([], timeout=5)) == 3


def test_a_bug_in_the_loop_is_an_unknown_outcome_and_not_the_end(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """I4: those it concerns are told that nothing is known, it is logged, and the next commit works."""
    broken_once(setting.lake, monkeypatch, RuntimeError("a bug"))
    with pytest.raises(CommitUnknownError, match="a bug"):
        asyncio.run(setting.lake.commit_async([], timeout=5))
    assert [record.getMessage() for record in caplog.records] == ["the commit loop failed"]
    assert asyncio.run(setting.lake.commit_async([], timeout=5)) == 2
    assert setting.lake.commit([], timeout=5) == 3
