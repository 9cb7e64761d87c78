"""What tasks staged becomes a commit: one entry for any number of tables, however many tasks there were.

A write on its own is a statement (rule D1): it lands behind whatever was committed meanwhile, never conflicts, and is never
staged again (rule C2). With a source's number it takes effect once: whoever comes second is told that it was done (B7).
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, cast, get_args

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from phalanx.catalog import Mark
from phalanx.errors import ConflictError, InvalidInputError
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.pins import Pin
from phalanx.spark.columns import check_columns
from phalanx.spark.lending import Job, Lent, give_back
from phalanx.spark.reach import reach
from phalanx.spark.read import numbered, pieces_of
from phalanx.spark.stage import SPARK_ANSWER, Piece, Place, copying, pieces, staging
from phalanx.spark.telling import told
from phalanx.spark.unweighed import collected
from phalanx.tables.dataset import Version
from phalanx.tables.stage import ROWS_PER_FILE, Written, write
from phalanx.tail.keys import last_of_each
from phalanx.txn.bulk import INLINE_BYTES, INLINE_ROWS, Cargo, Large, Matcher, Small, gathered, matched, standing
from phalanx.txn.core import Core, Found, locate
from phalanx.upkeep.background import Background

Mode = Literal["append", "overwrite", "upsert"]
MODES = get_args(Mode)


class Staged(msgspec.Struct, frozen=True):
    """Rows of one table that are ready to land; `rows` and `size` are what was written."""

    found: Found
    mode: Mode
    ready: Small | Large
    rows: int
    size: int
    lent: tuple[Lent, ...] = ()
    """What tasks have pinned their files with."""
    job: Job | None = None
    held: tuple[object, ...] = ()
    """What this process has pinned them with."""
    made: pa.Table | None = None
    """Few rows, as they were made: those whose key comes again later are among them."""


def check_mode(mode: str, found: Found) -> Mode:
    """How rows are added, checked."""
    name = ".".join(found.name)
    if mode not in MODES:
        raise InvalidInputError(f"mode is one of {', '.join(MODES)}: {mode!r} is not")
    if mode == "upsert" and not found.shape.key:
        raise InvalidInputError(f"upsert needs a key, and table {name!r} has none: use append")
    return cast("Mode", mode)


def stage_frame(
    lake: Lake,
    frame: DataFrame,
    found: Found,
    mode: str,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    fixed: bool = False,
) -> Staged:
    """Have tasks write the rows of a data frame; nothing is committed yet.

    With `fixed` the change is one of the table as it was found; otherwise of the table as it is when all is written.
    """
    how = check_mode(mode, found)
    pin = lake.core.pins.staging()  # before the first file is written, until an entry names it (rule E3)
    base = lake.core.hold(found.position)
    place = stage_place(lake, found, rows_per_file)
    check_columns(frame.schema, found.shape.schema, place.name)
    given = pieces_of(frame)
    with told(f"writing to table {place.name!r}"):
        if given is None:
            answer = collected(frame, place.table, lambda rows: rows.mapInArrow(staging(place), SPARK_ANSWER).collect())
        else:
            copies = numbered(frame.sparkSession, given.count).mapInArrow(copying(place, given), SPARK_ANSWER)
            answer = copies.collect()
    done = pieces(answer)
    staged = gather(lake.core, found if fixed else newest(lake.core, place), place, how, done, pin)
    return msgspec.structs.replace(staged, held=(pin, base))


def stage_place(lake: Lake, found: Found, rows_per_file: int = ROWS_PER_FILE) -> Place:
    """Where tasks stage rows of a table."""
    lake.core.require_columns(found.shape)
    if rows_per_file < 1:
        raise InvalidInputError(f"rows_per_file is 1 at the least: {rows_per_file} is not")
    if found.shape.layout != found.contents.layout.id:
        raise InvalidInputError("rows cannot be staged for columns that are not committed yet: alter the table first")
    head = standing(found, lake.core.datasets)
    name = ".".join(found.name)
    shape = found.shape
    where = (found.position, shape.table, shape.layout, head.manifest)
    return Place(reach(lake), name, *where, shape.schema, shape.key, head.fields, rows_per_file)


def newest(core: Core, place: Place) -> Found:
    """The table that rows were staged for, as it is now; as it was then if what was written does not fit any more."""
    now = locate(core.refresh(), place.table)
    head = now.contents.head
    same = now.shape.layout == place.layout == head.layout
    if same and core.datasets.open(place.table, head.manifest).fields == place.fields:
        return now
    return locate(core.log.at(place.position), place.table)


def gather(core: Core, found: Found, place: Place, mode: Mode, done: Sequence[Piece], pin: Pin | None = None) -> Staged:
    """What tasks wrote, as one change of the table.

    `pin` was put before the first of them wrote; without it they have said what pins their files.
    """
    rows, size = sum(one.rows for one in done), sum(one.size for one in done)
    few = all(one.inline for one in done) and rows <= INLINE_ROWS and size <= INLINE_BYTES
    if few:
        table = pa.concat_tables([place.schema.empty_table(), *(one.table() for one in done)]).combine_chunks()
        small = Small(last_of_each(table, place.key) if place.key else table)
        return Staged(found, mode, small, rows, size, job=place.job, made=table)
    settled = found.contents.head.layout == found.shape.layout
    pin = pin or core.pins.staging()
    lent = tuple({one.lent for one in done if one.lent is not None})
    head = core.datasets.open(place.table, found.contents.head.manifest if settled else place.manifest)
    with core.needing(one.pin() for one in lent):
        large = gathered(found, head, list(_written(head, place, done)), core.datasets, pin)
    return Staged(found, mode, large, rows, size, lent, place.job)


def _written(head: Version, place: Place, done: Sequence[Piece]) -> Iterable[Written]:
    """The fragments in the order of their rows; rows that tasks handed over are written here."""
    for inline, some in itertools.groupby(done, lambda one: bool(one.inline)):
        if inline:
            table = pa.concat_tables([one.table() for one in some])
            rows = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
            yield write(head, rows, rows_per_file=place.rows_per_file)
        else:
            yield from (one.written() for one in some)


def land(
    core: Core,
    staged: Sequence[Staged],
    *,
    more: Sequence[do.Action] = (),
    note: str = "",
    timeout: float | None = None,
    identity: bytes | None = None,
    matcher: Matcher | None = None,
) -> int:
    """Commit what was staged, in one entry, together with other actions; the version of the lake."""
    cargo = Cargo()
    lent = [pin.pin() for one in staged for pin in one.lent]
    with core.needing([*lent, *(one.ready.pin for one in staged if isinstance(one.ready, Large))]):
        items = [_action(core, cargo, one, matcher) for one in staged if one.rows or one.mode == "overwrite"]
    actions = [*more, *items]
    if not actions:
        return core.refresh().position
    background = cast("Background", core.committer.upkeep)
    deadline = core.deadline(timeout)
    held = [pin for one in staged for pin in one.held if isinstance(pin, Pin)]
    pins = [*cargo.pins, *held, *lent]
    for one in staged:
        background.make_room(one.found.table.id, deadline)
    intent = core.intent(actions, deadline, note=note, payloads=cargo.payloads, identity=identity, pins=pins)
    landed = core.committer.commit(intent)
    give_back(core, [one.job for one in staged if one.job is not None])
    for one in staged:
        background.wrote(one.found.table.id, landed)
    return landed


def _action(core: Core, cargo: Cargo, one: Staged, matcher: Matcher | None) -> do.Action:
    shape = one.found.shape
    ready = one.ready
    if isinstance(ready, Large):
        ready = matched(ready, core.datasets, replace=one.mode == "overwrite", matcher=matcher)
    if one.mode == "overwrite":
        return cargo.overwrite(shape, ready)
    return cargo.upsert(shape, ready) if shape.key else cargo.put(shape, ready)


def land_once(
    core: Core,
    source: str,
    number: int,
    staged: Sequence[Staged],
    *,
    more: Callable[[Mapping[str, Mark]], Sequence[do.Action]] = lambda _: (),
    note: str = "",
) -> int | None:
    """As `land`, as number `number` of a source; None if the source has come that far before (I12).

    `more` says, from how far all sources are, what else is to land, or raises what stands in the way.
    """
    while True:
        progress = core.refresh().state.progress
        actions, held = more(progress), progress.get(source)
        if held is not None and held.number >= number:
            return None
        step = do.Progress(source, None if held is None else held.number, number)
        try:
            return land(core, staged, more=[step, *actions], note=note)
        except ConflictError:
            now = core.refresh().state.progress.get(source)
            if now == held:
                raise  # it was something else that stood in the way
