"""Optimize: small fragments and deleted rows are written anew, group by group, and indexed; each group is one commit.

A group is rewritten from a snapshot and put on whatever head the table has by then: deletions that landed meanwhile are
carried over by row id. If one of its fragments is gone, somebody else rewrote it, which is what was wanted (rule C5).
"""

import logging

import msgspec

from phalanx.clock import Deadline
from phalanx.contents import Contents
from phalanx.errors import ConflictError
from phalanx.log import item as it
from phalanx.tables import index as indexes
from phalanx.tables import rewrite
from phalanx.txn.core import Core, locate
from phalanx.upkeep.cover import cover
from phalanx.upkeep.flush import flush

log = logging.getLogger("phalanx.upkeep")

TARGET_ROWS = 1 << 20
ATTEMPTS = 8


class Optimized(msgspec.Struct, frozen=True):
    """What an optimize did: groups rewritten, groups that somebody else had done, and fragments before and after."""

    rewritten: int
    skipped: int
    before: int
    after: int


def optimize(core: Core, table: str, deadline: Deadline, target_rows: int = TARGET_ROWS) -> Optimized:
    """Flush a table, rewrite the fragments that are worth it, and index all of it."""
    flush(core, table, deadline)
    here = locate(core.refresh(), table)
    if not here.contents.head.manifest:
        return Optimized(0, 0, 0, 0)  # it was only declared
    head = core.datasets.own(table, here.contents.head.manifest)
    bare = indexes.bare(core.datasets, head)  # Lance would not put fragments together that differ in their indexes
    done = skipped = 0
    for group in rewrite.plan(bare, target_rows):
        rewritten = rewrite.run(bare, group)
        if _commit(core, table, here.contents, rewritten, deadline):
            done += 1
        else:
            skipped += 1
    cover(core, table, deadline, least_rows=1)
    after = core.datasets.open(table, locate(core.refresh(), table).contents.head.manifest)
    return Optimized(done, skipped, len(head.fragments), len(after.fragments))


def _commit(core: Core, table: str, planned: Contents, rewritten: rewrite.Rewritten, deadline: Deadline) -> bool:
    """Whether the group landed; what was written is put on each newer head again, never written again."""
    for _ in range(ATTEMPTS):
        contents = locate(core.refresh(), table).contents
        if contents.generation != planned.generation or contents.head.layout != planned.head.layout:
            return False  # what was written has other columns than the table on disk by now
        placed = rewrite.place(core.datasets, core.datasets.open(table, contents.head.manifest), rewritten)
        if placed is None:
            return False
        action = it.Rewrite(
            table, contents.generation, contents.head.manifest, placed.manifest, rewritten.old, len(rewritten.new)
        )
        try:
            core.committer.commit(core.intent([action], deadline))
        except ConflictError as error:
            log.debug("rewrite of %s is placed again: %s", table, error)
            continue
        return True
    return False
