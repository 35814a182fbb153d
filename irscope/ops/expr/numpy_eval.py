"""Evaluates expressions in NumPy, on whole arrays, with the functions that NumPy lacks."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from irscope.ops.expr.expression import ON_ARRAYS, POSITIONS, PRIMITIVES, REDUCTIONS, Expr

# Functions that NumPy lacks: the error function, its complement and inverse, log gamma, digamma, in double precision; the sigmoid.

Array = np.ndarray[Any, Any]


def _each(function: Callable[[float], float], x: Array) -> Array:
    """Return a function of one number of each element, in the type of `x`; as fast as the same in steps over whole arrays."""
    array = np.asarray(x)
    return np.fromiter(map(function, array.ravel().tolist()), np.float64, array.size).reshape(array.shape).astype(array.dtype)


def erf(x: Array) -> Array:
    """Return the error function in the type of `x`, computed in double precision."""
    return _each(math.erf, x)


def erfc(x: Array) -> Array:
    """Return 1 - erf(x) in the type of `x`, computed in double precision without cancellation."""
    return _each(math.erfc, x)


def erfinv(y: Array) -> Array:
    """Return the number whose erf is `y`, in the type of `y`: Winitzki's approximation, improved by Halley's method.

    >>> float(erfinv(np.array(0.5))), float(erfinv(np.array(1.0)))
    (0.4769362762044699, inf)
    """
    wide = np.asarray(y, np.float64)
    inside = np.where(np.abs(wide) < 1, wide, 0.0)
    rest = np.log1p(-inside * inside)
    first = 2 / (np.pi * 0.147) + rest / 2
    x = np.copysign(np.sqrt(np.sqrt(first * first - rest / 0.147) - first), inside)
    for _ in range(3):
        far = np.sign(x) * (1 - np.abs(inside) - erfc(np.abs(x)))  # erf(x) - y without cancellation
        step = np.where(np.abs(inside) < 0.5, erf(x) - inside, far) / (2 / np.sqrt(np.pi) * np.exp(-x * x))
        x = x - step / (1 + x * step)
    edge = np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), np.nan)
    return np.where(inside == wide, np.where(wide == 0, wide, x), edge).astype(np.asarray(y).dtype)


def lgamma(x: Array) -> Array:
    """Return the logarithm of the size of the gamma function; infinity at its poles."""
    return _each(_log_gamma, x)


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or a number whose logarithm is too large
        return math.inf


def digamma(x: Array) -> Array:
    """Return the derivative of log gamma: NaN at negative poles, and an infinity at zero.

    >>> round(float(digamma(np.array(1.0))), 12), float(digamma(np.array(0.0)))
    (-0.577215664902, -inf)
    """
    wide = np.asarray(x, np.float64)
    mirrored = wide < 0
    rest = wide - np.trunc(wide)  # exact, also next to 0; tan has the period pi
    near = np.where(mirrored, 1 - wide, np.where(wide == 0, 1.0, wide))
    total = np.zeros_like(near)
    for _ in range(10):  # up to where the series is exact to the last place
        low = near < 10
        total = total - np.where(low, 1 / np.where(low, near, 1), 0)
        near = np.where(low, near + 1, near)
    square = 1 / (near * near)
    series = square * np.polyval((1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12), square)
    found = np.where(np.isposinf(near), near, total + np.log(near) - 0.5 / near - series)
    found = found - np.where(mirrored, np.pi / np.tan(np.pi * np.where(rest == 0, 0.5, rest)), 0)
    found = np.where(mirrored & (rest == 0), np.nan, np.where(wide == 0, np.copysign(np.inf, -wide), found))
    return np.asarray(found, np.asarray(x).dtype)


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, np.where(np.isnan(x), x, small)) / (1 + small))


# Evaluates expressions in NumPy, on whole arrays.
#
# Tests compare ops and kernels with it, and kernels run on it where no compiler is installed. Code generation itself reads
# expressions without NumPy, so that a kernel from the disk cache does not wait for NumPy's import.


def evaluate(expr: Expr, inputs: Sequence[Any]) -> Array:
    """Return the value of an expression, given the operands by index.

    bfloat16 elements are float32 numbers whose low 16 bits are zero. Reductions keep their axes with extent 1.

    >>> from irscope.ops.expr.expression import input_element
    >>> evaluate(input_element(0, "float32") * 2.0, [np.array([1.0, 2.0], np.float32)])
    array([2., 4.], dtype=float32)
    """
    done: dict[int, Array] = {}
    stack = [expr]
    with np.errstate(all="ignore"):
        while stack:
            here = stack[-1]
            waiting = [arg for arg in here.args if id(arg) not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done.setdefault(id(here), _evaluated(here, [done[id(arg)] for arg in here.args], inputs))
    return done[id(expr)]


def _evaluated(expr: Expr, args: list[Array], inputs: Sequence[Any]) -> Array:
    if expr.op in ("input", "scalar"):
        return np.asarray(inputs[expr.value], _storage(expr.dtype))
    if expr.op == "const":
        return round_to(np.asarray(expr.value), expr.dtype)
    if expr.op == "count":
        return np.asarray(np.prod([args[0].shape[axis] for axis in expr.value]), _storage(expr.dtype))
    if expr.op in REDUCTIONS:
        return np.asarray(reduce_array(expr.op, args[0], tuple(expr.value)), _storage(expr.dtype))
    return apply(expr.op, args, expr.dtype)


def apply(op: str, args: Sequence[Array], dtype: str) -> Array:
    """Apply one op of the first table to arrays, with a result of this type."""
    if op == "cast":
        return round_to(args[0], dtype)
    return np.asarray(ON_ARRAYS[op](*args), _storage(dtype))


def reduce_array(op: str, array: Array, axes: tuple[int, ...]) -> Array:
    """Compute a reduction in NumPy; floats are summed and multiplied in float64.

    >>> reduce_array("reduce_argmax", np.array([[1, 5, 2], [0, 3, 9]]), (0, 1))
    array([[5]])
    """
    if op in POSITIONS:
        rest = [axis for axis in range(array.ndim) if axis not in axes]
        rows = array.transpose(*rest, *axes).reshape(*(array.shape[axis] for axis in rest), -1)
        found = np.argmax(rows, -1) if op == "reduce_argmax" else np.argmin(rows, -1)
        return np.asarray(np.expand_dims(found, axes), np.int64)
    if op in ("reduce_sum", "reduce_prod"):
        function = np.sum if op == "reduce_sum" else np.prod
        wide = np.dtype(np.float64) if array.dtype.kind == "f" else array.dtype
        return np.asarray(function(array, axis=axes, keepdims=True, dtype=wide))
    return np.asarray(_EXTREMES[op](array, axis=axes, keepdims=True))


_EXTREMES: Final[dict[str, Callable[..., Any]]] = {
    "reduce_max": np.max, "reduce_min": np.min, "reduce_any": np.any, "reduce_all": np.all,
}  # fmt: skip


def round_to(array: Array, dtype: str) -> Array:
    """Convert an array to another element type; halves go through float32 as in torch, bfloat16 is float32 with zero low 16 bits.

    >>> round_to(np.array([1.0, 1.00390625], np.float32), "bfloat16")
    array([1., 1.], dtype=float32)
    """
    if dtype not in ("float16", "bfloat16"):
        return array.astype(np.dtype(dtype))
    single = np.asarray(array).astype(np.float32)
    if dtype == "float16":
        return single.astype(np.float16)
    bits = single.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(single), single, rounded).astype(np.float32)


def _storage(dtype: str) -> np.dtype[Any]:
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _int_div(a: Array, b: Array) -> Array:
    """Divide as in C: integers are truncated toward zero."""
    if not np.issubdtype(a.dtype, np.integer):
        return np.asarray(a / b)
    return np.asarray((a - np.fmod(a, b)) // b)


def remainder(a: Array, b: Array) -> Array:
    """Return `fmod` adjusted to the sign of the divisor; unlike in NumPy, a zero keeps the sign of `a`, and `b` may be infinite.

    >>> float(remainder(np.array(-4.0), np.array(2.0)))
    -0.0
    """
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "div": _int_div, "erf": erf, "reciprocal": lambda x: 1 / x, "remainder": remainder, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid, "sign": lambda a: np.asarray((a > 0).astype(a.dtype) - (a < 0).astype(a.dtype)),
}  # fmt: skip
"""Ops that NumPy has no function for, or one with another meaning."""

ON_ARRAYS.update({op: _OWN.get(op) or getattr(np, row.numpy) for op, row in PRIMITIVES.items()})
