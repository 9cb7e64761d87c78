"""Errors: a tree by what the caller does next, and what each of them says about the change that was asked for."""

import re
from collections.abc import Callable

import pytest

import phalanx
from phalanx import errors
from phalanx.clock import SYSTEM
from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    DeadlineError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    SnapshotExpiredError,
    StateError,
    UnavailableError,
)
from phalanx.lake import Lake, join
from phalanx.log import action as do
from phalanx.log.action import Settings
from phalanx.objects.memory import MemoryStore
from phalanx.testing import Fault, FaultyStore


def every_error() -> dict[str, type[PhalanxError]]:
    return {name: found for name, found in vars(errors).items() if isinstance(found, type)}


def drawn() -> dict[str, str]:
    """Each error of the tree in the module's head, with its parent there."""
    parents: list[str] = []
    found = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:[│ ]   )*)([├└]── )?(\w+Error)\b(?:\s+(\S.*))?$", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + bool(match[2])
        assert depth == 0 or match[4], f"{match[3]} does not say what to do next"
        parents[depth:] = [match[3]]
        found[match[3]] = parents[depth - 1] if depth else "Exception"
    return found


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    """Nothing undocumented, nothing invented, and each under its parent."""
    assert drawn() == {name: found.__bases__[0].__name__ for name, found in every_error().items()}


def test_users_find_every_error_at_the_top() -> None:
    """`phalanx.ConflictError` is what one catches."""
    for name, found in every_error().items():
        assert getattr(phalanx, name) is found
        assert name in phalanx.__all__
        assert found.__doc__


def test_only_an_unknown_outcome_is_unknown() -> None:
    """Every other error means that the change is certainly not in the log."""
    known = {found: found("x").committed for found in every_error().values()}
    assert [found for found, committed in known.items() if committed is None] == [CommitUnknownError]
    assert all(committed is False for found, committed in known.items() if found is not CommitUnknownError)


def small_lake() -> tuple[Lake, FaultyStore]:
    store = FaultyStore(MemoryStore(), lambda *_: None)
    lake = join(store, SYSTEM, Settings(), timeout=5)
    lake.create_namespace("n")
    lake.record_progress("feed", 4, expected=None)
    return lake, store


RAISED: list[tuple[type[PhalanxError], Callable[[Lake], object]]] = [
    (ConflictError, lambda lake: lake.record_progress("feed", 9, expected=5)),
    (NotFoundError, lambda lake: lake.untag("none")),
    (AlreadyExistsError, lambda lake: lake.create_namespace("n")),
    (InvalidInputError, lambda lake: lake.tag("a/b")),
    (DeadlineError, lambda lake: lake.commit([], timeout=0)),
    (StateError, lambda lake: [lake.create_namespace("n.m"), lake.drop_namespace("n")]),
]


@pytest.mark.parametrize(("kind", "change"), RAISED)
def test_an_error_says_that_the_change_is_not_committed(
    kind: type[PhalanxError], change: Callable[[Lake], object]
) -> None:
    """And it is not: the log holds nothing of it, then or later."""
    lake, _ = small_lake()
    with pytest.raises(kind) as caught:
        change(lake)
    assert caught.value.committed is False
    assert lake.version == 3 + (kind is StateError)
    assert str(caught.value).isprintable()


def test_a_put_that_was_refused_is_not_committed() -> None:
    """Disk full, permission denied: certainly no effect, and the next one may land."""
    lake, store = small_lake()
    store.plan = lambda call, _: Fault.REFUSED if call == "put" else None
    with pytest.raises(UnavailableError) as caught:
        lake.commit([], note="refused")
    assert caught.value.committed is False
    store.plan = lambda *_: None
    assert lake.commit([]) == 4
    assert "refused" not in [commit.note for commit in lake.log()]


