"""Ctrl-C at every line of group commit: whoever leads then is interrupted, and nobody else is left waiting."""

import linecache
import sys
import threading
from types import FrameType
from typing import Any, Self

import pytest

from phalanx.log import group as module
from phalanx.log.group import Group

SOON = 10.0
LINES = 400
"""More than a job takes."""


class Job:
    """Done when it was worked on."""

    def __init__(self) -> None:
        self.worked = 0
        self.told = threading.Event()

    def done(self) -> bool:
        return self.told.is_set()


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line of the module that this thread runs, once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__ or frame.f_code.co_name == "_step_down":
            return None
        line = linecache.getline(module.__file__, frame.f_lineno).strip()
        if event == "line" and not line.startswith("with "):  # Python lets no signal in between a lock and its release
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace

    def __enter__(self) -> Self:
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def interrupted(at: int, way: str, *, inline: bool, warm: bool) -> bool:
    """One job, with another one handed in while it is worked on, and somebody who closes; whether the interrupt came."""
    first, second, third, fourth = (Job() for _ in range(4))
    handed: list[Job] = []

    def work(batch: list[Job]) -> None:
        try:
            if first in batch and not handed:
                group.submit(second)
                handed.append(second)
        finally:
            for job in batch:  # as the commit loop does, however it ends
                job.worked += 1
                job.told.set()

    group: Group[Job] = Group(work, 10, inline=inline)
    if warm:
        group.submit(fourth)
        assert fourth.told.wait(SOON)
    came = False
    try:
        with Interrupter(at):
            if way == "submit_all":
                group.submit_all([first])
            else:
                getattr(group, way)(first)
    except KeyboardInterrupt:
        came = True
    finally:
        sys.settrace(None)
    group.run(third)
    where = f"{way}, interrupted at line {at}"
    for job in (third, *handed, *(() if came else (first,))):
        assert job.told.wait(SOON), f"{where}: a job waits for ever"
    closing = threading.Thread(target=group.close, daemon=True)
    closing.start()
    closing.join(SOON)
    assert not closing.is_alive(), f"{where}: closing waits for ever"
    assert max(job.worked for job in (first, second, third, fourth)) == 1, f"{where}: worked on twice"
    return came


@pytest.mark.timeout(120)
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(("way", "inline"), [("run", True), ("run", False), ("submit", False), ("submit_all", False)])
def test_an_interrupt_at_any_line_leaves_nobody_waiting(way: str, inline: bool, warm: bool) -> None:
    """Jobs of others are worked on, once, and the group can be closed."""
    many = next(at for at in range(1, LINES) if not interrupted(at, way, inline=inline, warm=warm))
    assert many > (15 if inline else 6), "the interrupts do not reach what is to be interrupted"


@pytest.mark.timeout(120)
def test_who_waits_to_close_is_told_whatever_interrupts_the_last_leader() -> None:
    """Somebody closes while the last job is worked on, and its leader is interrupted as it comes to rest."""
    for at in range(1, LINES):
        begun, go = threading.Event(), threading.Event()

        def work(batch: list[Job], begun: threading.Event = begun, go: threading.Event = go) -> None:
            begun.set()
            assert go.wait(SOON)
            for job in batch:
                job.told.set()

        group: Group[Job] = Group(work, 10, inline=True)

        def close(group: Group[Job] = group, begun: threading.Event = begun, go: threading.Event = go) -> None:
            assert begun.wait(SOON)
            threading.Timer(0.005, go.set).start()
            group.close()

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        came = False
        try:
            with Interrupter(at):
                group.run(Job())
        except KeyboardInterrupt:
            came = True
        finally:
            sys.settrace(None)
        if not begun.is_set():  # it was interrupted before there was anything to lead
            begun.set()
        go.set()
        closing.join(SOON)
        assert not closing.is_alive(), f"interrupted at line {at}: closing waits for ever"
        if not came:
            return


def test_jobs_may_be_handed_in_while_a_leader_takes_a_batch() -> None:
    """Handing in takes no lock: whoever takes a batch at that moment is not disturbed."""
    group: Group[Job] = Group(lambda batch: [job.told.set() for job in batch] and None, 10, inline=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(3000):
                job = Job()
                group.run(job)
                assert job.told.wait(SOON)
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    group.close()
    assert not failed
