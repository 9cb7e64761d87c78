"""Guarded tables for the tests of what we rely on in Lance, made with Lance's own calls and nothing of the product's."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceDataset, LanceOperation, serialize_row_addrs
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, RewriteResult

from phalanx.objects import open_store
from phalanx.tables.guard import genesis, guard

SCHEMA = pa.schema([("a", pa.int64())])


def numbers(*values: int) -> pa.Table:
    """A table of one column."""
    return pa.table({"a": pa.array(values, pa.int64())})


def put_guard(uri: str, options: Mapping[str, str] | None = None) -> None:
    """Put the guard as the product does: through the port, if absent."""
    name, content = guard()
    with open_store(uri, options, timeout=10).prepare([content]) as blob:
        blob.put(name)


def begin(
    folder: Path | str, schema: pa.Schema = SCHEMA, *, options: dict[str, str] | None = None, guarded: bool = True
) -> LanceDataset:
    """The first version of a new table: empty."""
    if guarded:
        put_guard(str(folder), options)
    base = LanceDataset(str(folder), serialized_manifest=genesis(), storage_options=options)
    return LanceDataset.commit(base, LanceOperation.Overwrite(schema, []), detached=True)


def commit(head: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    """One detached version more."""
    return LanceDataset.commit(head, operation, read_version=head.version, detached=True)


def add(head: LanceDataset, *tables: pa.Table) -> LanceDataset:
    """The head with one more fragment for each table."""
    for table in tables:
        head = commit(head, LanceOperation.Append(write_fragments(table, head)))
    return head


def hide(head: LanceDataset, ids: Iterable[int]) -> LanceDataset:
    """The head without these rows, found on the head itself."""
    offsets: dict[int, list[int]] = {}
    for address in head._take_rows(list(ids), columns=["_rowaddr"])["_rowaddr"].to_pylist():
        offsets.setdefault(address >> 32, []).append(address & 0xFFFFFFFF)
    updated = {fragment: head.get_fragment(fragment).delete_rows(some) for fragment, some in offsets.items()}
    left = [one for one in updated.values() if one is not None]
    gone = [fragment for fragment, one in updated.items() if one is None]
    return commit(head, LanceOperation.Delete(left, gone, "by row id"))


def rewritten(head: LanceDataset, **options: Any) -> RewriteResult:
    """The head's fragments written as one, in no version yet."""
    [task] = Compaction.plan(head, {"target_rows_per_fragment": 1000, **options}).tasks
    return task.execute(head)


def place(head: LanceDataset, result: RewriteResult) -> LanceDataset:
    """The head with rewritten fragments in place of the old ones."""
    group = LanceOperation.RewriteGroup(result.original_fragments, result.new_fragments)
    return commit(head, LanceOperation.Rewrite([group], []))


def pairs(head: LanceDataset, **options: Any) -> list[tuple[int, int]]:
    """The rows of a scan, as (row id, value), in scan order."""
    found = head.scanner(columns=["a"], with_row_id=True, **options).to_table()
    return list(zip(found["_rowid"].to_pylist(), found["a"].to_pylist(), strict=True))


def values(head: LanceDataset, **options: Any) -> list[int]:
    """The values of a scan, in scan order."""
    found: list[int] = head.scanner(columns=["a"], **options).to_table()["a"].to_pylist()
    return found


def metadata(head: LanceDataset) -> list[FragmentMetadata]:
    """What the head says of its fragments."""
    return [fragment.metadata for fragment in head.get_fragments()]


def ids(*row_ids: int) -> bytes:
    """Row ids as the scanner takes them."""
    return bytes(serialize_row_addrs(row_ids))


def reopened(head: LanceDataset) -> LanceDataset:
    """The same version, read from storage."""
    return lance.dataset(head.uri, version=head.version)


def next_row_id(head: LanceDataset) -> int:
    """The id that the next row would get: field 14 of the manifest."""
    return next((value for field, value in fields(head._ds.serialized_manifest()) if field == 14), 0)


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message that has only numbers, and things with a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        else:
            assert key & 7 == 0
        yield key >> 3, value


def renumbered(manifest: bytes, version: int) -> bytes:
    """A manifest file under another version number, which is what materialising a version means."""
    start, major, minor = struct.unpack("<QHH", manifest[-16:-4])
    (length,) = struct.unpack_from("<I", manifest, start)
    message = manifest[start + 4 : start + 4 + length]
    assert start + 4 + length + 16 == len(manifest)
    # Protobuf: of a field that comes twice the last one counts.
    message += b"\x18" + bytes([version])
    assert version < 128
    footer = struct.pack("<QHH", start, major, minor)
    return manifest[:start] + struct.pack("<I", len(message)) + message + footer + manifest[-4:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
