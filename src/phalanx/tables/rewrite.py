"""Rewriting: several fragments become fewer, with the same rows under the same row ids (rule C5).

What was rewritten is put on whatever head the table has by then. Lance would bring back rows that were deleted in the
meantime, because the new fragments replace the old ones with their deletion files: so they are hidden again, by row id.

A segment of an index that has all of the old fragments has the new ones instead, if they are told by their ids: without
them Lance takes them for fragment 0, and may panic or lose rows. One that has some of them makes Lance refuse the
operation; one that has rows which are not written anew would find them for ever instead of others, because the new
fragments have no deletion file that tells. Then the new fragments are added, and the old ones dropped, and no segment
has them.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionOptions, CompactionTask

from phalanx.tables.dataset import ROW_ID, Datasets, Ids, Version, manifest_name
from phalanx.tables.index import segments
from phalanx.tables.speaking import speaking
from phalanx.tables.stage import hide


class Group(msgspec.Struct, frozen=True):
    """Fragments that would be written as one; `task` is Lance's own description."""

    fragments: tuple[int, ...]
    task: str


class Rewritten(msgspec.Struct, frozen=True):
    """What became of a group: on disk, in no version yet. `alive` are the row ids that were written."""

    old: tuple[int, ...]
    new: list[FragmentMetadata]
    alive: Ids


def plan(version: Version, target_rows: int, deleted_share: float = 0.1) -> list[Group]:
    """The groups worth rewriting: small neighbours, and fragments with many deleted rows."""
    options = CompactionOptions(target_rows_per_fragment=target_rows, materialize_deletions_threshold=deleted_share)
    with speaking("planning a rewrite"):
        tasks: list[Any] = list(Compaction.plan(version.dataset, options).tasks)
    return [Group(_fragments(task.json()), task.json()) for task in tasks]


def run(version: Version, group: Group) -> Rewritten:
    """Write a group's rows anew."""
    task: Any = CompactionTask
    alive = _alive(version, group.fragments)
    with speaking("rewriting fragments"):
        result = task.from_json(group.task).execute(version.dataset)
        new = [FragmentMetadata.from_json(json.dumps(one)) for one in json.loads(result.json())["new_fragments"]]
    return Rewritten(group.fragments, new, alive)


def place(datasets: Datasets, head: Version, rewritten: Rewritten) -> Version | None:
    """The head with the new fragments for the old ones; None if one of the old ones is no longer there."""
    if not set(rewritten.old) <= set(head.fragments):
        return None
    gone = np.setdiff1d(rewritten.alive, _alive(head, rewritten.old), assume_unique=True)
    longer = datasets.commit(head, LanceOperation.Append(rewritten.new))
    if _unfit(head, frozenset(rewritten.old)):
        made = datasets.commit(longer, LanceOperation.Delete([], list(rewritten.old), "rewritten"))
    else:
        ids = longer.fragments[len(longer.fragments) - len(rewritten.new) :]
        new = [dataclasses.replace(one, id=number) for one, number in zip(rewritten.new, ids, strict=True)]
        old = [head.fragment(one).metadata for one in rewritten.old]
        made = datasets.commit(head, LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, new)], []))
    names = [f"data/{file.path}" for fragment in rewritten.new for file in fragment.files]
    datasets.persist(head.table, [*names, manifest_name(made.manifest)])
    return hide(datasets, made, gone)


def _unfit(head: Version, old: frozenset[int]) -> bool:
    """Whether a segment of an index has some of these fragments, and not all, or rows of them that are gone."""
    having = [segment for segment in segments(head) if segment.fragments & old]
    gone = bool(having) and any(head.fragment(one).num_deletions for one in old)
    return gone or any(not old <= segment.fragments for segment in having)


def _alive(version: Version, fragments: Sequence[int]) -> Ids:
    found = version.scan([], row_ids=True, fragments=fragments).read_all()
    return np.sort(found[ROW_ID].to_numpy().astype(np.int64))


def _fragments(task: str) -> tuple[int, ...]:
    found = json.loads(task)
    return tuple(sorted(one["id"] for one in found.get("task", found)["fragments"]))
