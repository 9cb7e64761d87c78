"""An intent: one transaction that somebody wants in the log, on its way there."""

from collections.abc import Sequence

from phalanx.clock import Deadline
from phalanx.errors import PhalanxError
from phalanx.ids import ID_BYTES, TransactionId
from phalanx.log.ack import Ack
from phalanx.log.action import Action
from phalanx.log.entry import Sealed, Transaction, seal


class Intent:
    """A sealed transaction with the acknowledgement its caller waits for, and until when."""

    __slots__ = ("ack", "deadline", "id", "producer", "sealed", "unsure_at")

    def __init__(self, sealed: Sealed, deadline: Deadline, producer: object | None = None) -> None:
        self.sealed = sealed
        self.id = TransactionId(sealed.transaction.id)
        self.deadline = deadline
        self.ack = Ack()
        self.producer = producer
        """Intents of one producer land in the order in which they were submitted."""
        self.unsure_at: int | None = None
        """A position below the floor at which it may have landed: only the remembered ids can tell (rule A5)."""

    @property
    def transaction(self) -> Transaction:
        """What is wanted."""
        return self.sealed.transaction

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.ack.done()


Outcome = tuple[Ack, int | PhalanxError]


def intend(
    actions: Sequence[Action],
    identity: bytes,
    deadline: Deadline,
    *,
    note: str = "",
    payloads: Sequence[bytes] = (),
    producer: object | None = None,
) -> Intent:
    """An intent for these actions; an `InvalidInputError` here concerns nobody else's."""
    transaction = Transaction(identity[:ID_BYTES], note, tuple(actions), len(payloads))
    return Intent(seal(transaction, payloads), deadline, producer)
