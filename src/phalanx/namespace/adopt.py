"""What a stock client staged becomes the next version of a table: checked, made durable, under a number of the lake's.

Nothing is taken over that the log could not stand on: rows of a keyed table have one row for each key, row ids last,
nothing cleans up by itself (rule G3). What does not fit in form is written anew; what does not fit in meaning is refused
before anything is committed.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa
from lance.dataset import LanceDataset

from phalanx.errors import CorruptionError, InvalidInputError
from phalanx.log import item as it
from phalanx.namespace.materialise import keep, private
from phalanx.objects import layout
from phalanx.schema import check_schema, encode_schema, require_keys
from phalanx.tables.dataset import Version, manifest_name
from phalanx.tables.manifest import Manifest, detached_number, managed_name
from phalanx.tables.speaking import speaking
from phalanx.tables.stage import extend, files_of, write
from phalanx.tail.keys import repeated, shown_key
from phalanx.tail.lookup import rows_with_keys
from phalanx.tail.overlay import Segment
from phalanx.txn.core import Core, Found
from phalanx.upkeep.reach import Manifests

_LIMIT = 1 << 30
_READING = "reading what a client staged"


class Adopted(msgspec.Struct, frozen=True):
    """A client's version, ready to be committed; `manifest` is the file of the one that the lake has of it."""

    action: it.Advance
    manifest: Manifest
    oldest: int | None
    """The stamp of the oldest file that the client wrote, in microseconds: it has no pin (rule G3)."""

    def shown(self, version: int) -> bytes:
        """The file that clients are given."""
        return self.manifest.sealed(version)


def staged(core: Core, here: Found, path: str) -> Manifest:
    """A manifest that a client put into a table's folder."""
    name = private(core, path)
    folder = layout.table(here.table.id)
    if name is None or not name.startswith(folder + "/") or ".." in name.split("/"):
        raise InvalidInputError(
            f"{path!r} is not in the folder of table {'.'.join(here.name)!r}: stage the version there"
        )
    data = core.store.get(name, limit=_LIMIT)
    if data is None:
        raise InvalidInputError(f"there is no manifest at {path!r}: stage the version before it is created")
    try:
        return Manifest.read(data, path)
    except CorruptionError as error:
        raise InvalidInputError(f"{error}: stage the version again") from error


def adopt(core: Core, here: Found, version: int, manifest: Manifest) -> Adopted:
    """Take a manifest that a client staged for the version after the table's newest."""
    made, next_row_id, oldest = _version(core, here, manifest)
    schema = check_schema(made.dataset.schema, here.shape.key)
    _check_keys(core, here, made)
    new = None
    if not schema.equals(here.shape.schema) or not here.contents.version:
        new = it.Layout(core.new_layout_id(), encode_schema(schema), here.shape.key)
    action = it.Advance(here.table.id, version, made.manifest, next_row_id, new, tuple(schema.names) if new else ())
    name = layout.table(here.table.id, manifest_name(made.manifest))
    return Adopted(action, Manifest.read(core.store.get(name, limit=_LIMIT) or b"", name), oldest)


def _version(core: Core, here: Found, manifest: Manifest) -> tuple[Version, int, int | None]:
    """The client's version as one of the lake's, durable with all its files."""
    table = here.table.id
    if not manifest.fits or not here.contents.version:
        return *_written_anew(core, here, manifest), None
    number = detached_number(core.clock.token(8))
    keep(core, layout.table(table, manifest_name(number)), manifest.numbered(number))
    made = core.datasets.open(table, number)
    is_known = _is_known(core, here)
    new = sorted({one for one in files_of(core.datasets, made) if not is_known(one)})
    oldest = _require(core, table, new)
    core.datasets.persist(table, new)
    return made, manifest.next_row_id, oldest


def _is_known(core: Core, here: Found) -> Callable[[str], bool]:
    """Which files a client has not written: those of the head, and of the version that it is shown as the newest.

    That one's rows may have been written out for clients, or be on a head that was rewritten since: they may be older than
    what was pruned, and prune leaves them for as long as the version is there.
    """
    table, store = here.table.id, core.datasets.files.store
    head = set(files_of(core.datasets, core.datasets.open(table, here.contents.head.manifest)))
    shown = Manifests(store).managed(table, managed_name(here.contents.version))
    return lambda name: name in head or name in shown.files or "/".join(name.split("/")[:2]) in shown.folders


def _require(core: Core, table: str, files: Sequence[str]) -> int | None:
    """What a client says it wrote must be there: nobody could read the table without it. Its oldest stamp."""
    oldest: int | None = None
    for kind, some in itertools.groupby(files, lambda name: name.partition("/")[0]):
        names = [layout.table(table, name) for name in some]
        listed = core.store.list(layout.table(table, kind), names[0][:-1], names[-1] + "~")
        gone = sorted(set(names) - {one.name for one in listed})
        if gone:
            raise InvalidInputError(f"{gone[0]} is missing: write it before the version is created")
        stamps = [int(one.modified * 1e6) for one in listed if one.name in names]
        oldest = min(stamps if oldest is None else [oldest, *stamps])
    return oldest


def _written_anew(core: Core, here: Found, manifest: Manifest) -> tuple[Version, int]:
    """Rows of a version that does not fit in form, as a version of the lake's own."""
    table, datasets = here.table.id, core.datasets
    with speaking(_READING):
        given = LanceDataset(
            datasets.uri(table),
            serialized_manifest=manifest.message,
            storage_options=dict(datasets.files.options) or None,
        )
        schema = check_schema(given.schema, here.shape.key)
        reader = given.scanner().to_reader()
    first = datasets.open(table, datasets.begin(table, schema))
    written = write(first, pa.RecordBatchReader.from_batches(schema, _batches(reader, schema)))
    return extend(datasets, first, [written]), written.rows


def _batches(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with speaking(_READING):
        for batch in reader:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _check_keys(core: Core, here: Found, made: Version) -> None:
    """Rows that were added to a keyed table must have keys that nobody else has (I13)."""
    key = here.shape.key
    if not key:
        return
    base = core.datasets.open(here.table.id, here.contents.head.manifest)
    added = _added(base, made)
    if not added:
        return
    keys = made.scan(key, fragments=added).read_all()
    require_keys(keys, key)
    for some in (keys, rows_with_keys(made, Segment(made.manifest), keys, key, key)):
        twice = repeated(some, key)
        if twice is not None:
            raise InvalidInputError(
                f"two rows would have the key {shown_key(some, key, twice)} in table {'.'.join(here.name)!r}: write to it "
                f"by merge_insert on {', '.join(key)}"
            )


def _added(base: Version, made: Version) -> Sequence[int]:
    """The fragments whose rows were not in the base."""
    held = {tuple(file.path for file in base.fragment(one).metadata.files) for one in base.fragments}
    return [one for one in made.fragments if tuple(file.path for file in made.fragment(one).metadata.files) not in held]
