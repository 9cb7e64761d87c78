"""Every kind of object, damaged in every way: `check --deep` finds it, or no readable version has lost or changed a row.

Known bug 35: silent bit rot. Each damage is printed with the seed that makes it again.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from phalanx.cli.check import looked_at
from phalanx.errors import PhalanxError
from phalanx.objects import open_store
from phalanx.tables.files import Kind
from phalanx.upkeep.check import Report
from tests.crash.damages import Damage, build, damaged, held, kinds, planned

SEED = 20261116
COUNT = 300
EVERY = {"log", "floor", "checkpoint", "kept", "kept version", "pins"} | {
    one.value
    for one in (
        Kind.DATA,
        Kind.DELETIONS,
        Kind.INDEX,
        Kind.MANIFEST,
        Kind.MANAGED,
        Kind.TRANSACTION,
        Kind.SUMS,
        Kind.GUARD,
    )
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damages") / "lake"
    build(folder)
    return folder


def deep(folder: Path) -> Report:
    return looked_at(open_store(folder), deep=True)


def named(damage: Damage, report: Report) -> bool:
    """Whether what is told has to do with what was done."""
    told = " ".join(f"{problem.name} {problem.what}" for problem in report.problems)
    return damage.name in told or (damage.other and damage.other in told) or damage.kind in {"log", "floor"}


def test_the_lake_has_every_kind_of_object_and_nothing_is_wrong_with_it(source: Path) -> None:
    assert set(kinds(source)) == EVERY
    report = deep(source)
    assert [problem for problem in report.problems if not problem.harmless] == []
    assert report.unrecorded == 0
    assert report.compared > 10


def test_every_damage_is_found_or_harmless(source: Path, tmp_path: Path) -> None:
    before = held(source)
    found: dict[str, int] = {}
    wrong: list[str] = []
    plan = planned(source, SEED, COUNT)
    assert len(plan) >= COUNT
    for number, damage in enumerate(plan):
        folder = damaged(source, tmp_path / str(number), damage)
        report = deep(folder)
        verdict = "found"
        if report.whole:
            try:
                verdict = "harmless" if held(folder) == before else "NOT FOUND"
            except PhalanxError as error:
                verdict = f"NOT FOUND: {error}"
        elif not named(damage, report):
            verdict = f"found, but called {report.problems[0]}"
        print(f"{damage}: {verdict}")
        found[f"{damage.kind}, {damage.way}: {verdict}"] = found.get(f"{damage.kind}, {damage.way}: {verdict}", 0) + 1
        wrong += [f"{damage}: {verdict}"] if verdict not in {"found", "harmless"} else []
        shutil.rmtree(folder)
    print("\n".join(f"{many:4} {what}" for what, many in sorted(found.items())))
    assert not wrong, "\n".join(wrong)


def _differs(folder: Path, before: object) -> bool:
    """Whether rows are others by now; what cannot be read is not silent."""
    try:
        return held(folder) != before
    except (PhalanxError, pa.ArrowException):  # the latter of stock Lance, which reads what clients are shown
        return False


def test_without_checksums_flipped_bits_change_rows_and_nobody_notices(tmp_path: Path) -> None:
    """Why there are checksums, and that this test would notice if there were none."""
    folder = tmp_path / "lake"
    build(folder, checksums="off")
    before = held(folder)
    silent = 0
    for number, damage in enumerate(planned(folder, SEED, 400)):
        if damage.kind == Kind.DATA.value and damage.way == "flipped":
            copy = damaged(folder, tmp_path / str(number), damage)
            report = deep(copy)
            assert report.unrecorded > 0, "it is said that nothing is known of the bytes"
            silent += report.whole and _differs(copy, before)
            shutil.rmtree(copy)
            if silent:
                return
    pytest.fail("no flipped bit changed a row in silence: this test shows nothing")
