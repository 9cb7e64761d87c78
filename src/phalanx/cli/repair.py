"""The verb `repair`: put right what needs no copy; without `--yes` it only says what that is."""

from collections import Counter
from typing import Annotated

import typer

from phalanx.amounts import shown_size
from phalanx.catalog import Catalog
from phalanx.cli.bar import bar
from phalanx.cli.check import DAMAGED
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, console, counted, grid, show, storage_options
from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError
from phalanx.lake import TIMEOUT, join
from phalanx.log.check import check as check_log
from phalanx.objects import Store, open_store
from phalanx.upkeep.check import Report
from phalanx.upkeep.repair import Repaired


def repair(
    lake: LakeArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Compare every byte first, as `check --deep` does.")] = False,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Believe the store's clock, however far it has moved.")
    ] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put right what a check finds and what needs no copy: damaged caches, pins of the dead, what nobody can reach.

    If something is damaged that only a copy restores, it is named, nothing is touched, and the exit code is 9.
    """
    store = open_store(lake, storage_options(option))
    planned = _repaired(store, dry_run=True, deep=deep, trust_clock=trust_clock)
    if not as_json:
        _say(planned)
    done = planned
    if yes and planned.steps:
        done = _repaired(store, dry_run=False, deep=deep, trust_clock=trust_clock)
    told = {"whole": done.whole} | {name: getattr(done, name) for name in done.__struct_fields__} | {"dry_run": not yes}
    show(told, as_json, lambda: _verdict(done, yes=yes))
    if done.lost:
        raise typer.Exit(DAMAGED)


def _repaired(store: Store, *, dry_run: bool, deep: bool, trust_clock: bool) -> Repaired:
    try:
        opened = join(store, SYSTEM, None, timeout=TIMEOUT)
    except CorruptionError:
        return Repaired.refused(Report.of(check_log(store, Catalog(), SYSTEM)), dry_run=dry_run)
    with opened, bar() as moved:
        return opened.repair(dry_run=dry_run, deep=deep, trust_clock=trust_clock, progress=moved)


def _say(planned: Repaired) -> None:
    """The plan, before anything is done."""
    rows = [(step.verb, step.name, step.why) for step in planned.steps]
    rows += [("restore", problem.name, problem.what) for problem in planned.lost]
    if rows:
        console.print(grid(["do", "object", "why"], rows, ""))


def _verdict(done: Repaired, *, yes: bool) -> str:
    if done.lost:
        objects = counted(len(done.lost), "object")
        return f"only a copy can restore {objects}, named above: nothing was touched; bring them back, then check again"
    if not done.steps:
        return "there is nothing to repair"
    verbs = Counter(step.verb for step in done.steps)
    size = shown_size(sum(step.size for step in done.steps))
    said = ", ".join(f"{verb} {counted(many, 'object')}" for verb, many in sorted(verbs.items()))
    needed = f"\n{done.clock}" if done.clock else ""
    return f"{'done' if yes else 'this would be done with --yes'}: {said} ({size}){needed}"
