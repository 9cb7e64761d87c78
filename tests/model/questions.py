"""Questions to a table, each beside the answer that trying every row of the model gives.

Any table can be asked: the newest, one inside a transaction, one of an old version. Where several answers are right
(rows as near as each other, rows in no order) any of them is taken, and nothing else.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.errors import InvalidInputError
from phalanx.table import Readable
from tests.model.words import CONDITIONS, NAMES, Row, said
from tests.model.world import Still

_ALL = 500
"""More rows than a table of the model has."""
_PROBED = 100
"""More partitions than an index has: the nearest rows are then found for certain."""
_TEXTS = ("a1", "b", "7", "b 12", "x", "a1 7 y", "absent")
_CLOSE = 1e-5


class Diverged(AssertionError):  # noqa: N818 - what happened
    """The lake and the model do not agree."""


def same(expected: object, found: object, what: str) -> None:
    """Or the run has failed."""
    if expected != found:
        raise Diverged(f"{what}: expected {expected}, found {found}")


def rows_in(table: Readable) -> Counter[Row]:
    """The rows of a table, without order."""
    return Counter(told(table.to_arrow()))


def told(found: Any) -> list[Row]:
    """Rows of Arrow as rows of the model, in their order."""
    columns = [found.column(name).to_pylist() for name in NAMES]
    columns[-1] = [None if one is None else tuple(one) for one in columns[-1]]
    return list(zip(*columns, strict=True))


def ask(table: Readable, still: Still, chance: random.Random, whose: str, kinds: Sequence[str] | None = None) -> str:
    """Ask one thing, of any kind or of some, and compare; what was asked."""
    kinds = list(_QUESTIONS) if kinds is None else kinds
    kind = chance.choices(kinds, [_QUESTIONS[one][0] for one in kinds])[0]
    keyless = kind in {"get", "get_many"} and not still.key
    wordless = kind in {"words", "both"} and still.searchable is False
    if (keyless or wordless) and chance.random() < 0.9:  # what is refused is asked now and then
        kind = "get" if wordless and still.key else "count"
        keyless = wordless = False
    answer = _QUESTIONS[kind][1]
    try:
        answer(table, still, chance, f"{kind} of {whose}")
    except InvalidInputError as error:
        unsure = kind in {"words", "both"} and still.searchable is None
        if keyless or wordless or unsure:
            return f"{kind} refused"
        raise Diverged(f"{kind} of {whose} was refused: {error}") from error
    if keyless or wordless:
        raise Diverged(f"{kind} of {whose} was not refused")
    return kind


def _get(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    row, key = _wanted(still, chance)
    found = table.get(key)
    if found is not None:
        found["x"] = None if found["x"] is None else tuple(found["x"])
    same(row, found and tuple(found[name] for name in NAMES), f"{what}: {key}")


def _get_many(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    wanted = [_wanted(still, chance) for _ in range(chance.randrange(6))]
    keys = [key for _, key in wanted]
    rows = Counter({row for row, _ in wanted if row is not None})
    same(rows, Counter(told(table.get_many(keys))), f"{what}: {keys}")


def _wanted(still: Still, chance: random.Random) -> tuple[Row | None, Any]:
    """A key to look for, of a row that is there or of any other, and the row."""
    id_, g = chance.randrange(-1, 12), chance.choice("xy")
    if still.rows and chance.random() < 0.6:
        row = chance.choice(list(still.rows))
        id_, g = row[0], row[1]
    values = {"id": id_, "g": g}
    key = tuple(values[name] for name in still.key or ("id",))
    there = {tuple(row[NAMES.index(name)] for name in still.key): row for row in still.rows}
    return there.get(key), key if len(key) > 1 else key[0]


def _count(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    sql, fitting = _fitting(still, chance)
    same(fitting.total(), table.count(sql), f"{what} where {sql}")


def _rows(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    sql, fitting = _fitting(still, chance)
    same(fitting, Counter(told(table.to_arrow(where=sql))), f"{what} where {sql}")


def _near(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    sql, fitting = _fitting(still, chance) if chance.random() < 0.4 else (None, still.rows)
    query, k = _query(chance), chance.choice((1, 2, 3, 5, _ALL))
    metric = chance.choice(("l2", "l2", "dot", "cosine"))
    measured = {row: _distance(row, query, metric) for row in fitting}
    best = sorted(near for row in fitting.elements() if (near := measured[row]) is not None)[:k]
    found = table.search(query, k=k, where=sql, metric=metric, nprobes=_PROBED)
    rows, distances = told(found), found["_distance"].to_pylist()
    right = (
        Counter(rows) <= fitting
        and _alike(best, distances)
        and _alike((measured[row] for row in rows), distances)  # of rows that are equally near, any may be told
    )
    if not right:
        answer = list(zip(rows, distances, strict=True))
        raise Diverged(f"{what}: the {k} nearest to {query} by {metric} where {sql}: {best} of {fitting}, not {answer}")


def _words(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    sql, fitting = _fitting(still, chance) if chance.random() < 0.3 else (None, still.rows)
    text, k = chance.choice(_TEXTS), chance.choice((1, 3, _ALL))
    found = table.search(text=text, k=k, where=sql)
    having, rows = _having(fitting, text), Counter(told(found))
    if rows.total() != min(k, having.total()) or not rows <= having:
        raise Diverged(f"{what}: {k} rows that have {text!r} where {sql}: expected of {having}, found {rows}")
    scores = found["_score"].to_pylist()
    same(sorted(scores, reverse=True), scores, f"{what}: {text!r}, the best first")


def _both(table: Readable, still: Still, chance: random.Random, what: str) -> None:
    """With room for all of them: every row that has a vector or one of the words."""
    text, query = chance.choice(_TEXTS), _query(chance)
    found = table.search(query, text=text, k=_ALL, nprobes=_PROBED)
    near = Counter({row: count for row, count in still.rows.items() if row[-1] is not None})
    same(near | _having(still.rows, text), Counter(told(found)), f"{what}: {text!r}")


_Question = Callable[[Readable, Still, random.Random, str], None]
_QUESTIONS: dict[str, tuple[int, _Question]] = {
    "get": (5, _get),
    "get_many": (3, _get_many),
    "count": (4, _count),
    "rows": (1, _rows),
    "near": (4, _near),
    "words": (5, _words),
    "both": (2, _both),
}


def _fitting(still: Still, chance: random.Random) -> tuple[str, Counter[Row]]:
    """A condition, and the rows that it is true for."""
    where, n, m = chance.choice([one for one in CONDITIONS if not one.fallible]), chance.randrange(7), 3
    return said(where, n, m), Counter({row: count for row, count in still.rows.items() if where.means(row, n, m)})


def _having(rows: Counter[Row], text: str) -> Counter[Row]:
    """Rows that have one of the words."""
    words = set(text.split())
    return Counter({row: count for row, count in rows.items() if words & set((row[3] or "").split())})


def _query(chance: random.Random) -> list[float]:
    return [chance.randrange(-4, 5) / 2, chance.randrange(-4, 5) / 2]


def _distance(row: Row, query: list[float], metric: str) -> float | None:
    """None if there is none: without a vector, or by its direction if it has no length."""
    if row[-1] is None:
        return None
    (a, b), (c, d) = row[-1], query
    if metric == "l2":
        return (a - c) ** 2 + (b - d) ** 2
    if metric == "dot":
        return 1 - (a * c + b * d)
    lengths = math.hypot(a, b) * math.hypot(c, d)
    return 1 - (a * c + b * d) / lengths if lengths else None


def _alike(some: Iterable[float | None], others: Iterable[float]) -> bool:
    """The same numbers, as nearly as they are counted."""
    one, other = list(some), list(others)
    return len(one) == len(other) and all(
        a is not None and abs(a - b) < _CLOSE for a, b in zip(one, other, strict=True)
    )
