"""What every suite stands on: where lakes are made, measuring in turns, progress, and an end that keeps the results."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import machine
from bench.memory import Memory
from bench.report import Report, Section, show, verdict
from phalanx import Lake
from phalanx import open as open_lake
from phalanx.errors import InvalidInputError
from phalanx.objects import Store, layout, open_store
from phalanx.objects.remote import TEMPORARY

Suite = Callable[["Bench"], Iterator[Section]]


class Place:
    """Where lakes are made: a folder that is removed in the end, or a prefix in an object store.

    Nothing is removed before the last suite is done: ext4 makes new files slowly, for minutes, near many that were
    just deleted.
    """

    def __init__(self, lake: str | None, options: Mapping[str, str], out: Path) -> None:
        scheme, found, path = (lake or "").partition("://")
        if scheme == "memory" and found:
            msg = "processes do not share memory:// : use a folder, or an object store"
            raise InvalidInputError(msg)
        self.local = not found or scheme == "file"
        self.options = dict(options)
        if self.local:
            above = out if lake is None else Path(path if found else lake)
            above.mkdir(parents=True, exist_ok=True)
            self.root = tempfile.mkdtemp(prefix="lakes-", dir=above.absolute())
            machine.keep_apart(self.folder)
        else:
            self.root = f"{(lake or '').rstrip('/')}/bench-{time.time_ns()}"
        self._made: list[str] = []

    @property
    def folder(self) -> Path:
        """The folder, where this is a local disk."""
        return Path(self.root)

    def describe(self) -> dict[str, str]:
        """For the report."""
        if not self.local:
            return {"store": self.root.partition("://")[0], "uri": self.root}
        return {
            "store": "local disk",
            "file_system": machine.file_system(self.folder),
            "mount": machine.mount(self.folder),
        }

    def new(self, name: str) -> str:
        """The address of a lake that is not there yet."""
        uri = f"{self.root}/{name}-{len(self._made)}"
        self._made.append(uri)
        return uri

    def store(self, uri: str) -> Store:
        """The store at an address."""
        return open_store(uri, self.options or None)

    def lake(self, uri: str, **settings: object) -> Lake:
        """Open the lake at an address, and create it if there is none; "disk" is the default durability."""
        return open_lake(uri, create=True, storage_options=self.options or None, settings=settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave nothing behind."""
        if self.local:
            with ThreadPoolExecutor(4) as pool:  # a long log is a hundred folders, and removing them is mostly waiting
                list(pool.map(partial(shutil.rmtree, ignore_errors=True), self.folder.glob("*/log/*")))
            shutil.rmtree(self.root, ignore_errors=True)
            return
        for uri in self._made:
            store = self.store(uri)
            for folder in (
                layout.LOG,
                layout.FLOOR,
                layout.CHECKPOINT,
                layout.KEPT,
                layout.PINS,
                layout.TABLES,
                TEMPORARY,
            ):
                store.delete([found.name for found in store.list(folder)])


class Bench:
    """What a suite is given."""

    def __init__(
        self, place: Place, report: Report, console: Console, *, quick: bool, numbers: Mapping[str, int] | None = None
    ) -> None:
        self.place = place
        self.quick = quick
        self._numbers = numbers or {}
        self.unused = set(self._numbers)
        self.console = console
        self._report = report
        self._kept: dict[object, object] = {}
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        # Nothing is drawn in the background: a thread that draws would be measured too.
        self._progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=None)
        self._title = ""
        self._memory = Memory(place.folder) if place.local and not quick else None

    def pick(self, full: int, quick: int, name: str = "") -> int:
        """A count for a full run, or for a quick one; or what was asked for by `--set name=number`."""
        self.unused.discard(name)
        return self._numbers.get(name, quick if self.quick else full)

    def seconds(self, full: float, quick: float) -> float:
        """A time to measure, for a full run or for a quick one."""
        return quick if self.quick else full

    @contextlib.contextmanager
    def section(self, key: str, title: str, note: str) -> Iterator[Section]:
        """A section that is in the report from now on, and complete when the block ends."""
        section = Section(key, title, note)
        self._report.sections.append(section)
        self._title = title
        if not self.console.is_terminal:
            self.console.print(f"measuring: {title}", markup=False)
        self.settle()
        self.step("")
        began = time.perf_counter()
        try:
            yield section
            section.complete = True
        finally:
            section.seconds = time.perf_counter() - began
            self._report.write(complete=False, more={"place": self.place.describe()})

    def step(self, what: str, done: float = 0, total: float | None = None) -> None:
        """Show what is being done, and how far that is."""
        text = f"{self._title}: {what}" if what else self._title
        self._progress.update(self._task, description=escape(text), completed=done, total=total)
        self._progress.refresh()

    def settle(self) -> None:
        """Bring the machine into the state of one that has been in use: see `memory.py`."""
        if self._memory is not None:
            self.step("filling the cache")
            self._memory.fill()

    def in_turns(
        self, what: str, rounds: int, contestants: Mapping[str, Callable[[], object]], *, settle: bool = False
    ) -> None:
        """Run each contestant once in every round: A B, B A, A B …, so that whatever the machine does hits all alike.

        With `settle`, before each: for who writes so much that memory matters.
        """
        order = list(contestants)
        shown = 0.0
        for number in range(rounds):
            for name in order:
                if time.perf_counter() - shown > 0.25:
                    self.step(f"{what}: {name}", number, rounds)
                    shown = time.perf_counter()
                if settle:
                    self.settle()
                contestants[name]()
            order = order[1:] + order[:1]

    def once(self, key: object, make: Callable[[], object]) -> object:
        """What is expensive to make and used by several sections."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if self._memory is not None:
            self._memory.close()


def timed(series: list[float], work: Callable[[], object]) -> Callable[[], None]:
    """A contestant that adds the seconds of one run to a series."""

    def run_once() -> None:
        began = time.perf_counter()
        work()
        series.append(time.perf_counter() - began)

    return run_once


def run(
    name: str, suite: Suite, place: Place, out: Path, *, quick: bool, numbers: Mapping[str, int] | None = None
) -> bool:
    """Run a suite, print it and write it down; False if it was interrupted."""
    console = Console()
    if not console.is_terminal:
        console.width = 140  # a file or a pipe has no width of its own
    out.mkdir(parents=True, exist_ok=True)
    facts = machine.facts()
    path = out / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    report = Report(name, path, facts, quick=quick)
    described = place.describe()
    finished = False
    began = time.perf_counter()
    console.print(
        f"[bold]{name}[/bold] on {facts['cores']} cores, {facts['kernel']}, {facts['python']}, "
        f"{described.get('file_system') or described['uri']}; load {machine.load()[0]}"
        + ("; quick: times are not to be relied on" if quick else "")
    )
    try:
        with Bench(place, report, console, quick=quick, numbers=numbers) as bench:
            for section in suite(bench):
                show(console, section)
            for number in sorted(bench.unused):
                console.print(f"[red]this suite has no number {escape(repr(number))} to set[/red]")
        finished = True
    except KeyboardInterrupt:
        console.print("\n[red]interrupted: what was measured so far is kept[/red]")
    finally:
        seconds = round(time.perf_counter() - began, 1)
        more = {"place": described, "seconds": seconds, "load_after": machine.load()}
        report.write(complete=finished, more=more)
    for section in report.sections:
        if not section.complete:
            show(console, section)
    verdict(console, report.sections)
    console.print(f"{seconds} s; written to {path}", highlight=False)
    return finished
