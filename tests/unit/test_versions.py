"""Where each version of a table landed: the same as a plain list, at a few bytes for each."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phalanx.versions import Landed, Versions

PAGE = 128
HIGH = (1 << 63) - 1


def listed(steps: list[tuple[int, int, int]], first: int = 1) -> list[Landed]:
    """Versions, each so far behind the one before: of a version and of a position; and its place."""
    found: list[Landed] = []
    version, position = first - 1, 0
    for jump, step, place in steps:
        version, position = version + 1 + jump, position + step
        found.append(Landed(version, position, place))
    return found


def added(landed: list[Landed]) -> Versions:
    versions = Versions()
    for one in landed:
        versions = versions.add(one.version, one.position, one.place)
    return versions


def stored(versions: Versions) -> Versions:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(versions), type=Versions)


def agree(versions: Versions, landed: list[Landed]) -> None:
    """Everything that can be asked, around everything that is there."""
    assert list(versions.oldest_first()) == landed
    assert list(versions.newest_first()) == landed[::-1]
    assert (versions.last, versions.position) == ((landed[-1].version, landed[-1].position) if landed else (0, 0))
    numbers = sorted({0, 1, HIGH, *(one.version + off for one in landed for off in (-1, 0, 1))})
    positions = sorted({0, HIGH, *(max(0, one.position + off) for one in landed for off in (-1, 0, 1))})
    by_version = {one.version: one for one in landed}
    for number in numbers:
        assert versions.of(number) == by_version.get(number)
    held, behind = None, iter([*landed, None])
    following = next(behind)
    for position in positions:
        while following is not None and following.position <= position:
            held, following = following, next(behind)
        assert versions.at(position) == held
    for number in numbers[:: max(1, len(numbers) // 40)]:
        assert list(versions.newest_first(number)) == [one for one in landed[::-1] if one.version < number]
        assert list(versions.oldest_first(number)) == [one for one in landed if one.version > number]


# Mostly the next version at one of the next positions; now and then at the same one, far away, or after a jump.
jumps = st.one_of(st.just(0), st.just(0), st.just(0), st.integers(0, 3), st.integers(0, 1 << 40))
gaps = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 3), st.integers(100, 300), st.integers(0, 1 << 40))
places = st.one_of(st.integers(0, 3), st.integers(0, 1 << 20))
changes = st.lists(st.tuples(jumps, gaps, places), max_size=60)
runs = st.lists(
    st.tuples(jumps, gaps, places, st.integers(1, 300)).map(
        lambda run: [(run[0], run[1], run[2]), *[(0, run[1] % 3, (run[2] + n) % 200) for n in range(run[3])]]
    ),
    max_size=4,
).map(lambda parts: [step for part in parts for step in part])


@settings(deadline=None)
@given(changes, st.integers(1, 3))
@example([(0, 5, 0), (0, 0, 1), (0, 0, 7), (0, 1, 0)], 1)
@example([(4, 1, 0), (0, 1, 0), (300, 0, 1)], 1)
def test_versions_are_what_a_list_would_be(steps: list[tuple[int, int, int]], first: int) -> None:
    """By number, by position and in both orders; several of one position, and numbers that jump."""
    landed = listed(steps, first)
    agree(added(landed), landed)
    agree(stored(added(landed)), landed)


@settings(max_examples=40, deadline=None)
@given(runs)
@example([(0, 1, 0)] * PAGE)
@example([(0, 1, 0)] * (PAGE + 1))
@example([(0, 0, n) for n in range(3 * PAGE)])
@example([(0, 1, 0)] * (PAGE - 1) + [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 1, 0)])
@example([(0, 1, 0)] * PAGE + [(5, 0, 1)] + [(0, 1, 0)] * PAGE)
def test_long_lists_are_what_lists_would_be(steps: list[tuple[int, int, int]]) -> None:
    """Over many pages, wherever one ends: also between versions of one position, and at a jump."""
    landed = listed(steps)
    versions = added(landed)
    agree(versions, landed)
    assert stored(versions) == versions
    assert msgspec.msgpack.encode(stored(versions)) == msgspec.msgpack.encode(versions)


@settings(max_examples=50, deadline=None)
@given(changes, changes, st.sampled_from([0, 1, PAGE - 2, PAGE - 1, PAGE]))
def test_whoever_adds_one_leaves_the_list_as_it_was(
    steps: list[tuple[int, int, int]], more: list[tuple[int, int, int]], plain: int
) -> None:
    """Two lists that go on from one do not meet, whether it was stored in between or not."""
    landed = listed([(0, 1, 0)] * plain + steps)
    common = added(landed)
    for versions in (common, stored(common)):
        grown, behind = versions, list(landed)
        for jump, gap, place in more:
            behind.append(Landed(grown.last + 1 + jump, grown.position + gap, place))
            grown = grown.add(behind[-1].version, behind[-1].position, place)
        assert list(grown.oldest_first()) == behind
        assert list(versions.oldest_first()) == landed
        other = versions.add(versions.last + 1, versions.position + 7, 3)
        assert list(other.oldest_first()) == [*landed, Landed(versions.last + 1, versions.position + 7, 3)]
        assert list(grown.oldest_first()) == behind
    assert added(landed) == common


def test_there_is_nothing_in_an_empty_list() -> None:
    """Neither by number nor by position."""
    agree(Versions(), [])
    agree(stored(Versions()), [])


@pytest.mark.parametrize("first", [1, 2, 1 << 40])
def test_numbers_need_not_begin_with_one(first: int) -> None:
    """A table that was dropped and brought back goes on behind its last version."""
    landed = listed([(0, 9, 4), (0, 0, 5)], first)
    agree(added(landed), landed)


def test_versions_that_follow_each_other_are_small() -> None:
    """I11: two bytes for each, and closed pages are shared by all lists since."""
    versions = added(listed([(0, 1, n % 100) for n in range(10_000)]))
    assert len(msgspec.msgpack.encode(versions)) < 25_000
    more = versions.add(10_001, 10_001, 0)
    assert all(one is other for one, other in zip(versions.closed, more.closed, strict=False))
    assert len(more.closed) == 10_000 // PAGE
