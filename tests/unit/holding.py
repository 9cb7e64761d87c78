"""Tables and items to try on them: what the tests of a table's contents begin with."""

import msgspec
import numpy as np

from phalanx.contents import Contents, created, land
from phalanx.log import item as it
from phalanx.log.entry import Landing
from phalanx.runs import encode_ids
from phalanx.versions import Landed
from phalanx.waiting import Weight, weigh

A = "a" * 32
NUMBERS = encode_ids(np.array([-3, -1, 5], dtype=np.int64))
PAYLOADS = (b"rows", b"keys", NUMBERS, b"hidden", b"of another table")
INLINE = it.Inline(0, 3)
FIRST = it.Layout(0, b"s", ("a",))
ITEMS: list[tuple[it.Waiting, tuple[bytes, ...], Weight]] = [
    # an item, the payloads it brought among PAYLOADS, and what it weighs
    (it.Put(A, INLINE), (b"rows",), Weight(3, 4, 0)),
    (it.Upsert(A, INLINE), (b"rows",), Weight(3, 4, 0)),
    (it.Overwrite(A, INLINE), (b"rows",), Weight(3, 4, 0)),
    (it.DeleteKeys(A, 1, 2), (b"keys",), Weight(2, 4, 0)),
    (it.DeleteRows(A, 2, 3), (NUMBERS,), Weight(3, len(NUMBERS), 0)),
    (it.DeleteWhere(A, "a > 1"), (), Weight(0, 5, 1)),
    (it.UpdateWhere(A, (("a", "1"),), "a > 10"), (), Weight(0, 6, 1)),
    (it.UpdateWhere(A, (("a", "1"),), None), (), Weight(0, 0, 1)),
]


def alter(layout: int, *steps: it.Step) -> it.Alter:
    return it.Alter(A, 0, it.Layout(layout, b"t", ("a",), steps))


def staged(base: int = 0, generation: int = 0, *, whole: bool = True, dead: int | None = None) -> it.Staged:
    return it.Staged(77, 4, 2, 50, base, generation, 0, 50, whole, dead)


ITEMS += [
    (it.Put(A, staged(whole=False)), (), Weight(0, 0, 1)),
    (it.Overwrite(A, staged(whole=False, dead=2)), (NUMBERS,), Weight(0, 0, 1)),
    (it.Upsert(A, staged(whole=False), 3), (b"hidden",), Weight(0, 0, 1)),
    (it.Upsert(A, staged(whole=False, dead=2), 3, True), (NUMBERS, b"hidden"), Weight(0, 0, 1)),
    (alter(5, it.AddColumn(b"f", "1")), (), Weight(0, 0, 1)),
    (alter(6, it.DropColumn("b")), (), Weight(0, 0, 1)),
]
INDEXES = (
    it.Index("i", "b", "btree", {}, 3),
    it.Index("j", "c", "bitmap", {"n": 1}, 4),
    it.Index("k", "b", "inverted", {}, 5),
)


def at(position: int, place: int = 0) -> Landing:
    return Landing(position, place, PAYLOADS)


def new(position: int = 1, place: int = 0) -> Contents:
    """A table that was just created, and stands on version 9 of its dataset."""
    return created(Landing(position, place), 9, FIRST)


def table(*items: it.Waiting, generation: int = 0) -> Contents:
    """A table that was created at 1 and got these items, each at a position of its own from 2 on."""
    contents = msgspec.structs.replace(new(), generation=generation)
    for position, item in enumerate(items, start=2):
        contents = land(contents, at(position), item)
    return contents


def restoring(*layouts: it.Layout, indexes: tuple[it.Index, ...] = ()) -> it.Restore:
    return it.Restore(A, 3, 11, 7, layouts or (FIRST,), indexes)


def total(contents: Contents) -> Weight:
    """The weight of a tail, added up."""
    weight = Weight()
    for pending in contents.pending():
        weight = weight.plus(weigh(pending))
    return weight


def landed(contents: Contents) -> list[Landed]:
    """The versions of a table, and where each landed."""
    return list(contents.versions.oldest_first())
