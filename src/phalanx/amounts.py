"""Amounts as people write them: "10m", "7d", "64MB"."""

import re
from collections.abc import Mapping

from phalanx.errors import InvalidInputError

_NUMBER = re.compile(r"(\d+(?:\.\d+)?) *([a-z]*)", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds(given: float | str, what: str) -> float:
    """A time; `what` names the argument in errors."""
    return _amount(given, _SECONDS, what, "10m")


def size(given: float | str, what: str) -> int:
    """A number of bytes."""
    return int(_amount(given, _BYTES, what, "64MB"))


def shown_size(number: float) -> str:
    """A number of bytes, for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{int(number)} bytes"


def _amount(given: float | str, units: Mapping[str, int], what: str, example: str) -> float:
    if isinstance(given, str):
        found = _NUMBER.fullmatch(given.strip())
        if found is None or found[2].lower() not in units:
            known = ", ".join(unit for unit in units if unit)
            raise InvalidInputError(f"{what} takes a number and a unit ({known}), for example {example}: not {given!r}")
        return float(found[1]) * units[found[2].lower()]
    if not 0 <= given < float("inf"):
        raise InvalidInputError(f"{what} is 0 or more, for example {example}: {given!r} is not")
    return float(given)
