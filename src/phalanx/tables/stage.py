"""Staging: rows and deletions become files and a detached version, which nobody sees until an entry names it.

Keeps I3 for staged work (everything is synced before it is returned) and the traps of Lance in one place: fragments
that were staged on one version are given new ids on another, deletion files are never moved (rule C3), rows are hidden
by their row ids on the very version that is changed.
"""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pyarrow as pa
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata, write_fragments

from phalanx.errors import PhalanxError
from phalanx.objects import Sum, layout
from phalanx.tables.dataset import Datasets, Ids, Version, manifest_name
from phalanx.tables.index import segments
from phalanx.tables.speaking import speaking

Progress = Callable[[int], None]
"""Called with the number of rows written so far."""

ROWS_PER_FILE = 1 << 20
BYTES_PER_FILE = 4 << 30


class Written(msgspec.Struct, frozen=True):
    """Fragments on disk that no version has yet; not durable before a version was made of them.

    But for files that `sums` names: who wrote them, elsewhere, made them durable, and says what is to be noted of them.
    """

    fragments: list[FragmentMetadata]
    rows: int
    sums: dict[str, Sum] = {}

    @property
    def files(self) -> list[str]:
        """The names of their files, inside the table's folder."""
        return [f"data/{file.path}" for fragment in self.fragments for file in fragment.files]

    @property
    def size(self) -> int:
        """The bytes of their files, as far as Lance knows them."""
        return sum(file.file_size_bytes or 0 for fragment in self.fragments for file in fragment.files)

    def told(self) -> tuple[str, ...]:
        """The fragments as text, for another process."""
        return tuple(json.dumps(fragment.to_json()) for fragment in self.fragments)


def heard(told: Sequence[str], sums: dict[str, Sum] | None = None) -> Written:
    """What another process wrote and told of."""
    fragments = [FragmentMetadata.from_json(one) for one in told]
    return Written(fragments, sum(fragment.physical_rows for fragment in fragments), sums or {})


def write(
    version: Version,
    rows: pa.RecordBatchReader,
    progress: Progress | None = None,
    *,
    rows_per_file: int | None = None,
) -> Written:
    """Write rows of any length, with bounded memory, as new fragments of a table."""
    source = _Watched(rows, progress)
    reader = pa.RecordBatchReader.from_batches(rows.schema, source)
    try:
        fragments = _interruptibly(lambda: _write(version, reader, rows_per_file or ROWS_PER_FILE), source)
    except PhalanxError:
        if source.error is not None:
            raise source.error from None
        raise
    return Written(fragments, sum(fragment.physical_rows for fragment in fragments))


def _write(version: Version, rows: pa.RecordBatchReader, rows_per_file: int) -> list[FragmentMetadata]:
    with speaking("writing rows"):
        return write_fragments(
            rows, version.dataset, max_rows_per_file=rows_per_file, max_bytes_per_file=BYTES_PER_FILE
        )


def _interruptibly(work: Callable[[], list[FragmentMetadata]], source: "_Watched") -> list[FragmentMetadata]:
    """Do it in a thread of its own: an interrupt stops the stream between two batches, and waits until Lance let go.

    Lance's threads go on reading a stream whose caller was interrupted, and abort the process if Python ends meanwhile.
    Only the main thread is interrupted; any other may be finishing upkeep while Python ends, and starts nothing then.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    with ThreadPoolExecutor(1, thread_name_prefix="phalanx-stage") as pool:
        done = pool.submit(work)
        try:
            return done.result()
        except BaseException:
            source.stopped = True
            raise


def adopt(version: Version, fragments: Sequence[int]) -> Written:
    """Fragments of one version, ready to be part of another under new ids: their rows are not written again."""
    kept = [version.fragment(fragment).metadata for fragment in fragments]
    stripped = [
        dataclasses.replace(
            one,
            id=0,
            deletion_file=None,  # its name has the old id in it: who adopts knows which rows are hidden
            row_id_meta=None,
            created_at_version_meta=None,
            last_updated_at_version_meta=None,
        )
        for one in kept
    ]
    return Written(stripped, sum(fragment.physical_rows for fragment in stripped))


def extend(datasets: Datasets, base: Version, written: Sequence[Written]) -> Version:
    """The base with more fragments; their rows get fresh row ids, in order."""
    fragments = [fragment for one in written for fragment in one.fragments]
    if not fragments:
        return base
    made = datasets.commit(base, LanceOperation.Append(fragments))
    secured = {name: noted for one in written for name, noted in one.sums.items()}
    names = [name for one in written for name in one.files if name not in secured]
    datasets.persist(base.table, [*names, manifest_name(made.manifest)], secured)
    return made


def hide(datasets: Datasets, base: Version, row_ids: Ids, dropped: Sequence[int] = ()) -> Version:
    """The base without these rows, and without these fragments."""
    gone = list(dropped)
    updated: list[FragmentMetadata] = []
    if len(row_ids):
        addresses = base.addresses(row_ids)
        owners = addresses >> 32
        for fragment in np.unique(owners).tolist():
            if fragment not in gone:
                offsets = addresses[owners == fragment] & 0xFFFFFFFF
                with speaking("deleting rows"):
                    left = base.fragment(fragment).delete_rows(offsets.tolist())
                if left is None:
                    gone.append(fragment)
                else:
                    updated.append(left)
    if not gone and not updated:
        return base
    made = datasets.commit(base, LanceOperation.Delete(updated, gone, "hidden by the log"))
    datasets.persist(base.table, [*map(_deletion_file, updated), manifest_name(made.manifest)])
    return made


def _deletion_file(fragment: FragmentMetadata) -> str:
    found = fragment.to_json()["deletion_file"]
    suffix = "arrow" if found["file_type"] == "array" else "bin"
    return f"_deletions/{fragment.id}-{found['read_version']}-{found['id']}.{suffix}"


class _Watched:
    """Rows on their way to Lance, which turns whatever a stream raises into a text of its own: it is kept here."""

    def __init__(self, rows: pa.RecordBatchReader, progress: Progress | None) -> None:
        self._rows = rows
        self._progress = progress
        self.error: BaseException | None = None
        self.stopped = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        done = 0
        try:
            for batch in self._rows:
                if self.stopped:
                    raise InterruptedError("the caller was interrupted")  # noqa: TRY301 - Lance hears of it, nobody else
                yield batch
                done += batch.num_rows
                if self._progress is not None:
                    self._progress(done)
        except BaseException as error:
            self.error = error
            raise


def files_of(datasets: Datasets, version: Version) -> list[str]:
    """The names of all files that a version is made of, inside its table's folder."""
    names = [manifest_name(version.manifest)]
    for number in version.fragments:
        fragment = version.fragment(number).metadata
        names += [f"data/{file.path}" for file in fragment.files]
        if fragment.to_json()["deletion_file"] is not None:
            names.append(_deletion_file(fragment))
    folder = layout.table(version.table)
    for segment in segments(version):
        inside = datasets.files.store.list(f"{folder}/_indices/{segment.uuid}")
        names += [one.name.removeprefix(folder + "/") for one in inside]
    return names
