"""What the judge can say of a transaction: it may go ahead, it has been done before, or something stands in its way."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from phalanx.catalog import Name, State


class Kind(Enum):
    """What kind of objection it is, by what the caller does next."""

    EXISTS = "choose another name, or use what is there"
    MISSING = "create it, or correct the name"
    CHANGED = "look at it again, and run the change again"
    NOT_EMPTY = "empty it first"
    IN_USE = "what needs it comes first"
    BEHIND = "read the source's progress, and go on from there"
    REPLAN = "look at its columns, and run the change again"
    VOID = "what it was staged on is gone: plan it again"
    RESTAGE = "write it again"


class Go(msgspec.Struct, frozen=True):
    """Nothing stands in the way."""


GO = Go()
"""The only one: a batch of thousands asks thousands of times."""


class Already(msgspec.Struct, frozen=True):
    """It has taken effect before, at this position."""

    position: int


class Conflict(msgspec.Struct, frozen=True):
    """Why it may not land; `position` is the commit that stands in its way, where that is known."""

    kind: Kind
    message: str
    position: int | None = None


Verdict = Go | Already | Conflict
Rule = Callable[[State, Any, int], Already | Conflict | None]
"""(state, action, the position it would land on) -> what stands in its way."""


def dotted(name: Name) -> str:
    """A name as people see it."""
    return ".".join(name)
