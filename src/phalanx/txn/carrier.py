"""A carrier: the process of a machine that brings other processes' transactions into the log, together with its own.

Forty processes that each put their own entry lose to each other nearly always, and everyone reads what the others
wrote; carried, they share entries as the threads of one process do. Nothing depends on it (rule B9): a carried
transaction keeps its id, so wherever it lands, and however often it is put, it takes effect once; a passenger that gets
no answer goes by itself. A carrier judges what it carries on its own state, like everything else it commits.
"""

import contextlib
import logging
import os
import selectors
import socket
import threading
import weakref
from collections.abc import Callable

from phalanx.clock import Clock, Deadline
from phalanx.errors import CommitUnknownError, InvalidInputError, PhalanxError, UnavailableError
from phalanx.log.ack import Ack, settle
from phalanx.log.entry import unseal
from phalanx.txn.carrying import (
    NOT_LANDED,
    UNSURE,
    Answer,
    Farewell,
    Inbox,
    Reply,
    Request,
    Welcome,
    can_ride,
    framed,
    same_user,
)
from phalanx.txn.intent import Intent

log = logging.getLogger("phalanx.txn")

_LEFT = UnavailableError("it is left to its own process")


class Carrier:
    """Listens at the meeting place, hands in what passengers bring, and answers when it is settled."""

    def __init__(
        self,
        listener: socket.socket,
        clock: Clock,
        hand_in: Callable[[list[Intent]], None],
        takes: Callable[[Intent], bool],
    ) -> None:
        self._listener = listener
        self._clock = clock
        self._hand_in = hand_in
        self._takes = takes
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="phalanx-carrier", daemon=True)
        _carriers.add(self)

    def start(self) -> None:
        """Begin to serve."""
        self._listener.settimeout(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more: the meeting place is free for another process. What was taken is still answered."""
        if not self._closed:
            self._closed = True
            self._waker.send(b"x")
            self._thread.join()

    def hang_up(self) -> None:
        """Everything is answered: let the passengers go, and tell them that what they send now was not taken."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Passenger):
                key.data.tell(Farewell())
        self.forget()
        self._selector.close()

    def forget(self) -> None:
        """Close every connection here: they are another process's after a fork, and so is the thread to stop."""
        self._closed = True
        for key in list(self._selector.get_map().values()):
            with contextlib.suppress(OSError):
                key.fileobj.close()  # type: ignore[union-attr]
        self._waker.close()

    def _serve(self) -> None:
        try:
            while not self._closed:
                for key, _ in self._selector.select():
                    if key.fileobj is self._listener:
                        self._welcome()
                    elif key.fileobj is not self._wake:
                        self._read(key.data)
        finally:  # whatever happened, somebody else may carry from now on
            self._selector.unregister(self._listener)
            self._listener.close()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # whoever came has gone
            connection, _ = self._listener.accept()
            if not same_user(connection):
                connection.close()
                return
            connection.settimeout(0)
            passenger = _Passenger(connection)
            passenger.tell(Welcome())
            self._selector.register(connection, selectors.EVENT_READ, passenger)

    def _read(self, passenger: "_Passenger") -> None:
        try:
            there = passenger.inbox.read(passenger.connection)
            intents = [intent for request in passenger.inbox.requests() for intent in self._taken(passenger, request)]
        except OSError:  # it was killed
            there, intents = False, []
        except (ValueError, PhalanxError) as error:
            log.warning("a process that is carried sent something unreadable: %s", error)
            there, intents = False, []
        if intents:
            self._hand_in(intents)
        if not there:
            self._selector.unregister(passenger.connection)
            passenger.connection.close()

    def _taken(self, passenger: "_Passenger", request: Request) -> list[Intent]:
        """What is to be committed for a request; what is not taken is left to its own process."""
        errand = _Errand(passenger, len(request.parcels))
        given = [
            Intent(
                unseal(parcel.encoded, parcel.payloads),
                Deadline.after(self._clock, parcel.seconds),
                passenger,
                parcel.named,
                ack=_Told(errand, number),
                lent_at=request.since,
                by=request.writer,
            )
            for number, parcel in enumerate(request.parcels)
        ]
        if not given or not all(map(can_ride, given)):
            raise InvalidInputError("only changes of rows are carried")
        taken = [self._takes(intent) for intent in given]
        settle((intent.ack, _LEFT) for intent, mine in zip(given, taken, strict=True) if not mine)
        return [intent for intent, mine in zip(given, taken, strict=True) if mine]


class _Passenger:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.inbox = Inbox()

    def tell(self, reply: Reply) -> None:
        try:
            data = framed(reply)
            if self.connection.send(data) < len(data):
                self.connection.shutdown(socket.SHUT_RDWR)  # the thread that reads closes it
        except OSError:
            return  # it went, or does not listen: then it finds out by itself


class _Errand:
    """What one request is answered with, once all of it is known."""

    def __init__(self, passenger: _Passenger, count: int) -> None:
        self._passenger = passenger
        self._landed = [UNSURE] * count
        self._open = count
        self._lock = threading.Lock()

    def told(self, number: int, outcome: int) -> None:
        with self._lock:
            self._landed[number] = outcome
            self._open -= 1
            if self._open:
                return
        self._passenger.tell(Answer(self._landed))


class _Told(Ack):
    """The acknowledgement of a carried transaction: nobody waits for it here."""

    __slots__ = ("_errand", "_number")

    def __init__(self, errand: _Errand, number: int) -> None:
        super().__init__()
        self._errand = errand
        self._number = number

    def _tell(self, outcome: int | PhalanxError) -> None:
        self._errand.told(self._number, _as_answer(outcome))


def _as_answer(outcome: int | PhalanxError) -> int:
    if isinstance(outcome, CommitUnknownError):
        return UNSURE
    return outcome if isinstance(outcome, int) else NOT_LANDED


_carriers: "weakref.WeakSet[Carrier]" = weakref.WeakSet()


def _forked() -> None:
    """A child must not hold the meeting place open for a parent that may end before it."""
    for carrier in list(_carriers):
        carrier.forget()


os.register_at_fork(after_in_child=_forked)
