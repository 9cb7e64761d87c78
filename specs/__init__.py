"""Models of the protocol's rules (docs/protocol.md), small enough to try every interleaving.

A rule is changed here first. Each model also plants mistakes, one at a time, and must find what they break: a model
that cannot see a mistake proves nothing. `python -m specs` runs all of them and prints the traces.
"""

from specs import carrying, columns, grace, group_commit, items, kept, log_and_floor, prune, renewal, rows, transactions
from specs.explore import Model

MODELS: tuple[Model, ...] = (
    log_and_floor.MODEL,
    grace.MODEL,
    group_commit.MODEL,
    carrying.MODEL,
    items.MODEL,
    rows.MODEL,
    columns.MODEL,
    transactions.MODEL,
    prune.MODEL,
    kept.MODEL,
    renewal.MODEL,
)
