"""How far rounding may take an expression from its exact value, element by element.

Each part is computed in a wider type (double precision, extended for float64 and int64) and carries the largest error that
its steps can have made of it: what its operands bring, magnified as the step magnifies it, and the bound of the step itself
(`irscope.ops.accuracy`). A comparison whose operands are nearer to each other than their errors may go either way. Where an
intermediate number may leave the range of its type, nothing is said (the error is infinite): whether it does depends on
what is rounded together.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from irscope.ops.accuracy import STEP_ULPS
from irscope.ops.expr.expression import COMPARISONS, Expr
from irscope.ops.expr.numpy_eval import apply, round_to
from irscope.ops.type_rules import is_integral

Array = np.ndarray[Any, Any]

SLACK = 16
"""The error of the wider type itself, relative to a value, in units of its precision."""

_BITS = {"float16": (11, -14, 65504.0), "bfloat16": (8, -126, 3.3895313892515355e38),
         "float32": (24, -126, 3.4028234663852886e38), "float64": (53, -1022, 1.7976931348623157e308)}  # fmt: skip
"""Bits of the mantissa, smallest exponent of a normal number, largest number."""


def unit(value: Array, dtype: str) -> Array:
    """One unit in the last place of numbers of this size."""
    bits, smallest, _ = _BITS[dtype]
    _, exponent = np.frexp(np.where(np.isfinite(value), value, 0))
    return np.ldexp(np.ones((), _type(value)), np.maximum(exponent - 1, smallest) - (bits - 1))


def with_error(expr: Expr, inputs: Sequence[Array], *, room: float = 0.0) -> tuple[Array, Array]:
    """The exact value and the largest error of each element; operands are exact, in any type that holds them.

    `room` is what a function may be off more than `irscope.ops.accuracy` says, in units of the last place.
    """
    done: dict[int, tuple[Array, Array]] = {}
    stack, wide = [expr], np.longdouble if _is_precise(expr) else np.float64
    given = [array if array.dtype == bool else array.astype(wide) for array in map(np.asarray, inputs)]
    with np.errstate(all="ignore"):
        while stack:
            here = stack[-1]
            waiting = [arg for arg in here.args if id(arg) not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done.setdefault(id(here), _step(here, [done[id(arg)] for arg in here.args], given, room))
    return done[id(expr)]


def _is_precise(expr: Expr) -> bool:
    return expr.dtype in ("float64", "int64") or any(_is_precise(arg) for arg in expr.args)


def _step(expr: Expr, args: list[tuple[Array, Array]], inputs: Sequence[Array], room: float) -> tuple[Array, Array]:
    if expr.op in ("input", "scalar"):
        return inputs[expr.value], np.zeros(inputs[expr.value].shape)
    if expr.op == "const":
        kind = {"bool": bool, "float32": np.float32}.get(expr.dtype, np.longdouble if is_integral(expr.dtype) else np.float64)
        return np.asarray(expr.value, kind), np.zeros(())
    if expr.dtype == "bool":
        return _answer(expr, args)
    if expr.op == "where":
        (mask, unsure), (a, ea), (b, eb) = args
        either = np.maximum(ea, eb) + np.abs(np.where(unsure > 0, a - b, 0))
        return np.where(mask, a, b), np.where(unsure > 0, either, np.where(mask, ea, eb))
    if expr.op == "cast":
        return _converted(expr, *args[0])
    value, error = _computed(expr.op, args, precise=expr.dtype == "float64")
    ulps = STEP_ULPS.get(expr.op, (0.0, 0.0))[expr.dtype == "float64"]
    return _rounded(expr.dtype, value, error, ulps + room * (ulps > 0.5))


def _converted(expr: Expr, value: Array, error: Array) -> tuple[Array, Array]:
    """A whole number becomes the same float everywhere: through float32 where it becomes a half."""
    source = expr.args[0].dtype
    if is_integral(source) and not is_integral(expr.dtype):
        near = round_to(value, "float32") if expr.dtype in ("float16", "bfloat16") else value
        return round_to(near, expr.dtype).astype(np.float64), error
    narrows = not is_integral(source) and _BITS[source][0] > _BITS[expr.dtype][0]
    return _rounded(expr.dtype, value, error, 0.5 * narrows)


def _rounded(dtype: str, value: Array, error: Array, ulps: float) -> tuple[Array, Array]:
    """Add the error of a step, relative to the largest size that the true operands can give it."""
    if is_integral(dtype):
        return value, error
    error = np.where(np.isnan(error), np.inf, error)
    size = np.abs(value) + error
    slack = SLACK * np.finfo(np.result_type(value, np.float64)).eps
    error = error + slack * np.where(np.isfinite(value), np.abs(value), 0) * bool(ulps) + ulps * unit(size, dtype)
    return value, np.where(np.isfinite(value) & (size + error > _BITS[dtype][2]), np.inf, error)


def _answer(expr: Expr, args: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """A truth value, and 1 where it is not certain."""
    if expr.op == "cast":
        return args[0][0] != 0, (args[0][1] >= np.abs(args[0][0])) & (args[0][1] > 0) * 1.0
    if expr.op == "isnan":
        return np.isnan(args[0][0]), np.isinf(args[0][1]) * 1.0
    (a, ea), *rest = args
    if expr.op in COMPARISONS and expr.args[0].dtype != "bool":
        b, eb = rest[0]
        error = ea + eb
        return apply(expr.op, [a, b], "bool"), (error > 0) * ~(np.abs(a - b) > error) * 1.0
    unsure = sum((error for _, error in args), np.zeros(()))
    return apply(expr.op, [value for value, _ in args], "bool"), (unsure > 0) * 1.0


def _computed(op: str, args: list[tuple[Array, Array]], *, precise: bool) -> tuple[Array, Array]:
    (a, ea), *rest = args
    if not rest:
        return _of_one(op, a, ea, precise=precise)
    b, eb = rest[0]
    match op:
        case "add" | "sub":
            return apply(op, [a, b], _type(a, b)), ea + eb
        case "mul":
            return a * b, _product(np.abs(a), eb) + _product(np.abs(b), ea) + _product(ea, eb)
        case "div":
            quotient = a / b
            spread = (ea + _product(np.abs(np.where(np.isfinite(quotient), quotient, 0)), eb)) / (np.abs(b) - eb)
            return quotient, np.where(eb >= np.abs(b), np.where(eb > 0, np.inf, 0), np.where(ea + eb > 0, spread, 0))
        case "minimum" | "maximum":
            return apply(op, [a, b], _type(a, b)), np.maximum(ea, eb)
    value = apply(op, [a, b], _type(a, b))
    return value, np.where(ea + eb > 0, np.inf, 0)


def _type(*arrays: Array) -> str:
    return str(np.result_type(*arrays, np.float64))


def _product(size: Array, error: Array) -> Array:
    """0 where there is no error, however large the other factor is."""
    return np.where(error > 0, np.where(size > 0, size * error, 0), 0.0)


def _of_one(op: str, a: Array, error: Array, *, precise: bool) -> tuple[Array, Array]:
    if op in ("neg", "abs"):
        return apply(op, [a], _type(a)), error
    by_points = op == "erf" and precise  # NumPy has it in double precision only
    function: Callable[[Array], Array] = _erf if by_points else lambda x: apply(op, [x], _type(x))
    value = function(a)
    if not np.any(error):
        return value, error
    if op in ("sin", "cos"):
        return value, np.minimum(error, 2)
    ends = [np.abs(function(a + sign * error) - value) for sign in (1, -1)]
    spread = np.maximum(*ends)
    crossing = (op in ("reciprocal", "rsqrt")) & (np.abs(a) <= error) | (op == "tan") & (error > 0.01 * np.abs(np.cos(a)))
    return value, np.where(error > 0, np.where(np.isnan(spread) | crossing, np.inf, spread), 0)


def _erf(x: Array) -> Array:
    """By its values at the distinct arguments; 1 less what is left of the tail, which has its own precision."""
    mpmath = pytest.importorskip("mpmath")
    points, where = np.unique(x, return_inverse=True)
    with mpmath.workprec(90):
        values = [v if not 0 < abs(v) < 12 else np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(str(v))), 24)) for v in points]
    known = np.array([np.sign(v) if abs(v) >= 12 else v for v in values], np.longdouble)[where].reshape(np.shape(x))
    return np.where(x == 0, x, known)
