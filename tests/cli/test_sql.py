"""The verb sql: an answer for people, for programs and as a file, now or as it was."""

import json
from pathlib import Path

import pytest
from pyarrow import csv, parquet

import phalanx
from tests.cli.running import Run, real

JOIN = "select name, sum(v) as total from t join u using (id) group by name order by name"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake of two tables; the tag "before" is older than the last change."""
    monkeypatch.chdir(tmp_path)
    with phalanx.open("lake", create=True, durability="os") as made:
        made.create_table("t", [{"id": n, "name": f"n{n % 3}"} for n in range(90)], key="id")
        made.create_table("u", [{"id": n, "v": n} for n in range(30)], key="id")
        made.tag("before")
        made["u"].upsert([{"id": 0, "v": 1000}])
    return tmp_path


def test_people_get_a_table(run: Run, here: Path) -> None:
    text = run("sql", "lake", JOIN).out.splitlines()
    assert text[0].split() == ["name", "total"]
    assert [line.split() for line in text[2:5]] == [["n0", "1135"], ["n1", "145"], ["n2", "155"]]
    assert text[-1] == "3 rows"
    assert run("sql", "lake", "from t").out.splitlines()[-1] == "20 rows; there are more: --limit shows them"
    assert run("sql", "lake", "from t", "-n", 90).out.splitlines()[-1] == "90 rows"
    assert run("sql", "lake", "from t where id < 0").out == "no rows\n"


def test_programs_get_json_csv_or_a_file(run: Run, here: Path) -> None:
    wanted = [{"name": "n0", "total": 1135}, {"name": "n1", "total": 145}, {"name": "n2", "total": 155}]
    text = JOIN.replace("sum(v)", "sum(v)::bigint")
    assert json.loads(run("sql", "lake", text, "--json").out) == wanted
    assert json.loads(run("sql", "lake", text, "--json", "-n", 1).out) == wanted[:1]
    lines = run("sql", "lake", text, "--format", "json").out.splitlines()
    assert [json.loads(line) for line in lines] == wanted
    for name, read in (("o.csv", csv.read_csv), ("o.parquet", parquet.read_table)):
        assert run("sql", "lake", text, "--output", name).out == f"wrote 3 rows to {name}\n"
        assert read(name).to_pylist() == wanted
    piped = real("sql", "lake", text, "--format", "csv")
    assert (piped.stdout.splitlines()[1], piped.stderr, piped.returncode) == ('"n0",1135', "", 0)


def test_the_past_is_asked(run: Run, here: Path) -> None:
    text = "select max(v) as m from u"
    assert json.loads(run("sql", "lake", text, "--json").out) == [{"m": 1000}]
    assert json.loads(run("sql", "lake", text, "--tag", "before", "--json").out) == [{"m": 29}]
    with phalanx.open("lake") as lake:
        version = lake.snapshot(tag="before").version
    assert json.loads(run("sql", "lake", text, "--version", version, "--json").out) == [{"m": 29}]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("select * from tt", 3, "there is no table 'tt'"),
        ("drop table t", 2, "only reads"),
        ("selec", 2, "syntax error"),
        ("select nope from t", 2, "nope"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run: Run, here: Path, text: str, code: int, said: str) -> None:
    found = run("sql", "lake", text)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert len(found.err.splitlines()) == 1


def test_columns_of_one_name_are_told_apart(run: Run, here: Path) -> None:
    """Of a join, say: neither takes the other's place, for people, for programs, or in a file."""
    text = "select t.id, u.id, 1 as id_1, u.id from t join u on t.id = u.id + 1 where t.id = 5"
    names, values = ["id", "id_2", "id_1", "id_3"], [5, 4, 1, 4]
    shown = run("sql", "lake", text).out.splitlines()
    assert (shown[0].split(), [int(one) for one in shown[2].split()]) == (names, values)
    assert json.loads(run("sql", "lake", text, "--json").out) == [dict(zip(names, values, strict=True))]
    run("sql", "lake", text, "--output", "o.parquet")
    assert parquet.read_table("o.parquet").to_pylist() == [dict(zip(names, values, strict=True))]
    with phalanx.open("lake") as lake:
        assert lake.sql(text).to_polars().columns == lake.sql(text).schema.names == names


def test_intervals_are_shown(run: Run, here: Path) -> None:
    """Arrow has no text for them; a format that cannot hold them says so in one line."""
    text = "select interval 1 day as d, interval 2 month as m, null::interval as n"
    assert json.loads(run("sql", "lake", text, "--json").out) == [{"d": "1 days 0 s", "m": "2 months 0 s", "n": None}]
    assert run("sql", "lake", text, "--format", "csv").code == 0
    assert run("sql", "lake", text).code == 0
    refused = run("sql", "lake", text, "--output", "o.parquet")
    assert (refused.code, refused.err.count("\n")) == (10, 1)
