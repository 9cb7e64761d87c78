"""python -m tests.model SEED [STEPS]: play one run again, and shorten it if it fails."""

import sys

from tests.model.play import STEPS, play_seed

seed, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
print(dict(play_seed(seed, count, patience=300).taken))
