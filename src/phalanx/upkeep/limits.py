"""How long a tail may get, as properties of the lake that every process obeys (rule C10, docs/defaults.md).

flush.rows, flush.bytes, flush.predicates   pending in the log
flush.hidden                                rows of the head that readers have to leave out
flush.age                                   seconds that one process has seen the same item waiting
flush.hard                                  the hard limit, as a multiple of these
flush.background                            "on", or "off": then only `flush` writes out
"""

from collections.abc import Mapping

import msgspec

from phalanx.errors import InvalidInputError
from phalanx.tables.sums import check_checksums
from phalanx.waiting import Weight

_PREFIX = "flush."


class Limits(msgspec.Struct, frozen=True):
    """The soft limits of a tail; `hard` is a multiple of them."""

    rows: int = 20_000
    bytes: int = 16 << 20
    predicates: int = 256
    hidden: int = 200_000
    age: float = 300.0
    hard: float = 16.0
    background: str = "on"

    def load(self, weight: Weight) -> float:
        """How full a tail is: 1 at the soft limit."""
        return max(weight.rows / self.rows, weight.size / self.bytes, weight.predicates / self.predicates)


DEFAULTS = Limits()


def limits(properties: Mapping[str, str]) -> Limits:
    """The limits that a lake's properties ask for; what cannot be read there counts as not given."""
    changes: dict[str, object] = {}
    for name in Limits.__struct_fields__:
        text = properties.get(_PREFIX + name)
        if text is not None:
            try:
                changes[name] = _read(name, text)
            except InvalidInputError:
                continue  # written by a newer Phalanx, or past the checks: the default is always safe
    return msgspec.structs.replace(DEFAULTS, **changes) if changes else DEFAULTS


def check_property(key: str, value: str | None) -> None:
    """Refuse a value that makes no sense, before it is written."""
    check_checksums(key, value)
    if value is not None and key.startswith(_PREFIX):
        name = key.removeprefix(_PREFIX)
        if name not in Limits.__struct_fields__:
            known = ", ".join(_PREFIX + field for field in Limits.__struct_fields__)
            raise InvalidInputError(f"there is no property {key!r} that flushing obeys; there is: {known}")
        _read(name, value)


def _read(name: str, text: str) -> object:
    if name == "background":
        if text not in {"on", "off"}:
            raise InvalidInputError(f"{_PREFIX}{name} is on or off: {text!r} is neither")
        return text
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e15:
        raise InvalidInputError(f"{_PREFIX}{name} is a number greater than 0: {text!r} is not")
    return number if name in {"age", "hard"} else max(1, int(number))
