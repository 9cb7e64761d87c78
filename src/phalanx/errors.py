"""Every error Phalanx raises on purpose, grouped by what the caller does next.

    PhalanxError
    ├── ConflictError            run the transaction again on a newer snapshot
    │   ├── SchemaChangedError   the table's columns changed meanwhile: look at them, and run it again
    │   └── StagingExpiredError  what was staged for it was pruned, because its pin expired: stage it again
    ├── CommitUnknownError       look first: the change may or may not be in the log
    ├── UnavailableError         back off and try again: storage did not answer, or refused for now
    │   └── DeadlineError        the deadline passed; the change is known not to be committed
    ├── NotFoundError            create it, or correct the name
    ├── AlreadyExistsError       choose another name, or use what is there
    ├── InvalidInputError        correct the argument
    │   └── ExpectationError     look at the rows that a pipeline's step has made: they are not as declared
    ├── StateError               the handle, or the lake, is not in a state that allows this
    │   ├── SnapshotExpiredError choose a newer snapshot
    │   │   └── ChangesExpiredError  read the table as a whole, and follow its changes from there
    │   └── VersionDeletedError  choose another version of the table
    ├── UnsupportedError         upgrade Phalanx, or use another file system
    ├── CorruptionError          stop, and run `phalanx check`
    └── InternalError            a bug in Phalanx: report it

`error.committed` says what is known of the change that was asked for: False (certainly not in the log)
or None (unknown). No error is ever raised for a change that is known to be committed.
"""


class PhalanxError(Exception):
    """Base of all errors raised on purpose; the message says what happened and what to do next."""

    committed: bool | None = False


class ConflictError(PhalanxError):
    """Another commit got there first; `position` is the winner's, where it is known."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class SchemaChangedError(ConflictError):
    """The change was made for columns that the table no longer has."""


class StagingExpiredError(ConflictError):
    """Files that were staged for the change were pruned: its pin was not renewed in time. Stage it again."""


class CommitUnknownError(PhalanxError):
    """The outcome could not be settled in time. Never retried automatically: look at the log first."""

    committed = None


class UnavailableError(PhalanxError):
    """Storage did not answer, or refused for a reason that may pass (disk full, permission, network)."""


class DeadlineError(UnavailableError):
    """The deadline passed before the change was put anywhere: it is known not to be committed."""


class NotFoundError(PhalanxError):
    """What was named does not exist."""


class AlreadyExistsError(PhalanxError):
    """The name is taken."""


class InvalidInputError(PhalanxError):
    """An argument is wrong; nothing was written."""


class ExpectationError(InvalidInputError):
    """The rows of a pipeline's step are not as it declares them; nothing of the run is visible."""


class StateError(PhalanxError):
    """The handle or the lake is not in a state that allows this (closed, read-only, not empty)."""


class SnapshotExpiredError(StateError):
    """The position lies below the retained log."""


class ChangesExpiredError(SnapshotExpiredError):
    """Changes were asked for that lie below the retained log."""


class VersionDeletedError(StateError):
    """This version of the table was deleted."""


class UnsupportedError(PhalanxError):
    """Written by a newer Phalanx, or a file system without the needed semantics. Refused, not guessed."""


class CorruptionError(PhalanxError):
    """Bytes on storage are not what was written, or something that must exist is missing."""


class InternalError(PhalanxError):
    """A state that should be impossible: a bug in Phalanx."""
