"""Many processes on one lake: how much they commit together, and whether each gets its share."""

from bench.frame import Bench
from bench.log.work import committing, putting
from bench.report import Section, Target, median, quantile
from bench.workers import Crew, Step

COUNTS = (1, 2, 4, 8, 40)
FEW, MANY = 4, 40
ENOUGH = Target(">=", 0.5)
FAIR = Target(">=", 0.2)


def measure(bench: Bench) -> Section:
    """The section."""
    note = "Spawned processes begin together. Share: the commits of the unluckiest process, of the mean of all."
    with bench.section("processes", "Many processes on one lake", note) as section:
        uri = bench.place.new("processes")
        bench.place.lake(uri).close()
        bench.step(f"starting {MANY} processes")
        with Crew(MANY) as crew:
            runs = _Runs(bench, section, crew, uri)
            contestants = {f"{count} processes": runs.lake(count) for count in COUNTS}
            if bench.place.local:
                contestants |= {f"{count} processes, raw": runs.raw(count) for count in COUNTS}
            bench.in_turns("in turns", bench.pick(3, 1), contestants)
        _conclude(bench, section, runs)
    return section


class _Runs:
    def __init__(self, bench: Bench, section: Section, crew: Crew, uri: str) -> None:
        self._bench = bench
        self._section = section
        self._crew = crew
        self._uri = uri
        self.taken: dict[int, list[float]] = {count: [] for count in COUNTS}

    def lake(self, count: int) -> Step:
        seconds = self._bench.seconds(4.0, 0.4)

        def run() -> None:
            arguments = (self._uri, self._bench.place.options)
            answers = self._crew.run(committing, arguments, count, seconds)
            made = [len(answer) for answer in answers]
            self._section.series(f"{count}, commits/s").append(sum(made) / seconds)
            self._section.series(f"{count}, share").append(min(made) * count / max(1, sum(made)))
            self.taken[count] += [one for answer in answers for one in answer]

        return run

    def raw(self, count: int) -> Step:
        seconds = self._bench.seconds(0.8, 0.2)

        def run() -> None:
            folder = self._bench.place.new("raw")
            answers = self._crew.run(putting, (folder,), count, seconds)
            self._section.series(f"{count}, raw/s").append(sum(len(answer) for answer in answers) / seconds)

        return run


def _conclude(bench: Bench, section: Section, runs: _Runs) -> None:
    rates = {count: median(section.samples[f"{count}, commits/s"]) for count in COUNTS}
    shares = {count: median(section.samples[f"{count}, share"]) for count in COUNTS}
    for count in COUNTS:
        times = runs.taken[count]
        figures = {"commits/s": rates[count], "p50 ms": median(times) * 1e3, "p99 ms": quantile(times, 0.99) * 1e3}
        figures |= {"longest ms": max(times, default=0.0) * 1e3, "min share / mean": shares[count]}
        if bench.place.local:
            figures["raw files/s"] = median(section.samples[f"{count}, raw/s"])
        section.row(f"{count} process{'es' if count > 1 else ''}", figures)
    section.ratio(f"commits/s of {MANY} processes / {FEW}", rates[MANY] / rates[FEW], ENOUGH)
    section.ratio(f"commits/s of {MANY} processes / 1", rates[MANY] / rates[1])
    for count in COUNTS[1:]:
        section.ratio(f"min share / mean share, {count} processes", shares[count], FAIR)
