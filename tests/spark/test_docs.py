"""The page on Spark is true: its blocks run as they stand."""

import re
from pathlib import Path

from tests.spark.rows import run_program

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_python_of_the_page_on_spark_runs_as_it_stands(tmp_path: Path) -> None:
    """All blocks, one after the other, in a fresh folder, on a Spark of their own."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    done = run_program(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "was not only added to" in done.stdout
