"""From texts to plans: a predicate or a set of assignments, planned against a table's schema.

Planning refuses what is wrong (syntax, unknown columns, types) with an error that says what to correct, and says whether
the statement may be written to the log (`loggable`) or why not (`obstacle`). Plans are kept by schema and text, so that
a statement that is repeated, or replayed by a reader, is planned once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import pyarrow as pa
from datafusion import Expr
from pyarrow import types

from phalanx.errors import InvalidInputError
from phalanx.expr import engine, kernels, pushdown, safety, text
from phalanx.expr.run import Assignments, Predicate, Program
from phalanx.expr.tree import Node, Reader

DIALECT = "datafusion-54"
"""What a logged expression means is what this dialect says; it is written beside the text."""
_KEPT_SCHEMAS = 64
_KEPT_PLANS = 4096
_LONGEST_KEPT = 4096
"""Characters: a long list of values is rarely repeated, and would fill the memory."""

K = TypeVar("K")
V = TypeVar("V")


def plan_predicate(sql: str, schema: pa.Schema) -> Predicate:
    """The condition in the text, or `InvalidInputError` that says what to correct."""
    planner = _planner(schema)
    found = planner.predicates.get(sql) if type(sql) is str else None
    if found is None:
        found = planner.predicate(sql)
        _keep(planner.predicates, sql, found, len(sql))
    return found


def plan_assignments(changes: Mapping[str, object], schema: pa.Schema) -> Assignments:
    """The assignments: strings are SQL expressions, other values (numbers, dates, bytes, None) are literals."""
    if not changes:
        raise InvalidInputError("there is nothing to set: name at least one column")
    planner = _planner(schema)
    spelled = tuple([(name, text.spelled(value)) for name, value in changes.items()])
    found = planner.updates.get(spelled)
    if found is None:
        found = planner.assignments(spelled)
        _keep(planner.updates, spelled, found, sum(len(sql) for _, sql in spelled))
    return found


def _keep(plans: dict[K, V], key: K, plan: V, characters: int) -> None:
    if characters <= _LONGEST_KEPT:
        if len(plans) >= _KEPT_PLANS:
            plans.clear()
        plans[key] = plan


class _Planner:
    """Plans expressions over one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.predicates: dict[str, Predicate] = {}
        self.updates: dict[tuple[tuple[str, str], ...], Assignments] = {}
        self.names = schema.names
        if len(set(self.names)) < len(self.names):
            raise InvalidInputError("two columns have the same name: expressions need a schema of distinct names")
        self._schema = schema
        self._frame = engine.Frame(schema)
        self._reader = Reader(schema, self._frame.type_of)

    def predicate(self, sql: str) -> Predicate:
        """A condition."""
        text.check(sql)
        with engine.refused(sql, self.names, "is not a condition that can be planned"):
            program, _, node = self._program(sql, pa.bool_(), assigned=False)
        words = pushdown.rendered(node) if program.obstacle is None else None
        return Predicate(sql, self._needed([program]), program.obstacle, words, program)

    def assignment(self, name: str, sql: str) -> "tuple[pa.Field[pa.DataType], Program]":
        """A new value of one column."""
        if name not in self.names:
            known = ", ".join(map(text.quoted, self.names))
            raise InvalidInputError(f"{name!r} cannot be set, since it is no column here: the columns are {known}")
        text.check(sql)
        target = self._schema.field(name)
        with engine.refused(sql, self.names, f"cannot be assigned to {name} ({target.type})"):
            program, analyzed, node = self._program(sql, target.type, assigned=True)
        certain = target.nullable or any(safety.never_null(one, self._schema) for one in (analyzed, node))
        if not certain:
            if node.kind == "Literal":
                raise InvalidInputError(f"{text.shown(sql)} is null, and {name} must not be null")
            program = replace(program, obstacle=program.obstacle or f"{name} must not be null, and may become null")
        return target, program

    def assignments(self, changes: Iterable[tuple[str, str]]) -> Assignments:
        """New values of several columns."""
        programs = tuple(self.assignment(name, sql) for name, sql in changes)
        obstacle = next(filter(None, (one.obstacle for _, one in programs)), None)
        return Assignments(dict(changes), self._needed(one for _, one in programs), obstacle, programs)

    def _program(self, sql: str, target: pa.DataType, *, assigned: bool) -> tuple[Program, Node, Node]:
        parsed = self._frame.parse(sql)
        raw = self._frame.analyze(parsed)
        analyzed = self._reader.read(raw)
        if analyzed.type != target:
            _refuse_cast(sql, analyzed.type, target)
            raw = self._frame.analyze(parsed.cast(target))
            analyzed = self._reader.read(raw)
        lean, node = raw, analyzed
        if not analyzed.settled:
            lean = self._frame.simplify(Expr(raw))
            node = self._reader.read(lean)
        obstacle = safety.obstacle(analyzed, node, assigned=assigned)
        # What is not judged safe may read a clock, which the simplifier would have stopped when it was planned.
        runs, shown = (lean, node) if obstacle is None else (raw, analyzed)
        read = {one.name: one.type for one in shown.walk() if one.kind == "Column"}
        kernel = kernels.compiled(node) if obstacle is None and node.type == target else None
        floats = safety.computes_floats(node)
        return Program(sql, target, tuple(read.items()), obstacle, Expr(runs), kernel, floats), analyzed, node

    def _needed(self, programs: Iterable[Program]) -> tuple[str, ...]:
        needed = {name for one in programs for name, _ in one.columns}
        return tuple(name for name in self.names if name in needed)


def _refuse_cast(sql: str, source: pa.DataType, target: pa.DataType) -> None:
    """Casts that lose what was written, or mean something else, must be asked for."""
    if types.is_integer(target) and types.is_floating(source):
        raise InvalidInputError(
            f"{text.shown(sql)} is of type {source} and would be cut to {target}: write cast(… as …) or try_cast(… as …)"
        )
    if types.is_boolean(target) != types.is_boolean(source) and not types.is_null(source):
        raise InvalidInputError(f"{text.shown(sql)} is of type {source}, and {target} is needed")


def _planner(schema: pa.Schema) -> _Planner:
    """The planner of a schema: hashing a wide schema costs more than finding the plan, so the object is tried first."""
    known = _by_identity.get(id(schema))
    if known is not None:
        return known[1]
    planner = _by_value(schema)
    if len(_by_identity) >= _KEPT_SCHEMAS:
        _by_identity.clear()
    _by_identity[id(schema)] = (schema, planner)  # While it is kept here, nothing else has its identity.
    return planner


_by_identity: dict[int, tuple[pa.Schema, _Planner]] = {}


@lru_cache(_KEPT_SCHEMAS)
def _by_value(schema: pa.Schema) -> _Planner:
    return _Planner(schema)
