"""What prune has left, as the log tells it: which positions can be read, and whose staged files count. Pure.

Keeps E1 and E2. The decision to prune is an entry, so everybody agrees on its place among all others: a snapshot that it
does not leave is refused from then on, and so is a change whose files it lets go. No clock decides either.
"""

import msgspec

from phalanx.log import action as do
from phalanx.log.entry import Landing

Staged = tuple[bytes, int]
"""The id of a staging pin, and the position that was known when it was put."""


class Retained(msgspec.Struct, frozen=True, array_like=True):
    """What can still be read and named; `made` is the position of the last prune."""

    floor: int = 1
    kept: tuple[int, ...] = ()
    """Positions below the floor that tags and pins have kept."""
    since: int = 0
    """Staging that began before this position counts only if it is allowed."""
    allowed: tuple[Staged, ...] = ()
    cutoff: int = 0
    """Microseconds of the store's clock: every file that was let go is older."""
    made: int = 0
    run: int = 0
    """The first of the prunes that have followed each other since anything else was committed."""

    def last(self, end: int) -> int:
        """The last position that is not a prune's own: a lake that nobody changes has nothing more to prune."""
        return self.run - 1 if self.made == end else end

    def has(self, position: int) -> bool:
        """Whether the lake can be read at a position."""
        return position >= self.floor - 1 or position in self.kept

    def lets(self, staged: Staged) -> bool:
        """Whether files that were staged under a pin are still there: no prune has taken it for expired."""
        return staged[1] >= self.since or any(one[0] == staged[0] for one in self.allowed)


def pruned(before: Retained, landing: Landing, action: do.Prune) -> Retained:
    """What is left after one more prune; several may overlap, but none lands that goes less far than one before it."""
    exempt = dict(action.exempt)
    if action.since >= before.since:
        # Who began after the last decision was not concerned by it; all others have to be exempt from every one.
        allowed = [(who, at) for who, at in action.exempt if before.lets((who, at))]
    else:
        allowed = [(who, at) for who, at in before.allowed if at >= action.since or who in exempt]
    return Retained(
        action.floor,
        tuple(sorted(one for one in action.kept if one < action.floor - 1)),
        max(before.since, action.since),
        tuple(sorted(allowed)),
        max(before.cutoff, action.cutoff),
        landing.position,
        before.run if before.made == landing.position - 1 and before.run else landing.position,
    )
