"""The rows nearest to a vector, asked of Lance.

pylance copies whatever a scan was asked for deeply, the vector among it, in case somebody wants a frame of pandas with blobs
later: some percent of the time of a search. Here nobody changes what was asked for, so that its copy is itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from lance.dataset import ScannerBuilder

_VECTOR = "_nearest"


class _Unchanged(dict[str, Any]):
    """What is asked for, and not changed any more."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Unchanged":
        return self


def nearest(
    dataset: LanceDataset,
    columns: Sequence[str],
    query: Mapping[str, Any],
    *,
    where: str | None,
    without: bytes | None,
    only: bytes | None,
    row_ids: bool,
) -> pa.Table:
    """The rows, with `_distance`; `query` is Lance's own description, and rows are told by treemaps."""
    builder: Any = ScannerBuilder(dataset).columns([*columns, "_distance"]).with_row_id(row_ids)
    if where is not None:
        builder = builder.filter(where)
    if without is not None or only is not None:
        builder = builder.row_addr_prefilter(allowlist=only, blocklist=without)
    if where is not None or without is not None or only is not None:
        builder = builder.prefilter(prefilter=True)
    builder = builder.nearest(**query)
    asked = vars(builder).get(_VECTOR)
    if type(asked) is dict:
        setattr(builder, _VECTOR, _Unchanged(asked))
    found: pa.Table = builder.to_scanner().to_table()
    return found
