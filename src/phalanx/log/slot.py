"""Putting one attempt at one position, until its outcome is settled (rule B2).

    put answers   then
    Created       ours
    Exists        read the slot: ours, or taken by another
    Unknown       read the slot; if it is absent, put the same bytes at the same name again

The outcome is never decided from an error. While it is not settled nobody moves on; at the deadline it is `Unsettled`,
and what the attempt refers to must not be deleted, for it may still land. A put that certainly had no effect raises,
unless an earlier one of the same bytes is still unaccounted for.
"""

import msgspec

from phalanx.clock import Clock, Deadline
from phalanx.errors import UnavailableError, UnsupportedError
from phalanx.log.frame import MAX_FRAME
from phalanx.objects import Blob, Created, Exists, Store, layout

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


class Won(msgspec.Struct, frozen=True):
    """The slot holds our bytes."""


class Taken(msgspec.Struct, frozen=True):
    """The slot holds these bytes, which are not ours; with `doubt`, they might be ours, damaged."""

    data: bytes
    doubt: bool


class Unsettled(msgspec.Struct, frozen=True):
    """The deadline came first."""

    cause: str


Outcome = Won | Taken | Unsettled


def put(store: Store, blob: Blob, name: str, ours: bytes, deadline: Deadline, clock: Clock) -> Outcome:
    """Put `blob`, whose bytes are `ours`, at `name`, and find out what became of it."""
    pause = _FIRST_PAUSE
    doubt: str | None = None
    while True:
        try:
            answer = blob.put(name)
        except UnavailableError:
            if doubt is None:
                raise
        else:
            if isinstance(answer, Created):
                return Won()
            if not isinstance(answer, Exists):
                doubt = answer.cause
        found = _look(store, name)
        if isinstance(found, bytes):
            return Won() if found == ours else Taken(found, doubt is not None)
        # Absent, or unreadable, which is neither ours nor lost. After "exists" it is the listing of a damaged or
        # confused store: only the slot decides, so it is put again.
        doubt = found or doubt or "the store says the entry exists, and does not show it"
        if deadline.left() <= pause:
            return Unsettled(doubt)
        clock.sleep(pause * (0.5 + clock.jitter()))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _look(store: Store, name: str) -> bytes | str | None:
    """The slot's bytes; None if it is absent; a cause if it cannot be read."""
    try:
        return store.get(name, limit=MAX_FRAME)
    except UnavailableError as error:
        return str(error)


def require_put_if_absent(store: Store) -> None:
    """Refuse a store that overwrites what exists: some servers speak the protocol and ignore the condition."""
    with store.prepare([b""]) as blob:
        if isinstance(blob.put(layout.floor(1)), Created):
            raise UnsupportedError(
                f"{store.uri} overwrites an object that exists instead of refusing to: it cannot carry a lake; "
                "use a store with conditional puts (If-None-Match)"
            )
