"""Steps as data: what a run does, drawn from a seed. Any step makes sense in any state, so a run can be shortened freely."""

import random
from dataclasses import dataclass
from typing import Any

from tests.model.words import CHANGES, CONDITIONS, Row

KEYS = ((), ("id",), ("id", "g"))
_IDS = 7
_VECTORS = tuple((float(a), float(b)) for a in range(-2, 3) for b in range(-2, 3))
"""Few, so that some are as near as others; sums and products of their numbers are exact."""


@dataclass(frozen=True)
class Do:
    """One statement: `what` it does, with which rows or which words."""

    what: str
    rows: tuple[Row, ...] = ()
    stage: bool | None = None
    change: int = 0
    where: int | None = None
    n: int = 0
    m: int = 0


@dataclass(frozen=True)
class Step:
    """One step of a run: `kind` names what the machine does, `lake` which of the two handles does it.

    `pick` chooses among what there is (tables, open transactions, work under way), `chance` what is looked at afterwards.
    """

    kind: str
    lake: int
    pick: int
    chance: int
    do: tuple[Do, ...] = ()
    more: Any = None


_WEIGHTS = {
    "state": 24,
    "again": 4,
    "transact": 12,
    "begin": 5,
    "inside": 12,
    "commit": 8,
    "rollback": 1,
    "early": 8,
    "early_commit": 4,
    "late": 6,
    "together": 10,
    "meanwhile": 20,
    "flush": 7,
    "optimize": 4,
    "cover": 3,
    "index": 5,
    "unindex": 1,
    "prune": 3,
    "early_flush": 3,
    "early_rewrite": 3,
    "early_cover": 2,
    "create": 2,
    "drop": 1,
    "rename": 2,
    "reopen": 2,
    "crash": 2,
    "fault": 4,
    "keep": 3,
    "look_back": 1,
    "question": 12,
    "restore": 3,
}
_MEANWHILE = {"state": 12, "transact": 9, "flush": 12, "optimize": 6, "cover": 3, "index": 2, "restore": 1}


def steps(seed: int, count: int) -> list[Step]:
    """A run of so many steps."""
    chance = random.Random(seed)
    # Each run leaves some kinds out and does others often, on one table more than on others, so that they meet.
    weights = [weight * chance.choice((0, 1, 1, 4)) for weight in _WEIGHTS.values()]
    drawn = chance.choices(list(_WEIGHTS), weights, k=count - 2)
    favourite = chance.randrange(1 << 16)
    early = chance.choice(("index", "question"))  # an index meets most when it is there from the beginning
    return [_step(chance, kind, favourite) for kind in ("state", early, *drawn)]


def _step(chance: random.Random, kind: str, favourite: int, often: float = 0.6) -> Step:
    pick = favourite if chance.random() < often else chance.randrange(1 << 16)
    count = {
        "state": 1,
        "again": 1,
        "prune": 1,
        "early": 1,
        "inside": 1,
        "transact": chance.randint(1, 4),
        "pledge": chance.randint(1, 3),
    }.get(kind, 0)
    more: Any = None
    if kind in {"again", "question"}:
        more = chance.randint(2, 5)
    elif kind in {"index", "unindex"}:
        more = chance.randrange(1 << 16)
    elif kind == "prune":
        more = chance.randrange(4)  # an index that is searched
    elif kind in {"create", "rename", "drop"}:
        more = chance.randrange(6)
    elif kind in {"transact", "inside", "pledge"}:
        more = [chance.randrange(8) for _ in range(count)]
    elif kind == "fault":
        more = chance.randrange(6)
    elif kind == "together":
        inner = chance.choices(("early", "pledge", "early_flush", "early_cover"), (9, 9, 3, 1), k=chance.randint(1, 3))
        more = tuple(_step(chance, one, pick, 0.85) for one in inner)
    elif kind == "meanwhile":
        inner = chance.choices(list(_MEANWHILE), list(_MEANWHILE.values()), k=chance.randint(1, 3))
        outer = chance.choice(("state", "transact", "flush", "flush", "optimize", "cover"))
        more = tuple(_step(chance, one, pick, 0.85) for one in (outer, *inner))
    done = tuple(_do(chance) for _ in range(max(count, 1)))
    if kind in {"again", "prune"}:
        done = (_do(chance, ("update", "delete", "append") if kind == "again" else ("delete",)),)
    return Step(kind, chance.randrange(2), pick, chance.randrange(1 << 30), done, more)


def _do(chance: random.Random, kinds: tuple[str, ...] = ()) -> Do:
    what = chance.choice(
        kinds or ("append", "append", "upsert", "upsert", "insert", "overwrite", "delete", "delete", "update", "update")
    )
    where = chance.randrange(len(CONDITIONS)) if what == "delete" or chance.random() < 0.8 else None
    rows = tuple(_row(chance) for _ in range(chance.choice((1, 1, 2, 2, 3, 5))))
    if what == "overwrite" and chance.random() < 0.2:
        rows = ()
    stage = chance.choice((None, True, True, False))
    n, m = chance.randrange(_IDS), chance.randrange(_IDS)
    return Do(what, rows, stage, chance.randrange(len(CHANGES)), where, n, m)


def _row(chance: random.Random) -> Row:
    value = chance.choice((None, 0, 1, 2, 2, 3, 3, 4, 5, -3))
    text = chance.choice((None, "a1", "b", "7", "7", "12", "a1 b", "b 7 b"))
    vector = chance.choice((None, *_VECTORS)) if chance.random() < 0.5 else chance.choice(_VECTORS[:2])
    return chance.randrange(_IDS), chance.choice("xy"), value, text, vector
