"""Verbs on what happened, newest first: `log` for the lake, also as it happens; `history` for a table."""

from typing import Annotated

import typer
from rich.text import Text

from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    console,
    grid,
    opened,
    plain,
    print_json,
    show,
)
from phalanx.history import Commit


def log(
    lake: LakeArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many commits.")] = 20,
    before: Annotated[int | None, typer.Option(help="Only those before this version, to page back.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as commits land, until Ctrl-C.")] = False,
    since: Annotated[int | None, typer.Option(help="With --follow: begin after this version.")] = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the commits of a lake."""
    with opened(lake, option) as found:
        if follow:
            first = list(reversed(found.log(limit))) if since is None else []
            start = first[-1].version if first else since
            for commit in first:
                _line(commit, as_json)
            for commit in found.follow(start):
                _line(commit, as_json)
        commits = found.log(limit, before=before)
        rows = [(c.version, f"{c.time:%Y-%m-%d %H:%M:%S}", c.writer, _what(c)) for c in commits]
        show(commits, as_json, lambda: grid(["version", "time (UTC)", "writer", "what"], rows, "no commits"))


def history(
    lake: LakeArgument,
    table: TableArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many versions.")] = 20,
    count: Annotated[
        bool, typer.Option("--rows", help="Also how many rows each inserted, updated and deleted; that is looked up.")
    ] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the versions of a table: what made each, and at which version of the lake."""
    with opened(lake, option) as found:
        changes = found.history(table, limit, rows=count)
        heads = ["version", "lake version", "time (UTC)", "writer", "operation", "note"]
        many = ["inserted", "updated", "deleted"] if count else []
        rows = [
            (
                *(one.version, one.lake_version, f"{one.time:%Y-%m-%d %H:%M:%S}", one.writer),
                *(getattr(one.rows, name) for name in many),
                *(one.operation, one.note),
            )
            for one in changes
        ]
        show(changes, as_json, lambda: grid([*heads[:4], *many, *heads[4:]], rows, "no versions"))


def _line(commit: Commit, as_json: bool) -> None:
    if as_json:
        print_json(commit)
        return
    line = Text.assemble(
        (f"{commit.version:>8}  ", "bold"),
        (f"{commit.time:%H:%M:%S}  {plain(commit.writer)}  ", "dim"),
        plain(_what(commit)),
    )
    console.print(line, soft_wrap=True)


def _what(commit: Commit) -> str:
    changes = "; ".join(commit.changes[:3]) + (
        f"; and {len(commit.changes) - 3} more" if len(commit.changes) > 3 else ""
    )
    return f"{commit.note}: {changes}" if commit.note else changes
