"""Checkpoints: stored folds that make opening short. A cache and nothing more (rules A3, F1).

Written by the process whose commit crosses a multiple of the lake's interval, in the background, best effort: a failure
is logged and forgotten. Missing, stale and torn ones are survived, because each carries its own hash in its name and
is verified against the next entry. Older ones are thinned out so that their distances double: their number grows with
the logarithm of history, and a snapshot of long ago is still near one.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from phalanx.errors import PhalanxError
from phalanx.log import base as bases
from phalanx.log import frame
from phalanx.log.base import Base, Fold
from phalanx.log.floor import MAX_BASE
from phalanx.objects import Store, layout

S = TypeVar("S")

log = logging.getLogger("phalanx.log")


class Checkpointer(Generic[S]):
    """Writes checkpoints one at a time, off the commit path."""

    def __init__(self, store: Store, fold: Fold[S]) -> None:
        self._store = store
        self._fold = fold
        self._thread: threading.Thread | None = None
        self.folds: Callable[[S], bytes] = lambda _: b""
        """What a checkpoint has beside the state: see `Base.folded`."""

    def offer(self, base: Base[S]) -> None:
        """Store this base, unless the one before it is still being written."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._write, args=(base,), name="phalanx-checkpoint", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the one under way is written, so that closing a lake leaves it."""
        if self._thread is not None:
            self._thread.join()

    def _write(self, base: Base[S]) -> None:
        try:
            write(self._store, self._fold, msgspec.structs.replace(base, folded=self.folds(base.state)))
        except PhalanxError as error:
            log.warning("checkpoint %d was not written, which costs nothing but time: %s", base.position, error)


def write(store: Store, fold: Fold[S], base: Base[S]) -> None:
    """Store a base as a checkpoint, and thin out the older ones."""
    data, digest = bases.encode(base, fold)
    with store.prepare([data]) as blob:
        blob.put(layout.checkpoint(base.position, digest))
    found = [(layout.checkpoint_position(listed.name), listed.name) for listed in store.list(layout.CHECKPOINT)]
    held = {position: name for position, name in found if position is not None}
    store.delete(held[position] for position in thinned(sorted(held)))


def thinned(positions: Sequence[int]) -> list[int]:
    """Which of these (ascending) are not needed: all but the newest two and one in each doubling distance."""
    if not positions:
        return []
    newest = positions[-1]
    wanted = set(positions[-2:])
    reach = newest - positions[-2] if len(positions) > 1 else 1
    while reach < newest:
        reach *= 2
        older = [position for position in positions if position <= newest - reach]
        wanted.update(older[-1:])
    return [position for position in positions if position not in wanted]


def candidates(store: Store, fold: Fold[S], wanted: Callable[[Base[S]], bool]) -> Iterator[Base[S]]:
    """The usable checkpoints that are wanted, newest first; damaged ones are passed over."""
    found = [(layout.checkpoint_position(listed.name), listed.name) for listed in store.list(layout.CHECKPOINT)]
    for position, name in sorted(((p, n) for p, n in found if p is not None), reverse=True):
        try:
            data = store.get(name, limit=MAX_BASE)
            if data is None:
                continue
            base = bases.decode(data, fold, name)
            if base.position != position or layout.checkpoint(position, frame.digest_of(data)) != name:
                continue
        except PhalanxError as error:
            log.warning("checkpoint passed over: %s", error)
            continue
        if wanted(base):
            yield base
