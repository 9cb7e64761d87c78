"""How others lost rows of tables, or brought them back (docs/known-bugs.md, numbers 17, 19-22 and 39).

Each is arranged here, and nothing is lost; where it can be done, a planted version of the mistake is found.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import LanceOperation

import phalanx
from phalanx.errors import ConflictError
from phalanx.lake import Lake
from phalanx.runs import NO_IDS
from phalanx.tables import rewrite
from phalanx.tables.dataset import Datasets, Ids, Version
from phalanx.tail import apply
from phalanx.transaction import Transaction
from phalanx.txn import draft, touched
from phalanx.txn.touched import Footprint

IDS = {"id": list(range(8)), "v": list(range(8))}
NAMES = {"t": (), "k": "id"}

Rows = list[tuple[int, int]]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with a table without a key and one with, each of two fragments."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.set_property("flush.background", "off")
        for name in NAMES:
            begin(made, name)
        yield made


def begin(lake: Lake, name: str) -> None:
    """Make a table anew."""
    if name in lake.tables():
        lake.drop_table(name)
    lake.create_table(name, pa.table({"id": IDS["id"][:4], "v": IDS["v"][:4]}), key=NAMES[name])
    lake.flush(name)
    lake[name].append({"id": IDS["id"][4:], "v": IDS["v"][4:]})
    lake.flush(name)


@pytest.fixture
def other(lake: Lake) -> Iterator[Lake]:
    """Another handle on it."""
    with phalanx.open(lake.uri) as opened:
        yield opened


def held(lake: Lake, name: str) -> Rows:
    found = lake[name].to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def written_out(lake: Lake, name: str) -> Rows:
    """What a table holds after a flush and a rewrite, seen by a handle that opens it then."""
    lake.flush(name)
    lake.optimize(name)
    with phalanx.open(lake.uri) as fresh:
        assert fresh.check().whole
        return held(fresh, name)


MEANWHILE: dict[str, Callable[[Any], object]] = {
    "a delete": lambda table: table.delete("id = 3 or id = 6"),
    "an update": lambda table: table.update({"v": "v + 100"}, "id = 3"),
    "an overwrite": lambda table: table.overwrite({"id": [3], "v": [50]}),
    "a staged overwrite": lambda table: table.overwrite({"id": [3], "v": [50]}, stage=True),
    "an upsert": lambda table: table.append({"id": [3, 30], "v": [33, 30]}),
    "a staged upsert": lambda table: table.append({"id": [3, 30], "v": [33, 30]}, stage=True),
}


def meant(what: str, name: str, rows: Rows) -> Rows:
    """What it makes of rows."""
    if what == "a delete":
        return [row for row in rows if row[0] not in {3, 6}]
    if what == "an update":
        return sorted((key, v + 100 if key == 3 else v) for key, v in rows)
    if what.endswith("overwrite"):
        return [(3, 50)]
    kept = [row for row in rows if row[0] not in {3, 30}] if name == "k" else rows
    return sorted([*kept, (3, 33), (30, 30)])


def rewrite_while(lake: Lake, window: str, meanwhile: Callable[[], None]) -> None:
    """Optimize table by table; in one window of the first rewrite something else happens."""
    run, place = rewrite.run, rewrite.place
    waiting = [meanwhile]

    def at(where: str) -> None:
        if where == window and waiting:
            waiting.pop()()

    def running(*arguments: Any) -> rewrite.Rewritten:
        at("planned")
        done = run(*arguments)
        at("written")
        return done

    def placing(*arguments: Any) -> Version | None:
        done = place(*arguments)
        at("placed")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "run", running)
        patch.setattr(rewrite, "place", placing)
        for name in NAMES:
            lake.optimize(name)
    assert not waiting


def rewrite_against(lake: Lake, other: Lake, what: str, window: str, *, flushed: bool) -> None:
    expected = {name: meant(what, name, held(lake, name)) for name in NAMES}

    def meanwhile() -> None:
        for name in NAMES:
            MEANWHILE[what](other[name])
            if flushed:
                other.flush(name)

    rewrite_while(lake, window, meanwhile)
    for name in NAMES:
        assert held(lake, name) == held(other, name) == expected[name], "the rows after a rewrite"
        assert written_out(other, name) == expected[name]


@pytest.mark.parametrize("window", ["planned", "written", "placed"])
@pytest.mark.parametrize("what", MEANWHILE)
def test_17_what_lands_during_a_rewrite_outlives_it(lake: Lake, other: Lake, what: str, window: str) -> None:
    """Known bug 17: a rewrite is planned, rows are deleted and replaced, it is finished: they stay so."""
    rewrite_against(lake, other, what, window, flushed=window != "planned")


def test_17_would_be_found_if_a_rewrite_did_not_look_what_was_deleted_since(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the rewritten fragments take the place of the old ones as they were written."""
    monkeypatch.setattr(rewrite, "hide", lambda _, made, __: made)
    with pytest.raises(AssertionError, match="the rows after a rewrite"):
        rewrite_against(lake, other, "a delete", "written", flushed=True)


