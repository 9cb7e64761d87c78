"""The command line: what it prints, how it ends, and that nobody ever sees a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import phalanx
from phalanx import errors
from phalanx.cli import output
from phalanx.cli.app import app
from phalanx.errors import PhalanxError
from phalanx.log import action as do
from scripts.reference import verbs
from tests.cli.running import Run, real, start

VERBS = dict(verbs(get_command(app)))  # type: ignore[arg-type]


def test_init_creates_a_lake_once(run: Run, tmp_path: Path) -> None:
    """The second time it says that there is one already (4), and changes nothing."""
    first = run("init", tmp_path / "lake", "--durability", "os")
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("created lake")
    second = run("init", tmp_path / "lake")
    assert (second.code, second.out) == (4, "")
    assert "already, at version 1: use it as it is" in second.err
    with phalanx.open(tmp_path / "lake") as made:
        assert (made.version, made.settings.durability) == (1, "os")


def test_show_tells_what_is_in_a_lake(run: Run, lake: Path) -> None:
    """Everything that is there as JSON is there for people."""
    text = run("show", lake).out
    for word in ("crm.turns", "release = 2", "property owner", "ann", "durability", "os"):
        assert word in text
    value = json.loads(run("show", lake, "--json").out)
    assert (value["version"], value["namespaces"]) == (5, ["crm"])
    assert [(table["name"], table["version"], table["pending"]) for table in value["tables"]] == [
        ("crm.turns", 1, 0),
        ("t", 1, 0),
    ]
    assert (value["tags"], value["properties"]) == ({"release": 2}, {"owner": "ann"})
    assert value["settings"]["durability"] == "os"


def test_tables_are_listed_at_any_version(run: Run, lake: Path) -> None:
    """All of them, those of a namespace, and those of the past."""

    def names(*arguments: object) -> list[str]:
        return [table["name"] for table in json.loads(run("tables", lake, *arguments, "--json").out)]

    assert names() == ["crm.turns", "t"]
    assert names("--namespace", "crm") == ["crm.turns"]
    assert names("--version", 2) == names("--tag", "release") == []
    assert run("tables", lake, "--version", 2).out == "no tables\n"
    with phalanx.open(lake) as found:
        assert found["crm.turns"].id in run("tables", lake).out


def test_log_shows_what_happened(run: Run, lake: Path) -> None:
    """Newest first, as many as asked for, page by page."""
    text = run("log", lake).out
    assert "two: create table crm.turns; create table t" in " ".join(text.split())
    commits = json.loads(run("log", lake, "-n", 2, "--json").out)
    assert [commit["version"] for commit in commits] == [5, 4]
    page = json.loads(run("log", lake, "--before", 4, "--json").out)
    assert [commit["note"] for commit in page] == ["two", "", ""]
    assert run("log", lake, "-n", 0).out == "no commits\n"


def test_tags_are_set_listed_moved_and_removed(run: Run, lake: Path) -> None:
    """With the exit code of each refusal."""
    assert run("tag", lake, "v1").out == "v1 = version 5\n"
    assert run("tag", lake, "v1", "--version", 3).code == 4
    assert run("tag", lake, "v1", "--version", 3, "--move").out == "v1 = version 3\n"
    assert json.loads(run("tag", lake, "--json").out) == {"release": 2, "v1": 3}
    assert run("tag", lake).out.split() == ["tag", "version", "release", "2", "v1", "3"]
    assert run("tag", lake, "v1", "--delete").out.startswith("removed tag v1")
    assert run("tag", lake, "v1", "--delete").code == 3
    assert run("tag", lake, "v2", "--version", 99).code == 3
    assert run("tag", lake, "a/b").code == 2
    run("tag", lake, "release", "--delete")
    assert run("tag", lake).out == "no tags: phalanx tag LAKE NAME makes one\n"


@pytest.mark.parametrize("flag", [["--delete"], ["--move"], ["--version", "2"]])
def test_what_is_said_of_a_tag_needs_the_tag(flag: list[str], run: Run, lake: Path) -> None:
    """Forgetting its name does not silently list."""
    found = run("tag", lake, *flag)
    assert (found.code, found.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "none"], 3, "create one with phalanx.open(..., create=True) or `phalanx init`"),
        (["show", "ftp://host/lake"], 2, "use a path, or one of"),
        (["show", ""], 2, "a lake needs a path or URI"),
        (["show", "none", "--option", "region"], 2, "--option takes KEY=VALUE"),
        (["show", "none", "--option", "=x"], 2, "--option takes KEY=VALUE"),
        (["show", "none", "--option", "region=x"], 2, "leave them out"),
        (["init", "new", "--durability", "tape"], 2, '--durability is "disk" or "os"'),
        (["tables", "lake", "--version", "99"], 3, "the lake is at version 5"),
        (["tables", "lake", "--tag", "none"], 3, "there is: release"),
        (["tables", "lake", "--version", "1", "--tag", "release"], 2, "one of version, tag"),
        (["tables", "lake", "--namespace", "none"], 3, "create it with create_namespace"),
        (["log", "lake", "-n", "-1"], 2, "--limit"),
        (["log", "lake", "-n", "many"], 2, "--limit"),
        (["show"], 2, "LAKE"),
        (["nosuch"], 2, "nosuch"),
        (["show", "lake", "--nosuch"], 2, "--nosuch"),
    ],
)
def test_a_mistake_ends_with_its_code_and_says_what_to_do(
    arguments: Sequence[str], code: int, says: str, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, with nothing on stdout and nothing left behind."""
    monkeypatch.chdir(lake.parent)
    found = run(*arguments)
    assert (found.code, found.out) == (code, "")
    assert says in found.err
    assert os.listdir(lake.parent) == ["lake"]  # noqa: PTH208


