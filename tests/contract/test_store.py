"""The laws of the storage port, over every store there is."""

import hashlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from phalanx.errors import CorruptionError
from phalanx.objects import Created, Exists, Put, Store, Sum, layout
from tests.contract.conftest import Place

LIMIT = 10_000_000


def put(store: Store, name: str, *parts: bytes) -> Put:
    """Create one object."""
    with store.prepare(parts) as blob:
        return blob.put(name)


def names(store: Store, prefix: str, after: str = "", before: str = "") -> list[str]:
    """The names in a listing."""
    return [found.name for found in store.list(prefix, after, before)]


def test_a_put_creates_an_object_once(store: Store) -> None:
    """The first put creates it, every later one is told that it exists and changes nothing."""
    assert put(store, "floor/1", b"first") == Created()
    assert put(store, "floor/1", b"second") == Exists()
    assert put(store, "floor/1", b"first") == Exists()
    assert store.get("floor/1", limit=LIMIT) == b"first"


def test_a_blob_that_lost_a_name_can_take_the_next(store: Store) -> None:
    """The bytes are made ready once, whatever the number of names they are tried under."""
    put(store, layout.entry(7), b"theirs")
    put(store, layout.entry(8), b"theirs")
    with store.prepare([b"ours"]) as blob:
        answers = [blob.put(layout.entry(position)) for position in (7, 8, 9)]
    assert answers == [Exists(), Exists(), Created()]
    assert store.get(layout.entry(9), limit=LIMIT) == b"ours"


def test_what_was_put_stays_after_the_blob_is_let_go(store: Store, place: Place) -> None:
    """Leaving the block lets go of the bytes, not of the object; a blob that was never put leaves nothing."""
    with store.prepare([b"never put"]):
        pass
    put(store, "floor/1", b"put")
    assert place.open().get("floor/1", limit=LIMIT) == b"put"
    assert names(store, "tmp") == []


def test_the_parts_of_a_blob_are_joined(store: Store) -> None:
    """An object holds its parts one after the other."""
    put(store, "floor/1", b"head", b"", b"body", b"tail")
    assert store.get("floor/1", limit=LIMIT) == b"headbodytail"


@pytest.mark.parametrize("size", [0, 1, 65_537, 5_000_000])
def test_an_object_comes_back_as_it_was_put(store: Store, size: int) -> None:
    """Every byte, whatever the size."""
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    assert put(store, "checkpoint/big", data) == Created()
    assert store.get("checkpoint/big", limit=size) == data
    assert [found.size for found in store.list("checkpoint")] == [size]


def test_an_absent_object_is_none(store: Store) -> None:
    """Absence is an answer, not an error, in an empty place and beside other objects."""
    assert store.get(layout.entry(1), limit=LIMIT) is None
    put(store, layout.entry(1), b"x")
    assert store.get(layout.entry(2), limit=LIMIT) is None


def test_many_objects_come_back_in_the_order_asked_for(store: Store) -> None:
    """Order, repetition and absence are kept."""
    for position in range(20):
        put(store, layout.entry(position), str(position).encode())
    asked = [*range(19, -1, -1), 3, 77, 3]
    expected = [str(position).encode() if position < 20 else None for position in asked]
    assert list(store.get_many([layout.entry(position) for position in asked], limit=LIMIT)) == expected
    assert list(store.get_many([], limit=LIMIT)) == []


def test_more_bytes_than_the_limit_are_corruption(store: Store) -> None:
    """An object that is larger than it may be is not read into memory."""
    put(store, "floor/1", b"12345")
    assert store.get("floor/1", limit=5) == b"12345"
    with pytest.raises(CorruptionError, match=r"floor/1.*phalanx check"):
        store.get("floor/1", limit=4)
    with pytest.raises(CorruptionError):
        list(store.get_many(["floor/2", "floor/1"], limit=4))


def test_a_listing_is_in_the_order_of_whole_names(store: Store) -> None:
    """A folder does not come before a name that is less than the folder's name and a slash."""
    there = ["log/a/b/c", "log/a-b", "log/b", "log/a.b", "log/a0", "log/B"]
    for name in there:
        assert put(store, name, b"x") == Created()
    assert names(store, "log") == sorted(there)


def test_a_listing_shows_one_folder_only(store: Store) -> None:
    """A prefix is a folder, not the beginning of a name; what it shows has its full name."""
    for name in ("kept/1", "kept/sub/2", "kept2/3", "kept-4/5", "floor/6"):
        put(store, name, b"x")
    assert names(store, "kept") == ["kept/1", "kept/sub/2"]
    assert names(store, "kept/sub") == ["kept/sub/2"]
    assert names(store, "checkpoint") == []


def test_a_listing_spans_buckets_between_after_and_before(store: Store) -> None:
    """Both ends are excluded, whether they exist or not, and a bucket's end is no end."""
    positions = [997, 998, 999, 1000, 1001, 2000]
    for position in reversed(positions):
        put(store, layout.entry(position), b"x")

    def between(after: int, before: int | None = None) -> list[int | None]:
        end = "" if before is None else layout.entry(before)
        return [layout.entry_position(name) for name in names(store, "log", layout.entry(after), end)]

    assert between(0) == positions
    assert between(998) == [999, 1000, 1001, 2000]
    assert between(999) == [1000, 1001, 2000]
    assert between(1500) == [2000]
    assert between(2000) == []
    assert between(997, 1001) == [998, 999, 1000]
    assert between(998, 999) == []
    assert between(1001, 3000) == [2000]
    assert names(store, layout.bucket(1000)) == [layout.entry(1000), layout.entry(1001)]