def place_rows(lake: Lake, name: str, where: int) -> None:
    """The same eight rows: all in the head, half of them in the tail, or half of them staged over a tail."""
    begin(lake, name)
    if where:
        lake[name].overwrite({"id": IDS["id"][:4], "v": IDS["v"][:4]})
        lake[name].append({"id": IDS["id"][4:], "v": IDS["v"][4:]}, stage=where == 2)


ACTS = {**MEANWHILE, "a drop": None}


def act(txn: Transaction, name: str, what: str) -> None:
    change = ACTS[what]
    if change is None:
        txn.drop_table(name)
    else:
        change(txn[name])


def refused(name: str, first: str, second: str) -> bool:
    """Whether the second to commit must be refused: not if one of them only adds rows, as any append without a key."""
    if first == "a drop":
        return True
    if name == "t" and "upsert" in second:
        return False
    return name == "k" or "upsert" not in first or "overwrite" in second or second == "a drop"


def both_orders(lake: Lake, name: str, first: str, second: str, *, flushed: bool) -> None:
    """Two transactions that saw the same: the first to commit wins, the other changes nothing, or both count."""
    before = held(lake, name)
    winner, loser = lake.transaction(), lake.transaction()
    assert winner.snapshot_version == loser.snapshot_version
    act(winner, name, first)
    act(loser, name, second)
    winner.commit()
    if flushed and first != "a drop":
        lake.flush(name)
    stopped = lost(loser)
    assert stopped == refused(name, first, second), f"{second} was {'' if stopped else 'not '}stopped by {first}"
    if first == "a drop":
        assert name not in lake.tables()
        return
    after = meant(first, name, before)
    if not stopped:
        adder, changer = (second, first) if "upsert" in second else (first, second)
        after = sorted([*meant(changer, name, before), *meant(adder, name, [])])
    assert held(lake, name) == after, f"the rows that {first} and {second} left"


def lost(txn: Transaction) -> bool:
    try:
        txn.commit()
    except ConflictError:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_19_of_two_transactions_that_touch_a_row_one_is_refused(lake: Lake, name: str) -> None:
    """Known bug 19: every change against every change, in both orders, wherever the rows are."""
    for number, (first, second) in enumerate(itertools.product(ACTS, ACTS)):
        place_rows(lake, name, number % 3)
        both_orders(lake, name, first, second, flushed=number % 2 == 1)


