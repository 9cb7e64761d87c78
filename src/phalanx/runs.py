"""Sets of row numbers (hidden rows, dead rows, identities) as bytes: the runs they consist of.

What was written together is numbered together, so a set of millions is often a few numbers long.
"""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from phalanx.errors import CorruptionError

Ids = npt.NDArray[np.int64]
NO_IDS: Ids = np.empty(0, dtype=np.int64)

_Number = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Length = Annotated[int, Meta(ge=1, le=1 << 36)]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[_Number, _Number, _Length]])


def encode_ids(ids: Ids) -> bytes:
    """Numbers in their order, as runs of (first, step, length)."""
    runs: list[tuple[int, int, int]] = []
    at = 0
    if len(ids) > 1:
        steps = np.diff(ids)
        breaks = np.flatnonzero(np.diff(steps)) + 1
        for end in [*breaks.tolist(), len(steps)]:
            if end > at:
                runs.append((int(ids[at]), int(steps[at]), int(end - at + 1)))
                at = end + 1
    if at < len(ids):
        runs.append((int(ids[at]), 1, 1))
    return _encoder.encode(runs)


def decode_ids(data: bytes | memoryview) -> Ids:
    """The inverse of `encode_ids`."""
    try:
        runs = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"row numbers in the log cannot be read: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error
    if not runs:
        return NO_IDS
    return np.concatenate([first + step * np.arange(length, dtype=np.int64) for first, step, length in runs])


def renumbered(ids: Ids, before: Ids, first: int) -> Ids:
    """The numbers that rows have after those called `before` were given the numbers from `first` on, in order."""
    if not len(before) or not len(ids):
        return ids
    order = np.argsort(before, kind="stable")
    at = order[np.searchsorted(before, ids, sorter=order).clip(max=len(before) - 1)]
    return np.where(before[at] == ids, first + at, ids)
