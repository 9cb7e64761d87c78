"""The command `phalanx`: its verbs, and the one place where an error becomes a line and an exit code."""

import os
import sys
from typing import Annotated

import pyarrow as pa
import typer

import phalanx
from phalanx.cli import (
    catalog,
    changes,
    check,
    column,
    index,
    load,
    log,
    optimize,
    overview,
    pipeline,
    prune,
    query,
    repair,
    restore,
    search,
    sql,
    table,
    upkeep,
)
from phalanx.cli.output import exit_code
from phalanx.errors import PhalanxError, UnsupportedError

app = typer.Typer(
    name="phalanx",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say_version(value: bool) -> None:
    if value:
        typer.echo(f"phalanx {phalanx.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which.")
    ] = False,
) -> None:
    """A transactional lake of many Lance tables, with one log and no server."""


app.command("init")(catalog.init)
app.command("show")(overview.overview)
app.command("tables")(catalog.tables)
app.command("namespace")(catalog.namespace)
app.command("property")(catalog.properties)
app.command("create")(table.create)
app.command("load")(load.load)
app.command("query")(query.query)
app.command("sql")(sql.sql)
app.command("search")(search.search)
app.command("index")(index.index)
app.command("history")(log.history)
app.command("changes")(changes.changes)
app.command("diff")(changes.diff)
app.command("restore")(restore.restore)
app.add_typer(column.column)
app.command("rename")(table.rename)
app.command("drop")(table.drop)
app.command("flush")(upkeep.flush)
app.command("optimize")(optimize.optimize)
app.command("prune")(prune.prune)
app.add_typer(pipeline.pipeline)
app.command("tag")(catalog.tag)
app.command("log")(log.log)
app.command("check")(check.check)
app.command("repair")(repair.repair)


def run() -> None:
    """Run the verb; errors end in one line, Ctrl-C (130) and a closed pipe (1) in none: typer sees to those."""
    try:
        app()
    except PhalanxError as error:
        typer.secho(f"phalanx: {error}", err=True, fg="red" if sys.stderr.isatty() else None)
        sys.exit(exit_code(error))
    except pa.ArrowException as error:  # a format that has no notation for a type
        text = " ".join(str(error).split())
        typer.echo(f"phalanx: cannot write the answer: {text}; choose other columns, or cast them", err=True)
        sys.exit(exit_code(UnsupportedError("")))
    except (OSError, UnicodeError) as error:  # storage has its own errors: this is the output
        typer.echo(f"phalanx: cannot print the answer: {error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(74)
