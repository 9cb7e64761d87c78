"""What a carrier and its passengers say to each other, and where they meet.

They meet at an abstract Unix socket whose name says which storage, which lake and which user: whoever binds it is the
carrier, and the kernel frees the name when that process ends, however it ends. Both sides ask the kernel who the other
one is, because anybody on the machine can bind or connect there.
"""

import hashlib
import os
import socket
import struct
from collections.abc import Iterator

import msgspec

from phalanx.errors import InvalidInputError
from phalanx.ids import LakeId
from phalanx.log import item as it
from phalanx.txn.intent import Intent, Named

MOST_BYTES = 1 << 20
"""A batch with more bytes goes into the log by itself: copying it to another process gains nothing."""
MOST_MESSAGE = MOST_BYTES + (1 << 22)

NOT_LANDED = 0
"""An answer: certainly not in the log, and the carrier will not put it there."""
UNSURE = -1
"""An answer: it may stand in the log, or not, or later."""

_FORMAT = 1
_LENGTH = struct.Struct("<I")
_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 18


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """One sealed transaction, what its tables must be called, and how many seconds its caller still waits."""

    encoded: bytes
    payloads: tuple[bytes, ...]
    seconds: float
    named: Named | None = None


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Transactions to be carried, in this order. None of them stands in the log below `since`."""

    since: int
    writer: str
    parcels: tuple[Parcel, ...]


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """Said to whoever connects: before that, nothing can have been taken."""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """For each transaction of a request the position it landed on, `NOT_LANDED` or `UNSURE`."""

    landed: list[int]


class Farewell(msgspec.Struct, frozen=True, array_like=True, tag="farewell"):
    """The carrier ends, and took nothing that it has not answered."""


Reply = Welcome | Answer | Farewell

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_replies = msgspec.msgpack.Decoder(Reply)


def meeting_place(place: str, lake: LakeId) -> str:
    """The name of the socket: the same for all processes of one user that share this storage and this lake."""
    text = f"{_FORMAT}\n{os.geteuid()}\n{lake.hex()}\n{place}"
    return "\0phalanx-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end runs as this one does."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())


def can_ride(intent: Intent) -> bool:
    """Whether nothing has to be read to judge it, and all it says is how rows change."""
    return (
        (intent.guard is None or isinstance(intent.guard, Named))
        and intent.token_since is None  # another process may not remember as far back
        and intent.sealed.size < MOST_BYTES
        and all(isinstance(action, it.Rowwise) for action in intent.transaction.actions)
    )


def framed(message: Request | Reply) -> bytes:
    """A message as it is sent."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


class Inbox:
    """Puts messages together from what arrives on one connection."""

    def __init__(self) -> None:
        self._held = bytearray()

    def read(self, connection: socket.socket) -> bool:
        """Take what is there; False if the other end has hung up."""
        chunk = connection.recv(_CHUNK)
        self._held += chunk
        return bool(chunk)

    def requests(self) -> Iterator[Request]:
        """The requests that are complete."""
        while (data := self._next()) is not None:
            yield _requests.decode(data)

    def reply(self) -> Reply | None:
        """What the carrier says, once it is complete."""
        data = self._next()
        return None if data is None else _replies.decode(data)

    def _next(self) -> bytes | None:
        held = self._held
        if len(held) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(held)
        if size > MOST_MESSAGE:
            raise InvalidInputError(f"a message of {size} bytes is not one of ours")
        end = _LENGTH.size + size
        if len(held) < end:
            return None
        data = bytes(memoryview(held)[_LENGTH.size : end])
        del held[:end]
        return data
