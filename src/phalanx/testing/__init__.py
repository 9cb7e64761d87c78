"""The test kit that Phalanx is tested with, shipped so that users can test what they build on it.

Faulty and counting stores, a clock that tests move, an enumerator of power-loss states, real processes that are killed
and stopped, and an oracle that compares what was acknowledged with what is found. `phalanx.testing.histories` finds
anomalies in what transactions saw. Nothing in Phalanx imports it.
"""

from phalanx.testing.clocks import ManualClock
from phalanx.testing.counting import CountingStore
from phalanx.testing.faults import Fault, FaultyStore, nth, randomly
from phalanx.testing.oracle import Acks, Verdict, verdict
from phalanx.testing.power import Crash, Recorder
from phalanx.testing.processes import Process

__all__ = [
    "Acks",
    "CountingStore",
    "Crash",
    "Fault",
    "FaultyStore",
    "ManualClock",
    "Process",
    "Recorder",
    "Verdict",
    "nth",
    "randomly",
    "verdict",
]
