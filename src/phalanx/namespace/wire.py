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
)
from phalanx.names import parse_name

Request = Any


def field(request: Request, name: str, default: Any = None) -> Any:  # noqa: ANN401 - whatever is in it
    """What a request says, or the default where it says nothing."""
    found = request.get(name) if isinstance(request, Mapping) else getattr(request, name, None)
    return default if found is None else found


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


@contextlib.contextmanager
def told(exists: type[spec.LanceNamespaceError] = spec.TableAlreadyExistsError) -> Iterator[None]:
    """What goes wrong, as an error of the specification; `exists` is what to say where something is there already."""
    try:
        yield
    except PhalanxError as error:
        raise _refusal(error, exists)(str(error)) from error


def _refusal(error: PhalanxError, exists: type[spec.LanceNamespaceError]) -> type[spec.LanceNamespaceError]:
    kinds: tuple[tuple[type[PhalanxError], type[spec.LanceNamespaceError]], ...] = (
        (AlreadyExistsError, exists),
        (ConflictError, spec.ConcurrentModificationError),
        (CommitUnknownError, spec.InternalError),
        (NotFoundError, spec.TableNotFoundError),
        (InvalidInputError, spec.InvalidInputError),
        (StateError, spec.InvalidTableStateError),
        (UnavailableError, spec.ServiceUnavailableError),
        (UnsupportedError, spec.UnsupportedOperationError),
    )
    return next((told for kind, told in kinds if isinstance(error, kind)), spec.InternalError)