def test_what_people_wrote_is_printed_as_they_wrote_it(run: Run, lake: Path) -> None:
    """Brackets, colons and colours in names and notes are text, not instructions to the terminal."""
    with phalanx.open(lake) as made:
        made.commit([do.SetProperty("p", "[/red] :bug:")], note="[/b] [bold]x[/bold] :smile:")
        made.tag("[dim]")
    assert "[/b] [bold]x[/bold] :smile:" in run("log", lake, "-n", 2).out
    assert "[/red] :bug:" in run("show", lake).out
    assert "[dim]" in run("tag", lake).out


JSON = {
    "init": ["new", "--json"],
    "show": ["lake", "--json"],
    "tables": ["lake", "--json"],
    "namespace": ["lake", "--json"],
    "property": ["lake", "--json"],
    "create": ["lake", "new", "--schema", "id: int64", "--json"],
    "load": ["lake", "t", "rows.csv", "--json"],
    "query": ["lake", "t", "--count", "--json"],
    "sql": ["lake", "select 1 as one", "--json"],
    "search": ["lake", "points", "--vector", "[1]", "--json"],
    "index": ["lake", "t", "--create", "id", "--json"],
    "history": ["lake", "t", "--json"],
    "changes": ["lake", "t", "--since", "0", "--json"],
    "diff": ["lake", "t", "3", "--json"],
    "restore": ["lake", "--version", "2", "--json"],
    "column add": ["lake", "t", "more", "string", "--json"],
    "column drop": ["lake", "t", "other", "--json"],
    "column rename": ["lake", "t", "id", "number", "--json"],
    "column widen": ["lake", "t", "other", "int64", "--json"],
    "column order": ["lake", "t", "other", "id", "--json"],
    "column nullable": ["lake", "t", "id", "--json"],
    "rename": ["lake", "t", "u", "--json"],
    "drop": ["lake", "t", "--json"],
    "flush": ["lake", "--json"],
    "optimize": ["lake", "t", "--json"],
    "prune": ["lake", "--json"],
    "tag": ["lake", "v", "--json"],
    "log": ["lake", "--json"],
    "check": ["lake", "--json"],
    "repair": ["lake", "--json"],
    "pipeline plan": ["steps.py", "--json"],
    "pipeline status": ["steps.py", "--lake", "lake", "--json"],
    "pipeline history": ["steps.py", "--lake", "lake", "--json"],
}
STARTS_SPARK = {"pipeline run"}
"""In tests/spark/test_pipeline.py."""
STEPS = """
from phalanx.spark import Pipeline, whole

pipeline = Pipeline("copies")
pipeline.sql("copy", "select * from t", reads=[whole("t")], writes="u")
"""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in STARTS_SPARK])
def test_every_verb_speaks_json(verb: str, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, one value, and nothing else on stdout."""
    monkeypatch.chdir(lake.parent)
    Path("rows.csv").write_text("id\n1\n")
    Path("steps.py").write_text(STEPS)
    if verb == "search":
        with phalanx.open("lake") as made:
            made.create_table("points", pa.table({"at": pa.array([[1.0]], pa.list_(pa.float32(), 1))}))
    if "other" in JSON[verb]:
        with phalanx.open("lake") as made:
            made["t"].add_column("other", pa.int32())
    found = run(*verb.split(), *JSON[verb])
    assert (found.code, found.err, found.out.count("\n")) == (0, "", 1)
    assert isinstance(json.loads(found.out), list | dict)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_mentions_its_options(verb: str) -> None:
    """Each with a word of what it does."""
    found = CliRunner().invoke(app, [*verb.split(), "--help"])
    assert found.exit_code == 0
    for parameter in VERBS[verb].params:
        for name in (
            parameter.opts if parameter.param_type_name == "option" else [str(parameter.metavar or parameter.name)]
        ):
            assert re.search(rf"(^|[\s,]){re.escape(name)}\b", found.output, re.IGNORECASE), name
        assert getattr(parameter, "help", None), parameter.name
    *above, name = verb.split()
    assert name in CliRunner().invoke(app, [*above, "--help"]).output


def test_every_error_has_an_exit_code_of_its_kind() -> None:
    """None falls through to 1, which means nothing; kinds that call for different things differ."""
    kinds: list[type[PhalanxError]] = [found for found in vars(errors).values() if isinstance(found, type)]
    assert set(output.EXIT_CODES) == {kind for kind in kinds if kind.__bases__ == (PhalanxError,)}
    assert len(set(output.EXIT_CODES.values())) == len(output.EXIT_CODES)
    assert not {0, 1, 74, 126, 127, 130, 141} & set(output.EXIT_CODES.values())
    for kind in kinds:
        if kind is not PhalanxError:
            assert output.exit_code(kind("x")) == next(c for k, c in output.EXIT_CODES.items() if issubclass(kind, k))


@pytest.mark.parametrize("kind", output.EXIT_CODES)
def test_an_error_is_one_line_and_a_code(kind: type[PhalanxError], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was being done."""

    def fail(*_: object, **__: object) -> None:
        raise kind("this went wrong: do that")

    monkeypatch.setattr(output, "open_lake", fail)
    found = run("show", "anywhere")
    assert (found.code, found.out, found.err) == (output.EXIT_CODES[kind], "", "phalanx: this went wrong: do that\n")


def test_following_prints_what_lands_until_ctrl_c(lake: Path) -> None:
    """A commit made meanwhile appears as a line of its own; SIGINT ends it with 130 and no word."""
    with phalanx.open(lake) as made, start("log", lake, "--follow", "-n", "1", "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["version"] == 5
        made.commit([], note="meanwhile")
        assert json.loads(process.stdout.readline())["note"] == "meanwhile"
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=20)
    assert (process.returncode, rest, said) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [["log", "-n", "300"], ["log", "-n", "300", "--json"], ["log", "-f", "-n", "300"]]
)
def test_a_closed_pipe_is_no_error_to_speak_of(arguments: list[str], lake: Path) -> None:
    """`phalanx log | head -1` prints one line, and nothing else."""
    with phalanx.open(lake) as made:
        for _ in range(150):
            made.commit([], note="x" * 2000)
    with start(*arguments, lake) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(8)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(20)
    assert (process.returncode, said) == (1, "")