def test_deleting_is_idempotent(store: Store) -> None:
    """Names that are absent do not keep others from being deleted, wherever they stand in the list."""
    for position in range(4):
        put(store, layout.entry(position), b"x")
    store.delete([])
    store.delete([layout.entry(9)])
    store.delete(layout.entry(position) for position in (9, 0, 8, 1, 7))
    assert names(store, "log") == [layout.entry(2), layout.entry(3)]
    store.delete([layout.entry(0), layout.entry(2), layout.entry(3)])
    assert names(store, "log") == []
    store.delete([layout.entry(2)])


def test_deleting_many_at_once(store: Store) -> None:
    """Several hundred names, some of which are absent and some given twice: exactly the named ones are gone."""
    for position in range(450, 470):
        put(store, layout.entry(position), b"x")
    store.delete([layout.entry(position) for position in (*range(460), *range(440, 460))])
    assert names(store, "log") == [layout.entry(position) for position in range(460, 470)]


def test_a_deleted_name_is_free_again(store: Store) -> None:
    """A name is taken only while its object exists."""
    put(store, "floor/1", b"old")
    store.delete(["floor/1"])
    assert store.get("floor/1", limit=LIMIT) is None
    assert put(store, "floor/1", b"new") == Created()
    assert store.get("floor/1", limit=LIMIT) == b"new"


def test_only_an_empty_folder_is_removed_and_it_comes_back(store: Store, place: Place) -> None:
    """Removing a folder never removes an object, and is nothing that another store's put could stumble over."""
    other = place.open()
    put(store, layout.entry(1), b"x")
    put(other, layout.entry(2), b"x")
    store.remove_folder(layout.bucket(1))
    assert names(store, "log") == [layout.entry(1), layout.entry(2)]
    store.delete([layout.entry(1), layout.entry(2)])
    store.remove_folder(layout.bucket(1))
    store.remove_folder("never/was")
    put(store, "tables/t/data/1", b"x")
    put(store, "tables/t/_indices/1/2", b"x")
    store.delete(["tables/t/_indices/1/2"])
    store.remove_folder("tables/t")
    assert names(store, "tables") == ["tables/t/data/1"]
    store.delete(["tables/t/data/1"])
    store.remove_folder("tables/t")
    assert names(store, "tables") == []
    assert put(store, "tables/t/data/1", b"x") == Created()
    assert put(other, layout.entry(3), b"x") == Created()
    assert put(store, layout.entry(4), b"x") == Created()


def test_two_stores_in_one_place_show_the_same(store: Store, place: Place) -> None:
    """A name that one took is taken for the other, with blobs of both under way."""
    other = place.open()
    with store.prepare([b"one"]) as one, other.prepare([b"other"]) as another:
        assert one.put("floor/1") == Created()
        assert another.put("floor/1") == Exists()
        assert another.put("floor/2") == Created()
    assert store.get("floor/2", limit=LIMIT) == b"other"
    store.sync(["floor/1", "floor/2"])


def test_the_time_now_is_on_the_clock_of_listings(store: Store) -> None:
    """An object's time stamp lies between the times asked for before and after it was created."""
    before = store.now()
    put(store, "floor/1", b"x")
    after = store.now()
    [found] = store.list("floor")
    assert before <= found.modified <= after
    assert names(store, "tmp") == []


def test_one_of_many_racing_for_a_name_creates_it(store: Store, place: Place) -> None:
    """Of 32 threads exactly one is told that it created the object, and its bytes are there."""
    racers = 32
    start = threading.Barrier(racers)

    def race(name: str, racer: int) -> Put:
        with store.prepare([b"by %d" % racer]) as blob:
            start.wait()
            return blob.put(name)

    with ThreadPoolExecutor(racers) as threads:
        for position in range(20 if place.remote else 50):
            name = layout.entry(position)
            answers = list(threads.map(race, [name] * racers, range(racers)))
            assert Counter(answers) == {Created(): 1, Exists(): racers - 1}
            assert store.get(name, limit=LIMIT) == b"by %d" % answers.index(Created())


def test_the_last_name_of_a_folder_is_its_greatest(store: Store) -> None:
    """Also after deletions, and None where there is nothing."""
    assert store.last("floor") is None
    for position in (7, 300, 25):
        put(store, layout.floor(position), b"x")
    assert store.last("floor") == layout.floor(300)
    store.delete([layout.floor(300)])
    assert store.last("floor") == layout.floor(25)


def test_the_digest_of_an_object_is_that_of_its_bytes(store: Store) -> None:
    """Size and SHA-256; an absent object has none."""
    data = bytes(range(256)) * 40_000
    put(store, "floor/1", data)
    put(store, "floor/2", b"")
    assert store.digest("floor/1") == Sum(len(data), hashlib.sha256(data).digest())
    assert store.digest("floor/2") == Sum(0, hashlib.sha256(b"").digest())
    assert store.digest("floor/3") is None
