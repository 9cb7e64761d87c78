"""Which files are meant: names, folders, globs and standard input, and the format of each."""

import glob
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from phalanx.errors import InvalidInputError, NotFoundError, UnavailableError

STDIN = "-"


class Format(StrEnum):
    """How a file holds rows. `json` means one object on each line; `arrow` is an IPC file (feather) or stream."""

    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    ARROW = "arrow"


SUFFIXES = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Of text formats only: the others are compressed inside."""
_TEXT = {Format.CSV, Format.TSV, Format.JSON}


class File(msgspec.Struct, frozen=True):
    """One file to read; `compression` as Arrow calls it."""

    path: str
    format: Format
    compression: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return "standard input" if self.path == STDIN else self.path

    @property
    def size(self) -> int:
        """Its bytes, as far as that is known beforehand."""
        place = Path(self.path)
        return place.stat().st_size if self.path != STDIN and place.is_file() else 0


def find_files(given: Sequence[str], asked: Format | None) -> list[File]:
    """The files that were meant, in the order in which they were named; those of a folder by name."""
    return [_file(path, asked) for name in given for path in _paths(name, asked)]


def suffix_format(name: str) -> Format | None:
    """The format that a name's ending says."""
    return SUFFIXES.get(Path(name).suffix.lower())


def _paths(name: str, asked: Format | None) -> list[str]:
    if name == STDIN:
        return [name]
    if "://" in name:
        raise InvalidInputError(f"{name} is not a file of this machine: copy it here first, or pipe it into `-`")
    place = Path(name)
    try:
        if place.is_dir():
            return _inside(place, asked)
        found = [name] if place.exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - of any folder
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{name} cannot be read: {error}") from error
    if not found:
        raise NotFoundError(f"there is no file {name}: check the name")
    return [path for one in found for path in (_inside(Path(one), asked) if Path(one).is_dir() else [one])]


def _inside(folder: Path, asked: Format | None) -> list[str]:
    """All files below a folder, but for those that other tools hide there (`_SUCCESS`, `.crc`)."""
    found = [
        str(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        and (asked is not None or _guess(path.name) is not None)
    ]
    if not found:
        raise NotFoundError(f"there is no file in {folder} whose name ends in one of {', '.join(SUFFIXES)}")
    return found


def _file(path: str, asked: Format | None) -> File:
    guessed = None if path == STDIN else _guess(path)
    if asked is None and guessed is None:
        known = ", ".join(Format)
        which = "standard input" if path == STDIN else path
        raise InvalidInputError(f"the format of {which} is not known by its name: give --format, one of {known}")
    found = asked or (guessed or (Format.CSV, None))[0]
    compression = COMPRESSED.get(Path(path).suffix.lower()) if found in _TEXT else None
    return File(path, found, compression)


def _guess(name: str) -> tuple[Format, str | None] | None:
    place = Path(name)
    found = suffix_format(name)
    if found is not None:
        return found, None
    compression = COMPRESSED.get(place.suffix.lower())
    inner = suffix_format(place.stem)
    return (inner, compression) if compression and inner in _TEXT else None
