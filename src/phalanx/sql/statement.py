"""What may run as SQL: one statement that only reads, from tables of the lake, by functions that touch nothing else.

The engine parses a statement without running it, and this looks at its tree. What is not known to be harmless is
refused: an engine's next release may bring words that write, read files or take addresses of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.names import suggestion

if TYPE_CHECKING:
    import duckdb

    from phalanx.catalog import Name

Path = tuple[str, ...]
"""A table's name as a statement writes it."""

_READING = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_FUNCTIONS = {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
"""Functions that stand for a table and make it of their arguments alone: no file, no setting, no address."""
_ONE_SELECT = "sql takes one statement that only reads (SELECT, WITH … SELECT, VALUES, DESCRIBE, SUMMARIZE)"


class Named(msgspec.Struct, frozen=True):
    """What a statement names: tables, and those of its own making."""

    tables: frozenset[Path]
    own: frozenset[str]


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> Named:
    """What a statement names, if it may run."""
    if not isinstance(text, str):
        raise InvalidInputError(f"sql takes a statement as text, and a {type(text).__name__} was given")
    ((found,),) = connection.execute("select json_serialize_sql(?::varchar)", [text]).fetchall()
    try:
        tree = msgspec.json.decode(found)
    except RecursionError as error:
        raise InvalidInputError("this statement is nested too deeply: take parts of it out, with WITH") from error
    if tree["error"]:
        raise InvalidInputError(_refusal(tree, text))
    if len(tree["statements"]) != 1:
        raise InvalidInputError(f"{_ONE_SELECT}, and there are {len(tree['statements'])} here: run each on its own")
    tables: set[Path] = set()
    own: set[str] = set()
    for node in _nodes(tree["statements"][0]):
        _require_reading(node)
        if node.get("type") == "BASE_TABLE":
            tables.add(tuple(node["qualified_name"]["path"]))
        own.update(one["key"].lower() for one in node.get("cte_map", {}).get("map", ()))
    return Named(frozenset(tables), frozenset(own))


def resolved(named: Named, known: Mapping[Name, object], position: int) -> dict[Path, Name]:
    """Which table of the lake each name means: that of the same name, or the only one if case does not count."""
    chosen: dict[Path, Name] = {}
    for path in sorted(named.tables):
        name: Name = tuple(".".join(path).split("."))
        if name not in known:
            alike = [one for one in known if _folded(one) == _folded(name)]
            if len(alike) != 1:
                if len(path) == 1 and path[0].lower() in named.own:
                    continue
                near = suggestion(".".join(path), map(".".join, known))
                raise NotFoundError(f"there is no table {'.'.join(path)!r} at version {position}; {near}")
            (name,) = alike
        same = next((other for other in chosen if _folded(other) == _folded(path)), None)
        if same is None:
            chosen[path] = name
        elif chosen[same] != name:
            raise InvalidInputError(
                f"{'.'.join(same)!r} and {'.'.join(path)!r} differ in case only, which SQL does not see: use one of them"
            )
    return chosen


def _folded(path: Path) -> Path:
    return tuple(part.lower() for part in path)


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """All nodes of a tree, in no particular order."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _require_reading(node: Mapping[str, Any]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _READING:
        raise InvalidInputError(f"{_ONE_SELECT}: tables are changed by append, upsert, update and delete")
    if kind == "TABLE_FUNCTION" and node["function"]["function_name"].lower() not in _FUNCTIONS:
        allowed = ", ".join(sorted(_FUNCTIONS))
        raise InvalidInputError(
            f"{node['function']['function_name']}() cannot be read from: sql reads the tables of the lake, and {allowed}"
        )
    if kind == "SHOW_REF" and node["query"] is None:
        raise InvalidInputError(f"{_ONE_SELECT}: what tables there are is said by tables(), not by SHOW")
    if kind == "BASE_TABLE" and node["at_clause"] is not None:
        raise InvalidInputError("all tables of a statement are read at one version: snapshot(version=…).sql(…)")


def _refusal(tree: Mapping[str, Any], text: str) -> str:
    if tree["error_type"] != "parser":
        return _ONE_SELECT if "Only SELECT" in tree["error_message"] else f"cannot read this: {tree['error_message']}"
    at = tree.get("position")
    near = f", at {text[int(at) : int(at) + 30]!r}" if at is not None and text[int(at) :].strip() else ""
    return f"this is not SQL as DuckDB reads it: {' '.join(tree['error_message'].split())}{near}"
