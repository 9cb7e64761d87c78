"""What becomes of requests when the network or the server fails between a client and the object store.

Every test asserts that its traffic went through the proxy, and how often: a put is sent once, whatever comes back.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from phalanx.errors import UnavailableError
from phalanx.objects import Created, Exists, Put, Store, Unknown, layout, open_store
from tests.servers import ABANDON, LOSE_ANSWER, REFUSE, RESET_AFTER, RESET_BEFORE, Fault, FaultProxy, Server, proxied

NAME = layout.entry(1)
LIMIT = 100
PATIENCE = 0.4
EVERY_FAULT = [
    REFUSE,
    REFUSE.answering(409),
    REFUSE.answering(500),
    LOSE_ANSWER,
    LOSE_ANSWER.answering(409),
    LOSE_ANSWER.answering(500),
    RESET_BEFORE,
    RESET_AFTER,
    ABANDON.after(0.02),
    Fault("slow", delay=0.02),
]


@pytest.fixture
def store(proxy: FaultProxy, tmp_path: Path) -> Store:
    """A store behind the proxy."""
    return open_store(proxy.server.uri(tmp_path.name), proxy.server.options)


@pytest.fixture
def hasty(proxy: FaultProxy, tmp_path: Path) -> Store:
    """The same store behind the proxy, with so little patience that a busy machine may be too slow for it."""
    return open_store(proxy.server.uri(tmp_path.name), proxy.server.options, timeout=PATIENCE)


@pytest.fixture
def aside(server: Server, tmp_path: Path) -> Store:
    """The same store, past the proxy."""
    return open_store(server.uri(tmp_path.name), server.options)


def put(store: Store, name: str = NAME, data: bytes = b"ours") -> Put:
    """Create one object."""
    with store.prepare([data]) as blob:
        return blob.put(name)


@pytest.mark.parametrize("fault", [RESET_AFTER, LOSE_ANSWER, LOSE_ANSWER.answering(500)])
def test_an_effect_whose_answer_is_lost_is_unknown(proxy: FaultProxy, store: Store, fault: Fault) -> None:
    """The object is there; reading it is how one finds out, and putting again says that it exists."""
    proxy.fail(fault, method="PUT")
    assert isinstance(put(store), Unknown)
    assert proxy.seen("PUT") == [fault.name]
    assert store.get(NAME, limit=LIMIT) == b"ours"
    assert put(store) == Exists()


@pytest.mark.parametrize(
    "fault", [RESET_BEFORE, *(REFUSE.answering(status) for status in (400, 408, 429, 500, 502, 503, 504))]
)
def test_a_put_without_effect_is_unknown_too_and_can_be_repeated(proxy: FaultProxy, store: Store, fault: Fault) -> None:
    """From the answer nobody can tell; the same bytes at the same name are right in any case."""
    proxy.fail(fault, method="PUT")
    assert isinstance(put(store), Unknown)
    assert proxy.seen("PUT") == [fault.name]
    assert store.get(NAME, limit=LIMIT) is None
    assert put(store) == Created()


@pytest.mark.parametrize("status", [409, 412])
@pytest.mark.parametrize("fault", [REFUSE, LOSE_ANSWER])
def test_a_conflict_is_exists_whoever_is_there(proxy: FaultProxy, store: Store, fault: Fault, status: int) -> None:
    """It may be nobody, or ourselves: never a success, and only the slot tells."""
    proxy.fail(fault.answering(status), method="PUT")
    assert put(store) == Exists()
    assert proxy.seen("PUT") == [fault.name]
    assert store.get(NAME, limit=LIMIT) == (b"ours" if fault is LOSE_ANSWER else None)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_put_had_no_effect(proxy: FaultProxy, store: Store, status: int) -> None:
    """No permission, no bucket: the server says that it did nothing."""
    proxy.fail(REFUSE.answering(status), method="PUT")
    with pytest.raises(UnavailableError, match=f"cannot create .*{status}"):
        put(store)
    assert proxy.seen("PUT") == ["refuse"]
    assert put(store) == Created()


def test_an_empty_success_is_no_success(proxy: FaultProxy, store: Store) -> None:
    """A 200 that is not the store's own answer creates nothing."""
    proxy.fail(REFUSE.answering(200), method="PUT")
    assert isinstance(put(store), Unknown)
    assert store.get(NAME, limit=LIMIT) is None


@pytest.mark.parametrize("fault", [ABANDON.after(0.3), Fault("slow", delay=2 * PATIENCE)])
def test_an_effect_may_come_after_the_client_gave_up(
    proxy: FaultProxy, hasty: Store, aside: Store, fault: Fault
) -> None:
    """Absent after an unknown put means not yet, and whoever puts meanwhile is not overwritten."""
    proxy.fail(fault, method="PUT", times=2)
    assert isinstance(put(hasty), Unknown)
    assert aside.get(NAME, limit=LIMIT) is None
    proxy.settle()
    assert aside.get(NAME, limit=LIMIT) == b"ours"

    other = layout.entry(2)
    assert isinstance(put(hasty, other), Unknown)
    assert put(aside, other, b"theirs") == Created()
    proxy.settle()
    assert aside.get(other, limit=LIMIT) == b"theirs"
    assert proxy.seen("PUT") == [fault.name] * 2


READ_FAULTS = [REFUSE, RESET_BEFORE, RESET_AFTER, LOSE_ANSWER.answering(500)]


@pytest.mark.parametrize("fault", READ_FAULTS)
def test_reads_are_repeated(proxy: FaultProxy, store: Store, aside: Store, fault: Fault) -> None:
    """They have no effect that could be had twice."""
    put(aside)
    proxy.fail(fault, times=2)
    assert store.get(NAME, limit=LIMIT) == b"ours"
    proxy.fail(fault, times=2)
    assert [found.name for found in store.list("log")] == [NAME]
    assert proxy.seen() == [fault.name, fault.name, "pass"] * 2


