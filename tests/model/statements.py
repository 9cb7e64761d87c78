"""One statement, in the model's words and in the lake's."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tests.model.steps import Do
from tests.model.words import CHANGES, CONDITIONS, NAMES, Row, said
from tests.model.world import Held, Private, Refused, World


def rows_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as the lake takes them."""
    return [dict(zip(NAMES, (*row[:-1], row[-1] and list(row[-1])), strict=True)) for row in rows]


def resolved(held: Held, do: Do) -> bool:
    """Whether a statement on its own is resolved on a snapshot: it checks keys, changes them, or may fail on a row."""
    if do.what == "insert":
        return True
    if do.what not in {"delete", "update"}:
        return False
    fallible = do.where is not None and CONDITIONS[do.where].fallible
    if do.what == "delete":
        return fallible
    change = CHANGES[do.change]
    return fallible or any(words.fallible or name in held.key for name, words in change)


def plainly(held: Held, do: Do) -> set[Hashable]:
    """Do it to the model; what was touched."""
    where = None if do.where is None else CONDITIONS[do.where]
    if do.what == "delete":
        assert where is not None
        return held.delete(where, do.n, do.m)
    if do.what == "update":
        return held.update(CHANGES[do.change], where, do.n, do.m)
    if do.what == "insert":
        return held.insert(do.rows)
    if do.what == "overwrite":
        return held.overwrite(do.rows)
    if do.what == "upsert" and not held.key:
        raise Refused("InvalidInputError")
    return held.put(do.rows)


def really(table: Any, do: Do) -> Any:
    """Do it to a table of the lake, or inside a transaction."""
    where = None if do.where is None else said(CONDITIONS[do.where], do.n, do.m)
    if do.what == "delete":
        return table.delete(where)
    if do.what == "update":
        return table.update({name: said(words, do.n, do.m) for name, words in CHANGES[do.change]}, where)
    if do.what == "insert":
        return table.insert(rows_of(do.rows))
    return getattr(table, do.what)(rows_of(do.rows), stage=do.stage)


def filled(key: tuple[str, ...], rows: Sequence[Row]) -> Held:
    """A new table with rows."""
    held = Held(key)
    held.put(rows)
    return held


def landing(identity: int, do: Do) -> Callable[[World, int], None]:
    """What a statement on its own does where it lands, whenever it was begun."""

    def land(world: World, position: int) -> None:
        held = world.by_identity(identity)
        if held is None:
            raise Refused("NotFoundError")
        held.log.append((position, frozenset(plainly(held, do))))

    return land


def inside(private: Private, name: str, do: Do) -> None:
    """Do it in a transaction."""
    held = private.world.tables[name]
    private.touch(held, plainly(held, do), whole=do.what == "overwrite")


def retried(
    world: World, began: int, find: Callable[[World], Held | None], done: Sequence[Do]
) -> Callable[[World, int], None]:
    """What a transaction does that is run again on a newer snapshot if others came first."""
    first = Private(world, began)

    def run(private: Private) -> None:
        for do in done:
            held = find(private.world)
            if held is None:
                raise Refused("NotFoundError")
            private.touch(held, plainly(held, do), whole=do.what == "overwrite")

    def land(now: World, position: int) -> None:
        run(first)
        try:
            first.land(now, position)
        except Refused as refused:
            if str(refused) != "ConflictError":
                raise
            again = Private(now, position - 1)
            run(again)
            again.land(now, position)

    return land
