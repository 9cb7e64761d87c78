"""A passenger: how a process gets its transactions carried by another one of the same machine, if they contend.

Who commits alone never asks. Who lost a position looks for a carrier for a while, and becomes one if there is none (see
`carrier.py`). From then on its batches are one message and one answer each, and nothing is read. Whatever goes wrong
(no answer, a broken connection, a full tail), the process goes by itself again; a carrier that does not answer is left
alone for longer and longer.
"""

import contextlib
import errno
import socket
from collections.abc import Callable, Sequence

from phalanx.clock import Clock
from phalanx.errors import InvalidInputError
from phalanx.ids import LakeId
from phalanx.txn.carrier import Carrier
from phalanx.txn.carrying import (
    MOST_BYTES,
    UNSURE,
    Answer,
    Farewell,
    Inbox,
    Parcel,
    Reply,
    Request,
    Welcome,
    framed,
    meeting_place,
    same_user,
)
from phalanx.txn.intent import Intent, Named

_EAGER = 3.0
"""Seconds for which a process that lost a position looks for a carrier."""
_PATIENCE = 1.0
"""Seconds after which a carrier that does not answer is given up, or so many times what a put takes."""
_PUTS = 20
_FIRST_SHUN, _LONGEST_SHUN = 5.0, 300.0
_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
_BACKLOG = 1024


class Passenger:
    """One handle's way to a carrier. Used by one thread at a time: the one that leads the batch."""

    def __init__(
        self, place: Callable[[], str | None], clock: Clock, writer: str, become: Callable[[socket.socket], Carrier]
    ) -> None:
        self._place = place
        self._open = True
        self._clock = clock
        self._writer = writer
        self._become = become
        self._carrier: Carrier | None = None
        self._connection: socket.socket | None = None
        self._inbox = Inbox()
        self._eager_until = float("-inf")
        self._shunned_until = float("-inf")
        self._shun = _FIRST_SHUN

    def lost(self) -> None:
        """A position went to somebody else: if that is a process of this machine, going together is better."""
        now = self._clock.steady()
        if self._open and self._carrier is None and now > self._shunned_until:
            self._eager_until = now + _EAGER

    def asks(self) -> bool:
        """Whether it has a carrier, or is about to look for one."""
        return self._connection is not None or self._clock.steady() < self._eager_until

    def carried(self, lake: LakeId, intents: Sequence[Intent], since: int, put_time: float) -> list[int] | None:
        """What became of each: where it landed, or what a carrier answers otherwise; None if there is no carrier."""
        if sum(intent.sealed.size for intent in intents) > MOST_BYTES:
            return None
        request = framed(Request(since, self._writer, tuple(map(_parcel, intents))))
        patience = min(max(_PATIENCE, _PUTS * put_time), max(intent.deadline.left() for intent in intents))
        while self._connection is not None or self._look(lake):
            reply: Reply | None = None
            try:
                reply = self._ask(request, patience)
            finally:
                if not isinstance(reply, Answer):
                    self._leave()
            if not isinstance(reply, Farewell):
                landed = reply.landed if isinstance(reply, Answer) else []
                return landed if len(landed) == len(intents) else [UNSURE] * len(intents)
            self.lost()  # it was not taken, and there are others who want a carrier
        return None

    def stop(self) -> None:
        """Take nothing more for others, and ask nobody."""
        self._open = False
        self._leave()
        if self._carrier is not None:
            self._carrier.stop()

    def hang_up(self) -> None:
        """All that was carried is answered."""
        if self._carrier is not None:
            self._carrier.stop()  # it may have begun while the handle was being closed
            self._carrier.hang_up()
            self._carrier = None

    def _ask(self, request: bytes, patience: float) -> Reply | None:
        """What the carrier replies; None if it does not, so that nothing is known."""
        connection = self._connection
        if connection is None:
            return None
        try:
            connection.settimeout(patience)
            connection.sendall(request)
        except TimeoutError:
            self._leave_alone()
            return None
        except OSError:
            pass  # it has gone: perhaps with a farewell
        reply = self._listen(connection, patience)
        if reply is not None:
            self._shun = _FIRST_SHUN
        return reply

    def _listen(self, connection: socket.socket, patience: float) -> Reply | None:
        """The next thing that the carrier says, if it does in time."""
        until = self._clock.steady() + patience
        try:
            while (reply := self._inbox.reply()) is None:
                connection.settimeout(max(0.001, until - self._clock.steady()))
                if not self._inbox.read(connection):
                    return None
        except TimeoutError:
            self._leave_alone()
            return None
        except (OSError, ValueError, InvalidInputError):
            return None
        return reply

    def _leave_alone(self) -> None:
        """It does not answer: go alone for a while, longer each time."""
        self._eager_until = float("-inf")
        self._shunned_until = self._clock.steady() + self._shun
        self._shun = min(2 * self._shun, _LONGEST_SHUN)

    def _look(self, lake: LakeId) -> bool:
        """Whether there is a carrier now. If there is none, this process becomes it, and commits by itself."""
        now = self._clock.steady()
        if not self._open or self._carrier is not None or now >= self._eager_until:
            return False
        place = self._place()
        if place is None:
            self._open = False
            return False
        name = meeting_place(place, lake)
        pause = _PAUSE
        while pause < _LONGEST_PAUSE:
            if self._board(name) or self._serve(name):
                break
            self._clock.sleep(
                pause * self._clock.jitter()
            )  # somebody has the name, and does not listen yet or any more
            pause *= 2
        return self._connection is not None

    def _board(self, name: str) -> bool:
        """Whether there is a carrier, now ours."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(name)
            self._inbox = Inbox()
            if same_user(connection) and isinstance(self._listen(connection, _PATIENCE), Welcome):
                self._connection = connection
                return True
        except OSError:
            pass  # nobody is there, or nobody listens
        connection.close()
        return False

    def _serve(self, name: str) -> bool:
        """Whether this process is the carrier now."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(name)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                self._open = False  # this system has no such sockets
            return False
        self._carrier = self._become(listener)
        self._carrier.start()
        return True

    def _leave(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None


def _parcel(intent: Intent) -> Parcel:
    named = intent.guard if isinstance(intent.guard, Named) else None
    return Parcel(intent.sealed.encoded, intent.sealed.payloads, intent.deadline.left(), named)
