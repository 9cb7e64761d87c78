"""Style as a test: sizes, headers, words and paths, with lists of exemptions that may only shrink."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted(
    path
    for folder in ("src", "specs", "bench", "examples", "scripts", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
PRODUCT = [path for path in CODE if (ROOT / "src") in path.parents]

MOST_LINES = 400
MOST_FUNCTION_LINES = 45
MOST_PUBLIC_METHODS = 27
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
EMPTY_WORDS = {"utils", "util", "common", "manager", "helpers", "helper", "misc", "base_class", "impl"}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", CODE, ids=name)
def test_a_file_is_read_in_one_sitting(path: Path) -> None:
    """One idea per file; a longer one is split, not exempted."""
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES or name(path) in LONG_FILES, f"{lines} lines"


@pytest.mark.parametrize("path", [path for path in CODE if path.read_text().strip()], ids=name)
def test_a_file_begins_with_what_it_is(path: Path) -> None:
    """Every module that holds anything says first what it owns."""
    assert ast.get_docstring(ast.parse(path.read_text())), "no docstring"


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_a_function_fits_on_a_page(path: Path) -> None:
    """Long functions hide more than one thought."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            where = f"{name(path)}:{node.name}"
            assert lines <= MOST_FUNCTION_LINES or where in LONG_FUNCTIONS, f"{where} has {lines} lines"


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_a_class_has_few_public_methods(path: Path) -> None:
    """What users hold is the largest; nothing grows beyond it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            public = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
            assert len(public) <= MOST_PUBLIC_METHODS, f"{node.name} has {len(public)}"


def test_no_name_is_empty_of_meaning() -> None:
    """A reader guesses the file from the concept: never `utils`."""
    assert not [name(path) for path in CODE if path.stem in EMPTY_WORDS]


def test_nothing_unfinished_is_left() -> None:
    """No marks for later, no stubs, no skipped tests."""
    marks = re.compile(
        r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|raise NotImplemented[E]rror|pytest\.(mark\.)?(ski[p]|xfai[l])\b"
    )
    for path in CODE:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not marks.search(line), f"{name(path)}:{number}: {line.strip()}"


def test_no_path_of_a_machine_and_no_registry_is_in_the_tree() -> None:
    """The project stands alone."""
    homes = re.compile(
        r"(?<![\w/])/(?:home|root|Users|work)/\w|" + "regis" + r"try\.npmjs|py" + r"pi\.org|pythonho" + r"sted"
    )
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = homes.search(text)
        assert found is None, f"{name(path)}: {found[0] if found else ''}"


def test_only_the_clock_asks_the_operating_system_for_time_and_chance() -> None:
    """The linter bans the usual ways; this finds those it does not know."""
    banned = re.compile(
        r"\btime\.(time|monotonic|sleep|perf_counter|clock_gettime)\b|\brandom\.|\bos\.(urandom|environ|getenv)\b|\bsecrets\.|\buuid\."
    )
    for path in PRODUCT:
        inside = path.relative_to(ROOT / "src")
        if inside.parts[1] in {"clock.py", "testing"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not banned.search(line.partition("#")[0]), f"{name(path)}:{number}: {line.strip()}"
