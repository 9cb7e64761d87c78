"""The names of all objects of a lake, in both directions. No other module makes or parses a name.

    log/<position // 1000, 17 digits>/<position, 20 digits>
    floor/<position, 20 digits>
    checkpoint/<position, 20 digits>-<hash, 16 hexadecimal digits>
    kept/<position, 20 digits>
    tables/<incarnation, 32 hexadecimal digits>/…   a Lance dataset, whose inner names are Lance's own

Numbers have a fixed width, so the order of names is the order of positions. The bucket is a constant of the format:
a name must be known before any setting of the lake can be read.
"""

import re

LOG = "log"
FLOOR = "floor"
CHECKPOINT = "checkpoint"
KEPT = "kept"
TABLES = "tables"

BUCKET = 1000
"""Entries in one folder: small enough to list and to sync, large enough that folders stay few."""

_BUCKET_DIGITS = 17
_POSITION_DIGITS = 20
_HASH_DIGITS = 16

_ENTRY = re.compile(rf"{LOG}/(\d{{{_BUCKET_DIGITS}}})/(\d{{{_POSITION_DIGITS}}})")
_FLOOR = re.compile(rf"{FLOOR}/(\d{{{_POSITION_DIGITS}}})")
_KEPT = re.compile(rf"{KEPT}/(\d{{{_POSITION_DIGITS}}})")
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
