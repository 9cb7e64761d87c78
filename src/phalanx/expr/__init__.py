"""SQL expressions of `delete` and `update`: planned against a schema, judged whether they may be logged, evaluated."""

from phalanx.expr.plan import DIALECT, plan_assignments, plan_predicate
from phalanx.expr.pushdown import spelled
from phalanx.expr.run import Assignments, Predicate

__all__ = ["DIALECT", "Assignments", "Predicate", "plan_assignments", "plan_predicate", "spelled"]
