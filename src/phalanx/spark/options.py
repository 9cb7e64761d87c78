"""The options of the data source `phalanx`, read and checked: an option that nobody knows is a mistake, and is refused."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, cast

import msgspec

from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.lake import Lake
from phalanx.names import suggestion
from phalanx.snapshot import Snapshot
from phalanx.spark.reach import OPTION, Reach
from phalanx.spark.shares import cores
from phalanx.tables.stage import ROWS_PER_FILE

Changes = Literal["feed", "append"]
Start = int | Literal["snapshot", "latest"]

_KNOWN = {
    *("lake", "table", "version", "tag", "as_of", "columns", "filter", "tasks", "since", "until"),
    *("mode", "rows_per_file", "note"),
    *("changes", "start", "max_versions", "query"),
}
_OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}
"""What Spark adds by itself."""
_LIST = re.compile(r"\s*,\s*")


class Options(msgspec.Struct, frozen=True):
    """What a reader or a writer was asked for."""

    reach: Reach
    table: str
    version: int | None = None
    tag: str | None = None
    as_of: datetime | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    tasks: int = 1
    since: int | None = None
    until: int | None = None
    mode: str | None = None
    rows_per_file: int = ROWS_PER_FILE
    note: str = ""
    changes: Changes = "append"
    start: Start = "snapshot"
    max_versions: int | None = None
    query: str | None = None
    given: frozenset[str] = frozenset()
    """The names of those that were given."""

    def require(self, what: str, *known: str) -> None:
        """Refuse options that this would not obey: rows that somebody meant to leave out are wrong rows."""
        idle = sorted(self.given - {"lake", "table", *known})
        if idle:
            raise InvalidInputError(f"{what} has no option {idle[0]!r}; it has: {', '.join(known)}")

    def snapshot(self, lake: Lake) -> Snapshot:
        """The version that was asked for, or the newest."""
        return lake.snapshot(version=self.version, tag=self.tag, as_of=self.as_of)


def read_options(given: Mapping[str, str]) -> Options:
    """Options as Spark hands them over: names in any case, values as text."""
    options = {key.lower(): value for key, value in given.items()}
    if "path" in options:
        raise InvalidInputError(
            "the data source phalanx takes no path: leave it out, and say .option('lake', …) and .option('table', …)"
        )
    for key in options:
        if key not in _KNOWN | _OF_SPARK and not key.startswith(OPTION):
            near = suggestion(key, sorted(_KNOWN))
            raise InvalidInputError(f"there is no option {key!r} of the data source phalanx; {near}")
    for key in ("lake", "table"):
        if not options.get(key):
            raise InvalidInputError(f"the data source phalanx needs to know the {key}: .option({key!r}, …)")
    if "until" in options and (other := sorted(options.keys() & {"version", "tag", "as_of"})):
        raise InvalidInputError(f"until says where changes end, and so does {other[0]}: give one of them")
    storage = {key[len(OPTION) :]: value for key, value in options.items() if key.startswith(OPTION)}
    columns = options.get("columns")
    return Options(
        Reach(options["lake"], tuple(sorted(storage.items()))),
        options["table"],
        _number(options, "version"),
        options.get("tag"),
        _time(options.get("as_of")),
        None if columns is None else tuple(_LIST.split(columns.strip())),
        options.get("filter"),
        _count(options, "tasks") or cores(),
        _number(options, "since"),
        _number(options, "until"),
        options.get("mode"),
        _count(options, "rows_per_file") or ROWS_PER_FILE,
        options.get("note", ""),
        _changes(options.get("changes", "append")),
        _start(options.get("start", "snapshot")),
        _count(options, "max_versions"),
        options.get("query"),
        frozenset(options.keys() & _KNOWN),
    )


def opened(options: Options) -> Lake:
    """The lake, opened in this process; who opens it closes it."""
    try:
        return options.reach.open()
    except NotFoundError as error:
        raise NotFoundError(f"{error}: the option lake names no lake") from None


def _number(options: Mapping[str, str], key: str) -> int | None:
    text = options.get(key)
    if text is None:
        return None
    if not text.isdigit():
        raise InvalidInputError(f"the option {key} is a number: {text!r} is not")
    return int(text)


def _count(options: Mapping[str, str], key: str) -> int | None:
    number = _number(options, key)
    if number == 0:
        raise InvalidInputError(f"the option {key} is 1 at the least")
    return number


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"the option as_of is a time like 2026-11-16T09:00:00Z: {text!r} is not") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _changes(text: str) -> Changes:
    if text not in {"feed", "append"}:
        raise InvalidInputError(f"the option changes is feed or append: {text!r} is neither")
    return cast("Changes", text)


def _start(text: str) -> Start:
    if text.isdigit():
        return int(text)
    if text not in {"snapshot", "latest"}:
        raise InvalidInputError(f"the option start is snapshot, latest or a version of the lake: {text!r} is not")
    return cast("Start", text)