@pytest.mark.parametrize("later", [False, True])
def test_an_unknown_outcome_says_that_it_is_unknown(later: bool) -> None:
    """I4: and it is: it may land after the error was raised, or never."""
    lake, store = small_lake()
    store.plan = lambda call, _: Fault.LATE if call == "put" else None
    with pytest.raises(CommitUnknownError, match="look at the log before you repeat it") as caught:
        lake.commit([do.SetProperty("k", "v")], timeout=0.1)
    assert caught.value.committed is None
    store.plan = lambda *_: None
    if later:
        store.land_late_puts()
    assert lake.properties() == ({"k": "v"} if later else {})


def test_what_is_no_longer_kept_is_a_state_of_the_lake() -> None:
    """A caller that handles `StateError` handles an expired snapshot too, and one that backs off a deadline."""
    assert issubclass(SnapshotExpiredError, StateError)
    assert issubclass(DeadlineError, UnavailableError)


WRONG: list[tuple[str, Callable[[Lake], object]]] = [
    ("a path as a tag", lambda lake: lake.tag("../x")),
    ("an empty tag", lambda lake: lake.tag("")),
    ("a tag of too many characters", lambda lake: lake.tag(".".join(["x" * 100] * 3))),
    ("a tag of a version to come", lambda lake: lake.tag("x", version=99)),
    ("a version that is none", lambda lake: lake.tag("x", version=-1)),
    ("an empty property", lambda lake: lake.set_property("", "v")),
    ("a property that is no text", lambda lake: lake.set_property("k", 5)),  # type: ignore[arg-type]
    ("a property of an object", lambda lake: lake.set_property("k", object())),  # type: ignore[arg-type]
    ("a property that is too long", lambda lake: lake.set_property("k", "x" * 70_000)),
    ("a property that is not UTF-8", lambda lake: lake.set_property("k", "\udcff")),
    ("a namespace with a slash", lambda lake: lake.create_namespace("a/b")),
    ("a namespace property of None", lambda lake: lake.create_namespace("a", {"k": None})),  # type: ignore[dict-item]
    ("a namespace property without a name", lambda lake: lake.create_namespace("a", {"": "v"})),
    ("too many parts", lambda lake: lake.create_namespace(".".join("abcdefghijklmnopq"))),
    ("dropping a bad name", lambda lake: lake.drop_namespace("..")),
    ("listing a bad name", lambda lake: lake.tables("a..b")),
    ("a bad table name", lambda lake: lake.drop_table("/etc/passwd")),
    ("progress beyond 64 bits", lambda lake: lake.record_progress("s", 1 << 63, expected=None)),
    ("progress far beyond 64 bits", lambda lake: lake.record_progress("s", 1 << 80, expected=None)),
    ("progress that is no number", lambda lake: lake.record_progress("s", "7", expected=None)),  # type: ignore[arg-type]
    ("a source that is too long", lambda lake: lake.record_progress("s" * 70_000, 1, expected=None)),
    ("a note that is too long", lambda lake: lake.commit([], note="x" * 70_000)),
    ("a note that is no text", lambda lake: lake.commit([], note=5)),  # type: ignore[arg-type]
    ("an action that is none", lambda lake: lake.commit(["drop everything"])),  # type: ignore[list-item]
    ("a class for an action", lambda lake: lake.commit([do.Untag])),  # type: ignore[list-item]
    ("a table whose id is a path", lambda lake: lake.commit([do.CreateTable(("t",), "../x", {})])),
    ("founding it again", lambda lake: lake.commit([do.Found(do.Settings())])),
]


@pytest.mark.parametrize("wrong", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_input_is_refused_before_anything_is_written(wrong: Callable[[Lake], object]) -> None:
    """With an error of ours that says so, and the lake is what it was."""
    lake, _ = small_lake()
    with pytest.raises((InvalidInputError, NotFoundError, AlreadyExistsError)) as caught:
        wrong(lake)
    assert caught.value.committed is False
    assert lake.version == 3
    assert lake.commit([]) == 4
