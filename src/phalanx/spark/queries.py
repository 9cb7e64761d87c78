"""Queries of Spark as the log knows them: how far each has come, and which checkpoint its numbers are of (I12, rule B7).

A checkpoint has an id of its own and counts its batches from 0. A query is named by that id, or by its user; a name belongs
to the first checkpoint that used it, because a batch of another one with the same number holds other rows: taken for done, they
would be lost.
"""

import hashlib
from collections.abc import Mapping

from phalanx.catalog import Mark
from phalanx.errors import StateError
from phalanx.log import action as do

QUERY = "sql.streaming.queryId"
"""What Spark calls the id of a query, which its checkpoint keeps, for the tasks of its batches."""


def source_of(query: str) -> str:
    """What the log calls a query."""
    return f"spark/{query}"


def checked(progress: Mapping[str, Mark], name: str | None, checkpoint: str | None) -> list[do.Progress]:
    """What has to land with a batch of a query with a name: that the name is its checkpoint's. Refused if it is not."""
    if name is None or checkpoint is None:
        return []
    source = f"{source_of(name)}/checkpoint"
    number = int.from_bytes(hashlib.sha256(checkpoint.encode()).digest()[:7], "big")
    held = progress.get(source)
    if held is not None and held.number != number:
        raise StateError(
            f"the query {name!r} has another checkpoint since version {held.made}, and this one counts its batches anew: go on "
            "with the first, or give this query another name"
        )
    return [do.Progress(source, None if held is None else held.number, number)]