def test_19_would_be_found_if_deletes_were_not_compared(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: identities that both delete are not looked at."""
    monkeypatch.setattr(touched._Looked, "hit", lambda *_: None)
    with pytest.raises(AssertionError, match="a delete was not stopped by a delete"):
        both_orders(lake, "t", "a delete", "a delete", flushed=False)


def overwrites_and_appends(lake: Lake, seed: int) -> int:
    """A random history of overwrites in transactions beside appends: none removes what it did not see."""
    chance = random.Random(seed)
    lake.drop_table("t")
    lake.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    now: Rows = []
    changes = stops = 0
    begun: list[tuple[int, Rows, Transaction]] = []
    for number in range(60):
        step, stage = (
            chance.choice(["append", "append", "begin", "begin", "commit", "commit", "flush"]),
            chance.random() < 0.3,
        )
        if step == "append":
            lake["t"].append({"id": [number], "v": [seed]}, stage=stage)
            now, changes = sorted([*now, (number, seed)]), changes + 1
        elif step == "begin":
            txn = lake.transaction()
            seen = txn["t"].to_arrow().to_pylist()
            wanted = [*seen, {"id": number, "v": seed}]
            txn["t"].overwrite(wanted, stage=stage)
            begun.append((changes, sorted((row["id"], row["v"]) for row in wanted), txn))
        elif step == "commit" and begun:
            since, wanted_rows, txn = begun.pop(chance.randrange(len(begun)))
            stopped = lost(txn)
            assert stopped == (changes > since), f"seed {seed}, step {number}: rows were removed that were not seen"
            stops += stopped
            if not stopped:
                now, changes = wanted_rows, changes + 1
        elif step == "flush":
            lake.flush("t")
        assert held(lake, "t") == now, f"seed {seed}, step {number}"
    return stops


@pytest.mark.parametrize("seed", range(2))
def test_20_an_overwrite_never_removes_rows_that_it_did_not_see(lake: Lake, seed: int) -> None:
    """Known bug 20: a history of overwrites and appends is checked step by step; the seed is in the test's name."""
    assert overwrites_and_appends(lake, seed) > 3


def test_20_would_be_found_if_an_overwrite_touched_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: an overwrite in a transaction does not count as touching the table."""
    monkeypatch.setattr(draft.Draft, "footprint", lambda self: Footprint(self.found, self.base))
    with pytest.raises(AssertionError, match="rows were removed that were not seen"):
        overwrites_and_appends(lake, 0)


def upsert_twice(lake: Lake, other: Lake) -> None:
    """While one stages rows of new keys, another lands rows of the same keys, large and small; then small ones on top."""

    def meanwhile(_: int) -> None:
        other["k"].upsert({"id": [3, 90, 92], "v": [2, 2, 2]}, stage=True)
        other["k"].upsert({"id": [93], "v": [2]})

    lake["k"].upsert({"id": [3, 90, 91, 93], "v": [1, 1, 1, 1]}, stage=True, progress=meanwhile)
    other["k"].upsert({"id": [91, 4], "v": [3, 3]})
    found = held(lake, "k")
    assert [key for key, _ in found] == [*range(8), 90, 91, 92, 93], "the keys of two upserts"
    assert dict(found) == {**dict(zip(IDS["id"], IDS["v"], strict=True)), 3: 1, 4: 3, 90: 1, 91: 3, 92: 2, 93: 1}
    assert written_out(lake, "k") == found


def test_21_two_upserts_of_one_new_key_leave_one_row(lake: Lake, other: Lake) -> None:
    """Known bug 21: whichever was staged on what, keys stay unique and the last to land counts."""
    upsert_twice(lake, other)


@pytest.mark.parametrize("planted", ["staged", "logged"])
def test_21_would_be_found_if_keys_were_not_matched(
    lake: Lake, other: Lake, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a staged upsert hides no row; a logged one hides none on disk."""
    if planted == "staged":
        monkeypatch.setattr(apply._Work, "_replace", lambda *_: None)
    else:
        monkeypatch.setattr(apply._Work, "_by_keys", lambda *_: (NO_IDS, NO_IDS))
    with pytest.raises(AssertionError, match="the keys of two upserts"):
        upsert_twice(lake, other)


def compact_often(lake: Lake, seed: int) -> None:
    """Random changes by key, with a flush or a rewrite after each few; compared with a dictionary every time."""
    chance = random.Random(seed)
    model = dict(held(lake, "k"))
    for number in range(40):
        chosen = chance.sample(range(12), 3)
        step = chance.choice(["delete", "delete", "upsert", "staged", "flush", "optimize", "optimize"])
        if step == "delete":
            lake["k"].delete(f"id = {chosen[0]} or id = {chosen[1]}")
            model.pop(chosen[0], None)
            model.pop(chosen[1], None)
        elif step in {"upsert", "staged"}:
            lake["k"].upsert({"id": chosen, "v": [number] * 3}, stage=step == "staged")
            model |= dict.fromkeys(chosen, number)
        elif step == "flush":
            lake.flush("k")
        else:
            lake.optimize("k")
        assert held(lake, "k") == sorted(model.items()), f"seed {seed}, step {number}: {step}"


@pytest.mark.parametrize("seed", range(2))
def test_22_no_deleted_key_comes_back_with_a_rewrite(lake: Lake, seed: int) -> None:
    """Known bug 22: compared with a dictionary after every change, flush and rewrite; the seed is in the test's name."""
    compact_often(lake, seed)


ON_ONE_FRAGMENT: dict[str, Callable[..., object]] = {
    "delete 1": lambda table, **_: table.delete("id = 1"),
    "delete 2": lambda table, **_: table.delete("id = 2"),
    "merge 3": lambda table, **options: table.upsert({"id": [3], "v": [30]}, stage=True, **options),
    "merge 0": lambda table, **options: table.upsert({"id": [0], "v": [0]}, stage=True, **options),
}


def delete_and_merge(lake: Lake, other: Lake, order: tuple[str, ...], *, flushed: bool) -> None:
    """Changes of one fragment in this order; each merge was staged before what lands ahead of it."""

    def run(changes: tuple[str, ...], here: Lake, there: Lake) -> None:
        if changes:
            *ahead, last = changes
            todo = [lambda: run(tuple(ahead), there, here)]
            if last.startswith("delete"):
                todo.pop()()
            ON_ONE_FRAGMENT[last](here["k"], progress=lambda _: todo.pop()() if todo else None)
            if flushed:
                here.flush("k")

    run(order, lake, other)
    expected = sorted({**dict(held_at_first()), 3: 30}.items())
    assert held(lake, "k") == held(other, "k") == expected, "the rows of one fragment"
    lake.flush("k")
    assert held(lake, "k") == expected, "the rows of one fragment"


def held_at_first() -> Rows:
    """Without what is deleted."""
    return [row for row in zip(IDS["id"], IDS["v"], strict=True) if row[0] not in {1, 2}]


@pytest.mark.parametrize("flushed", [False, True], ids=["in the tail", "flushed each"])
def test_39_no_deletion_of_one_fragment_replaces_another(lake: Lake, other: Lake, *, flushed: bool) -> None:
    """Known bug 39: two deletes and two merges on one fragment, in every order, staged before or after each other."""
    for order in itertools.permutations(ON_ONE_FRAGMENT):
        begin(lake, "k")
        delete_and_merge(lake, other, order, flushed=flushed)
    assert written_out(lake, "k") == sorted({**dict(held_at_first()), 3: 30}.items())


def test_39_would_be_found_if_rows_were_hidden_on_a_stale_base(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the deletion file is worked out on the table's first version, and committed on the newest."""
    table = lake["k"].id
    first = lake._core.datasets.open(table, lake.refresh().state.contents[table].head.manifest)

    def stale(datasets: Datasets, base: Version, row_ids: Ids, dropped: Any = ()) -> Version:
        addresses = base.addresses(row_ids)
        owners = addresses >> 32
        updated = []
        for fragment in np.unique(owners).tolist():
            source = first if fragment in first.fragments else base
            updated.append(source.fragment(fragment).delete_rows((addresses[owners == fragment] & 0xFFFFFFFF).tolist()))
        return datasets.commit(base, LanceOperation.Delete(updated, list(dropped), ""))

    monkeypatch.setattr("phalanx.tail.writeout.hide", stale)
    with pytest.raises(AssertionError, match="the rows of one fragment"):
        delete_and_merge(lake, other, ("delete 1", "delete 2", "merge 3"), flushed=True)
