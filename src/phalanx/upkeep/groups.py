"""One group of fragments: claimed, written anew, and put on whatever head the table has by then (rule C5).

A group that somebody else has claimed is left alone for now. What was written is never written again because another
commit was quicker: it is placed on the newer head. Only if one of the fragments is gone, or the columns have changed, is
there nothing left to place.
"""

import logging
import threading
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TypeVar

import msgspec

from phalanx.claims import Claimed, others
from phalanx.clock import Deadline, is_gone
from phalanx.contents import Contents
from phalanx.errors import ConflictError, PhalanxError, StagingExpiredError
from phalanx.log import item as it
from phalanx.pins import AHEAD, Pin
from phalanx.tables import cluster, rewrite
from phalanx.tables.dataset import Version
from phalanx.txn.core import Core, locate

log = logging.getLogger("phalanx.upkeep")

ATTEMPTS = 64
"""How often what was written is placed on a newer head."""
CLAIM_SECONDS = 30.0
CLAIM_BYTES = 4 << 20
"""A claim holds for half a minute, and a second more for each so many bytes: after that others take it for abandoned."""


def _lasts(size: int) -> float:
    """For how many seconds a group of so many bytes is claimed."""
    return CLAIM_SECONDS + size / CLAIM_BYTES


class Ended(Enum):
    """What became of a group."""

    LANDED = "rewritten"
    CLAIMED = "claimed, or done, by somebody else"
    MOVED = "its fragments, or their columns, have changed meanwhile"
    FAILED = "it cannot be rewritten"


class Outcome(msgspec.Struct, frozen=True):
    """What became of a group, why, and how many bytes were written for it."""

    ended: Ended
    reason: str = ""
    written: int = 0


Rewriter = Callable[[Version, rewrite.Group], rewrite.Rewritten]
"""Writes the rows of a group anew: in this process, or in one elsewhere."""


def rewritten_here(bare: Version, group: rewrite.Group) -> rewrite.Rewritten:
    """Write a group's rows anew, in this process."""
    return cluster.run(bare, group) if group.sort_by else rewrite.run(bare, group)


class Begun(msgspec.Struct, frozen=True):
    """A group that was written anew, and what has to be known to land it."""

    planned: Contents
    group: rewrite.Group
    made: rewrite.Rewritten
    pin: Pin


T = TypeVar("T")


