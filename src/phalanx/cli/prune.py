"""The verb `prune`: old versions, old entries and files that nobody can reach go; what stays says why."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from phalanx.amounts import shown_size
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, counted, opened, plain, show
from phalanx.upkeep.pruned import Mode, Pruned

_PATIENCE = 7 * 24 * 3600.0


def prune(
    lake: LakeArgument,
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Only these tables, and entries of the log of which nothing is left.", metavar="TABLE"),
    ] = None,
    *,
    keep: Annotated[int | None, typer.Option(help="Versions of each table to keep; 10 if nothing is said.")] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep what was replaced within this time; 7d if nothing is said.")
    ] = None,
    protect: Annotated[
        str | None, typer.Option(metavar="TIME", help="The window in which nothing goes; 0 for no check of time.")
    ] = None,
    mode: Annotated[str, typer.Option(help="eager, background (only mark) or sweep what was marked.")] = "eager",
    unconditional: Annotated[
        bool, typer.Option("--unconditional", help="Without window and anchor; tags and pins still hold.")
    ] = False,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Believe the store's clock, however far it has moved.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each version and file, and of the log, why it goes or stays.")
    ] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old versions, old entries of the log, and files that nobody can reach."""
    with opened(lake, option) as found, _bar() as moved:
        done = found.prune(
            tables or None,
            keep=keep,
            older_than=older_than,
            protect=protect,
            mode=_mode(mode),
            unconditional=unconditional,
            dry_run=dry_run,
            trust_clock=trust_clock,
            progress=moved,
            timeout=_PATIENCE,
        )
        names = {table.id: ".".join(name) for name, table in found.refresh().state.tables.items()}
    told = _told(done, names, dry_run=dry_run, explain=explain)
    show(told, as_json, lambda: "\n".join(_said(done, names, dry_run=dry_run, explain=explain)))


def _mode(given: str) -> Mode:
    return given  # type: ignore[return-value] # the lake says which there are


def _told(done: Pruned, names: dict[str, str], *, dry_run: bool, explain: bool) -> dict[str, object]:
    """What was done, for programs."""
    why = Counter(one.why.value for one in done.kept_files)
    size = Counter[str]()
    for one in done.kept_files:
        size[one.why.value] += one.size
    told: dict[str, object] = {
        "dry_run": dry_run,
        "version": done.version,
        "floor": done.floor,
        "entries": done.entries,
        "log": done.log,
        "floor_why": done.why,
        "versions": done.versions,
        "files": done.files,
        "bytes": done.bytes,
        "kept": {word: {"files": many, "bytes": size[word]} for word, many in why.items()},
    }
    if explain:
        files = [
            {"file": f"{names.get(one.table, one.table)}/{one.name}", "bytes": one.size, "why": one.why.value}
            for one in (*done.removed, *done.kept_files)
        ]
        versions = {name: {str(number): word for number, word in held.items()} for name, held in _versions(done)}
        told |= {"explained": {"versions": versions, "going": done.going, "lake": done.kept, "files": files}}
    return told


def _versions(done: Pruned) -> Iterator[tuple[str, dict[int, str]]]:
    yield from sorted(done.kept_versions.items())


def _explained(done: Pruned, names: dict[str, str], gone: str) -> Iterator[str]:
    """Each version and file, and why it goes or stays."""
    for name, held in _versions(done):
        for number, word in sorted(held.items()):
            yield plain(f"{name} version {number} stays: {word}")
    for name, ranges in sorted(done.going.items()):
        for first, last in ranges:
            many = f"version {first} {gone}" if first == last else f"versions {first} to {last} {gone}"
            yield plain(f"{name} {many}: nothing needs {'it' if first == last else 'them'}")
    for what in _parts_of_the_log(done):
        yield plain(f"{gone}: {what}")
    yield plain(f"entries of the log from {done.floor} on stay: {done.why}")
    for position, word in sorted(done.kept.items()):
        yield plain(f"version {position} of the lake stays below them: {word}")
    for verb, files in ((gone, done.removed), ("stays", done.kept_files)):
        for one in files:
            said = f"{verb} ({shown_size(one.size)}): {one.why.value}"
            yield plain(f"{names.get(one.table, one.table)}/{one.name} {said}")


def _parts_of_the_log(done: Pruned) -> Iterator[str]:
    """What goes of the log, and with it, each with its number."""
    log = done.log
    if log.entries:
        many = f"{log.entries:,} {'entry' if log.entries == 1 else 'entries'} of the log ({shown_size(log.bytes)})"
        yield f"{many}, below position {done.floor}"
    for what, count in (("checkpoint", log.checkpoints), ("older floor", log.floors)):
        if count:
            yield f"{counted(count, what)}, below position {done.floor}"
    if log.kept:
        yield f"{counted(log.kept, 'version')} that had been kept below the floor, and that nobody needs any more"
    if log.pins:
        yield f"{counted(log.pins, 'pin')} of processes that are long gone"


def _said(done: Pruned, names: dict[str, str], *, dry_run: bool, explain: bool) -> Iterator[str]:
    if explain:
        yield from _explained(done, names, "would go" if dry_run else "went")
    verb = "would remove" if dry_run else "removed"
    versions = sum(done.versions.values())
    yield plain(
        f"{verb} {counted(versions, 'version')}, {done.entries:,} {'entry' if done.entries == 1 else 'entries'} of the log and "
        f"{counted(done.files, 'file')} ({shown_size(done.bytes)})"
    )
    for name, many in sorted(done.versions.items()):
        yield plain(f"  {name}: {counted(many, 'version')}")
    for word, many in sorted(Counter(one.why.value for one in done.kept_files).items()):
        size = sum(one.size for one in done.kept_files if one.why.value == word)
        yield plain(f"  {counted(many, 'file')} ({shown_size(size)}) {'stay' if many != 1 else 'stays'}: {word}")
    if done.version is not None and not done.files and not dry_run:
        yield plain(f"  decided at version {done.version}")


@contextmanager
def _bar() -> Iterator["_Moved"]:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Moved(None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Moved(bar)


class _Moved:
    """How many files were removed, of how many."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("looking", total=None)

    def __call__(self, done: int, of: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=of, description="removing files")
