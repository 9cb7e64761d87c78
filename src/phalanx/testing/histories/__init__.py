"""A checker of histories in the manner of Elle: lists that transactions read and append to tell what order they had.

`check(transactions, "snapshot")` or `check(transactions, "serializable")` gives every anomaly, in words.
"""

from phalanx.testing.histories.check import Isolation, check
from phalanx.testing.histories.model import Anomaly, Append, Finding, Operation, Outcome, Read, Scan, Transaction

__all__ = [
    "Anomaly",
    "Append",
    "Finding",
    "Isolation",
    "Operation",
    "Outcome",
    "Read",
    "Scan",
    "Transaction",
    "check",
]
