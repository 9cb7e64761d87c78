"""What is put at a position of the log, and what can come of it.

An attempt was judged on the state before its position, and holds for that position only: who loses it makes another.
"""

from typing import Generic, TypeVar

import msgspec

from phalanx.log import slot
from phalanx.log.entry import Entry
from phalanx.objects import Blob

S = TypeVar("S")


class Attempt(msgspec.Struct, Generic[S], frozen=True):
    """Bytes ready to be put: the entry they encode, and the state that follows if they land at `position`."""

    position: int
    state: S
    entry: Entry
    data: bytes
    blob: Blob


class Committed(msgspec.Struct, frozen=True):
    """The attempt stands at this position."""

    position: int


class Lost(msgspec.Struct, frozen=True):
    """The position is another's, or below the floor. The cursor has moved on: look up, judge and try again.

    `unsure` where the attempt may have landed before a floor passed it: then only the remembered ids can tell (rule A5).
    """

    unsure: bool = False


Outcome = Committed | Lost | slot.Unsettled
