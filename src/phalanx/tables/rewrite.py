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
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionOptions, CompactionTask

from phalanx.objects import Sum
from phalanx.runs import NO_IDS, Ids
from phalanx.tables.dataset import ROW_ID, Datasets, Version, manifest_name
from phalanx.tables.index import segments
from phalanx.tables.speaking import speaking
from phalanx.tables.stage import hide

TARGET_ROWS = 1 << 20
DELETED_SHARE = 0.005
"""Of a fragment's rows: scans of one with any deleted rows are slower, and twice as slow from here on (measured)."""
SMALL = 4 << 20
"""Bytes of a fragment that is always worth putting together with others."""


class Group(msgspec.Struct, frozen=True):
    """Fragments that would be written as one, of so many bytes; `task` is Lance's own description.

    With `sort_by`, their rows are put in the order of these columns (see `cluster.py`).
    """

    fragments: tuple[int, ...]
    task: str
    size: int
    sort_by: tuple[str, ...] = ()


class Rewritten(msgspec.Struct, frozen=True):
    """What became of a group, as it was in `base`: on disk, in no version yet."""

    old: tuple[int, ...]
    new: list[FragmentMetadata]
    base: Version
    sums: dict[str, Sum] = {}
    """What is to be noted of its files, which are durable then."""

    @property
    def names(self) -> list[str]:
        """Its files, by names inside the table's folder."""
        return [f"data/{file.path}" for fragment in self.new for file in fragment.files]

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return sum(map(data_size, self.new))


def plan(version: Version, target_rows: int = TARGET_ROWS, excluded: Collection[int] = ()) -> list[Group]:
    """The groups worth rewriting, without certain fragments: small neighbours, and fragments with many deleted rows."""
    options = CompactionOptions(
        target_rows_per_fragment=target_rows,
        materialize_deletions_threshold=DELETED_SHARE,
        excluded_fragment_ids=sorted(excluded),
    )
    with speaking("planning a rewrite"):
        tasks: list[Any] = list(Compaction.plan(version.dataset, options).tasks)
    return [group for task in tasks for group in _worth(version, json.loads(task.json()))]


def _worth(version: Version, task: dict[str, Any]) -> Iterator[Group]:
    """A task of Lance as groups of fragments of about the same size: few bytes more are no reason to write many anew.

    So a row is written again a few times only on its way to a fragment of full size, however often that is asked for.
    """
    described = {one["id"]: one for one in task["task"]["fragments"]}
    sizes = {number: data_size(version.fragment(number).metadata) for number in described}
    worn = {number for number, one in described.items() if _share_deleted(one) > DELETED_SHARE}
    for tier in tiers([(size, (number,)) for number, size in sizes.items()], SMALL):
        chosen = tuple(sorted(tier))
        if len(chosen) > 1 or worn.intersection(chosen):
            own = {**task["task"], "fragments": [one for number, one in described.items() if number in chosen]}
            yield Group(chosen, json.dumps({**task, "task": own}), sum(sizes[number] for number in chosen))


def small_and_worn(version: Version) -> tuple[int, int]:
    """How many fragments are small, and how many have enough deleted rows to be worth writing anew."""
    small = worn = 0
    for number in version.fragments:
        fragment = version.fragment(number)
        small += data_size(fragment.metadata) <= SMALL and fragment.physical_rows < TARGET_ROWS
        worn += fragment.num_deletions > DELETED_SHARE * fragment.physical_rows
    return small, worn


def tiers(sized: Iterable[tuple[int, tuple[int, ...]]], least: int) -> list[tuple[int, ...]]:
    """Fragments worth writing as one: each is small, or no larger than twice all the smaller ones together."""
    found: list[tuple[int, ...]] = []
    together = 0
    for size, fragments in sorted(sized):
        if found and size <= max(2 * together, least):
            found[-1] += fragments
            together += size
        else:
            found.append(fragments)
            together = size
    return found


def data_size(fragment: FragmentMetadata) -> int:
    """The bytes of a fragment's files, as far as Lance knows them."""
    return sum(file.file_size_bytes or 0 for file in fragment.files)


def run(version: Version, group: Group) -> Rewritten:
    """Write a group's rows anew."""
    task: Any = CompactionTask
    with speaking("rewriting fragments"):
        result = task.from_json(group.task).execute(version.dataset)
        new = [FragmentMetadata.from_json(json.dumps(one)) for one in json.loads(result.json())["new_fragments"]]
    return Rewritten(group.fragments, new, version)


def secured(datasets: Datasets, rewritten: Rewritten) -> Rewritten:
    """Make its files durable: once, however often it is placed, and beside what others of the same run do."""
    return msgspec.structs.replace(rewritten, sums=datasets.secure(rewritten.base.table, rewritten.names))


def place(datasets: Datasets, head: Version, rewritten: Rewritten) -> Version | None:
    """The head with new fragments, which are secured, for the old ones; None if an old one is no longer there."""
    if not set(rewritten.old) <= set(head.fragments):
        return None
    gone = gone_since(rewritten.base, head, rewritten.old)
    longer = datasets.commit(head, LanceOperation.Append(rewritten.new))
    if _unfit(head, frozenset(rewritten.old)):
        made = datasets.commit(longer, LanceOperation.Delete([], list(rewritten.old), "rewritten"))
    else:
        ids = longer.fragments[len(longer.fragments) - len(rewritten.new) :]
        new = [dataclasses.replace(one, id=number) for one, number in zip(rewritten.new, ids, strict=True)]
        old = [head.fragment(one).metadata for one in rewritten.old]
        made = datasets.commit(head, LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, new)], []))
    datasets.persist(head.table, [manifest_name(made.manifest)], rewritten.sums)
    return hide(datasets, made, gone)


def _unfit(head: Version, old: frozenset[int]) -> bool:
    """Whether a segment of an index has some of these fragments, and not all, or rows of them that are gone."""
    having = [segment for segment in segments(head) if segment.fragments & old]
    gone = bool(having) and any(head.fragment(one).num_deletions for one in old)
    return gone or any(not old <= segment.fragments for segment in having)


def gone_since(base: Version, head: Version, fragments: Sequence[int]) -> Ids:
    """The row ids of rows of fragments that were deleted since. Mostly none were: their marks of deletion tell."""
    if all(_marks(base, one) == _marks(head, one) for one in fragments):
        return NO_IDS
    return np.setdiff1d(alive_in(base, fragments), alive_in(head, fragments), assume_unique=True)


def _marks(version: Version, fragment: int) -> object:
    return version.fragment(fragment).metadata.to_json()["deletion_file"]


def alive_in(version: Version, fragments: Sequence[int]) -> Ids:
    """The row ids of the live rows of fragments, ascending."""
    found = version.scan([], row_ids=True, fragments=fragments).read_all()
    return np.sort(found[ROW_ID].to_numpy().astype(np.int64))


def _share_deleted(described: dict[str, Any]) -> float:
    deleted = int((described.get("deletion_file") or {}).get("num_deleted_rows") or 0)
    return deleted / max(1, int(described["physical_rows"]))
