"""A pipeline, declared: steps with named inputs and one output each, in Python or in Spark SQL, in one file.

A declaration is a value: nothing is read and no Spark is needed to make one. It is checked as a whole (`ordered`) before a
run begins: names that are there twice, outputs of steps that do not exist, circles. Running it is left to `run.py`.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import msgspec
import pyarrow as pa
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame

from phalanx.errors import InvalidInputError
from phalanx.names import parse_word, suggestion
from phalanx.spark.expect import Expectation
from phalanx.spark.inputs import Changed, Input, Made, Whole
from phalanx.spark.land import MODES
from phalanx.tables.stage import ROWS_PER_FILE

Work = Callable[..., DataFrame]
_NAME = re.compile(r"[\w.-]+")
_FOLDERS: set[Path] = set()
"""Folders of files that were loaded, which were put on Python's path for their modules."""


class Step(msgspec.Struct, frozen=True):
    """One step: what it reads, how it makes rows of that (a function or SQL), and where they go."""

    name: str
    reads: dict[str, Input]
    writes: str
    mode: str
    work: Work | str
    expect: tuple[Expectation, ...] = ()
    key: tuple[str, ...] | None = None
    """Of a table that is created by the first run; None if it must be there."""
    schema: pa.Schema | None = None
    """The columns of that table, if they are not those of the rows."""
    rows_per_file: int = ROWS_PER_FILE


