"""The reductions along some dimensions (sum, mean, max, any, norm), running sums, and the backward ops of softmax.

Results are row-major, whatever the operand's strides are. Halves are summed in float32.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.expr import Expr, NoExpression, call, cast
from irscope.ops.expr import reductions as kernel
from irscope.ops.expr.expression import reduce
from irscope.ops.expr.reductions import axes_along
from irscope.ops.nn.matmul import wide
from irscope.ops.numpy_layout import Array, mean_of, numpy_dtype
from irscope.ops.op import Op, define
from irscope.ops.type_rules import (
    Abstract,
    Unknown,
    as_dims,
    dtype_name,
    fresh,
    is_integral,
    is_known,
    mismatch,
    opmath,
    refined,
    to_float,
    to_real,
    wrap_dim,
)


def reduced_shape(self: TensorType, dim: Abstract, keepdim: Abstract) -> tuple[Dim, ...] | None:
    """Return the extents of the result; `dim` None, or an empty list, means all dimensions."""
    if self.shape is None or not is_known(dim) or isinstance(keepdim, Unknown):
        return None
    rank = len(self.shape)
    given = as_dims(dim) if dim is not None else None
    axes = {wrap_dim(axis, rank, op="a reduction") for axis in given if isinstance(axis, int)} if given else set(range(rank))
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(self.shape))
    return tuple(size for axis, size in enumerate(self.shape) if axis not in axes)


_DtypeRule = Callable[[str], str] | str
"""The element type of a result, or how it follows from that of the operand."""


def _kept(dtype: str) -> str:
    return dtype


def _summed(dtype: str) -> str:
    return "int64" if is_integral(dtype) else dtype


def _of(rule: _DtypeRule, dtype: str | None) -> str | None:
    return rule if isinstance(rule, str) else None if dtype is None else rule(dtype)


def _rule(dtype_of: _DtypeRule) -> Callable[..., TensorType]:
    def rule(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None, **rest: Abstract) -> TensorType:
        return fresh(dtype_name(dtype, _of(dtype_of, self.dtype)), reduced_shape(self, dim, keepdim))

    return rule


def _pair(first: _DtypeRule, second: _DtypeRule) -> Callable[..., tuple[TensorType, TensorType]]:
    """Return the rule of two results of one shape."""

    def rule(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, **rest: Abstract) -> tuple[TensorType, TensorType]:
        shape = reduced_shape(self, dim, keepdim)
        return fresh(_of(first, self.dtype), shape), fresh(_of(second, self.dtype), shape)

    return rule


def _norm(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None, **rest: Abstract) -> TensorType:
    """Return the type of a norm, which is real even if its operand, or the type that it is read in, is complex."""
    return fresh(_of(to_real, dtype_name(dtype, self.dtype)), reduced_shape(self, dim, keepdim))


def _truths(self: TensorType, dim: Abstract = None, keepdim: Abstract = False) -> TensorType:
    dtype = self.dtype if self.dtype in ("uint8", None) else "bool"
    return fresh(dtype, self.shape if _names_none(dim) else reduced_shape(self, dim, keepdim))


def _names_none(dim: Any) -> bool:
    """Whether `dim` is an empty list: `any` and `all` then reduce no dimension, other reductions reduce all."""
    return isinstance(dim, list | tuple) and not dim


def _mean(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None) -> TensorType:
    if dtype is None and self.dtype is not None and is_integral(self.dtype):
        raise mismatch(f"mean of {self} needs a floating dtype", rule="mean-dtype")
    return _rule(_kept)(self, dim, keepdim, dtype)


def _extreme(self: TensorType, dim: Abstract = None, keepdim: Abstract = False) -> Abstract:
    return _rule(_kept)(self) if dim is None else _pair(_kept, "int64")(self, dim, keepdim)


def _running(self: TensorType, dim: Abstract, dtype: Abstract = None) -> TensorType:
    if self.shape is not None and isinstance(dim, int):
        wrap_dim(dim, len(self.shape), op="a running sum")
    return fresh(dtype_name(dtype, _of(_summed, self.dtype)), self.shape)


def axes_of(array: Array, dim: Any) -> tuple[int, ...]:
    """Return NumPy's axes for torch's dimensions; none for a tensor of rank 0."""
    if array.ndim == 0:
        return ()
    rank = array.ndim
    given: Sequence[int] = [dim] if isinstance(dim, int) else dim or ()
    return tuple([axis % rank for axis in given]) or tuple(range(rank))


def _array(found: Any, dtype: Any) -> Array:
    if found.__class__ is np.ndarray and found.flags.c_contiguous:
        return found.astype(dtype, copy=False)
    return np.ascontiguousarray(found).reshape(np.shape(found)).astype(dtype, copy=False)


def _accumulated(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return the reference of a sum, product or mean, in the type that it is asked for, or of whole numbers in int64."""

    def reference(self: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        target = numpy_dtype(dtype, np.int64 if self.dtype.kind in "biu" else self.dtype)
        return _array(function(wide(self.astype(target, copy=False)), axis=axes_of(self, dim), keepdims=keepdim), target)

    return reference


_mean_array = _accumulated(mean_of)


def _reducer(function: Callable[..., Any]) -> Callable[..., Array]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False) -> Array:
        return _array(function(self, axis=axes_of(self, dim), keepdims=keepdim), self.dtype)

    return reference


