"""Conditions and changes in SQL, each beside what it means in Python.

Nulls are never true in a comparison, integers wrap around at 64 bits, division cuts off towards zero and fails on zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = tuple[int, str, int | None, str | None, tuple[float, float] | None]
"""(id, g, v, s, x): the columns of every table of the model; `s` is text, `x` a vector."""
NAMES = ("id", "g", "v", "s", "x")


class Fails(Exception):  # noqa: N818 - what an expression does
    """The expression fails on a row."""


@dataclass(frozen=True)
class Words:
    """One SQL text with `{n}` and `{m}` to be filled in, and its meaning."""

    sql: str
    means: Callable[[Row, int, int], Any]
    fallible: bool = False


def _divided(over: int, by: int | None) -> int | None:
    if by is None:
        return None
    if by == 0:
        raise Fails
    return abs(over) // abs(by) * (1 if (over >= 0) == (by > 0) else -1)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Fails from None


def _wrapped(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _some(value: int | None, test: Callable[[int], bool]) -> bool:
    return value is not None and test(value)


CONDITIONS = (
    Words("v > {n}", lambda r, n, _: _some(r[2], lambda v: v > n)),
    Words("v <= {n}", lambda r, n, _: _some(r[2], lambda v: v <= n)),
    Words("not (v = {n})", lambda r, n, _: _some(r[2], lambda v: v != n)),
    Words("v is null", lambda r, *_: r[2] is None),
    Words("id = {n}", lambda r, n, _: r[0] == n),
    Words("id in ({n}, {m})", lambda r, n, m: r[0] in {n, m}),
    Words("id = {n} and g = 'x'", lambda r, n, _: r[0] == n and r[1] == "x"),
    Words("g = 'y' or v is null", lambda r, *_: r[1] == "y" or r[2] is None),
    Words("v % 2 = 0", lambda r, *_: _some(r[2], lambda v: v % 2 == 0)),
    Words("s like 'a%'", lambda r, *_: r[3] is not None and r[3].startswith("a")),
    Words("coalesce(v, 0) = {n}", lambda r, n, _: (r[2] or 0) == n),
    Words("v + 1 > id", lambda r, *_: _some(r[2], lambda v: _wrapped(v + 1) > r[0])),
    Words("v between {n} and {m}", lambda r, n, m: _some(r[2], lambda v: n <= v <= m)),
    Words("x is null", lambda r, *_: r[4] is None),
    Words("true", lambda *_: True),
    Words("false", lambda *_: False),
    Words("10 / v > {n}", lambda r, n, _: _some(_divided(10, r[2]), lambda q: q > n), fallible=True),
    Words("cast(s as bigint) >= {n}", lambda r, n, _: _some(_number(r[3]), lambda s: s >= n), fallible=True),
)

Change = tuple[tuple[str, Words], ...]

CHANGES: tuple[Change, ...] = (
    (("v", Words("v + 1", lambda r, *_: None if r[2] is None else _wrapped(r[2] + 1))),),
    (("v", Words("v + {n}", lambda r, n, _: None if r[2] is None else _wrapped(r[2] + n))),),
    (("v", Words("v * 2", lambda r, *_: None if r[2] is None else _wrapped(r[2] * 2))),),
    (("v", Words("{n}", lambda _, n, __: n)),),
    (("v", Words("null", lambda *_: None)),),
    (("s", Words("'a{n}'", lambda _, n, __: f"a{n}")),),
    (("s", Words("'{m}'", lambda _, __, m: str(m))),),
    (("v", Words("id", lambda r, *_: r[0])), ("s", Words("g", lambda r, *_: r[1]))),
    (
        (
            "v",
            Words("case when v > {n} then {m} else v end", lambda r, n, m: m if _some(r[2], lambda v: v > n) else r[2]),
        ),
    ),
    (("v", Words("10 / v", lambda r, *_: _divided(10, r[2]), fallible=True)),),
    (("v", Words("cast(s as bigint)", lambda r, *_: _number(r[3]), fallible=True)),),
    (("id", Words("id + {n}", lambda r, n, _: r[0] + n)),),
    (("x", Words("null", lambda *_: None)),),
    (("g", Words("'{x}'", lambda _, n, __: "xy"[n % 2])),),
)


def said(words: Words, n: int, m: int) -> str:
    """The text with its numbers."""
    return words.sql.replace("{n}", str(n)).replace("{m}", str(m)).replace("{x}", "xy"[n % 2])


def changed(change: Change, row: Row, n: int, m: int) -> Row:
    """The row after a change; every expression sees the old row."""
    new = dict(zip(NAMES, row, strict=True)) | {name: words.means(row, n, m) for name, words in change}
    return tuple(new[name] for name in NAMES)
