"""The verb `show`: what is in a lake, or what a table is and how it stands."""

from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from phalanx.cli.index import coverage
from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TagOption,
    VersionOption,
    counted,
    facts,
    grid,
    opened,
    show,
)
from phalanx.describe import TableInfo, TableSummary
from phalanx.lake import Lake
from phalanx.snapshot import Snapshot
from phalanx.upkeep.due import Due


def overview(
    lake: LakeArgument,
    table: Annotated[str | None, typer.Argument(help="Name of a table.", metavar="TABLE")] = None,
    *,
    version: VersionOption = None,
    tag: TagOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a lake, or what a table is. Nothing is scanned."""
    with opened(lake, option) as found:
        at = found.snapshot(version=version, tag=tag)
        if table is not None:
            info = at.describe(table)
            show(info, as_json, lambda: _table(info))
            return
        quiet = at.properties().get("upkeep") == "off" or version is not None or tag is not None
        due = [] if quiet else found.due()
        value = {
            "uri": found.uri,
            "id": found.id,
            "version": at.version,
            "time": at.time,
            "tables": at.summaries(),
            "namespaces": at.namespaces(),
            "tags": at.tags(),
            "properties": at.properties(),
            "settings": found.settings,
            "due": due,
        }
        show(value, as_json, lambda: _lake(found, at, due))


def summary_grid(tables: list[TableSummary]) -> Table | str:
    """Tables, one on a line."""
    rows = [(one.name, one.version, one.changed, one.pending or "", one.created, one.id) for one in tables]
    return grid(["table", "version", "changed at", "pending", "created at", "id"], rows, "no tables")


def _lake(found: Lake, at: Snapshot, due: list[Due]) -> Group:
    rows = [
        ("lake", found.uri),
        ("id", found.id),
        ("version", f"{at.version} ({at.time:%Y-%m-%d %H:%M:%S} UTC)"),
        ("durability", found.settings.durability),
        ("namespaces", ", ".join(at.namespaces()) or "none"),
        ("tags", ", ".join(f"{name} = {version}" for name, version in at.tags().items()) or "none"),
        *((f"property {key}", text) for key, text in at.properties().items()),
        *((f"due: {one.what}", f"{one.table}: {one.why}" if one.table else one.why) for one in due),
    ]
    return Group(facts(rows), Text(), summary_grid(at.summaries()))


def _table(info: TableInfo) -> Group:
    tail = info.tail
    pending = f"{counted(tail.items, 'change')}: {counted(tail.rows, 'row')} ({tail.bytes:,} bytes) in the log"
    pending += f", {tail.predicates:,} by condition" if tail.predicates else ""
    pending += f", {tail.bulk:,} in bulk" if tail.bulk else ""
    disk = f"{counted(info.head.rows, 'row')} in {counted(info.head.fragments, 'fragment')}"
    rows = [
        ("table", info.name),
        ("id", info.id),
        ("rows", f"{info.rows:,}"),
        ("key", ", ".join(info.key) or "none"),
        ("version", f"{info.version:,} of the table, {info.lake_version:,} of the lake"),
        ("created at", f"version {info.created:,} of the lake"),
        ("changed at", f"version {info.changed:,} of the lake"),
        ("on disk", f"{disk} (manifest {info.head.manifest})"),
        ("pending", pending if tail.items else "nothing"),
        *((f"index {one.name}", f"{one.kind} of {one.column}, {coverage(one)}") for one in info.indexes),
        *((f"property {key}", text) for key, text in info.properties.items()),
    ]
    columns = [
        (
            one.name,
            one.type.replace("item: ", ""),
            "" if one.nullable else "not null",
            "key" if one.name in info.key else "",
        )
        for one in info.columns
    ]
    return Group(facts(rows), Text(), grid(["column", "type", "", ""], columns, ""))
