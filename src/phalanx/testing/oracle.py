"""The ack oracle: what was acknowledged is found exactly once, what failed is not found at all.

Each writer names every transaction it tries (its note) and appends what it was told to a file, one line for each
answer, right after it got it. A line that was begun survives the writer's death. Afterwards the whole log is read and
compared.
"""

import os
from collections import Counter
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.lake import Lake


class Acks:
    """A writer's record of what it was told."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def committed(self, name: str, position: int) -> None:
        """The commit was acknowledged at this position."""
        self._write(f"ok {name} {position}")

    def failed(self, name: str, error: PhalanxError) -> None:
        """The commit raised: certainly not committed, or unknown."""
        self._write(f"{'unknown' if error.committed is None else 'failed'} {name} {type(error).__name__}")

    def _write(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())


class Verdict(msgspec.Struct, frozen=True):
    """What the oracle found; `wrong` lists every violation in words."""

    acknowledged: int
    failed: int
    unknown: int
    found: int
    wrong: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.wrong


def verdict(lake: Lake, folder: Path) -> Verdict:
    """Compare the records in a folder with the log, from the oldest entry that is kept."""
    told = [line.split() for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    end = lake.version
    commits = lake.log(limit=1 << 40)
    versions = sorted({commit.version for commit in commits})
    found = Counter(commit.note for commit in commits)
    at = {commit.note: commit.version for commit in commits}
    wrong = []
    if versions != list(range(versions[0], end + 1)):
        wrong.append(f"positions are not dense: {len(versions)} of {end - versions[0] + 1}")
    wrong += [f"{name} stands {count} times" for name, count in found.items() if name and count != 1]
    for what, name, detail, *_ in told:
        if what == "ok" and at.get(name) != int(detail):
            wrong.append(
                f"{name} was acknowledged at {detail}, and is {'at ' + str(at[name]) if name in at else 'lost'}"
            )
        if what == "failed" and name in at:
            wrong.append(f"{name} was reported as not committed ({detail}), and is at {at[name]}")
    kinds = Counter(what for what, *_ in told)
    return Verdict(kinds["ok"], kinds["failed"], kinds["unknown"], sum(1 for name in found if name), tuple(wrong))
