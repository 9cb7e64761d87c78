"""Row ids as Lance's scanner takes them."""

import weakref

import numpy as np
import numpy.typing as npt
from lance.dataset import serialize_row_addrs

Ids = npt.NDArray[np.int64]

_MANY_IDS = 1000
_treemaps: "dict[int, tuple[weakref.ref[Ids], bytes]]" = {}


def treemap(row_ids: Ids) -> bytes:
    """Row ids as the scanner takes them; of many, kept for as long as they are: every scan of a state asks for the same."""
    known = _treemaps.get(id(row_ids))
    if known is not None and known[0]() is row_ids:
        return known[1]
    data = bytes(serialize_row_addrs(row_ids.tolist()))
    if len(row_ids) >= _MANY_IDS:
        name = id(row_ids)
        _treemaps[name] = (weakref.ref(row_ids, lambda _: _treemaps.pop(name, None)), data)
    return data
