"""Names that people give to tables, namespaces, tags and properties: one or more parts, joined by dots.

Names live in the log only and never become part of a path, so what is refused here is what would confuse people or
the command line: empty parts, slashes, control characters, blanks at the ends; and what UTF-8 cannot hold.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

from phalanx.errors import InvalidInputError

_BARRED = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff./\\"
_PART = re.compile(rf"[^\s{_BARRED}](?:[^{_BARRED}]{{0,126}}[^\s{_BARRED}])?")
_MOST_PARTS = 16


def parse_name(name: str | Sequence[str], what: str = "table") -> tuple[str, ...]:
    """A name as its parts: "crm.turns" and ["crm", "turns"] are the same."""
    parts = tuple(name.split(".")) if isinstance(name, str) else tuple(name)
    if not 1 <= len(parts) <= _MOST_PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidInputError(_refusal(name, what))
    return parts


def parse_word(name: str, what: str) -> str:
    """A name of one part, dots allowed, for tags and properties."""
    if not all(_PART.fullmatch(part) for part in name.split(".")):
        raise InvalidInputError(_refusal(name, what))
    if what == "tag" and name.isdecimal():
        raise InvalidInputError(
            f"{name!r} would be taken for a version where a tag may stand as well: use another name"
        )
    return name


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say to somebody who named something that is not there: what is near, or what there is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 3, 0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there is: {', '.join(names[:5]) or 'none'}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _refusal(name: object, what: str) -> str:
    return (
        f"{name!r} cannot be the name of a {what}: use parts of 1 to 128 characters, joined by dots, "
        "without slashes, control characters or blanks at the ends"
    )
