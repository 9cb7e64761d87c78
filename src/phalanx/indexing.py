"""Indexes as users declare them: once; from then on maintenance keeps them covering."""

import contextlib
from collections.abc import Mapping

import msgspec
import pyarrow as pa
from pyarrow import types

from phalanx.clock import Deadline
from phalanx.errors import InvalidInputError, PhalanxError
from phalanx.log import item as it
from phalanx.tables.index import VECTOR, segments
from phalanx.tail.writeout import Writer, written_here
from phalanx.txn.core import Core, Found, locate
from phalanx.upkeep.cover import Builder, cover, wanted
from phalanx.upkeep.flush import flush

Options = Mapping[str, int | float | str | bool]
_BUILD_SECONDS = 3600.0
_OWN = "phalanx_"
_STEP_OF_RQ = 8
"""Lance packs a bit of each number: it builds ivf_rq for vectors of 8, 16, 24, … numbers only."""
_OF_VECTORS = frozenset(
    [
        "metric",
        "num_partitions",
        "num_sub_vectors",
        "num_bits",
        "max_iters",
        "sample_rate",
        "target_partition_size",
        "m",
        "ef_construction",
        "max_level",
        "filter_nan",
        "shuffle_partition_batches",
        "shuffle_partition_concurrency",
        "skip_transpose",
    ]
)
_OF_TEXT = frozenset(
    [
        "with_position",
        "block_size",
        "memory_limit",
        "num_workers",
        "base_tokenizer",
        "language",
        "max_token_length",
        "lower_case",
        "stem",
        "remove_stop_words",
        "ascii_folding",
        "ngram_min_length",
        "ngram_max_length",
        "min_ngram_length",
        "max_ngram_length",
        "prefix_only",
    ]
)
"""What Lance takes; it swallows every other word without a sound."""


class IndexInfo(msgspec.Struct, frozen=True):
    """An index of a table, and how much of what is written out it covers."""

    name: str
    column: str
    kind: str
    options: dict[str, int | float | str | bool]
    segments: int
    fragments: int
    of: int


def create(
    core: Core,
    table: str,
    column: str,
    kind: str,
    name: str | None,
    options: Options,
    *,
    writer: Writer = written_here,
    builder: Builder | None = None,
) -> int:
    """Declare an index and build it for what is there; the version of the lake that declares it."""
    here = locate(core.refresh(), table)
    _check(here.shape.schema, column, kind, name)
    _check_options(kind, options)
    known: it.IndexKind = kind  # type: ignore[assignment]
    action = it.DeclareIndex(table, name or f"{column}_{kind}", column, known, dict(options))
    deadline = Deadline.after(core.clock, _BUILD_SECONDS)
    flush(core, table, deadline, writer)
    landed = core.commit([action])
    failed = cover(core, table, deadline, builder=builder).failed.get(action.name)
    if failed is not None:
        with contextlib.suppress(PhalanxError):
            drop(core, table, action.name)
        raise failed
    return landed


def drop(core: Core, table: str, name: str) -> int:
    """An index is no longer wanted; the next upkeep removes it."""
    return core.commit([it.DropIndex(table, name)])


def listed(core: Core, table: str) -> list[IndexInfo]:
    """The indexes of a table, the one that a key keeps included."""
    return listed_at(core, locate(core.refresh(), table))


def listed_at(core: Core, here: Found) -> list[IndexInfo]:
    """The indexes that a table had at one moment."""
    head = core.datasets.open(here.table.id, here.contents.head.manifest)
    held = segments(head)
    there = set(head.fragments)
    infos = []
    for spec in wanted(here):
        own = [segment for segment in held if segment.name == spec.stored]
        covered = there.intersection(set().union(*(segment.fragments for segment in own)))
        infos.append(IndexInfo(spec.name, spec.column, spec.kind, spec.options, len(own), len(covered), len(there)))
    return infos


def _check_options(kind: str, options: Options) -> None:
    known = _OF_VECTORS if kind in VECTOR else _OF_TEXT if kind == "inverted" else frozenset()
    unknown = sorted(set(options) - known)
    if unknown:
        there = ", ".join(sorted(known)) or "none"
        raise InvalidInputError(f"an index of kind {kind} has no option {unknown[0]!r}; there is: {there}")


def _check(schema: pa.Schema, column: str, kind: str, name: object) -> None:
    if name is not None and (not isinstance(name, str) or not name or name.startswith(_OWN)):
        raise InvalidInputError(f"an index cannot be called {name!r}: give a name that does not begin with {_OWN!r}")
    kinds = ("btree", "bitmap", "inverted", *sorted(VECTOR))
    if kind not in kinds:
        raise InvalidInputError(f"there is no kind of index {kind!r}; there is: {', '.join(kinds)}")
    if column not in schema.names:
        raise InvalidInputError(f"there is no column {column!r}; there is: {', '.join(schema.names)}")
    of = schema.field(column).type
    vector = types.is_fixed_size_list(of) and types.is_floating(of.value_type)
    text = types.is_string(of) or types.is_large_string(of)
    plain = not (types.is_nested(of) or types.is_dictionary(of) or types.is_null(of))
    fits = vector if kind in VECTOR else text if kind == "inverted" else plain
    if not fits:
        needs = "fixed-size vectors" if kind in VECTOR else "text" if kind == "inverted" else "plain values"
        raise InvalidInputError(f"an index of kind {kind} needs a column of {needs}: {column!r} is of type {of}")
    if kind == "ivf_rq" and of.list_size % _STEP_OF_RQ:
        raise InvalidInputError(
            f"an index of kind {kind} needs vectors of a multiple of {_STEP_OF_RQ} numbers: {column!r} has {of.list_size}"
        )
