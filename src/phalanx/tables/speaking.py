"""Errors of Lance in Phalanx's words: what the caller does next decides which one it becomes.

Lance answers with OSError, ValueError or RuntimeError and a text that ends in a source position; damaged files can make
it panic, which is a BaseException (it is caught here and nowhere else). Nothing of storage options is ever in a text.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.errors import CorruptionError, InvalidInputError, PhalanxError, UnavailableError

_SOURCE = re.compile(r",? ?/[\w/.\-]*\.rs:\d+:\d+.*", re.DOTALL)
_ADDRESS = re.compile(r"\w+://[^\s?]+\?\S+")
_LONGEST = 400


@contextmanager
def speaking(doing: str) -> Iterator[None]:
    """Translate what Lance raises while we are `doing` something."""
    try:
        yield
    except (PhalanxError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        raise
    except BaseException as error:  # a panic of Lance is no Exception
        raise translated(doing, error) from error


def translated(doing: str, error: BaseException) -> PhalanxError:
    """What Lance said, as the error that the caller can act on."""
    text = plain(error)
    if type(error).__name__ == "PanicException" or "not found" in text.lower() or isinstance(error, FileNotFoundError):
        return CorruptionError(f"cannot go on {doing}: {text}; files are missing or damaged: run `phalanx check`")
    if isinstance(error, ValueError | TypeError | NotImplementedError | OverflowError):
        return InvalidInputError(f"cannot go on {doing}: {text}")
    return UnavailableError(f"cannot go on {doing}: {text}; nothing was committed: check the storage, then try again")


def plain(error: BaseException) -> str:
    """The text of an error without source positions, queries and line breaks."""
    text = _ADDRESS.sub("(address)", _SOURCE.sub("", str(error)))
    return " ".join(text.split())[:_LONGEST]
