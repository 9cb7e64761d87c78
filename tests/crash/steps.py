"""Work on a lake, step by step: whoever watches is told before each step, and may let the process die there.

A step is whatever can be the last thing a process did: rows written, a version staged, files made durable, an object
put. Between two steps nothing reaches the disk that anybody could find.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lance.dataset import LanceDataset
from lance.fragment import LanceFragment

from phalanx.clock import SYSTEM
from phalanx.lake import Lake, join
from phalanx.objects import Blob, Created, Put, Store, layout, open_store
from phalanx.tables import index, rewrite, stage
from phalanx.tail import writeout
from phalanx.testing.wrapping import WrappedStore
from phalanx.txn import bulk

Held = dict[str, list[tuple[Any, ...]]]
"""The rows of every table, sorted."""
AFTER = "after the entry"


class Death(BaseException):
    """The process dies here: nothing catches it, and nothing is done after it."""


class Steps:
    """The steps that were taken, by name; `before` is called with the number and the name of each, from 1 on."""

    def __init__(self, before: Callable[[int, str], None] | None = None) -> None:
        self.names: list[str] = []
        self.before = before
        self._nested = False

    def take(self, name: str) -> None:
        """One more step is about to be taken; what the watcher does itself does not count."""
        if self._nested:
            return
        self.names.append(name)
        if self.before is not None:
            self._nested = True
            try:
                self.before(len(self.names), name)
            finally:
                self._nested = False


def dying(at: int) -> Steps:
    """A process that dies before its step of this number."""

    def before(number: int, name: str) -> None:
        if number >= at:  # the dead take no further step, whatever their code does on the way out
            raise Death(name)

    return Steps(before)


class _Stepping(WrappedStore):
    def __init__(self, inner: Store, steps: Steps) -> None:
        super().__init__(inner)
        self._steps = steps

    def persist(self, names: Iterable[str]) -> None:
        self._steps.take("persist")
        super().persist(names)

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        self._step("put", name)
        outcome = super()._create(blob, name, data)
        if name.startswith(layout.LOG) and isinstance(outcome, Created):
            self._steps.take(AFTER)
        return outcome

    def _delete(self, name: str) -> None:
        self._step("delete", name)
        super()._delete(name)

    def _step(self, verb: str, name: str) -> None:
        """A pin says nothing of rows, and threads of its own come and go with it: no step."""
        if not name.startswith(layout.PINS):
            self._steps.take(f"{verb} {name.partition('/')[0]}")


@contextmanager
def stepping(path: Path, steps: Steps, *, inside: bool = False) -> Iterator[Lake]:
    """A handle on the lake there whose steps are watched. It is never closed: its process may be dead.

    With `inside`, the steps are those of Lance itself, so that what is raised there is taken for Lance's own error.
    """
    lake = join(_Stepping(open_store(path), steps), SYSTEM, None, timeout=30)
    ours = (
        (lake._core.datasets, "commit"),
        (writeout, "write"),
        (bulk, "write"),
        (rewrite, "run"),
        (index, "build"),
    )
    theirs = ((LanceDataset, "commit"), (LanceFragment, "delete_rows"), (stage, "write_fragments"))
    with pytest.MonkeyPatch.context() as patch:
        for where, name in theirs if inside else ours:
            step = _stepped(steps, name, getattr(where, name))
            patch.setattr(where, name, staticmethod(step) if where is LanceDataset else step)
        yield lake


def _stepped(steps: Steps, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any, **options: Any) -> Any:
        steps.take(name)
        return work(*arguments, **options)

    return step


def rows(lake: Lake) -> Held:
    """What a lake holds."""
    snapshot = lake.refresh()
    return {name: rows_of(snapshot[name].to_arrow().to_pylist()) for name in snapshot.tables()}


def rows_of(found: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as tuples, sorted."""
    return sorted(tuple(row.values()) for row in found)
