"""A row as it is when it is handed in, and about how many bytes it holds.

Whoever hands in a row may fill it again at once: a dict, a list or an array is copied, and so are those inside. What cannot
be changed is shared. A row of a few plain values is little: it counts as no bytes, so that one in a hundred thousand costs
next to nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

_ELEMENT = 32
"""About what a Python object takes in a list."""
_LITTLE = 256
"""Characters of a text that still count as none."""
_FEW = 32
"""Values of a row that still count as none."""

_PLAIN = frozenset({int, float, bool, type(None)})


def little(row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - what is no row is refused when it is its turn
    """The row, owned, if it is a dict of few plain values: what `owned` does, for less."""
    if type(row) is not dict or len(row) > _FEW:
        return None
    own = row.copy()
    for value in own.values():
        kind = type(value)
        if kind is str:
            if len(value) > _LITTLE:
                return None
        elif kind not in _PLAIN:
            return None
    return own


def owned(row: Any) -> tuple[Any, int]:  # noqa: ANN401 - as above
    """The row, owned, and its bytes."""
    if not isinstance(row, Mapping):
        return row, 0
    try:
        return _entries(dict(row))
    except Exception:  # noqa: BLE001 - a row's own methods may raise anything: it is told when it is its turn
        return row, 0


def _value(value: Any) -> tuple[Any, int]:  # noqa: ANN401 - a value of any column
    """A value of a column, owned, and its bytes."""
    kind = type(value)
    if kind in _PLAIN:
        return value, 0
    if issubclass(kind, np.ndarray):
        return value.copy(), value.nbytes
    if issubclass(kind, bytearray | memoryview):
        return bytes(value), len(value)
    if issubclass(kind, dict):
        return _entries(value)
    if issubclass(kind, list | tuple):
        return _elements(value)
    return value, len(value) if issubclass(kind, str | bytes) else getattr(value, "nbytes", 0)


def _entries(values: dict[str, Any]) -> tuple[dict[str, Any], int]:
    size, own = 0, {}
    for name, value in values.items():
        own[name], more = _value(value)
        size += _ELEMENT + more
    return own, size


def _elements(values: list[Any] | tuple[Any, ...]) -> tuple[Any, int]:
    size = _ELEMENT * len(values)
    if _PLAIN.issuperset(map(type, values)):
        return values[:], size
    own = []
    for value in values:
        one, more = _value(value)
        own.append(one)
        size += more
    return own if isinstance(values, list) else tuple(own), size
