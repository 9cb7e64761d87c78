"""Requests and refusals, as the Lance Namespace specification words them.

Requests come from Python as models, and from Lance itself as dictionaries: both are asked by the names of their fields.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import lance_namespace as spec

from phalanx.catalog import Name
from phalanx.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PhalanxError,
    StateError,
    UnavailableError,
    UnsupportedError,
    VersionDeletedError,
)
from phalanx.names import parse_name
from phalanx.txn.dated import NoVersionError

Request = Any


class NoNamespaceError(NotFoundError):
    """The namespace that was named does not exist."""


def field(request: Request, name: str, default: Any = None) -> Any:  # noqa: ANN401 - whatever is in it
    """What a request says, or the default where it says nothing."""
    found = request.get(name) if isinstance(request, Mapping) else getattr(request, name, None)
    return default if found is None else found


def number(request: Request, name: str) -> int:
    """A number that a request must give."""
    found = field(request, name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidInputError(f"{name} is a number: {found!r} is not")
    return found


def name_of(request: Request) -> Name:
    """The table or namespace that a request is about; () is the lake itself."""
    return parse_id(field(request, "id", []))


def parse_id(parts: Any) -> Name:  # noqa: ANN401 - a list of parts
    """An identifier of the specification as a name."""
    given = list(parts)
    if not given:
        return ()
    if any("." in str(part) for part in given):
        raise InvalidInputError(f"{given!r} cannot name a table here: parts have no dots")
    return parse_name(".".join(map(str, given)))


def table_id(request: Request) -> str:
    """The table that a request is about, as users write it."""
    name = name_of(request)
    if not name:
        raise InvalidInputError("the request names no table: give its id, for example ['turns']")
    return ".".join(name)


def refuse_branches(request: Request) -> None:
    """There is one line of versions."""
    if field(request, "branch") not in (None, "main"):
        raise UnsupportedError("tables of a lake have no branches: leave branch out")


_Kind = type[spec.LanceNamespaceError]


@contextlib.contextmanager
def told(
    exists: _Kind = spec.TableAlreadyExistsError,
    missing: _Kind = spec.TableNotFoundError,
    state: _Kind = spec.InvalidTableStateError,
) -> Iterator[None]:
    """What goes wrong, as an error of the specification.

    What is there already, what is missing and what must be otherwise are named by what the request is about.
    """
    try:
        yield
    except PhalanxError as error:
        raise _refusal(error, exists, missing, state)(str(error)) from error


def _refusal(error: PhalanxError, exists: _Kind, missing: _Kind, state: _Kind) -> _Kind:
    kinds: tuple[tuple[type[PhalanxError], _Kind], ...] = (
        (AlreadyExistsError, exists),
        (ConflictError, spec.ConcurrentModificationError),
        (CommitUnknownError, spec.InternalError),
        (NoNamespaceError, spec.NamespaceNotFoundError),
        (NoVersionError, spec.TableVersionNotFoundError),
        (VersionDeletedError, spec.TableVersionNotFoundError),
        (NotFoundError, missing),
        (InvalidInputError, spec.InvalidInputError),
        (StateError, state),
        (UnavailableError, spec.ServiceUnavailableError),
        (UnsupportedError, spec.UnsupportedOperationError),
    )
    return next((told for kind, told in kinds if isinstance(error, kind)), spec.InternalError)
