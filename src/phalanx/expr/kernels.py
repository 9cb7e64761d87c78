"""The fast evaluator: a conservative subset of expressions as calls of Arrow's kernels.

A query of DataFusion costs half a millisecond however small it is; a kernel costs five microseconds. What is compiled
here is what small statements are made of, and only where Arrow C++ and DataFusion provably agree: integers wrap around
in both, strings are compared by their bytes, truth has three values. Floats are compared by their bits in the total
order that DataFusion uses (-NaN < -inf < -0.0 < 0.0 < inf < NaN). `compiled` returns None for anything else.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from phalanx.expr.tree import JUNCTIONS, TESTS, Node
from phalanx.expr.values import is_number, survives

Kernel = Callable[[Mapping[str, Any]], Any]
"""From the columns by name to an array, or to a scalar if it is the same for every row."""

_FALSE, _TRUE = pa.scalar(False), pa.scalar(True)  # noqa: FBT003 — pyarrow's own signature.
_COMPARE = {
    "=": pc.get_function("equal"),
    "!=": pc.get_function("not_equal"),
    "<": pc.get_function("less"),
    "<=": pc.get_function("less_equal"),
    ">": pc.get_function("greater"),
    ">=": pc.get_function("greater_equal"),
}
_ARITHMETIC = {"+": pc.get_function("add"), "-": pc.get_function("subtract"), "*": pc.get_function("multiply")}
_DIVIDE = pc.get_function("divide")
_JOIN = {"AND": pc.get_function("and_kleene"), "OR": pc.get_function("or_kleene")}
_IS_NULL, _IS_VALID, _INVERT = pc.get_function("is_null"), pc.get_function("is_valid"), pc.get_function("invert")
_COALESCE, _IF_ELSE, _NEGATE = pc.get_function("coalesce"), pc.get_function("if_else"), pc.get_function("negate")
_XOR = pc.get_function("bit_wise_xor")


_NULL_TESTS = {"IsNull": _IS_NULL, "IsUnknown": _IS_NULL, "IsNotNull": _IS_VALID, "IsNotUnknown": _IS_VALID}
_TRUTH_TESTS = {
    "Not": (True, None),
    "IsTrue": (False, _FALSE),
    "IsFalse": (True, _FALSE),
    "IsNotTrue": (True, _TRUE),
    "IsNotFalse": (False, _TRUE),
}
"""Whether to invert, and what a null counts as."""


class _UnknownError(Exception):
    """The expression is not of the subset."""


def compiled(node: Node) -> Kernel | None:
    """A simplified expression as kernels, or None if DataFusion has to evaluate it."""
    try:
        return _compile(node)
    except _UnknownError:
        return None


def _compile(node: Node) -> Kernel:
    compiler = _COMPILERS.get(node.kind)
    if compiler is None:
        raise _UnknownError
    return compiler(node)


def _column(node: Node) -> Kernel:
    name = node.name
    return lambda columns: columns[name]


def _literal(node: Node) -> Kernel:
    if not (simple(node.type) or types.is_null(node.type)):
        raise _UnknownError
    value = node.value
    return lambda _: value


def simple(kind: pa.DataType) -> bool:
    """Types that both libraries hold in the same way; views of strings have few kernels in Arrow C++."""
    number = is_number(kind) and not types.is_float16(kind)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    moment = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    return number or text or moment or types.is_boolean(kind) or types.is_decimal128(kind)


def _alike(*nodes: Node) -> pa.DataType:
    """The one simple type of all these, which coercion has made equal."""
    kind = nodes[0].type
    if not simple(kind) or any(one.type != kind for one in nodes):
        raise _UnknownError
    return kind


def _binary(node: Node) -> Kernel:
    if node.name in JUNCTIONS:
        return _junction(node)
    kind = _alike(*node.inputs)
    if node.name in _COMPARE:
        return _call(_COMPARE[node.name], *(_ordered(one) for one in node.inputs))
    if node.name in {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}:
        return _distinct(node)
    if node.name in _ARITHMETIC and is_number(kind):
        return _call(_ARITHMETIC[node.name], *map(_compile, node.inputs))
    if node.name in {"/", "%"}:
        return _division(node)
    raise _UnknownError


def _call(function: Any, *inputs: Kernel) -> Kernel:  # noqa: ANN401 — Arrow's functions have no common type.
    call = function.call
    if len(inputs) == 1:
        (only,) = inputs
        return lambda columns: call([only(columns)])
    if len(inputs) == 2:
        left, right = inputs
        return lambda columns: call([left(columns), right(columns)])
    return lambda columns: call([one(columns) for one in inputs])


def _junction(node: Node) -> Kernel:
    if any(not types.is_boolean(one.type) for one in node.inputs):
        raise _UnknownError
    first, *others = map(_compile, node.inputs)
    for one in others:
        first = _call(_JOIN[node.name], first, one)
    return first


def _ordered(node: Node) -> Kernel:
    """Values that compare as integers in the same order: floats by their bits."""
    values = _compile(node)
    if not types.is_floating(node.type):
        return values
    whole = pa.int64() if node.type.bit_width == 64 else pa.int32()
    zero, mask = pa.scalar(0, whole), pa.scalar((1 << (node.type.bit_width - 1)) - 1, whole)

    def run(columns: Mapping[str, Any]) -> Any:  # noqa: ANN401
        found = values(columns)
        single = isinstance(found, pa.Scalar)
        bits = (pa.array([found.as_py()], found.type) if single else found).view(whole)
        # Negative floats sort by magnitude, largest last: all bits but the sign are turned over.
        keys = _IF_ELSE.call([_COMPARE["<"].call([bits, zero]), _XOR.call([bits, mask]), bits])
        return keys[0] if single else keys

    if node.kind == "Literal":
        key = run({})
        return lambda _: key
    return run


def _distinct(node: Node) -> Kernel:
    left, right = map(_compile, node.inputs)
    equal = _call(_COMPARE["="], *(_ordered(one) for one in node.inputs))
    negated = node.name == "IS DISTINCT FROM"

    def run(columns: Mapping[str, Any]) -> Any:  # noqa: ANN401
        absent = _JOIN["AND"].call([_IS_NULL.call([left(columns)]), _IS_NULL.call([right(columns)])])
        same = _JOIN["OR"].call([_COALESCE.call([equal(columns), _FALSE]), absent])
        return _INVERT.call([same]) if negated else same

    return run


def _division(node: Node) -> Kernel:
    left, right = map(_compile, node.inputs)
    if types.is_floating(node.type) and node.name == "/":
        return _call(_DIVIDE, left, right)
    divisor = node.inputs[1]
    if not types.is_integer(node.type) or divisor.kind != "Literal" or divisor.value.as_py() in {None, 0, -1}:
        raise _UnknownError
    quotient = _call(_DIVIDE, left, right)
    if node.name == "/":
        return quotient
    return _call(_ARITHMETIC["-"], left, _call(_ARITHMETIC["*"], quotient, right))


def _test(node: Node) -> Kernel:
    value = _compile(node.inputs[0])
    if node.kind in _NULL_TESTS:
        return _call(_NULL_TESTS[node.kind], value)
    if not types.is_boolean(node.inputs[0].type):
        raise _UnknownError
    inverted, default = _TRUTH_TESTS[node.kind]
    value = _call(_INVERT, value) if inverted else value
    return value if default is None else _call(_COALESCE, value, lambda _: default)


def _in_list(node: Node) -> Kernel:
    subject, *listed = node.inputs
    kind = _alike(subject, *listed)
    if types.is_floating(kind) or types.is_decimal(kind) or any(one.kind != "Literal" for one in listed):
        raise _UnknownError
    found = [one.value.as_py() if not _by_number(kind) else one.value.value for one in listed]
    present = [one for one in found if one is not None]
    values = pa.array(present, pa.int64() if _by_number(kind) else kind)
    options = pc.SetLookupOptions(value_set=_narrowed(values, kind), skip_nulls=True)
    is_in, negated, certain = pc.get_function("is_in"), node.negated, len(present) == len(found)
    value = _compile(subject)
    unknown = pa.scalar(None, pa.bool_())

    def run(columns: Mapping[str, Any]) -> Any:  # noqa: ANN401
        subjects = value(columns)
        inside = is_in.call([subjects], options)
        answer = _INVERT.call([inside]) if negated else inside
        if certain and not subjects.null_count:
            return answer
        # A null is in no list and out of none; beside a null in the list, what is not found is unknown too.
        known = _IS_VALID.call([subjects]) if certain else inside
        return _IF_ELSE.call([known, answer, unknown])

    return run


def _by_number(kind: pa.DataType) -> bool:
    """Timestamps and dates whose Python value would lose digits or does not exist."""
    return types.is_timestamp(kind) or types.is_time(kind) or types.is_date(kind)


def _narrowed(values: Any, kind: pa.DataType) -> Any:  # noqa: ANN401
    if not _by_number(kind):
        return values
    return (values.cast(pa.int32()) if kind.bit_width == 32 else values).view(kind)


def _cast(node: Node) -> Kernel:
    source, target = node.inputs[0].type, node.type
    if not (is_number(source) and is_number(target) and survives(source, target)) or types.is_float16(source):
        raise _UnknownError
    value = _compile(node.inputs[0])
    # Unsafe in Arrow's words: large integers are rounded to the nearest float, as DataFusion does.
    options = pc.CastOptions.unsafe(target)
    call = pc.get_function("cast").call
    return lambda columns: call([value(columns)], options)


def _negative(node: Node) -> Kernel:
    if not is_number(node.type) or types.is_float16(node.type):
        raise _UnknownError
    return _call(_NEGATE, _compile(node.inputs[0]))


def _case(node: Node) -> Kernel:
    if not simple(node.type):
        raise _UnknownError
    parts = list(node.inputs)
    otherwise: Kernel = _compile(parts.pop()) if len(parts) % 2 else _absent(node.type)
    while parts:
        then, condition = parts.pop(), parts.pop()
        if not types.is_boolean(condition.type) or then.type != node.type:
            raise _UnknownError
        certain = _call(_COALESCE, _compile(condition), lambda _: _FALSE)
        otherwise = _call(_IF_ELSE, certain, _compile(then), otherwise)
    return otherwise


def _absent(kind: pa.DataType) -> Kernel:
    nothing = pa.scalar(None, kind)
    return lambda _: nothing


def _function(node: Node) -> Kernel:
    if node.name == "coalesce":
        _alike(node, *node.inputs)
        return _call(_COALESCE, *map(_compile, node.inputs))
    if node.name == "get_field" and types.is_struct(node.inputs[0].type) and len(node.inputs) == 2:
        index = node.inputs[0].type.get_field_index(node.inputs[1].value.as_py())
        if index < 0:
            raise _UnknownError
        value, options = _compile(node.inputs[0]), pc.StructFieldOptions([index])
        call = pc.get_function("struct_field").call
        return lambda columns: call([value(columns)], options)
    raise _UnknownError


_COMPILERS: dict[str, Callable[[Node], Kernel]] = {
    "Column": _column,
    "Literal": _literal,
    "BinaryExpr": _binary,
    "InList": _in_list,
    "Cast": _cast,
    "Negative": _negative,
    "Case": _case,
    "ScalarFunction": _function,
    **dict.fromkeys(TESTS, _test),
}
