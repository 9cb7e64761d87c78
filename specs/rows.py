"""Rules C2-C6: work staged on files at one time lands at another, and no row is lost, doubled or brought back.

The rules in plain words, and the machine they rule, are in table.py. Here are the actors: writers that log a change, or
stage a bulk change and land it at any later time; owners of flushes and rewrites; somebody who tags a position and
restores the table to it; a reader that caches the head's rows by (generation, row id).

A *menu* is a list of works, and a model tries every order in which they can be begun and landed. What is staged may
never land, and works may be left undone. A void flush or rewrite is not shown: it changes nothing, like one that never
lands. Long histories over a large menu are walked at random, by seed.

Left out: schemas (C7), keys that repeat (C8), expressions that fail (C9), several tables. A fragment that has left the
head must not come back except by a restore: its file may be gone by then (section E), which is left out too.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs import table as at
from specs import upkeep
from specs.changes import Change, Row, Truth, after, show, truth
from specs.explore import model
from specs.table import Bulk, Fragment, Head, Rules, Table
from specs.upkeep import Flush, Rewrite

Job = Bulk | Flush | Rewrite


class Work(NamedTuple):
    """One line of a menu."""

    kind: str
    change: Change = Change("")


def logged(kind: str, key: str = "", value: int = 0) -> Work:
    """A change that is small enough to stand in the log."""
    return Work("logged", Change(kind, key, value))


def bulk(kind: str, key: str = "", value: int = 0) -> Work:
    """A change that is staged first."""
    return Work("bulk", Change(kind, key, value))


FLUSH, FLUSH_ONE, REWRITE, TAG, RESTORE, CACHE = map(Work, ("flush", "flush one", "rewrite", "tag", "restore", "cache"))


class Case(NamedTuple):
    """A menu, and the rules under which it is tried; flags plant mistakes of the reader."""

    menu: tuple[Work, ...]
    rules: Rules = Rules()
    cached_by_row_id: bool = False
    cached_when_staged: bool = False


class State(NamedTuple):
    """The table, what it should hold, the tagged position, what is staged, the reader's cache, and works left."""

    table: Table
    truth: Truth
    left: tuple[Work, ...]
    tagged: tuple[Table, Truth] | None = None
    jobs: tuple[Job, ...] = ()
    cache: tuple[tuple[int, Row], ...] = ()
    wrong: str | None = None


class Renamed(NamedTuple):
    """What a flush leaves in the log: rows that were called `moved` have the row ids from `fresh` on."""

    fresh: int
    moved: tuple[int, ...]


class Restored(NamedTuple):
    """A restore."""


Entry = Change | Renamed | Restored
"""What a transaction that looks back at the log learns of this table; a rewrite is nothing to it."""


class Move(NamedTuple):
    """A step, and what it leaves in the log."""

    label: str
    state: State
    entry: Entry | None = None


def initial(case: Case) -> State:
    """Two rows in one fragment."""
    start = (Row(0, "a", 2, in_head=True), Row(1, "b", 3, in_head=True))
    return State(Table(Head(0, (Fragment(0, start),), 2)), truth(start), tuple(sorted(case.menu)))


def broken(case: Case, state: State) -> str | None:
    """What must never be seen."""
    if state.wrong is not None:
        return state.wrong
    found = at.rows(case.rules, state.table)
    if truth(found) != state.truth:
        return f"the table holds {show(truth(found))}, but the log says {show(state.truth)}"
    if len({row.id for row in found}) < len(found):
        return f"two rows have one identity: {sorted(row.id for row in found)}"
    for row in state.table.head.live():
        for generation, cached in state.cache:
            same = case.cached_by_row_id or generation == state.table.generation
            if same and cached.id == row.id and cached != row:
                return f"the cache says {cached.key}={cached.value} of row {row.id}, which is {row.key}={row.value}"
    return None


def steps(case: Case, state: State) -> Iterator[tuple[str, State]]:
    """Every step of every actor."""
    for move in moves(case, state):
        yield move.label, move.state


def moves(case: Case, state: State) -> Iterator[Move]:
    """The same, with what each leaves in the log."""
    for index, work in enumerate(state.left):
        if index == 0 or state.left[index - 1] != work:
            rest = state._replace(left=state.left[:index] + state.left[index + 1 :])
            yield from _begin(case, rest, work)
    for index, job in enumerate(state.jobs):
        rest = state._replace(jobs=state.jobs[:index] + state.jobs[index + 1 :])
        yield from _land(case.rules, rest, job)
        if isinstance(job, Rewrite) and job.head != state.table.head.manifest:
            again = upkeep.stage_rewrite_again(case.rules, state.table, job)
            if again is not None:
                yield Move("the rewrite is staged again on this head", _staged(rest, again))


