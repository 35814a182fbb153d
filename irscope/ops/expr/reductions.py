"""Reductions and normalisations as expressions: for each op of `reduction` and `normalization` that one kernel can
compute.

Halves are accumulated in float32. A variance takes two passes, first the mean, then the squares of the distances from it,
because the difference of two large sums suffers cancellation. Squares and powers are accumulated in the type itself, as torch
does on a GPU: those of float32 numbers above 2^64 overflow, and below 2^-75 they vanish. (On the CPU torch accumulates a
variance in float64, and special-cases the norm of a single number.) An op with several results returns a tuple.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from irscope.ops.expr.elementwise import KERNEL_TYPES, require_known
from irscope.ops.expr.expression import Expr, NoExpression, call, cast, const, count, lift, reduce, where
from irscope.ops.type_rules import dtype_name, is_integral, known_ints, opmath, wrap_dim


def axes_along(operand: Expr, dim: Any, keepdim: Any = False) -> tuple[int, ...]:
    """Return the axes that a `dim` argument names, ascending; all for None and for an empty list."""
    require_known(keepdim, "keepdim")
    if operand.dtype not in KERNEL_TYPES:
        raise NoExpression(f"kernels do not compute with {operand.dtype}")
    if operand.rank is None:
        raise NoExpression("the number of dimensions is not known")
    require_known(dim, "the dimension")
    given = None if dim is None else known_ints(dim)
    if dim is not None and given is None:
        raise NoExpression("the dimensions are not known before the program runs")
    every = tuple(range(operand.rank))
    axes = tuple(sorted({wrap_dim(axis, operand.rank, op="a reduction") for axis in given})) if given else every
    return axes if operand.rank else ()


def _target(dtype: Any, default: str) -> str:
    found = dtype_name(require_known(dtype, "the element type"), default)
    if found not in KERNEL_TYPES:
        raise NoExpression(f"kernels do not compute with {found}")
    return found


def _floating(operand: Expr, what: str) -> str:
    if is_integral(operand.dtype):
        raise NoExpression(f"torch has no {what} of {operand.dtype}")
    return opmath(operand.dtype)


def _accumulated(op: str) -> Callable[..., Expr]:
    def expression(self: Expr, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Expr:
        axes = axes_along(self, dim, keepdim)
        target = _target(dtype, "int64" if is_integral(self.dtype) else self.dtype)
        if target == "bool":
            return reduce("reduce_any" if op == "reduce_sum" else "reduce_all", cast(self, "bool"), axes)
        return cast(reduce(op, cast(self, opmath(target)), axes), target)

    return expression


total = _accumulated("reduce_sum")
product = _accumulated("reduce_prod")


def mean(self: Expr, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Expr:
    """Return the sum divided by the number of elements; 0/0 when there are none."""
    axes, target = axes_along(self, dim, keepdim), _target(dtype, self.dtype)
    if is_integral(target):
        raise NoExpression(f"mean has no result of type {target}: give it a floating-point dtype")
    return cast(_mean(cast(self, opmath(target)), axes), target)


def _mean(x: Expr, axes: tuple[int, ...]) -> Expr:
    return reduce("reduce_sum", x, axes) / count(x, axes, x.dtype)


def _best(self: Expr, axes: tuple[int, ...], word: str) -> Expr:
    if self.dtype == "bool":
        return reduce("reduce_any" if word == "max" else "reduce_all", self, axes)
    return cast(reduce(f"reduce_{word}", cast(self, opmath(self.dtype)), axes), self.dtype)


def _place(self: Expr, axes: tuple[int, ...], word: str) -> Expr:
    ordered = cast(self, "uint8" if self.dtype == "bool" else opmath(self.dtype))
    return reduce(f"reduce_arg{word}", ordered, axes)


def extreme(word: str, *, value: bool = True, place: bool = False) -> Callable[..., Expr | tuple[Expr, Expr]]:
    """Return the expression of `amax` or `amin`, of `argmax` or `argmin`, or of `max` or `min`: with both a value over everything, values
    and their positions along one dimension. Over everything, positions count in row-major order."""

    def expression(self: Expr, dim: Any = None, keepdim: Any = False, **rest: Any) -> Expr | tuple[Expr, Expr]:
        axes = axes_along(self, dim, keepdim)
        if not value:
            return _place(self, axes, word)
        return (_best(self, axes, word), _place(self, axes, word)) if place and dim is not None else _best(self, axes, word)

    return expression


def extremes(self: Expr, dim: Any = None, keepdim: Any = False) -> tuple[Expr, Expr]:
    """Return the expression of `aminmax`."""
    axes = axes_along(self, dim, keepdim)
    return _best(self, axes, "min"), _best(self, axes, "max")


def any_or_all(word: str) -> Callable[..., Expr]:
    """Return the expression of `any` or `all`, whose result is bool, but uint8 for uint8."""

    def expression(self: Expr, dim: Any = None, keepdim: Any = False) -> Expr:
        if dim is not None and known_ints(dim) == []:
            raise NoExpression(f"{word} over an empty list of dimensions reduces no dimension, which kernels do not do")
        found = reduce(f"reduce_{word}", cast(self, "bool"), axes_along(self, dim, keepdim))
        return cast(found, "uint8") if self.dtype == "uint8" else found

    return expression


def _variance(x: Expr, axes: tuple[int, ...], correction: Any) -> tuple[Expr, Expr]:
    """Return the variance and the mean, in the type of x."""
    middle = _mean(x, axes)
    squares = reduce("reduce_sum", (x - middle) * (x - middle), axes)
    degrees = call("maximum", count(x, axes, x.dtype) - lift(correction, x.dtype), const(0, x.dtype))
    return squares / degrees, middle


def _spread(self: Expr, dim: Any, keepdim: Any, unbiased: Any, correction: Any) -> tuple[Expr, Expr]:
    lost = 1 if require_known(correction, "the correction") is None else correction
    axes, compute = axes_along(self, dim, keepdim), _floating(self, "variance")
    return _variance(cast(self, compute), axes, lost if require_known(unbiased, "unbiased") else 0)


def spread(*, root: bool) -> Callable[..., Expr]:
    """Return the expression of `std` with `root`, otherwise of `var`."""

    def expression(self: Expr, dim: Any = None, keepdim: Any = False, unbiased: Any = True, correction: Any = None) -> Expr:
        variance, _ = _spread(self, dim, keepdim, unbiased, correction)
        return cast(call("sqrt", variance) if root else variance, self.dtype)

    return expression


def spread_and_mean(self: Expr, dim: Any = None, keepdim: Any = False, unbiased: Any = True, correction: Any = None) -> tuple[Expr, Expr]:
    """Return the expression of `var_mean`."""
    variance, middle = _spread(self, dim, keepdim, unbiased, correction)
    return cast(variance, self.dtype), cast(middle, self.dtype)


def log_of_sum(self: Expr, dim: Any, keepdim: Any = False) -> Expr:
    """Return the expression of `logsumexp`, relative to the largest element, unless that is infinite."""
    axes = axes_along(self, dim, keepdim)
    target = "float32" if is_integral(self.dtype) else self.dtype
    x = cast(self, opmath(target))
    peak = reduce("reduce_max", x, axes)
    base = where(call("eq", call("abs", peak), const(np.inf, x.dtype)), 0.0, peak)
    return cast(call("log", reduce("reduce_sum", call("exp", x - base), axes)) + base, target)


def norm(self: Expr, p: Any = 2, ord: Any = None, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Expr:
    """Return the expression of `norm` and `linalg_vector_norm`, of any known order."""
    given = require_known(p if ord is None else ord, "the order of the norm")
    power = 2.0 if given is None else float(given)
    target = _target(dtype, self.dtype)
    _floating(self, "norm")
    if is_integral(target):
        raise NoExpression(f"torch has no norm in {target}")
    x, axes = cast(self, opmath(target)), axes_along(self, dim, keepdim)
    return cast(_norm(x, axes, power), target)


def _norm(x: Expr, axes: tuple[int, ...], power: float) -> Expr:
    size = call("abs", x)
    if power == 2:
        return call("sqrt", reduce("reduce_sum", x * x, axes))
    if power == 1:
        return reduce("reduce_sum", size, axes)
    if power == 0:
        return reduce("reduce_sum", cast(call("ne", x, 0.0), x.dtype), axes)
    if np.isinf(power):
        return reduce("reduce_max" if power > 0 else "reduce_min", size, axes)
    return call("pow", reduce("reduce_sum", call("pow", size, power), axes), 1 / power)


def nonzeros(self: Expr, dim: Any = None) -> Expr:
    """Return the expression of `count_nonzero`."""
    return reduce("reduce_sum", cast(cast(self, "bool"), "int64"), axes_along(self, dim))


def _shifted(self: Expr, dim: Any, dtype: Any, half_to_float: Any) -> tuple[Expr, tuple[int, ...], str]:
    """Return each element minus the largest one, with the reduced axes and the result type."""
    single = require_known(half_to_float, "half_to_float")
    target = "float32" if single else _target(dtype, self.dtype)
    if is_integral(target):
        raise NoExpression(f"torch has no softmax in {target}")
    x, axes = cast(self, opmath(target)), axes_along(self, dim)
    return x - reduce("reduce_max", x, axes), axes, target


def softmax(self: Expr, dim: Any, dtype: Any = None, half_to_float: Any = False) -> Expr:
    """Return `exp(x - maximum)` times the reciprocal of its sum."""
    x, axes, target = _shifted(self, dim, dtype, half_to_float)
    powers = call("exp", x)
    return cast(powers * call("reciprocal", reduce("reduce_sum", powers, axes)), target)


def log_softmax(self: Expr, dim: Any, dtype: Any = None, half_to_float: Any = False) -> Expr:
    """Return the logarithm of a softmax, without computing the small numbers of the softmax itself."""
    x, axes, target = _shifted(self, dim, dtype, half_to_float)
    return cast(x - call("log", reduce("reduce_sum", call("exp", x), axes)), target)


def _last_axes(input: Expr, normalized_shape: Any) -> tuple[int, ...]:
    sizes = known_ints(require_known(normalized_shape, "the normalised shape"))
    if input.rank is None or sizes is None:
        raise NoExpression("the normalised dimensions are not known")
    return axes_along(input, list(range(input.rank - len(sizes), input.rank)))


def native_layer_norm(
    input: Expr, normalized_shape: Any, weight: Expr | None = None, bias: Expr | None = None, eps: Any = 1e-5, **rest: Any
) -> tuple[Expr, Expr, Expr]:
    """Return the normalised element, and the mean and reciprocal deviation that it was normalised by."""
    if input.dtype not in ("float32", "float64"):
        raise NoExpression(f"the types of the statistics of {input.dtype} elements depend on those of the weights")
    return _layer_norm(input, normalized_shape, weight, bias, eps)


def layer_norm(
    input: Expr, normalized_shape: Any, weight: Expr | None = None, bias: Expr | None = None, eps: Any = 1e-5, **rest: Any
) -> Expr:
    """Return the normalised element."""
    return _layer_norm(input, normalized_shape, weight, bias, eps)[0]


def _layer_norm(input: Expr, normalized_shape: Any, weight: Expr | None, bias: Expr | None, eps: Any) -> tuple[Expr, Expr, Expr]:
    axes, compute = _last_axes(input, normalized_shape), _floating(input, "layer norm")
    x = cast(input, compute)
    variance, middle = _variance(x, axes, 0)
    scale = call("rsqrt", variance + lift(eps, compute))
    told = where(call("ne", variance, variance), variance, middle)  # torch's mean of a long row with an infinite element is NaN
    return cast(affine((x - middle) * scale, weight, bias), input.dtype), told, scale


def affine(x: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    """Return the last step of a normalization: the element times `weight` plus `bias`, in the element's type."""
    scaled = x if weight is None else x * cast(weight, x.dtype)
    return scaled if bias is None else scaled + cast(bias, x.dtype)


def rms_norm(input: Expr, normalized_shape: Any, weight: Expr | None = None, eps: Any = None) -> Expr:
    """Return the element divided by the root of the mean of the squares."""
    axes, compute = _last_axes(input, normalized_shape), _floating(input, "rms norm")
    tiny = _EPSILON[compute] if require_known(eps, "eps") is None else eps
    x = cast(input, compute)
    scale = call("rsqrt", _mean(x * x, axes) + lift(tiny, compute))
    return cast(affine(x * scale, weight, None), input.dtype)


_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23}
"""The distance from 1 to the next number in the types that norms are computed in."""
