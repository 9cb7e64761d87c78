"""Messages as Lance writes them (Protocol Buffers), as far as they are read and written here: numbers, bytes, parts."""

from collections.abc import Iterator
from typing import NamedTuple

_LENGTH = 2
_FIXED = {1: 8, 5: 4}


class Part(NamedTuple):
    """One field of a message: its number, its bytes as they stand there, and its value."""

    field: int
    raw: bytes
    value: int | bytes


def parts(message: bytes) -> Iterator[Part]:
    """The fields of a message, in order."""
    at = 0
    while at < len(message):
        begin = at
        key, at = read_varint(message, at)
        value: int | bytes
        if key & 7 == _LENGTH:
            length, at = read_varint(message, at)
            value, at = message[at : at + length], at + length
        elif key & 7 == 0:
            value, at = read_varint(message, at)
        elif key & 7 in _FIXED:
            size = _FIXED[key & 7]
            value, at = message[at : at + size], at + size
        else:
            raise ValueError(f"field {key >> 3} has no known form")
        if at > len(message):
            raise ValueError(f"field {key >> 3} is cut off")
        yield Part(key >> 3, message[begin:at], value)


def number_of(message: bytes, field: int, default: int = 0) -> int:
    """The number in a field; of one that comes twice the last counts."""
    found = [part.value for part in parts(message) if part.field == field and isinstance(part.value, int)]
    return found[-1] if found else default


def bytes_of(message: bytes, field: int) -> bytes:
    """The bytes in a field."""
    found = [part.value for part in parts(message) if part.field == field and isinstance(part.value, bytes)]
    return found[-1] if found else b""


def without(message: bytes, *fields: int) -> bytes:
    """The message without some fields."""
    return b"".join(part.raw for part in parts(message) if part.field not in fields)


def number(field: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(field << 3) + varint(value)


def content(field: int, value: bytes) -> bytes:
    """A field that is text, bytes or a message."""
    return varint(field << 3 | _LENGTH) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The inverse of `varint`, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
