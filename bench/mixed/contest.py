"""Many processes, one table: how many small operations a second, how long each takes, and whether all of them are there.

Phalanx is measured before each of the others, so that whatever the machine does hits it as well; its runs are short, and
of several the median counts.
"""

from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from bench.frame import Bench
from bench.mixed.verify import Verdict, verify
from bench.mixed.work import Job, Outcome, changing, operations
from bench.report import Section, Target, Value, median, quantile
from bench.systems.port import DISK, LEFT_OUT, PYLANCE, SYSTEMS, Address, Kind, System, caveat, own, peers, prefilled
from bench.workers import Crew

FASTER = Target(">=", 15)
QUICKER = Target("<=", 1 / 15)
GOAL = 50
RIGHT = Target("==", 0)
PREFILLED = 10_000
LONGER = 4


class Mix(msgspec.Struct, frozen=True):
    """So many processes of each kind."""

    append: int
    delete: int
    update: int
    longer: int = 1
    """So many times the usual number of operations: some systems slow down as they go on."""

    def kinds(self) -> list[Kind]:
        """The kind of each process."""
        return [kind for kind in get_args(Kind) for _ in range(getattr(self, kind))]

    def __str__(self) -> str:
        several = [f"{getattr(self, kind)} that {kind}" for kind in get_args(Kind) if getattr(self, kind)]
        return " + ".join(several)


class Run(msgspec.Struct, frozen=True):
    """One run of a system: what became of each operation, and whether the table is right."""

    outcomes: list[Outcome]
    seconds: float
    asked: int
    cpu: float
    verdict: Verdict

    @property
    def done(self) -> list[Outcome]:
        """The operations that succeeded."""
        return [outcome for outcome in self.outcomes if outcome.error is None]

    @property
    def rate(self) -> float:
        """Operations a second, until the last of them was over."""
        return len(self.done) / self.seconds