@pytest.mark.parametrize("fault", READ_FAULTS)
def test_a_delete_that_failed_can_be_repeated(proxy: FaultProxy, store: Store, aside: Store, fault: Fault) -> None:
    """A broken connection is told, a server's error is tried again at once; either way the object goes in the end."""
    put(aside)
    proxy.fail(fault)
    if fault.reset:
        with pytest.raises(UnavailableError, match=r"cannot delete .*Connection reset"):
            store.delete([NAME])
    store.delete([NAME])
    assert proxy.seen() == [fault.name, "pass"]
    assert aside.list("log") == []


def test_reads_give_up_in_the_end(proxy: FaultProxy, hasty: Store) -> None:
    """A server that stays broken is told as unavailable, soon."""
    proxy.fail(REFUSE, times=1000)
    start = time.monotonic()
    with pytest.raises(UnavailableError, match=r"cannot read .* 503"):
        hasty.get(NAME, limit=LIMIT)
    assert time.monotonic() - start < 10 * PATIENCE
    assert 1 < len(proxy.seen("GET")) < 10


def test_latency_is_added_to_every_request(proxy: FaultProxy, store: Store) -> None:
    """Requests in parallel share the wait."""
    for position in range(10):
        put(store, layout.entry(position))
    proxy.latency = 0.1
    start = time.monotonic()
    assert list(store.get_many([layout.entry(position) for position in range(10)], limit=LIMIT)) == [b"ours"] * 10
    assert 0.1 <= time.monotonic() - start < 0.9


def test_whatever_happens_on_the_way_an_answer_is_never_wrong(proxy: FaultProxy, store: Store, aside: Store) -> None:
    """Created means that our bytes are there; otherwise nobody else's are, and a healed network tells the rest."""
    proxy.fail_by_chance(seed=7, probability=0.5, faults=EVERY_FAULT, method="PUT")
    answers = {position: put(store, layout.entry(position), b"%d" % position) for position in range(60)}
    proxy.heal()
    proxy.settle()
    found = {position: aside.get(layout.entry(position), limit=LIMIT) for position in answers}
    for position, answer in answers.items():
        assert found[position] in ({b"%d" % position} if answer == Created() else {None, b"%d" % position})
    assert len(proxy.seen("PUT")) == len(answers)
    assert {fault.name for fault in EVERY_FAULT} < set(proxy.seen("PUT"))
    assert {type(answer) for answer in answers.values()} == {Created, Exists, Unknown}


def test_chance_is_repeatable(server: Server) -> None:
    """The same seed does the same to the same requests."""
    seen = []
    for _ in range(2):
        with proxied(server) as proxy:
            proxy.fail_by_chance(seed=3, probability=0.5, faults=[REFUSE, RESET_BEFORE])
            store = open_store(proxy.server.uri("chance"), proxy.server.options)
            for _ in range(20):
                put(store)
            seen.append(proxy.seen("PUT"))
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 3


@pytest.fixture(scope="module")
def long_log(s3_server: Server) -> Iterator[FaultProxy]:
    """A proxy in front of a log that is longer than a page of a listing."""
    store = open_store(s3_server.uri("long"), s3_server.options)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda position: put(store, layout.entry(position)), range(500, 1700)))
    with proxied(s3_server) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("after", "before", "pages"), [(None, None, 2), (500, None, 2), (998, None, 1), (None, 700, 1), (1699, None, 1)]
)
def test_a_listing_goes_over_pages(long_log: FaultProxy, after: int | None, before: int | None, pages: int) -> None:
    """All of them, in order, and no more pages than are needed."""
    store = open_store(long_log.server.uri("long"), long_log.server.options)
    asked = len(long_log.seen("GET", "list-type=2"))
    ends = ["" if end is None else layout.entry(end) for end in (after, before)]
    found = [layout.entry_position(listed.name) for listed in store.list("log", *ends)]
    assert found == list(range(500 if after is None else after + 1, before or 1700))
    assert len(long_log.seen("GET", "list-type=2")) - asked == pages


@pytest.fixture
def gcs() -> Iterator[tuple[FaultProxy, Store]]:
    """A store that speaks Google's protocol to a proxy with nothing behind it."""
    with proxied(Server("gs", "lakes", 9)) as proxy:
        options = {"base_url": proxy.server.endpoint, "bearer_token": "none", "allow_http": "true"}
        yield proxy, open_store("gs://lakes/prefix", options, timeout=PATIENCE)


def test_google_answers_mean_the_same(gcs: tuple[FaultProxy, Store]) -> None:
    """A put that lost is Exists, any other failure is unknown, and each is sent once."""
    proxy, store = gcs
    for status, expected in [(412, Exists), (409, Exists), (503, Unknown), (429, Unknown), (200, Unknown)]:
        proxy.fail(REFUSE.answering(status), method="PUT", path="^/lakes/prefix/log/")
        assert type(put(store)) is expected
    assert proxy.seen() == ["refuse"] * 5


def test_where_deletes_go_one_by_one_an_absent_object_holds_up_no_other(gcs: tuple[FaultProxy, Store]) -> None:
    """Google's protocol has no delete of many, and the client stops at the first that is absent."""
    proxy, store = gcs
    proxy.fail(REFUSE.answering(404), method="DELETE", path="log/1$", times=9)
    proxy.fail(REFUSE.answering(204), method="DELETE", times=999)
    store.delete(["log/1", *(f"log/{number}" for number in range(20, 60))])
    assert all(proxy.seen("DELETE", f"log/{number}$") for number in range(20, 60))
