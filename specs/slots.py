"""The slots of a log that may be deleted and created again, and the ghost that knows what really was committed.

A name that was deleted is free again for put-if-absent: storage cannot tell a new position from a deleted one. The
ghost `truth` can: it keeps what each position held when it was first created. No actor of a model may look at it.
"""

FREE = ""

Slots = tuple[str, ...]
"""What each position holds, from position 1 on."""


def land(slots: Slots, truth: Slots, position: int, name: str) -> tuple[Slots, Slots, str]:
    """A put takes effect: the slots, the ghost, and the answer."""
    if slots[position - 1] != FREE:
        return slots, truth, "exists"
    first = truth[position - 1] == FREE
    return changed(slots, position, name), changed(truth, position, name) if first else truth, "created"


def changed(slots: Slots, position: int, name: str) -> Slots:
    """The slots with one position changed."""
    return (*slots[: position - 1], name, *slots[position:])


def end(truth: Slots) -> int:
    """The highest position that was ever created."""
    return max((position for position, entry in enumerate(truth, start=1) if entry != FREE), default=0)


def created_again(slots: Slots, truth: Slots) -> bool:
    """Whether some position holds what was never committed there."""
    return any(FREE not in (slot, entry) and slot != entry for slot, entry in zip(slots, truth, strict=True))


def show(entries: Slots) -> str:
    """For people."""
    return "[" + " ".join(entry or "-" for entry in entries) + "]"
