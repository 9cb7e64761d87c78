"""Phalanx: a transactional lake of many Lance tables, with one log and no server."""

from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    DeadlineError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    SnapshotExpiredError,
    StateError,
    UnavailableError,
    UnsupportedError,
)
from phalanx.history import Commit
from phalanx.lake import Lake
from phalanx.lake import open_lake as open  # noqa: A004 - what users type is phalanx.open
from phalanx.log import action as actions
from phalanx.snapshot import Snapshot

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Commit",
    "CommitUnknownError",
    "ConflictError",
    "CorruptionError",
    "DeadlineError",
    "InternalError",
    "InvalidInputError",
    "Lake",
    "NotFoundError",
    "PhalanxError",
    "Snapshot",
    "SnapshotExpiredError",
    "StateError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "actions",
    "open",
]
