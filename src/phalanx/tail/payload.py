"""Rows and keys as payloads of items: Arrow IPC streams, which carry their schema, so that they can be read without it."""

import struct
from functools import lru_cache

import pyarrow as pa

from phalanx.errors import CorruptionError

_CONTINUES = 0xFFFFFFFF
_END = struct.pack("<II", _CONTINUES, 0)
_KEPT = 256
_known: dict[bytes, tuple[pa.Schema | None, int]] = {}
"""Schemas by the bytes that streams begin with: those of one table are all the same."""


def encode_rows(rows: pa.Table) -> bytes:
    """Rows as bytes: the messages of a stream one after the other, which costs a third of setting up a writer."""
    head = _head(rows.schema)
    if head is not None:
        return b"".join([head, *(batch.serialize().to_pybytes() for batch in rows.to_batches()), _END])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def decode_rows(data: bytes) -> pa.Table:
    """The inverse of `encode_rows`; no byte is copied."""
    try:
        if not data.endswith(_END):
            raise pa.ArrowInvalid("the stream has no end")
        schema, size = _schema(data)
        if schema is None:
            with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                return reader.read_all()
        return _batches(data, schema, size)
    except (pa.ArrowException, EOFError, OSError, struct.error) as error:
        msg = f"rows in the log cannot be read: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error


def _batches(data: bytes, schema: pa.Schema, at: int) -> pa.Table:
    """The batches of a stream whose schema is known: reading it anew would take longer than one small batch."""
    source = pa.BufferReader(pa.py_buffer(data))
    source.seek(at)
    batches = []
    while source.tell() + len(_END) < len(data):
        batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(source), schema))
    return pa.Table.from_batches(batches, schema)


def _schema(data: bytes) -> tuple[pa.Schema | None, int]:
    """The schema that a stream begins with, and its size; None where columns have dictionaries of their own."""
    marker, length = struct.unpack_from("<II", data)
    size = 8 + length
    if marker != _CONTINUES or size > len(data):
        return None, 0
    head = data[:size]
    known = _known.get(head)
    if known is None:
        schema = pa.ipc.read_schema(pa.py_buffer(head))
        known = (None if any(map(_has_dictionary, schema.types)) else schema, size)
        if len(_known) >= _KEPT:
            _known.clear()
        _known[head] = known
    return known


@lru_cache(maxsize=_KEPT)
def _head(schema: pa.Schema) -> bytes | None:
    """What a stream of this schema begins with; None where columns have dictionaries of their own."""
    return None if any(map(_has_dictionary, schema.types)) else schema.serialize().to_pybytes()


def _has_dictionary(kind: pa.DataType) -> bool:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inside))
