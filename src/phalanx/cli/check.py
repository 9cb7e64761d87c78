"""The verb `check`: read everything and name what is damaged."""

import msgspec
import typer

from phalanx.catalog import Catalog
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, console, grid, show, storage_options
from phalanx.clock import SYSTEM
from phalanx.lake import TIMEOUT, join
from phalanx.log.check import Checked
from phalanx.log.check import check as check_log
from phalanx.objects import open_store


def check(lake: LakeArgument, option: StorageOption = None, as_json: JsonOption = False) -> None:
    """Read the whole log, open every table, and name what is damaged, missing or foreign. Changes nothing."""
    store = open_store(lake, storage_options(option))
    found = check_log(store, Catalog(), SYSTEM)
    if found.whole:
        with join(store, SYSTEM, None, timeout=TIMEOUT) as opened:
            found = msgspec.structs.replace(found, problems=(*found.problems, *opened.check()))
    show(found, as_json, lambda: _say(found))
    if not found.whole:
        raise typer.Exit(9)


def _say(found: Checked) -> str:
    if found.problems:
        rows = [
            (problem.name, "harmless" if problem.harmless else "damage", problem.what) for problem in found.problems
        ]
        console.print(grid(["object", "kind", "what"], rows, ""))
    verdict = "nothing is wrong" if found.whole else "the lake is damaged: restore what is named above from a copy"
    return f"checked entries {found.floor} to {found.end} and {found.bases} stored folds: {verdict}"
