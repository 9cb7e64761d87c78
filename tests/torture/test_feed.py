"""The same law as in `tests/unit/test_feed.py`, with more seeds."""

from pathlib import Path

import pytest

from tests.unit.test_feed import replay

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(2, 22))
def test_the_feed_replayed_is_the_source_at_every_version(tmp_path: Path, seed: int, keyed: bool) -> None:
    """Twenty more histories of either kind of table."""
    replay(tmp_path, seed, keyed)