def test_an_answer_that_cannot_be_written_is_said_in_one_line(lake: Path) -> None:
    """A full disk behind stdout, or a terminal that cannot show a letter."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "phalanx", "show", str(lake)]
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert found.returncode == 74
    assert re.fullmatch(r"phalanx: cannot print the answer: .*No space left on device\n", found.stderr)


def test_the_real_command_is_the_same(tmp_path: Path) -> None:
    """`python -m phalanx` and the installed script, from an empty folder to a tag."""
    assert real("init", "lake", cwd=tmp_path).returncode == 0
    again = real("init", "lake", cwd=tmp_path)
    assert (again.returncode, again.stdout, len(again.stderr.splitlines())) == (4, "", 1)
    script = Path(sys.executable).with_name("phalanx")
    tagged = subprocess.run([script, "tag", "lake", "v1"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tagged.returncode, tagged.stdout, tagged.stderr) == (0, "v1 = version 1\n", "")


def test_arguments_that_are_no_text_are_refused(lake: Path) -> None:
    """Bytes that are not UTF-8 reach us as they are; the answer is a line, not a traceback."""
    found = real("tag", lake, os.fsdecode(b"\xff"))
    assert found.returncode == 2
    assert found.stderr.startswith("phalanx: '\\udcff' cannot be the name of a tag")
    assert found.stderr.count("\n") == 1
