"""Flush: the tail of a table is written out as a new head. No reader can tell whether it happened.

Seal, write, commit: the items up to now are taken as they are (nothing is locked, writers go on), their result is staged
beside the head, and one entry says which items it consumed. Until that entry stands, readers apply the items; from then
on they read the head. If somebody else moved the head meanwhile, the entry is refused, what was staged is garbage, and
the flush plans again: rows are never in neither place, and never in both (rule C4).
"""

import logging

import msgspec

from phalanx.clock import Deadline
from phalanx.errors import ConflictError
from phalanx.log import item as it
from phalanx.pins import Pin
from phalanx.runs import encode_ids
from phalanx.tail.writeout import Writer, WrittenOut, write_out, written_here
from phalanx.txn.core import Core, Found, locate

log = logging.getLogger("phalanx.upkeep")

ATTEMPTS = 8
"""How often a flush plans again when another one, or a rewrite, was quicker."""


class Flushed(msgspec.Struct, frozen=True):
    """What a flush did: `version` is the lake's version it landed on, None if there was nothing to do."""

    items: int
    rows: int
    version: int | None


def flush(core: Core, table: str, deadline: Deadline, writer: Writer = written_here) -> Flushed:
    """Write out what the tail of a table holds now; whoever does it, it is done when this returns."""
    wanted = locate(core.refresh(), table).contents
    for _ in range(ATTEMPTS):
        here = locate(core.refresh(), table)
        contents = here.contents
        if (
            contents.generation != wanted.generation
            or contents.first >= wanted.until
            or contents.first == contents.until
        ):
            return Flushed(0, 0, None)
        core.datasets.look_for_intruders(table)
        pin = core.pins.staging()
        out = write_out(core.overlays.at(here.shape, contents), core.datasets, writer)
        try:
            version = _commit(core, here, out, deadline, pin)
        except ConflictError as error:
            log.debug("flush of %s plans again: %s", table, error)
            continue
        return Flushed(contents.until - contents.first, len(out.moved), version)
    raise ConflictError(
        f"the table's head moved {ATTEMPTS} times while it was being flushed: nothing is lost, try again"
    )


def _commit(core: Core, here: Found, out: WrittenOut, deadline: Deadline, pin: Pin) -> int:
    contents = here.contents
    # A keyed table's rows are known by their keys: nobody will ask where a row has gone.
    payloads = [] if here.shape.key else [encode_ids(out.moved)]
    action = it.Flush(
        here.table.id,
        contents.generation,
        contents.head.manifest,
        contents.first,
        contents.until,
        out.version.manifest,
        contents.head.next_row_id,
        out.next_row_id,
        0 if payloads else None,
    )
    return core.committer.commit(core.intent([action], deadline, payloads=payloads, pins=[pin]))
