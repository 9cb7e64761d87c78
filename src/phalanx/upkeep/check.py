"""Checking tables: every version that the log names opens, and nobody wrote to a table's folder past the log."""

from collections.abc import Iterable, Iterator

from phalanx.errors import PhalanxError
from phalanx.log import item as it
from phalanx.log.check import Problem
from phalanx.objects import layout
from phalanx.tables.dataset import manifest_name
from phalanx.txn.core import Core, locate
from phalanx.waiting import Pending


def check_tables(core: Core) -> list[Problem]:
    """What is wrong with the tables of a lake, as they are now. Changes nothing."""
    view = core.refresh()
    problems: list[Problem] = []
    for table in sorted(view.state.names):
        contents = view.state.contents[table]
        if not contents.head.manifest:
            continue
        for manifest in [contents.head.manifest, *_staged(locate(view, table).contents.pending())]:
            try:
                core.datasets.open(table, manifest)
            except PhalanxError as error:
                problems.append(Problem(layout.table(table, manifest_name(manifest)), str(error)))
        for name in core.datasets.look_for_intruders(table):
            what = "somebody wrote this past the log: it is ignored; write through the lake, and remove it"
            problems.append(Problem(layout.table(table, f"_versions/{name}"), what, harmless=True))
    return problems


def _staged(pending: Iterable[Pending]) -> Iterator[int]:
    for one in pending:
        rows = getattr(one.item, "rows", None)
        if isinstance(rows, it.Staged):
            yield rows.manifest
