"""Verbs on the lake as a whole: init, tables, namespace, property, tag."""

from typing import Annotated

import typer

from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    PropertyOption,
    StorageOption,
    TagOption,
    VersionOption,
    grid,
    opened,
    pairs,
    plain,
    show,
)
from phalanx.cli.overview import summary_grid
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


def tables(
    lake: LakeArgument,
    namespace: Annotated[str | None, typer.Option(help="Only those directly inside this namespace.")] = None,
    version: VersionOption = None,
    tag: TagOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tables."""
    with opened(lake, option) as found:
        value = found.snapshot(version=version, tag=tag).summaries(namespace)
        show(value, as_json, lambda: summary_grid(value))


def namespace(
    lake: LakeArgument,
    name: Annotated[str | None, typer.Argument(help="The namespace; without one, all are listed.")] = None,
    *,
    prop: PropertyOption = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove it; it must be empty.")] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List namespaces, or create one."""
    if (name is None and (drop or prop)) or (drop and prop):
        raise InvalidInputError("--drop or --property needs a namespace: phalanx namespace LAKE NAME ...")
    with opened(lake, option) as found:
        if name is None:
            now = found.refresh()
            listed = {one: now.namespace(one).properties for one in now.namespaces()}
            rows = [(one, ", ".join(f"{key}={text}" for key, text in held.items())) for one, held in listed.items()]
            empty = "no namespaces: phalanx namespace LAKE NAME makes one"
            show(listed, as_json, lambda: grid(["namespace", "properties"], rows, empty))
        elif drop:
            at = found.drop_namespace(name)
            show({"dropped": name, "committed": at}, as_json, lambda: plain(f"dropped namespace {name} (version {at})"))
        else:
            at = found.create_namespace(name, pairs(prop, "--property"))
            show({"created": name, "committed": at}, as_json, lambda: plain(f"created namespace {name} (version {at})"))


def properties(
    lake: LakeArgument,
    key: Annotated[str | None, typer.Argument(help="The property; without one, all are listed.")] = None,
    value: Annotated[str | None, typer.Argument(help="What it becomes; without one, it is shown.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it: the default counts again.")] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List properties of the lake, or set one."""
    if remove and (key is None or value is not None):
        raise InvalidInputError("--remove needs a property, and no value: phalanx property LAKE KEY --remove")
    with opened(lake, option) as found:
        held = found.properties()
        if key is None:
            none = "no properties: phalanx property LAKE KEY VALUE sets one"
            show(held, as_json, lambda: grid(["property", "value"], list(held.items()), none))
        elif value is None and not remove:
            if key not in held:
                raise NotFoundError(f"property {key!r} is not set: the default counts")
            show({key: held[key]}, as_json, lambda: plain(held[key]))
        else:
            at = found.set_property(key, value)
            said = f"removed property {key}" if remove else f"{key} = {value}"
            show({"property": key, "value": value, "committed": at}, as_json, lambda: plain(f"{said} (version {at})"))


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
