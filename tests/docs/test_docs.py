"""Nothing undocumented, nothing untrue: the docs are run, compared and followed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.clock import environment
from phalanx.log.action import Settings
from scripts.reference import pages

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

RUN = [ROOT / "README.md", ROOT / "docs" / "guide.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("name", pages())
def test_a_generated_page_is_what_the_code_says_today(name: str) -> None:
    """`make docs` was run after the last change."""
    assert (ROOT / "docs" / name).read_text() == pages()[name], "run: make docs"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    """All Python blocks, one after the other, in a fresh folder."""
    code = "\n".join(blocks(page, "python"))
    assert "phalanx.open" in code
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    """Every line that begins with `phalanx`, or pipes something into it, in order; none prints a complaint."""
    commands = re.findall(r"^((?:echo .*\| )?phalanx .*?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE)
    assert len(commands) >= 4
    path = f"{Path(sys.executable).parent}:{environment()['PATH']}"
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**environment(), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_every_named_file_exists(page: Path) -> None:
    """Links between pages, and files of the project that a page names in code style."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for named in re.findall(r"`((?:src|tests|docs|specs|bench|examples|scripts)/[\w./-]+)`", text):
        assert (ROOT / named).exists(), f"{page.name} names {named}"


def test_every_setting_is_in_the_table_of_defaults_with_its_value() -> None:
    """What is decided when a lake is created is documented."""
    table = (ROOT / "docs" / "defaults.md").read_text()
    for name in Settings.__struct_fields__:
        value = getattr(Settings(), name)
        row = next((line for line in table.splitlines() if line.startswith(f"| `{name}` |")), None)
        assert row is not None, name
        assert f"{value:,.0f}" in row if isinstance(value, int | float) else str(value) in row


def test_rules_invariants_and_bugs_have_all_their_numbers() -> None:
    """The numbers that code and tests cite exist."""
    rules = (ROOT / "docs" / "protocol.md").read_text()
    for rule in ["A1", "A8", "B1", "B8", "C1", "C11", "D4", "E1", "E6", "F3", "G5", "H1", "H3", "J3"]:
        assert re.search(rf"\b{rule}\b", rules), rule
    assert all(f"| I{number} |" in (ROOT / "docs" / "invariants.md").read_text() for number in range(1, 15))
    bugs = (ROOT / "docs" / "known-bugs.md").read_text()
    assert all(re.search(rf"^\| {number} \|", bugs, re.MULTILINE) for number in range(1, 42))


def test_every_citation_in_the_code_is_of_a_rule_that_exists() -> None:
    """`rule A7` in a comment leads somewhere."""
    rules = (ROOT / "docs" / "protocol.md").read_text()
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")]:
        for rule in re.findall(r"\brules? ([A-HJK]\d{1,2})\b", path.read_text()):
            assert re.search(rf"\*\*{rule}\*\*", rules), f"{path.name} cites rule {rule}"