def _begin(case: Case, state: State, work: Work) -> Iterator[Move]:
    table = state.table
    match work.kind:
        case "logged":
            yield _changed(state, f"logged: {work.change}", at.log(table, work.change), work.change)
        case "bulk":
            yield Move(f"staged: {work.change}", _staged(state, at.stage(case.rules, table, work.change)))
        case "flush" | "flush one" if table.items:
            flush = upkeep.stage_flush(case.rules, table, len(table.items) if work.kind == "flush" else 1)
            yield Move(f"a flush of items {flush.first} to {flush.until - 1} is staged", _staged(state, flush))
        case "rewrite":
            yield Move("a rewrite is staged", _staged(state, upkeep.stage_rewrite(table)))
        case "tag":
            yield Move("this position is tagged", state._replace(tagged=(table, state.truth)))
        case "restore" if state.tagged is not None:
            earlier, rows = state.tagged
            restored = state._replace(table=upkeep.restore(case.rules, table, earlier), truth=rows)
            yield Move("the tagged position is restored", restored, Restored())
        case "cache":
            yield from _cache(case, state)


def _cache(case: Case, state: State) -> Iterator[Move]:
    heads = [state.table.head]
    if case.cached_when_staged:
        heads = [job.version for job in state.jobs]
    for head in heads:
        cache = tuple((state.table.generation, row) for row in head.live())
        yield Move("the reader caches the rows of a head", state._replace(cache=cache))


def _staged(state: State, job: Job) -> State:
    return state._replace(jobs=(*state.jobs, job))


def _land(rules: Rules, state: State, job: Job) -> Iterator[Move]:
    table = state.table
    if isinstance(job, Bulk):
        landed = at.land(rules, table, job)
        where = "as the head" if len(landed.items) == len(table.items) else "as an item"
        yield _changed(state, f"lands {where}: {job.change}", landed, job.change)
    elif isinstance(job, Flush):
        if not upkeep.flush_is_void(rules, table, job):
            label = f"the flush of items {job.first} to {job.until - 1} lands"
            entry = Renamed(job.fresh, job.moved)
            yield Move(label, _moved(state, upkeep.land_flush(rules, table, job)), entry)
    elif not upkeep.rewrite_is_void(rules, table, job):
        yield Move("the rewrite lands", _moved(state, upkeep.land_rewrite(table, job)))


def _changed(state: State, label: str, table: Table, change: Change) -> Move:
    return Move(label, _moved(state, table)._replace(truth=after(state.truth, change)), change)


def _moved(state: State, table: Table) -> State:
    """The table after a landing; a fragment is either new or was there before."""
    before = {fragment.number for fragment in state.table.head.fragments}
    back = [one.number for one in table.head.fragments if one.number not in before and one.number != table.moved]
    return state._replace(table=table, wrong="a fragment that had left the head is back" if back else None)


_UPSERT, _DELETE, _ADD = logged("upsert", "a", 4), logged("delete", "", 3), logged("add", "", 2)
_MERGE, _BULK_ADD, _BULK_DELETE = bulk("upsert", "a", 7), bulk("add", "", 3), bulk("delete", "", 4)
_OVERWRITE = bulk("overwrite", "c", 1)