class Groups:
    """Rewrites groups of one table, in the name of one run; from several threads."""

    def __init__(self, core: Core, table: str, deadline: Deadline, rewriter: Rewriter | None = None) -> None:
        self._core = core
        self._rewriter = rewriter or rewritten_here
        self._table = table
        self._deadline = deadline
        self._placing = threading.Lock()
        self.by = f"{core.committer.writer}/{core.clock.token(4).hex()}"

    def claims(self, contents: Contents) -> tuple[Claimed, ...]:
        """What others are about to rewrite; processes of this machine that have ended are not."""
        now = self._core.clock.now()
        live = others(contents.claims, self.by, now)
        there = [one for one in live if not is_gone(one.by.rpartition("/")[0])]
        return tuple(one for one in there if self._is_honest(one, contents, now))

    def _is_honest(self, claim: Claimed, contents: Contents, now: int) -> bool:
        """Whether a claim ends when it could: one by a clock that is a day ahead would hold up everybody for that day."""
        left = (claim.until - now) / 1e6 - AHEAD
        if left <= CLAIM_SECONDS:
            return True
        head = self._core.datasets.open(self._table, contents.head.manifest)
        still = frozenset(claim.fragments).intersection(head.fragments)
        return left <= _lasts(sum(rewrite.data_size(head.fragment(one).metadata) for one in still))

    def begin(self, bare: Version, planned: Contents, group: rewrite.Group) -> Outcome | Begun:
        """Claim a group that was planned on this version, and write it anew. Whatever goes wrong is an outcome."""

        def work() -> Outcome | Begun:
            refused = self._claim(planned, group)
            if refused is not None:
                return refused
            pin = self._core.pins.staging()
            return Begun(planned, group, self._rewriter(bare, group), pin)

        return self._tried(planned, group, work)

    def finish(self, begun: Begun) -> Outcome:
        """Make what was written durable, and land it."""
        secured = partial(rewrite.secured, self._core.datasets, begun.made)
        return self._tried(begun.planned, begun.group, lambda: self._commit(begun.planned, secured(), begun.pin))

    def _tried(self, planned: Contents, group: rewrite.Group, work: Callable[[], T]) -> T | Outcome:
        """Do something for a group; if that ends badly, nobody waits for its claim."""
        try:
            done: T | Outcome = work()
        except StagingExpiredError as error:
            done = Outcome(Ended.MOVED, str(error))
        except PhalanxError as error:
            log.warning("a group of fragments of table %s is left as it is: %s", self._table, error)
            done = Outcome(Ended.FAILED, str(error))
        except BaseException:  # whoever is interrupted holds up nobody
            self._release(planned, group)
            raise
        if isinstance(done, Outcome) and done.ended in {Ended.MOVED, Ended.FAILED}:
            self._release(planned, group)
        return done

    def _claim(self, planned: Contents, group: rewrite.Group) -> Outcome | None:
        contents = locate(self._core.refresh(), self._table).contents
        wanted = frozenset(group.fragments)
        if any(not wanted.isdisjoint(one.fragments) for one in self.claims(contents)):
            return Outcome(Ended.CLAIMED)
        if self._gone(group):
            return Outcome(Ended.CLAIMED, "one of the fragments is gone")
        seconds = _lasts(group.size)
        since = self._core.clock.now()
        dead = [one for one in others(contents.claims, self.by, since) if not wanted.isdisjoint(one.fragments)]
        actions = [
            it.Claim(self._table, planned.generation, one.fragments, one.by, since, 0) for one in dead
        ]  # in their name: nobody else will
        claim = it.Claim(
            self._table, planned.generation, group.fragments, self.by, since, since + int(seconds * 1_000_000)
        )
        try:
            self._core.committer.commit(self._core.intent([*actions, claim], self._deadline))
        except ConflictError as error:
            return Outcome(Ended.CLAIMED, str(error))
        if self._gone(group):
            self._release(planned, group)
            return Outcome(Ended.CLAIMED, "one of the fragments is gone")
        return None

    def _gone(self, group: rewrite.Group) -> bool:
        """Whether somebody was done with the group before it was claimed: what was planned may be old by then."""
        head = locate(self._core.log.view, self._table).contents.head
        return not set(group.fragments) <= set(self._core.datasets.open(self._table, head.manifest).fragments)

    def _release(self, planned: Contents, group: rewrite.Group) -> None:
        """Give up the claim: nobody need wait until it expires."""
        now = self._core.clock.now()
        claim = it.Claim(self._table, planned.generation, group.fragments, self.by, now, 0)
        try:
            self._core.committer.commit(self._core.intent([claim], self._deadline))
        except PhalanxError as error:
            log.debug("a claim of table %s is left to expire: %s", self._table, error)

    def _commit(self, planned: Contents, made: rewrite.Rewritten, pin: Pin) -> Outcome:
        """Place what was written on each newer head, until it lands; one group at a time, or they move each other's head."""
        with self._placing:
            return self._land(planned, made, pin)

    def _land(self, planned: Contents, made: rewrite.Rewritten, pin: Pin) -> Outcome:
        core, table = self._core, self._table
        for _ in range(ATTEMPTS):
            contents = locate(core.refresh(), table).contents
            if contents.generation != planned.generation or contents.head.layout != planned.head.layout:
                return Outcome(Ended.MOVED, "what was written has other columns than the table by now", made.size)
            placed = rewrite.place(core.datasets, core.datasets.open(table, contents.head.manifest), made)
            if placed is None:
                return Outcome(Ended.MOVED, "one of the fragments is gone", made.size)
            action = it.Rewrite(
                table, contents.generation, contents.head.manifest, placed.manifest, made.old, len(made.new)
            )
            try:
                core.committer.commit(core.intent([action], self._deadline, pins=[pin]))
            except StagingExpiredError:
                raise  # what was written is gone: there is nothing to place
            except ConflictError as error:
                log.debug("rewrite of %s is placed again: %s", table, error)
                continue
            return Outcome(Ended.LANDED, written=made.size)
        return Outcome(Ended.FAILED, f"the head moved {ATTEMPTS} times while it was being placed", made.size)
