"""Payloads of items: rows and keys as Arrow IPC streams, row numbers as runs.

A stream carries its schema, so that it can be read without knowing the table's. Sets of numbers (hidden rows, dead
rows, identities) are stored as the lengths of their arithmetic runs: what was written together is a few numbers long.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from phalanx.errors import CorruptionError

Ids = npt.NDArray[np.int64]
NO_IDS: Ids = np.empty(0, dtype=np.int64)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[int, int, int]])


def encode_rows(rows: pa.Table) -> bytes:
    """Rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def decode_rows(data: bytes) -> pa.Table:
    """The inverse of `encode_rows`; no byte is copied."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_all()
    except (pa.ArrowInvalid, OSError) as error:
        msg = f"rows in the log cannot be read: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error


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


def decode_ids(data: bytes) -> Ids:
    """The inverse of `encode_ids`."""
    try:
        runs = _decoder.decode(data)
    except msgspec.DecodeError as error:
        msg = f"row numbers in the log cannot be read: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error
    if not runs:
        return NO_IDS
    return np.concatenate([first + step * np.arange(length, dtype=np.int64) for first, step, length in runs])