_HOLDS = {
    "the rules: bulk changes among logged ones and flushes": Case((_UPSERT, _ADD, _MERGE, _BULK_ADD, FLUSH, FLUSH)),
    "the rules: deletions, flushes of a part of the tail": Case(
        (_DELETE, _ADD, _BULK_ADD, _BULK_DELETE, FLUSH, FLUSH_ONE)
    ),
    "the rules: overwriting, and a restore": Case((_ADD, _BULK_ADD, _OVERWRITE, FLUSH, TAG, RESTORE)),
    "the rules: rewrites": Case((_ADD, _DELETE, _MERGE, FLUSH, REWRITE, REWRITE)),
    "the rules: rewrites, a restore, a cache": Case((_ADD, _BULK_ADD, FLUSH, FLUSH, REWRITE, TAG, RESTORE, CACHE)),
    "relaxed: a flush does not compare the range": Case(
        (_ADD, _DELETE, _MERGE, FLUSH, FLUSH, REWRITE), Rules(flush_ignores_range=True)
    ),
    "relaxed: a rewrite does not compare the generation": Case(
        (_ADD, _BULK_ADD, FLUSH, REWRITE, TAG, RESTORE), Rules(rewrite_ignores_generation=True)
    ),
    "relaxed: a base is compared by generation and head": Case(
        (_UPSERT, _ADD, _MERGE, FLUSH, TAG, RESTORE), Rules(base_is="generation and head")
    ),
    "relaxed: a restore sets the limits of its items to 0": Case(
        (_UPSERT, _ADD, _MERGE, FLUSH, FLUSH_ONE, TAG, RESTORE), Rules(restored_items_match_again=True)
    ),
}
_PLANTED = {
    "C2: rows above the limit are not matched again": Case(
        (_ADD, _BULK_ADD, FLUSH), Rules(flushed_rows_not_matched_again=True)
    ),
    "C2: rows of the tail are not matched again": Case((_UPSERT, _MERGE), Rules(tail_rows_not_matched_again=True)),
    "C2: rows that were changed since are taken as computed": Case(
        (_ADD, _BULK_ADD), Rules(changed_rows_as_computed=True)
    ),
    "C2: computed in another generation, and used": Case(
        (_ADD, _BULK_ADD, TAG, RESTORE), Rules(old_generation_as_computed=True)
    ),
    "C2: the fast path is taken although the base has moved": Case(
        (_ADD, _MERGE, FLUSH), Rules(fast_path_on_moved_base=True)
    ),
    "C2: the fast path is taken over a tail that is not written out": Case(
        (_UPSERT, _MERGE), Rules(fast_path_over_items=True)
    ),
    "C2: a base is compared by its head only": Case((_ADD, _MERGE, TAG, RESTORE), Rules(base_is="head")),
    "C3: a deletion file is replaced, not united": Case((_DELETE, _ADD, FLUSH, FLUSH), Rules(deletions_replaced=True)),
    "C4: a flush does not compare the generation": Case(
        (_ADD, _DELETE, FLUSH, TAG, RESTORE), Rules(flush_ignores_generation=True)
    ),
    "C4: a flush does not compare head and range": Case(
        (_ADD, _DELETE, FLUSH, FLUSH), Rules(flush_ignores_head=True, flush_ignores_range=True)
    ),
    "C4: a flush does not compare the head": Case((_ADD, FLUSH, REWRITE), Rules(flush_ignores_head=True)),
    "C4: a flush keeps old row ids on new rows": Case((_ADD, _BULK_ADD, FLUSH), Rules(flush_keeps_ids=True)),
    "C5: a rewrite does not compare the head": Case((_ADD, FLUSH, REWRITE), Rules(rewrite_ignores_head=True)),
    "C5: a rewrite is staged again without the deletions since": Case(
        (_DELETE, FLUSH, REWRITE), Rules(rewrite_again_without_deletions=True)
    ),
    "C5: a rewrite is staged again after a restore": Case(
        (_DELETE, FLUSH, REWRITE, TAG, RESTORE), Rules(rewrite_again_after_restore=True)
    ),
    "C5: a rewrite is staged again although its sources are gone": Case(
        (REWRITE, REWRITE), Rules(rewrite_again_without_sources=True)
    ),
    "C6: a restore counts the next row id from the rows": Case(
        (_ADD, _DELETE, _BULK_ADD, FLUSH, FLUSH_ONE, TAG, RESTORE), Rules(restore_counts_rows=True)
    ),
    "C6: a restore does not copy the next row id": Case(
        (_ADD, _BULK_ADD, FLUSH, FLUSH, TAG, RESTORE), Rules(restore_keeps_the_limit=True)
    ),
    "C6: a cache is keyed by the row id only": Case(
        (_ADD, _UPSERT, FLUSH, FLUSH, TAG, RESTORE, CACHE), cached_by_row_id=True
    ),
    "C6: a row id counts before its head is committed": Case(
        (_ADD, _UPSERT, FLUSH, FLUSH, CACHE), cached_when_staged=True
    ),
    "D2: serial numbers are given out when a change is staged": Case(
        (logged("append", "c", 1), bulk("append", "d", 1)), Rules(serials_given_when_staged=True)
    ),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "a bulk change is the head at once": lambda state: (
        state.table.head.manifest > 0 and not state.jobs and state.left.count(FLUSH) == 2
    ),
    "a bulk change stands in the tail above rows that were flushed since": lambda state: any(
        item.bulk is not None and item.limit < state.table.head.next_row_id and item.number > 0
        for item in state.table.items
    ),
    "a flush lands, and an item behind it stays": lambda state: any(item.number > 0 for item in state.table.items[:1]),
    "a flush is void": lambda state: any(
        isinstance(job, Flush) and job.head != state.table.head.manifest for job in state.jobs
    ),
}
_WALKS = {
    "long histories": Case(
        (
            *(_UPSERT, _DELETE, _ADD, logged("upsert", "b", 2), logged("delete", "", 7)) * 4,
            *(_MERGE, _BULK_ADD, _BULK_DELETE) * 4,
            *(_OVERWRITE, TAG, RESTORE, CACHE, FLUSH_ONE, REWRITE) * 3,
            *(FLUSH,) * 6,
        )
    )
}

MODEL = model("rows", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, _WALKS)
