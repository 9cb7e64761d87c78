"""Rows and keys as payloads of items: Arrow IPC streams, which carry their schema, so that they can be read without it."""

import pyarrow as pa

from phalanx.errors import CorruptionError


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
