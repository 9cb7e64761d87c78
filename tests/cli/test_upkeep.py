"""`phalanx prune`, `repair` and `optimize` as people and programs meet them."""

import json
from pathlib import Path

import pyarrow as pa

import phalanx
from tests.cli.running import Run


def prepared(path: Path) -> str:
    """A lake with a table of five versions."""
    with phalanx.open(path, create=True, durability="os") as lake:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        for number in range(4):
            table.overwrite([{"id": number}], stage=True)
    return str(path)


def test_prune_explains_each_version_and_file(run: Run, tmp_path: Path) -> None:
    """What goes as well as what stays, before and when it is done; for programs too."""
    lake = prepared(tmp_path / "lake")
    told = json.loads(run("prune", lake, "--keep", "2", "--protect", "0", "--dry-run", "--explain", "--json").out)
    assert told["explained"]["going"] == {"t": [[1, 2]]}
    planned = run("prune", lake, "--keep", "2", "--protect", "0", "--dry-run", "--explain").out
    assert "t versions 1 to 2 would go: nothing needs them" in planned
    assert "t version 3 stays: it is the anchor" in planned
    assert "t version 5 stays: it is the newest" in planned
    assert "would go: 4 entries of the log (" in planned
    assert "entries of the log from 5 on stay: the 2 newest versions of the lake stay" in planned
    assert told["floor_why"] in planned
    done = run("prune", lake, "--keep", "2", "--protect", "0", "--explain").out
    assert "t versions 1 to 2 went" in done
    assert done.count(" went (") == planned.count(" would go (") > 0
    assert "went: 4 entries of the log (" in done


def test_prune_explains_what_a_tag_keeps_below_the_floor(run: Run, tmp_path: Path) -> None:
    lake = prepared(tmp_path / "lake")
    run("tag", lake, "old", "--version", "3")
    told = json.loads(run("prune", lake, "--keep", "1", "--unconditional", "--explain", "--json").out)
    assert told["explained"]["lake"] == {"3": "tag old names it"}
    said = run("prune", lake, "--keep", "1", "--unconditional", "--explain", "--dry-run").out
    assert "version 3 of the lake stays below them: tag old names it" in said


def test_a_window_that_would_not_count_is_refused(run: Run, tmp_path: Path) -> None:
    lake = prepared(tmp_path / "lake")
    refused = run("prune", lake, "--unconditional", "--protect", "10m")
    assert refused.code == 2
    assert "either that or protect" in refused.err
    assert run("prune", lake, "--unconditional", "--protect", "0").code == 0


def test_repair_says_whether_it_was_to_do_something(run: Run, tmp_path: Path) -> None:
    """Although there was nothing to do."""
    lake = prepared(tmp_path / "lake")
    assert json.loads(run("repair", lake, "--json").out)["dry_run"] is True
    assert json.loads(run("repair", lake, "--yes", "--json").out)["dry_run"] is False


def test_a_property_of_the_lake_is_set_shown_and_removed(run: Run, tmp_path: Path) -> None:
    """What upkeep does by itself is a property: until it is said, what is due is only told."""
    lake = prepared(tmp_path / "lake")
    assert "no properties" in run("property", lake).out
    assert run("property", lake, "upkeep").code != 0
    assert run("property", lake, "upkeep", "perhaps").code == 2
    assert run("property", lake, "upkeep", "suggested").out.startswith("upkeep = suggested (version ")
    assert run("property", lake, "upkeep").out == "suggested\n"
    assert json.loads(run("property", lake, "--json").out) == {"upkeep": "suggested"}
    assert run("property", lake, "--remove").code == 2
    assert "removed property upkeep" in run("property", lake, "upkeep", "--remove").out
    assert json.loads(run("property", lake, "--json").out) == {}


def test_show_says_what_is_due_unless_upkeep_is_off(run: Run, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    with phalanx.open(lake, create=True, durability="os") as found:
        table = found.create_table("t", pa.schema([("id", pa.int64())]))
        for number in range(40):
            table.append([{"id": number}], stage=True)
    due = json.loads(run("show", lake, "--json").out)["due"]
    assert due
    assert all(one["table"] == "t" for one in due)
    assert "due" in run("show", lake).out
    run("property", lake, "upkeep", "off")
    assert json.loads(run("show", lake, "--json").out)["due"] == []