def mixes(bench: Bench) -> dict[str, Mix]:
    """What is measured: twenty, ten and ten processes; appends alone; half as many again; and the first for longer."""
    half = bench.pick(20, 2, "processes")
    found = {"mixed": Mix(half, half // 2, half // 2), "appends": Mix(2 * half, 0, 0)}
    if not bench.quick:
        found["crowd"] = Mix(half * 3 // 2, half * 3 // 4, half * 3 // 4)
        found["longer"] = Mix(half, half // 2, half // 2, LONGER)
    return found


def measure(bench: Bench, crew: Crew, key: str, mix: Mix) -> Section:
    """The section of one mix."""
    each = mix.longer * bench.pick(5, 2, "operations")
    cap = bench.seconds(60.0, 6.0)
    note = (
        f"{PREFILLED:,} rows at the start, no key; each process does {each} operations, on rows of its own: adds 10 rows, "
        f'deletes "id = k", or sets "v = v + 1" where "id = k". All begin together, warm. '
        f"{caveat(local=bench.place.local)} They are cut off after {cap:g} s. Retries are those of the caller, after the "
        "system's own. CPU: of all processes, for one operation."
    )
    title = f"{len(mix.kinds())} processes change one table: {mix}" + (", for longer" if mix.longer > 1 else "")
    with bench.section(key, title, note) as section:
        # The targets speak of short runs; what happens later is shown beside them, and is not a way to meet them.
        _Contest(bench, crew, section, mix, each, cap).run(asked=mix.longer == 1)
    return section


class _Contest:
    def __init__(self, bench: Bench, crew: Crew, section: Section, mix: Mix, each: int, cap: float) -> None:
        self._bench = bench
        self._crew = crew
        self._section = section
        self._rows = max(PREFILLED, each * len(mix.kinds()))
        self._work = operations(mix.kinds(), each, self._rows)
        self._cap = cap
        self._runs: dict[str, list[Run]] = {}

    def run(self, *, asked: bool) -> None:
        local = self._bench.place.local
        mine = own(local=local)
        order = mine + peers() if local else mine * self._bench.pick(3, 1)
        if local and not self._bench.quick:
            order = [system for peer in peers() for system in (*mine, peer)]
        for system in order:
            self._bench.step(system.name)
            self._runs.setdefault(system.name, []).append(self._once(system))
        for name in self._runs:
            self._show(name)
        for peer in peers() if not local else ():
            self._section.row(peer.name, LEFT_OUT)
        self._compare(targets=asked)

    def _once(self, system: System) -> Run:
        address = self._address(system)
        module = system.load()
        module.fill(address, prefilled(self._rows))
        cap = self._cap if system.peer else 2 * self._cap
        jobs = [Job(system.name, address, self._address(system), work, cap) for work in self._work]
        began, answers = self._crew.together(changing, [(job,) for job in jobs])
        outcomes = [outcome for answer in answers for outcome in answer.outcomes]
        seconds = max((outcome.ended for outcome in outcomes if outcome.error is None), default=began) - began
        asked = sum(map(len, self._work))
        cpu = sum(answer.cpu for answer in answers)
        return Run(outcomes, seconds or cap, asked, cpu, verify(module.read(address), self._rows, outcomes))

    def _address(self, system: System) -> Address:
        return Address(self._bench.place.new(system.module), self._bench.place.options, system.durability)

    def _show(self, name: str) -> None:
        runs = self._runs[name]
        for run in runs:
            self._section.series(f"{name}, operations/s").append(run.rate)
            self._section.series(f"{name}, CPU").append(run.cpu / max(1, len(run.done)))
        outcomes = [outcome for run in runs for outcome in run.outcomes]
        undone = sum(run.asked - len(run.outcomes) for run in runs)
        failed = sum(outcome.error is not None for outcome in outcomes)
        figures: dict[str, Value] = {
            "operations/s": median([run.rate for run in runs]),
            "seconds": median([run.seconds for run in runs]),
            "done": f"{sum(len(run.done) for run in runs)} of {sum(run.asked for run in runs)}",
            "failed": failed,
            "retries": sum(outcome.tries - 1 for outcome in outcomes),
            "CPU ms": median(self._section.samples[f"{name}, CPU"]) * 1e3,
            **self._latencies(name, outcomes),
            "lost": sum(run.verdict.lost for run in runs),
            "doubled": sum(run.verdict.doubled for run in runs),
        }
        if undone or failed:
            figures["note"] = "cut off" if undone or SYSTEMS[name].peer else "failed"
        self._section.row(name, figures)
        for kind in get_args(Kind):
            mine = [outcome for outcome in outcomes if outcome.operation.kind == kind]
            if mine and len(mine) < len(outcomes):
                self._section.row(f"  {kind}", self._latencies(f"{name}, {kind}", mine))
        for text, count in _errors(outcomes):
            self._section.row(f"  {text}", {"failed": count})

    def _latencies(self, name: str, outcomes: Sequence[Outcome]) -> dict[str, Value]:
        times = self._section.series(name)
        times += [outcome.seconds for outcome in outcomes if outcome.error is None]
        mean = sum(times) / len(times) if times else None
        return {
            "mean ms": None if mean is None else mean * 1e3,
            "p50 ms": median(times) * 1e3,
            "p99 ms": quantile(times, 0.99) * 1e3,
        }

    def _compare(self, *, targets: bool) -> None:
        samples, section = self._section.samples, self._section
        mine = [name for name in self._runs if not SYSTEMS[name].peer]
        runs = [run for name in mine for run in self._runs[name]]
        section.count("rows that are wrong, Phalanx", sum(run.verdict.wrong for run in runs), RIGHT)
        section.count("operations that failed, Phalanx", sum(run.asked - len(run.done) for run in runs), RIGHT)
        for peer in (name for name in self._runs if SYSTEMS[name].peer):
            for name in mine:
                asked = targets and (name, peer) == (DISK, PYLANCE)
                rates = [median(samples[f"{one}, operations/s"]) for one in (name, peer)]
                tails = [quantile(samples[one], 0.99) for one in (name, peer)]
                goals = (f" (goal {GOAL})", f" (goal 1/{GOAL})") if asked else ("", "")
                rate = f"operations/s: {name} / {peer}{goals[0]}"
                section.ratio(rate, rates[0] / rates[1], FASTER if asked else None)
                section.ratio(f"p99: {name} / {peer}{goals[1]}", tails[0] / tails[1], QUICKER if asked else None)
                cpu = [median(samples[f"{one}, CPU"]) for one in (name, peer)]
                section.ratio(f"CPU of an operation: {name} / {peer}", cpu[0] / cpu[1])


def _errors(outcomes: Iterable[Outcome]) -> list[tuple[str, int]]:
    """Why operations failed in the end: the first words, and how often."""
    found: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            text = outcome.error.split("\n")[0][:60]
            found[text] = found.get(text, 0) + 1
    return sorted(found.items(), key=lambda one: -one[1])[:3]
