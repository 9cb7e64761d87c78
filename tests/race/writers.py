"""Writer processes for race tests: each commits named transactions and records what it was told.

python -m tests.race.writers '{"uri": …, "options": …, "acks": …, "name": "w0", "commits": 500, …}'
"""

import random
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from phalanx.clock import SYSTEM
from phalanx.errors import PhalanxError
from phalanx.lake import Lake, join
from phalanx.log.action import Progress
from phalanx.objects import open_store
from phalanx.testing import Acks, Fault, FaultyStore, Process, Verdict, verdict
from phalanx.testing.faults import PUT_FAULTS, Plan

_RUN = "import sys; from tests.race.writers import main; main(sys.argv[1])"


@dataclass
class Job:
    """What one writer process does; with `faults`, that part of its calls fails, by the seed."""

    uri: str
    acks: str
    name: str
    commits: int
    threads: int = 1
    options: dict[str, str] = field(default_factory=dict)
    faults: float = 0.0
    seed: int = 0
    timeout: float = 60.0


def main(job_text: str) -> None:
    """Say "ready", wait for a line, commit, end."""
    job = msgspec.json.decode(job_text, type=Job)
    store = FaultyStore(open_store(job.uri, job.options or None), lambda *_: None)
    lake = join(store, SYSTEM, None, timeout=job.timeout)
    if job.faults:
        store.plan = _plan(job)
    print("ready", flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=_write, args=(lake, job, number)) for number in range(job.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lake.close()


def _write(lake: Lake, job: Job, thread: int) -> None:
    acks = Acks(Path(job.acks) / f"{job.name}-{thread}")
    for number in range(job.commits // job.threads):
        name = f"{job.name}-{thread}-{number}"
        try:
            acks.committed(name, lake.commit([Progress(name, None, 1)], note=name))
        except PhalanxError as error:
            acks.failed(name, error)


def _plan(job: Job) -> Plan:
    chance = random.Random(job.seed)
    lock = threading.Lock()

    def plan(call: str, name: str) -> Fault | None:
        with lock:
            if chance.random() >= job.faults or "floor" in name:
                return None
            if call == "put":
                return chance.choice(PUT_FAULTS)
            return Fault.UNREADABLE if call == "get" else None

    return plan


def race(jobs: list[Job], uri: str, options: dict[str, str] | None = None) -> tuple[Lake, Verdict]:
    """Run the writers side by side, wait for all, and compare what they were told with the log."""
    Path(jobs[0].acks).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        started = [stack.enter_context(Process(_RUN, msgspec.json.encode(asdict(job)).decode())) for job in jobs]
        for process in started:
            assert process.line() == "ready", process.finish()
        for process in started:
            process.tell("go")
        for process in started:
            process.finish(280)
    lake = join(open_store(uri, options), SYSTEM, None, timeout=30)
    return lake, verdict(lake, Path(jobs[0].acks))
