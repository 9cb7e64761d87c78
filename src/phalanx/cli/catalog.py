"""Verbs on the lake as a whole: init, show, tables, tag."""

from typing import Annotated

import typer

from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, console, grid, opened, print_json, show
from phalanx.errors import AlreadyExistsError, InvalidInputError, NotFoundError


def init(
    lake: LakeArgument,
    durability: Annotated[str, typer.Option(help='"disk" syncs every commit; "os" leaves it to the system.')] = "disk",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a lake."""
    if durability not in {"disk", "os"}:
        raise InvalidInputError('--durability is "disk" or "os"')
    try:
        with opened(lake, option) as found:
            raise AlreadyExistsError(
                f"there is a lake at {found.uri} already, at version {found.version}: use it as it is"
            )
    except NotFoundError:
        pass
    with opened(lake, option, create=True, settings={"durability": durability}) as made:
        value = {"uri": made.uri, "id": made.id, "version": made.version, "durability": made.settings.durability}
        show(value, as_json, lambda: f"created lake {made.uri} (durability {made.settings.durability})")


def overview(lake: LakeArgument, option: StorageOption = None, as_json: JsonOption = False) -> None:
    """Show what is in a lake."""
    with opened(lake, option) as found:
        now = found.refresh()
        value = {
            "uri": found.uri,
            "id": found.id,
            "version": now.version,
            "time": now.time,
            "tables": now.tables(),
            "namespaces": now.namespaces(),
            "tags": now.tags(),
            "properties": now.properties(),
            "settings": found.settings,
        }
        if as_json:
            print_json(value)
            return
        rows = [
            ("lake", found.uri),
            ("id", found.id),
            ("version", f"{now.version} ({now.time:%Y-%m-%d %H:%M:%S} UTC)"),
            ("durability", found.settings.durability),
            ("tables", ", ".join(now.tables()) or "none"),
            ("namespaces", ", ".join(now.namespaces()) or "none"),
            ("tags", ", ".join(f"{name} = {at}" for name, at in now.tags().items()) or "none"),
            *((f"property {key}", text) for key, text in now.properties().items()),
        ]
        console.print(grid(["", ""], rows, ""))


def tables(
    lake: LakeArgument,
    namespace: Annotated[str | None, typer.Option(help="Only those directly inside this namespace.")] = None,
    version: Annotated[int | None, typer.Option(help="As of this version.")] = None,
    tag: Annotated[str | None, typer.Option(help="As of this tag.")] = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tables."""
    with opened(lake, option) as found:
        snapshot = found.snapshot(version=version, tag=tag)
        held = [(name, snapshot.table(name)[1]) for name in snapshot.tables(namespace)]
        value = [{"name": name, "id": table.id, "created": table.created} for name, table in held]
        rows = [(name, table.created, table.id) for name, table in held]
        show(value, as_json, lambda: grid(["table", "created at", "id"], rows, "no tables"))


def tag(
    lake: LakeArgument,
    name: Annotated[str | None, typer.Argument(help="The tag; without one, all tags are listed.")] = None,
    version: Annotated[int | None, typer.Option(help="The version to name; the newest by default.")] = None,
    move: Annotated[bool, typer.Option("--move", help="Let the tag point elsewhere than before.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag.")] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tags, or name a version."""
    if name is None and (version is not None or move or delete):
        raise InvalidInputError("--version, --move and --delete need a tag: phalanx tag LAKE NAME ...")
    with opened(lake, option) as found:
        if name is None:
            tags = found.tags()
            rows = list(tags.items())
            show(tags, as_json, lambda: grid(["tag", "version"], rows, "no tags: phalanx tag LAKE NAME makes one"))
        elif delete:
            at = found.untag(name)
            show({"untagged": name, "committed": at}, as_json, lambda: f"removed tag {name} (version {at})")
        else:
            at = found.tag(name, version=version, move=move)
            named = found.tags()[name]
            value = {"tag": name, "version": named, "committed": at}
            show(value, as_json, lambda: f"{name} = version {named}")
