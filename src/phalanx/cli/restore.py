"""The verb `restore`: all tables, or some, become again what they were. People see what will happen, and are asked."""

import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from phalanx.cli.forms import AsOfOption, snapshot_at
from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    NoteOption,
    StorageOption,
    TagOption,
    VersionOption,
    console,
    counted,
    grid,
    opened,
    show,
)
from phalanx.errors import InvalidInputError
from phalanx.restoring import named
from phalanx.snapshot import Snapshot

_PATIENCE = 24 * 3600.0
"""Seconds: what was not written out then is written first, and that takes as long as it takes."""


class Step(msgspec.Struct, frozen=True):
    """What becomes of one table: how many rows it has now and had then (nothing where it is not there)."""

    table: str
    what: str
    rows_now: int | None
    rows_then: int | None
    to: str | None = None
    """The name it gets back, if it has another one now."""


def restore(
    lake: LakeArgument,
    *,
    version: VersionOption = None,
    tag: TagOption = None,
    as_of: AsOfOption = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", "-t", metavar="TABLE", help="Only this one; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    note: NoteOption = "",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring back tables as they were. That is a new version: what happened since stays in the log."""
    if version is None and tag is None and as_of is None:
        raise InvalidInputError("say what to go back to: --version, --tag or --as-of")
    with opened(lake, option) as found:
        past, now = snapshot_at(found, version, tag, as_of), found.refresh()
        steps = plan(past, now, table)
        at: int | None = None
        if not as_json:
            _say(past, steps, dry_run)
        if steps and not dry_run:
            if not as_json and not yes:
                _ask()
            with Console(stderr=True).status(f"restoring version {past.version}"):
                at = found.restore(version=past.version, tables=table, note=note, timeout=_PATIENCE)
        value = {"source": past.version, "tables": steps, "dry_run": dry_run, "committed": at}
        if as_json or at is not None:
            show(value, as_json, lambda: f"restored {counted(len(steps), 'table')} (version {at})")


def plan(past: Snapshot, now: Snapshot, names: Sequence[str] | None) -> list[Step]:
    """What becomes of each table that is not as it was; `phalanx.restoring` decides, this foretells."""
    then = {one.id: one for one in past.summaries()}
    here = {one.id: one for one in now.summaries()}
    if names is not None:
        chosen = {one.table.id for one in named(past.view, now.view, names)}
        then, here = ({key: one for key, one in held.items() if key in chosen} for held in (then, here))
    steps = []
    for key, one in sorted(here.items(), key=lambda pair: pair[1].name):
        old = then.get(key)
        renamed = old.name if old is not None and names is None and old.name != one.name else None
        if old is None:
            steps.append(Step(one.name, "drop", _rows(now, one.name), None))
        elif (old.version, old.changed) != (one.version, one.changed):
            steps.append(Step(one.name, "restore", _rows(now, one.name), _rows(past, old.name), renamed))
        elif renamed is not None:
            steps.append(Step(one.name, "rename", _rows(now, one.name), _rows(past, old.name), renamed))
    back = sorted(one.name for key, one in then.items() if key not in here)
    return steps + [Step(name, "bring back", None, _rows(past, name)) for name in back]


def _rows(snapshot: Snapshot, name: str) -> int:
    """How many rows a table has; none if it was only declared."""
    return snapshot[name].count() if snapshot.found(name).contents.version else 0


def _say(past: Snapshot, steps: Sequence[Step], dry_run: bool) -> None:
    when = f"version {past.version} ({past.time:%Y-%m-%d %H:%M:%S} UTC)"
    if not steps:
        console.print(f"nothing to do: the tables are as they were at {when}")
        return
    rows = [
        (
            one.table,
            one.what + (f", as {one.to}" if one.to else ""),
            "" if one.rows_now is None else one.rows_now,
            "" if one.rows_then is None else one.rows_then,
        )
        for one in steps
    ]
    console.print(f"{'would go' if dry_run else 'going'} back to {when}:")
    console.print(grid(["table", "what", "rows now", "rows then"], rows, ""))


def _ask() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    try:
        code = 0 if typer.confirm("go on?") else 1
    except typer.Abort:
        typer.echo()
        code = 130
    if code:
        console.print("nothing was changed")
        raise typer.Exit(code)
