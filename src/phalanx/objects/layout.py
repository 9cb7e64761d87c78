"""The names of all objects of a lake, in both directions. No other module makes or parses a name.

    log/<position // 1000, 17 digits>/<position, 20 digits>
    floor/<position, 20 digits>
    checkpoint/<position, 20 digits>-<hash, 16 hexadecimal digits>
    kept/<position, 20 digits>                       the fold below a position that a tag or a pin needs
    kept/<incarnation>/<version, 20 digits>          a table at one of its versions
    pins/<kind>-<position, 20 digits>-<id, 32 hexadecimal digits>-<seconds, 10 digits>-<number, 6 digits>
    tables/<incarnation, 32 hexadecimal digits>/…   a Lance dataset, whose inner names are Lance's own

Numbers have a fixed width, so the order of names is the order of positions. The bucket is a constant of the format:
a name must be known before any setting of the lake can be read.
"""

import re

import msgspec

LOG = "log"
FLOOR = "floor"
CHECKPOINT = "checkpoint"
KEPT = "kept"
PINS = "pins"
TABLES = "tables"

BUCKET = 1000
"""Entries in one folder: small enough to list and to sync, large enough that folders stay few."""

_BUCKET_DIGITS = 17
_POSITION_DIGITS = 20
_HASH_DIGITS = 16

_ENTRY = re.compile(rf"{LOG}/(\d{{{_BUCKET_DIGITS}}})/(\d{{{_POSITION_DIGITS}}})")
_FLOOR = re.compile(rf"{FLOOR}/(\d{{{_POSITION_DIGITS}}})")
_KEPT = re.compile(rf"{KEPT}/(\d{{{_POSITION_DIGITS}}})")
_KEPT_VERSION = re.compile(rf"{KEPT}/([0-9a-f]{{32}})/(\d{{{_POSITION_DIGITS}}})")
_PIN = re.compile(rf"{PINS}/([a-z]+)-(\d{{{_POSITION_DIGITS}}})-([0-9a-f]{{32}})-(\d{{10}})-(\d{{6}})")
_CHECKPOINT = re.compile(rf"{CHECKPOINT}/(\d{{{_POSITION_DIGITS}}})-([0-9a-f]{{{_HASH_DIGITS}}})")


def entry(position: int) -> str:
    """The name of the entry at `position`."""
    return f"{bucket(position)}/{position:0{_POSITION_DIGITS}d}"


def bucket(position: int) -> str:
    """The folder that holds the entry at `position`."""
    return f"{LOG}/{position // BUCKET:0{_BUCKET_DIGITS}d}"


def entry_position(name: str) -> int | None:
    """The position of an entry's name; None for any other name, a wrong bucket included."""
    match = _ENTRY.fullmatch(name)
    if match is None or int(match[1]) != int(match[2]) // BUCKET:
        return None
    return int(match[2])


def floor(position: int) -> str:
    """The name of the floor object: everything below `position` is in it."""
    return f"{FLOOR}/{position:0{_POSITION_DIGITS}d}"


def floor_position(name: str) -> int | None:
    """The position of a floor object's name."""
    match = _FLOOR.fullmatch(name)
    return int(match[1]) if match else None


def kept(position: int) -> str:
    """The name of the fold below `position`, kept for a tag or pin."""
    return f"{KEPT}/{position:0{_POSITION_DIGITS}d}"


def kept_position(name: str) -> int | None:
    """The position of a kept object's name."""
    match = _KEPT.fullmatch(name)
    return int(match[1]) if match else None


def kept_version(table: str, version: int) -> str:
    """The name of a table at one of its versions, kept after the floor has passed it."""
    return f"{KEPT}/{table}/{version:0{_POSITION_DIGITS}d}"


def version_kept(name: str) -> tuple[str, int] | None:
    """The table and the version of such a name."""
    match = _KEPT_VERSION.fullmatch(name)
    return (match[1], int(match[2])) if match else None


class PinName(msgspec.Struct, frozen=True):
    """What the name of a pin says: all that there is to know of it but its age, so that a listing is enough."""

    kind: str
    position: int
    id: str
    life: int
    number: int

    def __str__(self) -> str:
        """The name itself."""
        return f"{PINS}/{self.kind}-{self.position:020d}-{self.id}-{self.life:010d}-{self.number:06d}"


def pin(name: str) -> PinName | None:
    """The parts of a pin's name; None if it is not one."""
    match = _PIN.fullmatch(name)
    return PinName(match[1], int(match[2]), match[3], int(match[4]), int(match[5])) if match else None


def checkpoint(position: int, digest: bytes) -> str:
    """The name of the checkpoint of everything below `position`; the hash of its bytes is part of the name."""
    return f"{CHECKPOINT}/{position:0{_POSITION_DIGITS}d}-{digest.hex()[:_HASH_DIGITS]}"


def checkpoint_position(name: str) -> int | None:
    """The position of a checkpoint's name."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


def table(incarnation: str, inside: str = "") -> str:
    """The folder of a table's dataset, or the name of something inside it."""
    return f"{TABLES}/{incarnation}/{inside}".rstrip("/")
