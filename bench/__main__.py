"""The command line of the measurements.

What is needed to measure is imported inside `main`: the processes that a suite starts import this module too, and
forty of them should not wait for what only the first one uses.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that were asked for; 0 when they were measured, whether or not their targets were met."""
    from bench.frame import Place, run
    from bench.suites import SUITES

    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Phalanx on this machine.")
    parser.add_argument(
        "suite", nargs="*", metavar="suite", help=f"what to measure: {', '.join(SUITES)} (default: all)"
    )
    parser.add_argument("--lake", metavar="URI", help="where lakes are made: a folder or object store (default: --out)")
    parser.add_argument("--option", action="append", default=[], metavar="K=V", help="storage option of --lake")
    parser.add_argument("--quick", action="store_true", help="small counts: shows that everything runs, not how fast")
    parser.add_argument("--set", action="append", default=[], metavar="K=N", help="a count, for example processes=4")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="DIR", help="where results go")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.suite if name not in SUITES]
    if unknown:
        parser.error(f"there is no suite {unknown[0]!r}; there is: {', '.join(SUITES)}")
    malformed = [option for option in asked.option if "=" not in option]
    if malformed:
        parser.error(f"--option takes key=value, not {malformed[0]!r}")
    counts = [count for count in asked.set if not count.partition("=")[2].isdigit()]
    if counts:
        parser.error(f"--set takes name=number, not {counts[0]!r}")
    numbers = {name: int(number) for name, _, number in (count.partition("=") for count in asked.set)}
    options = dict(option.split("=", 1) for option in asked.option)
    with Place(asked.lake, options, asked.out) as place:
        for name in asked.suite or SUITES:
            finished = run(name, SUITES[name], place, asked.out, quick=asked.quick, numbers=numbers)
            if not finished:
                return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
