"""Everything at once: agents that write and are killed, a pipeline that derives, upkeep, and readers that check."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import phalanx
from examples.agent_memory.pipeline import memory
from examples.agent_memory.tables import create
from examples.agent_memory.watch import Verdict, judge, notes, violations
from phalanx.spark import SparkLake, on, run_pipeline, session

AGENTS = 8
KILL_EVERY = 9.0
Say = Callable[[str], None]


class Outcome(msgspec.Struct):
    """What happened, in figures."""

    lake: str
    verdict: Verdict
    seconds: float
    version: int
    checked: int
    violations: list[str]
    killed: list[float]
    runs: list[float]
    run_seconds: list[float]
    optimized: int
    pruned: int
    rates: list[float]
    latencies: list[float]
    p50: float
    p99: float


class World:
    """A run of the demo: who does what, and what they have done."""

    def __init__(self, folder: Path, seconds: float, say: Say) -> None:
        self.uri, self.acks = str(folder / "lake"), folder / "acks"
        self.acks.mkdir(parents=True)
        create(self.uri)
        self.seconds, self.say = seconds, say
        self.checked = self.optimized = self.pruned = 0
        self.wrong: list[str] = []
        self.killed: list[float] = []
        self.died: list[str] = []
        self.runs: list[float] = []
        self.run_seconds: list[float] = []
        self._began = 0.0
        self._over = threading.Event()
        self._failed: list[BaseException] = []

    def run(self) -> Outcome:
        """Let it run, and compare in the end."""
        self.say("starting Spark")
        with phalanx.open(self.uri) as lake:
            there = on(lake, session("local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"}))
            there.table("turns").count()  # workers are started before the clock is
            self._began = time.monotonic()
            self.say(f"{AGENTS} agents write to four tables; a pipeline, optimize and prune run beside them")
            works = (self._check, lambda: self._derive(there), self._maintain)
            threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            try:
                self._agents()
            finally:
                self._over.set()
                for thread in threads:
                    thread.join()
            if self._failed:
                raise self._failed[0]
            self._run_pipeline(there)
            outcome = self._outcome(lake)
            there.spark.stop()
        return outcome

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told when everybody has ended
            self._failed.append(error)

    def _agents(self) -> None:
        """Start agents, kill one now and then, and start it again."""
        running = {f"agent-{at}": self._start(f"agent-{at}", self.seconds) for at in range(1, AGENTS + 1)}
        chance = random.Random(7)
        due = KILL_EVERY
        try:
            while (gone := self._gone()) < self.seconds:
                time.sleep(0.2)
                if gone > due and self.seconds - gone > 3:
                    due += KILL_EVERY
                    name = chance.choice(sorted(running))
                    self._look_after(name, running[name].poll())
                    running[name].kill()
                    running[name].wait()
                    self.killed.append(gone)
                    self.say(f"killed {name} (SIGKILL); it is started again")
                    running[name] = self._start(name, self.seconds - gone)
            for name, process in running.items():
                self._look_after(name, process.wait(60))
        finally:
            for process in running.values():
                process.kill()

    def _look_after(self, name: str, code: int | None) -> None:
        """An agent that nobody has killed ends when its time is over, and by nothing else."""
        if code:
            self.died.append(f"{name} died of an error, which it has printed (exit code {code})")

    def _start(self, name: str, seconds: float) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "examples.agent_memory.agent", self.uri, str(self.acks), name, str(seconds)]
        return subprocess.Popen(program)

    def _derive(self, there: SparkLake) -> None:
        while not self._over.wait(1):
            self._run_pipeline(there)

    def _run_pipeline(self, there: SparkLake) -> None:
        began = self._gone()
        done = run_pipeline(there, memory)
        self.runs.append(began)
        self.run_seconds.append(done.seconds)
        rows = sum(step.rows for step in done.steps)
        self.say(f"pipeline run {done.number}: {rows:,} rows into 3 tables in one commit, {done.seconds:.1f} s")

    def _check(self) -> None:
        with phalanx.open(self.uri) as lake:
            while not self._over.wait(0.5):
                self.wrong += violations(lake)
                self.checked += 1

    def _maintain(self) -> None:
        with phalanx.open(self.uri) as lake:
            while not self._over.wait(4):
                self.optimized += sum(one.rewritten for one in lake.optimize().values())
                lake.prune(keep=2, protect=5)
                self.pruned += 1

    def _gone(self) -> float:
        return time.monotonic() - self._began

    def _outcome(self, lake: phalanx.Lake) -> Outcome:
        told = [note for path in self.acks.iterdir() for note in notes(path)]
        began = min((note["at"] for note in told), default=0.0)
        seconds = max(1, round(self.seconds))
        each = [[note["took"] for note in told if int(note["at"] - began) == second] for second in range(seconds)]
        took = sorted(note["took"] for note in told) or [0.0]
        verdict = judge(lake, self.acks)
        return Outcome(
            self.uri,
            msgspec.structs.replace(verdict, wrong=self.died + verdict.wrong),
            self.seconds,
            lake.version,
            self.checked,
            self.wrong,
            [at / self.seconds for at in self.killed],
            [at / self.seconds for at in self.runs],
            self.run_seconds,
            self.optimized,
            self.pruned,
            [float(len(one)) for one in each],
            [1000 * max(one, default=0.0) for one in each],
            1000 * took[len(took) // 2],
            1000 * took[int(len(took) * 0.99)],
        )
