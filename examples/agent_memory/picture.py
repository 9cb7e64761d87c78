"""Throughput and latency over time: as blocks in a terminal, and as a plot in a file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_BLOCKS = " ▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float], width: int = 60) -> str:
    """Values as a line of blocks, each as high as its value."""
    shown = _squeezed(values, width)
    most = max(shown, default=0.0) or 1.0
    return "".join(_BLOCKS[round(8 * value / most)] for value in shown)


def _squeezed(values: Sequence[float], width: int) -> list[float]:
    """At the most so many values: neighbours are averaged."""
    if len(values) <= width:
        return list(values)
    parts = np.array_split(np.array(values), width)
    return [float(part.mean()) for part in parts]


def write_plot(
    path: Path, rates: Sequence[float], latencies: Sequence[float], killed: Sequence[float], runs: Sequence[float]
) -> None:
    """Two charts, one above the other, a value for each second; `killed` and `runs` are shares of the time."""
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for axes, values, what in ((above, rates, "transactions / s"), (below, latencies, "slowest, ms")):
        axes.plot(range(len(values)), values, color="tab:blue")
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        _mark(axes, [share * len(values) for share in runs], "tab:gray", "a run of the pipeline begins")
        _mark(axes, [share * len(values) for share in killed], "tab:red", "an agent is killed")
    above.set_title("8 agents, 4 tables in a transaction, synced to disk; optimize and prune all the while")
    above.legend(loc="lower right")
    below.set_xlabel("seconds")
    figure.savefig(path, dpi=110)


def _mark(axes: Axes, moments: Sequence[float], colour: str, what: str) -> None:
    for number, moment in enumerate(moments):
        axes.axvline(moment, color=colour, linewidth=1, alpha=0.7, label=what if not number else None)
