"""How the program ends: with its exit code and all that it has printed, whatever threads are still there."""

import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import sys, threading, time
import pyarrow as pa
from phalanx.cli import app, program

class Slow:
    closed = False
    def read(self, size=-1):
        time.sleep(0.02)
        return b"1,2\\n" * 10
    def close(self): pass
    def readable(self): return True
    def writable(self): return False
    def seekable(self): return False

def run():
    from pyarrow import csv
    print("said", end="")
    for _ in range(8):
        csv.open_csv(pa.PythonFile(Slow(), mode="r"), csv.ReadOptions(block_size=20, use_threads=False)).read_next_batch()
    sys.exit(int(sys.argv[1]))

app.run = run
program.main()
"""


@pytest.mark.parametrize("code", [0, 7])
def test_threads_that_still_read_do_not_end_it_otherwise(code: int) -> None:
    """Arrow reads ahead in threads of its own, which may ask for Python when the work is done."""
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "said", "")


def test_an_answer_that_cannot_be_printed_is_no_success(tmp_path: Path) -> None:
    """The last of it is printed when the program ends."""
    lake = str(tmp_path / "lake")
    subprocess.run([sys.executable, "-m", "phalanx", "init", lake], check=True, capture_output=True, timeout=60)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "phalanx", "show", lake], stdout=full, check=False, timeout=60)
    assert done.returncode != 0
