"""The dialect's surface: which texts are looked at at all, how names are quoted, how Python values are spelled.

DataFusion's parser recurses over chains of operators: ten thousand times `or` overflow its stack, and the process dies.
A logged text like that would kill every reader. So a text is bounded here, before anything parses it. Lists of values
(`in (…)`) do not nest and are bounded by the length alone.
"""

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from phalanx.errors import InvalidInputError

MOST_CHARACTERS = 1 << 20
MOST_WORDS = 1000
"""Names, keywords and operators: each level of nesting needs at least one."""

# What a list of values is made of comes first and is not counted. Whatever ends a string or hides a text in another way
# than two single quotes do is refused, so that nobody hides operators from being counted.
_TOKENS = re.compile(
    r"""(?:'[^']*'|[xX]'[0-9a-fA-F]*'|(?:[,(]\s*[-+])?\d[\d.]*(?:[eE][-+]?\d+)?|[(),\s])+"""
    r"""|(?P<quote>")|(?P<comment>--|/\*)|(?P<dollar>\$)|(?P<prefix>\w+(?='))"""
    r"""|(?P<word>`[^`]*`|\w+|[^\w\s'`"(),])""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_REFUSED = {
    "quote": "double quotes: write `name` for a column and 'text' for a string",
    "comment": "a comment: write the expression alone",
    "dollar": "a dollar: parameters and strings in dollars cannot be used here",
    "prefix": "a string of another kind than 'text' or X'00': write it so, with a blank before it",
}


def check(text: object) -> None:
    """Refuse what is no text, what is too long, and what Lance or a careless eye would read in another way."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{text!r} is not an SQL expression: write it as a string")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInputError(f"an expression of {len(text):,} characters is too long: at most {MOST_CHARACTERS:,}")
    words = 0
    for token in _TOKENS.finditer(text):
        group = token.lastgroup
        if group in _REFUSED:
            raise InvalidInputError(f"{shown(text)} has {_REFUSED[group]}")
        words += group == "word"
        if words > MOST_WORDS:
            raise InvalidInputError(
                f"{shown(text)} is too long: an expression has at most {MOST_WORDS:,} names and operators; "
                "a list of values is written as: column in (1, 2, 3)"
            )


def shown(text: str) -> str:
    """A text as it is cited in errors."""
    return repr(text) if len(text) <= 200 else repr(text[:200]) + "…"


def quoted(name: str) -> str:
    """A column's name as it is written in an expression."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def string(value: str) -> str:
    """A string as a literal."""
    return "'" + value.replace("'", "''") + "'"


# Dates and times are spelled as strings: the cast to the column's type at planning knows its unit and its zone.
_SPELLINGS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, str),
    (type(None), lambda _: "null"),
    (bool, lambda value: str(value).lower()),
    (int, str),
    (Decimal, lambda value: string(str(value))),
    (float, lambda value: string(repr(value))),
    (datetime, lambda value: string(value.isoformat())),
    (date, lambda value: string(value.isoformat())),
    (time, lambda value: string(value.isoformat())),
    (bytes, lambda value: f"X'{value.hex()}'"),
)


def spelled(value: object) -> str:
    """An assigned value as SQL: strings are SQL already, other values become literals."""
    for kind, spell in _SPELLINGS:
        if isinstance(value, kind):
            return spell(value)
    raise InvalidInputError(f"a {type(value).__name__} cannot be assigned: write it as an SQL expression")