def _truth_array(function: Callable[..., Any]) -> Callable[..., Array]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False) -> Array:
        axes = () if _names_none(dim) else axes_of(self, dim)
        return _array(function(self, axis=axes, keepdims=keepdim), self.dtype if self.dtype == np.uint8 else np.bool_)

    return reference


def _arg_array(function: Callable[..., Any]) -> Callable[..., Array]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False, **rest: Any) -> Array:
        if self.ndim == 0:
            return np.zeros((), np.int64)
        return _array(function(self, axis=dim, keepdims=keepdim), np.int64)

    return reference


def _var_array(self: Array, dim: Any = None, keepdim: bool = False, unbiased: bool = True, correction: Any = 1) -> Array:
    correction = 1 if correction is None else correction
    lost = correction if unbiased else 0
    axes = axes_of(self, dim)
    data = wide(self)
    count = prod([self.shape[axis] for axis in axes])
    is_real = self.dtype.kind == "f"
    with np.errstate(all="ignore"):
        distances = data - mean_of(data, axes, keepdims=True)
        summed = np.square(distances if is_real else np.abs(distances)).sum(axis=axes, keepdims=keepdim)
        mean = np.divide(summed, np.asarray(max(count - lost, 0), summed.dtype))
    return _array(mean, self.dtype if is_real else np.abs(np.zeros((), self.dtype)).dtype)


def _std_array(self: Array, **arguments: Any) -> Array:
    variance = _var_array(self, **arguments)
    return _array(np.sqrt(variance), variance.dtype)


def _and_mean(spread: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False, **rest: Any) -> tuple[Array, Array]:
        return spread(self, dim=dim, keepdim=keepdim, **rest), _mean_array(self, dim, keepdim)

    return reference


