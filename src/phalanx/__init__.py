"""Phalanx: a transactional lake of many Lance tables, with one log and no server."""

from importlib import import_module
from typing import TYPE_CHECKING

from phalanx.errors import (
    AlreadyExistsError,
    ChangesExpiredError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    DeadlineError,
    ExpectationError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    SchemaChangedError,
    SnapshotExpiredError,
    StagingExpiredError,
    StateError,
    UnavailableError,
    UnsupportedError,
    VersionDeletedError,
)

if TYPE_CHECKING:
    from phalanx.describe import TableInfo
    from phalanx.history import Change, Commit
    from phalanx.lake import Lake
    from phalanx.lake import open_lake as open  # noqa: A004 - what users type is phalanx.open
    from phalanx.log import action as actions
    from phalanx.snapshot import Snapshot
    from phalanx.table import Table
    from phalanx.transaction import Transaction
    from phalanx.upkeep.flush import Flushed
    from phalanx.upkeep.optimize import Done, Optimized, Skipped

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Change",
    "ChangesExpiredError",
    "Commit",
    "CommitUnknownError",
    "ConflictError",
    "CorruptionError",
    "DeadlineError",
    "Done",
    "ExpectationError",
    "Flushed",
    "InternalError",
    "InvalidInputError",
    "Lake",
    "NotFoundError",
    "Optimized",
    "PhalanxError",
    "SchemaChangedError",
    "Skipped",
    "Snapshot",
    "SnapshotExpiredError",
    "StagingExpiredError",
    "StateError",
    "Table",
    "TableInfo",
    "Transaction",
    "UnavailableError",
    "UnsupportedError",
    "VersionDeletedError",
    "__version__",
    "actions",
    "open",
]

_FROM = {
    "Change": "phalanx.history",
    "Commit": "phalanx.history",
    "Done": "phalanx.upkeep.optimize",
    "Flushed": "phalanx.upkeep.flush",
    "Lake": "phalanx.lake",
    "Optimized": "phalanx.upkeep.optimize",
    "Skipped": "phalanx.upkeep.optimize",
    "Snapshot": "phalanx.snapshot",
    "Table": "phalanx.table",
    "TableInfo": "phalanx.describe",
    "Transaction": "phalanx.transaction",
    "actions": "phalanx.log.action",
    "open": "phalanx.lake",
}
"""Where the names are that take Lance, Arrow and the SQL planner to load: more than a second of processor, spent when
the first of them is asked for. So the command line can stand back before it, not after."""


if not TYPE_CHECKING:  # so that a type checker goes on naming what is not there

    def __getattr__(name: str) -> object:
        if name not in _FROM:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        module = import_module(_FROM[name])
        found = module if name == "actions" else getattr(module, {"open": "open_lake"}.get(name, name))
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