class Pipeline:
    """Steps that run as one transaction: all of their outputs are published together, or none."""

    def __init__(self, name: str) -> None:
        self.name = parse_word(name, "pipeline")
        self.steps: list[Step] = []

    def step(
        self,
        *,
        reads: Mapping[str, Input] | Sequence[Input],
        writes: str,
        mode: str = "append",
        expect: Sequence[Expectation] = (),
        create: bool | pa.Schema = False,
        key: str | Sequence[str] = (),
        name: str | None = None,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> Callable[[Work], Work]:
        """A step in Python: the function gets a data frame for each input, by name, and returns one.

        With `create`, the table that it writes is created by the first run, with this key and the columns of its rows, of
        which vectors and the like that come from an input stay what they are; or with a schema that is given as `create`.
        """

        def declare(work: Work) -> Work:
            called = name or str(getattr(work, "__name__", "step")).strip("<>")
            made = _created(create, key)
            step = Step(called, _named(reads), writes, mode, work, tuple(expect), *made, rows_per_file)
            self.steps.append(_checked(step))
            return work

        return declare

    def sql(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str,
        query: str,
        *,
        reads: Mapping[str, Input] | Sequence[Input],
        writes: str,
        mode: str = "append",
        expect: Sequence[Expectation] = (),
        create: bool | pa.Schema = False,
        key: str | Sequence[str] = (),
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        """A step in Spark SQL: its inputs are tables of the query, by name; otherwise as `step`."""
        made = _created(create, key)
        step = Step(name, _named(reads), writes, mode, query, tuple(expect), *made, rows_per_file)
        self.steps.append(_checked(step))

    def ordered(self) -> list[Step]:
        """The steps so that each comes after those whose output it reads; refused if that cannot be."""
        names = [step.name for step in self.steps]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInputError(f"pipeline {self.name!r} has two steps named {name!r}: names must differ")
        if not names:
            raise InvalidInputError(f"pipeline {self.name!r} has no steps: declare one with step or sql")
        done: list[Step] = []
        left = list(self.steps)
        while left:
            ready = [step for step in left if not _waits(step, left, names)]
            if not ready:
                raise InvalidInputError(
                    f"steps {', '.join(repr(step.name) for step in left)} read each other's output: break the circle"
                )
            done.append(ready[0])
            left.remove(ready[0])
        self._check_changes()
        return done

    def incremental(self) -> list[str]:
        """The tables whose changes are read."""
        found = {one.table for step in self.steps for one in step.reads.values() if isinstance(one, Changed)}
        return sorted(found)

    def _check_changes(self) -> None:
        written = {step.writes for step in self.steps}
        for step in self.steps:
            for one in step.reads.values():
                if isinstance(one, Changed) and one.table in written:
                    raise InvalidInputError(
                        f"step {step.name!r} reads the changes of {one.table!r}, which this pipeline writes: read what the "
                        "step that writes it has made, with made(...)"
                    )


def _created(
    create: bool | pa.Schema,  # noqa: FBT001 - the caller's own word
    key: str | Sequence[str],
) -> tuple[tuple[str, ...] | None, pa.Schema | None]:
    """Key and columns of a table that is created, as far as they are said."""
    schema = create if isinstance(create, pa.Schema) else None
    if schema is None and not create:
        return None, None
    return (key,) if isinstance(key, str) else tuple(key), schema


def _named(reads: Mapping[str, Input] | Sequence[Input]) -> dict[str, Input]:
    """Inputs by name: a list of them is named by their tables or steps."""
    if isinstance(reads, Mapping):
        return dict(reads)
    found: dict[str, Input] = {}
    for one in reads:
        name = (one.step if isinstance(one, Made) else one.table).replace(".", "_")
        if name in found:
            raise InvalidInputError(
                f"two inputs would be called {name!r}: name them, reads={{'{name}': …, 'other': …}}"
            )
        found[name] = one
    return found


def _checked(step: Step) -> Step:
    where = f"step {step.name!r}"
    if not _NAME.fullmatch(step.name):  # the log tells of runs in words, which are read again
        raise InvalidInputError(
            f"{where}: a name is letters, digits and the signs _ - . without blanks: give it with name="
        )
    if step.mode not in MODES:
        raise InvalidInputError(f"{where}: mode is one of {', '.join(MODES)}: {step.mode!r} is not")
    for name, one in step.reads.items():
        if not isinstance(one, Whole | Changed | Made):
            raise InvalidInputError(f"{where}: input {name!r} is whole(...), changes(...), added(...) or made(...)")
        if not name.isidentifier():
            raise InvalidInputError(f"{where}: an input is named like a variable: {name!r} is not")
    return step


def _waits(step: Step, left: Sequence[Step], names: Sequence[str]) -> bool:
    """Whether a step reads what others that are still to run will write."""
    for one in step.reads.values():
        if isinstance(one, Made) and (one.step not in names or one.step == step.name):
            raise InvalidInputError(f"step {step.name!r} reads step {one.step!r}: {suggestion(one.step, names)}")
    return any(waits_for(step, other) for other in left if other is not step)


def waits_for(step: Step, other: Step) -> bool:
    """Whether a step reads what another one makes, or the table that it writes."""
    return any(
        one.step == other.name if isinstance(one, Made) else isinstance(one, Whole) and one.table == other.writes
        for one in step.reads.values()
    )


def load_pipeline(path: Path) -> Pipeline:
    """The pipeline that a Python file declares: its only one, whatever it is called there.

    The file may import modules beside it, as a program could: their folder stays on the path, for functions that import
    later. What tasks need of those that it has imported is sent to them, as they cannot look for it here.
    """
    try:
        code = compile(path.read_text(), str(path), "exec")
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read as Python: {error}") from None
    module = ModuleType(f"phalanx_pipeline_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = (
        module  # while it runs: data classes look for it; functions travel by value after that
    )
    known = set(sys.modules)
    beside = _on_path(path.resolve().parent)
    try:
        exec(code, module.__dict__)  # noqa: S102 - the user's own file, which they ask to be run
        for name in set(sys.modules) - known:
            if _is_in(sys.modules[name], beside):
                register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    except InvalidInputError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInputError(f"{path} fails: {type(error).__name__}: {error}") from error
    finally:
        sys.modules.pop(module.__name__, None)
    found = list({id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}.values())
    if len(found) != 1:
        raise InvalidInputError(f"{path} declares {len(found)} pipelines: a file has one, like p = Pipeline('daily')")
    return found[0]


def _on_path(folder: Path) -> Path | None:
    """Put a folder where modules are looked for; None if it was there before, and tasks may have it as well."""
    if str(folder) in sys.path and folder not in _FOLDERS:
        return None
    if folder not in _FOLDERS:
        _FOLDERS.add(folder)
        sys.path.insert(0, str(folder))
    return folder


def _is_in(module: ModuleType, folder: Path | None) -> bool:
    """Whether a module was found in this folder itself, and not by another entry of the path that is inside it."""
    file, parts = getattr(module, "__file__", None), module.__name__.split(".")
    return (
        file is not None
        and folder is not None
        and Path(file).with_suffix("") in {folder.joinpath(*parts), folder.joinpath(*parts, "__init__")}
    )
