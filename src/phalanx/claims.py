"""Claims: who is about to rewrite which fragments of a table, so that several optimizers share the work (rule C5).

Advice, and nothing more: a claim that is wrong, late or left behind by a dead process costs some work done twice, or not
at once. Pure; time comes with each claim. Bounded: what has expired goes when a new claim lands, and what was rewritten
is claimed no longer.
"""

from collections.abc import Iterable

import msgspec

from phalanx.log import item as it

MOST = 256
"""Claims of one table that are remembered; the oldest go first."""


class Claimed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Fragments that somebody is about to rewrite; `position` is the commit that said so."""

    fragments: tuple[int, ...]
    by: str
    until: int
    position: int


Claims = tuple[Claimed, ...]


def others(claims: Claims, by: str, now: int) -> Claims:
    """The claims that others have at that time."""
    return tuple(one for one in claims if one.by != by and one.until > now)


def rival(claims: Claims, action: it.Claim) -> Claimed | None:
    """Somebody else's claim for one of the same fragments."""
    wanted = frozenset(action.fragments)
    return next((one for one in others(claims, action.by, action.since) if not wanted.isdisjoint(one.fragments)), None)


def claimed(claims: Claims, position: int, action: it.Claim) -> Claims:
    """The claims after one more: it takes the place of what the same claimant had said of these fragments."""
    kept = [one for one in claims if one.until > action.since]
    own = _without([one for one in kept if one.by == action.by], action.fragments)
    left = [one for one in kept if one.by != action.by] + own
    if action.until > action.since:
        left.append(Claimed(tuple(sorted(action.fragments)), action.by, action.until, position))
    return tuple(sorted(left, key=lambda one: (one.position, one.by, one.fragments))[-MOST:])


def rewritten(claims: Claims, fragments: Iterable[int]) -> Claims:
    """The claims after fragments were rewritten, by whomever."""
    return tuple(_without(claims, fragments)) if claims else claims


def _without(claims: Iterable[Claimed], fragments: Iterable[int]) -> list[Claimed]:
    gone = frozenset(fragments)
    less = [
        msgspec.structs.replace(one, fragments=tuple(number for number in one.fragments if number not in gone))
        for one in claims
    ]
    return [one for one in less if one.fragments]
