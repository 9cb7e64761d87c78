"""Claims: advice on who rewrites what, which expires, is bounded, and never stands in a writer's way."""

import msgspec
import pytest

from phalanx import contents as held
from phalanx.claims import MOST, Claimed, claimed, others, rewritten, rival
from phalanx.contents import Contents, Head
from phalanx.log import item as it
from phalanx.log.entry import Landing

A = "a" * 32
ANN = Claimed((1, 2), "ann", 9, 3)


def claim(*fragments: int, by: str = "bob", since: int = 5, until: int = 20, generation: int = 0) -> it.Claim:
    return it.Claim(A, generation, fragments, by, since, until)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (claim(2, 3), ANN),
        (claim(3, 4), None),
        (claim(2, 3, by="ann"), None),
        (claim(2, 3, since=9), None),
        (claim(2, 3, since=8), ANN),
    ],
)
def test_only_a_live_claim_of_somebody_else_for_the_same_fragments_is_a_rival(
    wanted: it.Claim, found: Claimed | None
) -> None:
    """Expired ones, one's own, and those of other fragments are not."""
    assert rival((ANN,), wanted) == found


def test_what_has_expired_goes_when_a_new_claim_lands() -> None:
    """So a table never carries the claims of the dead for long."""
    assert claimed((ANN,), 7, claim(2, since=9)) == (Claimed((2,), "bob", 20, 7),)
    assert claimed((ANN,), 7, claim(3, since=8)) == (ANN, Claimed((3,), "bob", 20, 7))


def test_a_claimant_speaks_for_itself_anew() -> None:
    """What it had said of the same fragments no longer counts; what it said of others does."""
    assert claimed((ANN,), 7, claim(2, 3, by="ann")) == (Claimed((1,), "ann", 9, 3), Claimed((2, 3), "ann", 20, 7))
    assert claimed((ANN,), 7, claim(1, 2, by="ann", until=5)) == ()
    assert claimed((ANN,), 7, claim(1, by="ann", until=0)) == (Claimed((2,), "ann", 9, 3),)


def test_what_was_rewritten_is_claimed_no_longer() -> None:
    """By whomever it was."""
    assert rewritten((ANN,), (2, 5)) == (Claimed((1,), "ann", 9, 3),)
    assert rewritten((ANN,), (1, 2)) == ()


def test_claims_are_bounded() -> None:
    """The oldest go first, and a claim that was forgotten costs some work done twice."""
    claims: tuple[Claimed, ...] = ()
    for number in range(MOST + 10):
        claims = claimed(claims, number, claim(number, by=f"{number}"))
    assert [one.position for one in claims] == list(range(10, MOST + 10))
    assert len(others(claims, "11", 19)) == MOST - 1
    assert others(claims, "11", 20) == ()


def test_a_claim_moves_nothing() -> None:
    """What was staged on the table before may still become its head; another generation has no claims."""
    before = Contents(head=Head(7), moved=4)
    after = held.claim(before, Landing(8), claim(1))
    assert msgspec.structs.replace(after, claims=()) == before
    assert held.claim(after, Landing(9), claim(1, by="ann")) is after
    assert held.claim(before, Landing(9), claim(1, generation=3)) is before
    assert held.restore(after, Landing(9), it.Restore(A, 1, 8, 0, (it.Layout(0, b"", ()),), ())).claims == ()
    assert held.land(after, Landing(9), it.DeleteWhere(A, "true")).claims == after.claims
    assert held.rewrite(after, Landing(9), it.Rewrite(A, 0, 7, 8, (1, 2), 1)).claims == ()