def _logsumexp_array(self: Array, dim: Any, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    data = wide(self) if self.dtype.kind == "f" else self.astype(np.float32)
    peak = data.max(axis=axes, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(all="ignore"):
        found = np.log(np.exp(data - peak).sum(axis=axes, keepdims=True)) + peak
    return _array(found if keepdim else found.squeeze(axes), self.dtype if self.dtype.kind == "f" else np.float32)


def _norm_array(self: Array, p: Any = 2, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    power = 2 if p is None and ord is None else p if ord is None else ord
    axes = axes_of(self, dim)
    read = numpy_dtype(dtype, self.dtype)
    sizes = np.abs(wide(self.astype(read, copy=False)))
    if power == float("inf"):
        found = sizes.max(axis=axes, keepdims=keepdim)
    elif power == -float("inf"):
        found = sizes.min(axis=axes, keepdims=keepdim)
    elif power == 0:
        found = (sizes != 0).sum(axis=axes, keepdims=keepdim)
    else:
        found = (sizes**power).sum(axis=axes, keepdims=keepdim) ** (1 / power)
    return _array(found, np.abs(np.zeros((), read)).dtype)


def _running_array(function: Callable[..., Any]) -> Callable[..., Array]:
    def reference(self: Array, dim: int, dtype: Any = None) -> Array:
        target = numpy_dtype(dtype, np.int64 if self.dtype.kind in "biu" else self.dtype)
        if self.ndim == 0:
            return self.astype(target)
        return _array(function(wide(self.astype(target, copy=False)), axis=dim), target)

    return reference


def _differences(self: TensorType, n: Abstract = 1, dim: Abstract = -1, prepend: Abstract = None, append: Abstract = None) -> TensorType:
    if self.shape is None or not is_known((n, dim)) or prepend is not None or append is not None:
        return TensorType(self.dtype if self.dtype != "bool" else None)
    axis = wrap_dim(dim, len(self.shape), op="diff")
    here = self.shape[axis]
    shape = (*self.shape[:axis], max(here - n, 0) if isinstance(here, int) else None, *self.shape[axis + 1 :])
    return refined(self.dtype, shape)


def _differences_array(self: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    ends = {name: end for name, end in (("prepend", prepend), ("append", append)) if end is not None}
    return np.diff(self, n, dim, **ends)


def _reduction(name: str, rule: Any, reference: Callable[..., Any], expression: Callable[..., Any] | None = None, also: str = "") -> Op:
    """Return the op of this name and, among its overloads, those in `also`, too."""
    overloads = [f"aten::{name}", *(f"aten::{name.partition('.')[0]}.{overload}" for overload in also.split())]
    return define(*overloads, category="reduction", type_rule=rule, reference=reference, expression=expression)


def _extreme_array(value: Callable[..., Any], place: Callable[..., Any], self: Array, dim: Any = None, keepdim: bool = False) -> Any:
    best = _reducer(value)(self, dim, keepdim)
    return best if dim is None else (best, _arg_array(place)(self, dim, keepdim))


def _extremes(word: str, value: Callable[..., Any], place: Callable[..., Any]) -> tuple[Op, ...]:
    """Define `max`, `amax` and `argmax`, or the same of the smallest."""
    return (
        _reduction(word, _extreme, partial(_extreme_array, value, place), kernel.extreme(word, place=True), also="dim"),
        _reduction(f"a{word}", _rule(_kept), _reducer(value), kernel.extreme(word)),
        _reduction(f"arg{word}", _rule("int64"), _arg_array(place), kernel.extreme(word, value=False, place=True)),
    )


_VALUE, _AND_MEAN = _rule(to_real), _pair(to_real, _kept)

_REDUCTIONS = (
    _reduction("sum", _rule(_summed), _accumulated(np.add.reduce), kernel.total, also="dim_IntList"),
    _reduction("mean", _mean, _mean_array, kernel.mean, also="dim"),
    _reduction("prod", _rule(_summed), _accumulated(np.multiply.reduce), kernel.product, also="dim_int"),
    *_extremes("max", np.maximum.reduce, np.argmax),
    *_extremes("min", np.minimum.reduce, np.argmin),
    _reduction(
        "aminmax",
        _pair(_kept, _kept),
        lambda self, dim=None, keepdim=False: (_reducer(np.amin)(self, dim, keepdim), _reducer(np.amax)(self, dim, keepdim)),
        kernel.extremes,
    ),
    _reduction("any", _truths, _truth_array(np.any), kernel.any_or_all("any"), also="dim dims"),
    _reduction("all", _truths, _truth_array(np.all), kernel.any_or_all("all"), also="dim dims"),
    _reduction("var", _VALUE, _var_array, kernel.spread(root=False), also="dim correction"),
    _reduction("std", _VALUE, _std_array, kernel.spread(root=True), also="dim correction"),
    _reduction("var_mean", _AND_MEAN, _and_mean(_var_array), kernel.spread_and_mean, also="dim correction"),
    _reduction("std_mean", _AND_MEAN, _and_mean(_std_array), also="dim correction"),
    _reduction("logsumexp", _rule(to_float), _logsumexp_array, kernel.log_of_sum),
    _reduction("norm.Scalar", _norm, _norm_array, kernel.norm, also="ScalarOpt_dim"),
    _reduction("linalg_vector_norm", _norm, _norm_array, kernel.norm),
    _reduction(
        "count_nonzero",
        _rule("int64"),
        lambda self, dim=None: _array(np.count_nonzero(self, axis=axes_of(self, dim) or None), np.int64),
        kernel.nonzeros,
        also="dim_IntList",
    ),
    define("aten::diff", category="other", type_rule=_differences, reference=_differences_array),
    _reduction("cumsum", _running, _running_array(np.cumsum)),
    _reduction("cumprod", _running, _running_array(np.cumprod)),
)


# The backward ops of softmax and log-softmax, computed from their results.


def _expression(of: Callable[[Expr, Expr, Callable[[Expr], Expr]], Expr]) -> Callable[..., Expr]:
    def expression(grad_output: Expr, output: Expr, dim: Any, input_dtype: Any) -> Expr:
        if grad_output.dtype != output.dtype or dtype_name(input_dtype, grad_output.dtype) != output.dtype:
            raise NoExpression("torch computes between two element types here")
        axes, kind = axes_along(output, dim), opmath(output.dtype)
        grad, made = cast(grad_output, kind), cast(output, kind)
        return cast(of(grad, made, lambda x: reduce("reduce_sum", x, axes)), output.dtype)

    return expression


def _softmax_reference(of: Callable[[Array, Array, Callable[[Array], Array]], Array]) -> Callable[..., Array]:
    def reference(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Array:
        axes = tuple(axes_of(output, dim))
        found = of(wide(grad_output), wide(output), lambda x: x.sum(axis=axes, keepdims=True))
        target = numpy_dtype(input_dtype, grad_output.dtype)
        return np.ascontiguousarray(found).reshape(output.shape).astype(target, copy=False)

    return reference


def _backward(name: str, array: Callable[..., Array], expr: Callable[..., Expr]) -> Op:
    return define(
        f"aten::{name}",
        category="normalization",
        type_rule=lambda grad_output, output, dim, input_dtype: fresh(dtype_name(input_dtype, grad_output.dtype), grad_output.shape),
        reference=_softmax_reference(array),
        expression=_expression(expr),
    )


def _of_softmax(grad: Any, made: Any, total: Any) -> Any:
    return made * (grad - total(grad * made))


OPS = (
    *_REDUCTIONS,
    _backward("_softmax_backward_data", _of_softmax, _of_softmax),
    _backward(
        "_log_softmax_backward_data",
        lambda grad, made, total: grad - np.exp(made) * total(grad),
        lambda grad, made, total: grad - call("exp", made) * total(grad),
    ),
)
