"""Real processes for races on tables: they start together, do their work, and say what went wrong.

They are forked from a server process that has imported everything and opened nothing, so that forty of them are cheap.
"""

import multiprocessing as mp
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import phalanx

Work = Callable[..., Any]
_PATIENCE = 300


def _serve(work: Work, uri: str, arguments: tuple[Any, ...], gate: Any, answers: Any, carry: bool) -> None:
    try:
        with phalanx.open(uri, timeout=120, carry=carry) as lake:
            gate.wait(_PATIENCE)
            answers.put((True, work(lake, *arguments)))
    except BaseException:  # noqa: BLE001 - whatever it is, the test has to hear of it
        answers.put((False, traceback.format_exc()))


def together(uri: str, jobs: Sequence[tuple[Work, tuple[Any, ...]]], *, carry: bool = True) -> list[Any]:
    """Run `work(lake, *arguments)` of each job in a process of its own, all at once; their answers, in any order."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["phalanx.lake", "tests.race.crew"])
    gate, answers = context.Barrier(len(jobs)), context.Queue()
    crew = [context.Process(target=_serve, args=(work, uri, given, gate, answers, carry)) for work, given in jobs]
    for process in crew:
        process.start()
    told = [answers.get(timeout=_PATIENCE) for _ in crew]
    for process in crew:
        process.join(_PATIENCE)
    wrong = [what for fine, what in told if not fine]
    assert not wrong, f"{len(wrong)} of {len(crew)} processes failed; the first:\n{wrong[0]}"
    return [what for _, what in told]
