"""Phalanx: a transactional lake of many Lance tables, with one log and no server."""

from phalanx.describe import TableInfo
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
