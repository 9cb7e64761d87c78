"""Writes docs/cli.md and docs/api.md from the code; a test compares them with what is checked in."""

import inspect
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

import phalanx
import phalanx.spark
from phalanx.cli.app import app
from phalanx.cli.output import EXIT_CODES
from phalanx.describe import ColumnInfo, HeadInfo, TableSummary, TailInfo
from phalanx.indexing import IndexInfo
from phalanx.log.check import Problem
from phalanx.table import Readable, SnapshotTable, TransactionTable
from phalanx.upkeep.check import Report
from phalanx.upkeep.repair import Repaired, Step
from phalanx.writer import Writer

DOCS = Path(__file__).parent.parent / "docs"
_OTHER_CODES = [
    "| 74 | | the answer cannot be printed |",
    "| 130 | | Ctrl-C |",
    "| 143 | | told to end (SIGTERM) while it followed |",
]
_CLASSES: tuple[type, ...] = (
    *(phalanx.Lake, phalanx.Table, Writer, phalanx.Transaction, TransactionTable),
    *(phalanx.Snapshot, SnapshotTable, Readable),
)
_ANSWERS = (
    *(phalanx.Commit, phalanx.Change, phalanx.Flushed, phalanx.Optimized, phalanx.Skipped, phalanx.Done),
    *(Report, Problem, Repaired, Step),
    *(phalanx.TableInfo, ColumnInfo, HeadInfo, TailInfo, IndexInfo, TableSummary),
)
_SPARK = (phalanx.spark.SparkLake, phalanx.spark.SparkSnapshot, phalanx.spark.SparkTransaction, phalanx.spark.Pipeline)
_SPARK_CALLS = (
    *(phalanx.spark.session, phalanx.spark.on, phalanx.spark.run_pipeline),
    *(phalanx.spark.whole, phalanx.spark.changes, phalanx.spark.added, phalanx.spark.made),
)
_SPARK_ANSWERS = (phalanx.spark.Ran, phalanx.spark.StepRan)
_MADE = "<!-- Made by `make docs`; do not edit. -->\n"


def cli_page() -> str:
    """The command line: every verb, its arguments and options, and the exit codes."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    parts = ["# Command line\n", _MADE, "`phalanx VERB LAKE …`; `phalanx --version` says which.\n"]
    for name, command in verbs(group):
        usage = " ".join(_argument(p) for p in command.params if isinstance(p, TyperArgument))
        parts.append(f"## phalanx {name}\n\n{command.help}\n\n`phalanx {name} {usage} [options]`\n")
        rows = [_option(parameter) for parameter in command.params if isinstance(parameter, TyperOption)]
        parts.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]) + "\n")
    codes = [f"| {code} | `{kind.__name__}` | {_first_line(kind)} |" for kind, code in EXIT_CODES.items()]
    parts.append("## Exit codes\n")
    parts.append(
        "\n".join(["| code | error | meaning |", "|---|---|---|", "| 0 | | success |", *codes, *_OTHER_CODES]) + "\n"
    )
    return "\n".join(parts)


def verbs(group: TyperGroup) -> list[tuple[str, Any]]:
    """Every verb by the words that call it."""
    found = []
    for name, command in group.commands.items():
        inner = verbs(command) if isinstance(command, TyperGroup) else []
        found += [(f"{name} {word}", one) for word, one in inner] or [(name, command)]
    return found


def api_page() -> str:
    """The Python interface: what `import phalanx` gives, with signatures and first sentences."""
    parts = ["# Python interface\n", _MADE]
    parts.append(f"## phalanx.open\n\n```python\nphalanx.open{_signature(phalanx.open)}\n```\n\n{_doc(phalanx.open)}\n")
    for kind in _CLASSES:
        parts.append(f"## {kind.__name__}\n\n{_doc(kind)}\n")
        if issubclass(kind, Readable) and kind is not Readable:
            parts.append("It is read like every table: see [Readable](#readable).\n")
        if rows := _members(kind):
            parts.append("\n".join(["| member | what it does |", "|---|---|", *rows]) + "\n")
    parts += _spark_parts()
    parts.append(
        "## Answers\n\nWhat calls give back: immutable, and `msgspec.to_builtins` makes plain dicts of them.\n"
    )
    rows = [
        f"| `{kind.__name__}` | {', '.join(map(_code, kind.__struct_fields__))} | {_prose(kind)} |"
        for kind in (*_ANSWERS, *_SPARK_ANSWERS)
    ]
    parts.append("\n".join(["| answer | fields | what it is |", "|---|---|---|", *rows]) + "\n")
    errors = [name for name in phalanx.__all__ if name.endswith("Error")]
    rows = [f"| `{name}` | {_first_line(getattr(phalanx, name))} |" for name in errors]
    parts.append("## Errors\n")
    parts.append("\n".join(["| error | meaning |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _spark_parts() -> list[str]:
    """What `import phalanx.spark` gives."""
    rows = [f"| `{call.__name__}{_signature(call)}` | {_first_line(call)} |" for call in _SPARK_CALLS]
    parts = ["## phalanx.spark\n", "See [Spark](spark.md).\n"]
    parts.append("\n".join(["| call | what it does |", "|---|---|", *rows]) + "\n")
    for kind in _SPARK:
        parts.append(f"## {kind.__name__}\n\n{_doc(kind)}\n")
        parts.append("\n".join(["| member | what it does |", "|---|---|", *_members(kind)]) + "\n")
    return parts


def _members(kind: type) -> list[str]:
    """The public members, inherited ones last; what all tables share is said once."""
    found: dict[str, object] = {}
    for base in [base for base in kind.__mro__[:-1] if base is kind or base is not Readable]:
        for name, member in vars(base).items():
            if not name.startswith("_") or name == "__getitem__":
                found.setdefault(name, member)
    rows = []
    for name, member in found.items():
        if isinstance(member, property):
            said = name
        elif name == "__getitem__":
            said = "[name]"
        elif inspect.isfunction(member):
            said = f"{name}{_signature(member, skip_self=True)}"
        else:
            continue
        rows.append(f"| `{said}` | {_first_line(member)} |")
    return rows


def _code(text: str) -> str:
    return f"`{text}`"


def _prose(thing: object) -> str:
    return " ".join(_doc(thing).split()).replace("|", "\\|")


def _argument(parameter: TyperArgument) -> str:
    """As it stands in the usage: in brackets if it may be left out."""
    name = str(parameter.metavar or (parameter.name or "").upper()).strip("[]")
    name += "…" if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _option(parameter: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    default = "" if parameter.is_flag or parameter.default in (None, False, "") else f"`{parameter.default}`"
    return f"| {names} | {parameter.help} | {default} |"


def _signature(function: object, *, skip_self: bool = False) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if not (skip_self and name == "self")
    ]
    return str(signature.replace(parameters=kept, return_annotation=inspect.Signature.empty))


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _first_line(thing: object) -> str:
    return _doc(thing).split("\n")[0].replace("|", "\\|")


def pages() -> dict[str, str]:
    """File names and their contents."""
    return {"cli.md": cli_page(), "api.md": api_page()}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
