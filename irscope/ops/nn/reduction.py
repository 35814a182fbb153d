"""The reductions along some dimensions (sum, mean, max, any, norm), running sums, and the backward ops of softmax.

Results are row-major, whatever the operand's strides are. Halves are summed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _kept(dtype: str | None) -> str | None:
    return dtype


def _summed(dtype: str | None) -> str | None:
    return "int64" if dtype is not None and is_integral(dtype) else dtype


def _truth(dtype: str | None) -> str | None:
    return dtype if dtype in ("uint8", None) else "bool"


def _position(dtype: str | None) -> str | None:
    return "int64"


def _magnitude(dtype: str | None) -> str | None:
    return None if dtype is None else to_real(dtype)


def _norm_type(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None, **rest: Abstract) -> TensorType:
    """Return the type of a norm, which is real even if its operand is complex."""
    return fresh(_magnitude(dtype_name(dtype, self.dtype)), reduced_shape(self, dim, keepdim))


def _floating(dtype: str | None) -> str | None:
    return "float32" if dtype is not None and is_integral(dtype) else dtype


def _rule(dtype_of: Callable[[str | None], str | None]) -> Callable[..., TensorType]:
    def rule(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None, **rest: Abstract) -> TensorType:
        return fresh(dtype_name(dtype, dtype_of(self.dtype)), reduced_shape(self, dim, keepdim))

    return rule


def _truths_rule(self: TensorType, dim: Abstract = None, keepdim: Abstract = False) -> TensorType:
    if _names_none(dim):
        return fresh(_truth(self.dtype), self.shape)
    return fresh(_truth(self.dtype), reduced_shape(self, dim, keepdim))


def _names_none(dim: Any) -> bool:
    """Whether `dim` is an empty list: `any` and `all` then reduce no dimension, other reductions reduce all."""
    return isinstance(dim, list | tuple) and not dim


def _mean(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, dtype: Abstract = None) -> TensorType:
    if dtype is None and self.dtype is not None and is_integral(self.dtype):
        raise mismatch(f"mean of {self} needs a floating dtype", rule="mean-dtype")
    return fresh(dtype_name(dtype, self.dtype), reduced_shape(self, dim, keepdim))


def _value_and_index(self: TensorType, dim: Abstract, keepdim: Abstract = False, **rest: Abstract) -> tuple[TensorType, TensorType]:
    shape = reduced_shape(self, dim, keepdim)
    return fresh(self.dtype, shape), fresh("int64", shape)


def _extreme(self: TensorType, dim: Abstract = None, keepdim: Abstract = False) -> Abstract:
    return fresh(self.dtype, reduced_shape(self, None, False)) if dim is None else _value_and_index(self, dim, keepdim)


def _both_extremes(self: TensorType, dim: Abstract = None, keepdim: Abstract = False) -> tuple[TensorType, TensorType]:
    result = fresh(self.dtype, reduced_shape(self, dim, keepdim))
    return result, result


def _spread_and_mean(self: TensorType, dim: Abstract = None, keepdim: Abstract = False, **rest: Abstract) -> tuple[TensorType, TensorType]:
    shape = reduced_shape(self, dim, keepdim)
    return fresh(_magnitude(self.dtype), shape), fresh(self.dtype, shape)


def _running(self: TensorType, dim: Abstract, dtype: Abstract = None) -> TensorType:
    if self.shape is not None and isinstance(dim, int):
        wrap_dim(dim, len(self.shape), op="a running sum")
    return fresh(dtype_name(dtype, _summed(self.dtype)), self.shape)


def axes_of(array: Array, dim: Any) -> tuple[int, ...]:
    """Return NumPy's axes for torch's dimensions; none for a tensor of rank 0."""
    if array.ndim == 0:
        return ()
    given: Sequence[int] = [dim] if isinstance(dim, int) else dim or ()
    return tuple(axis % array.ndim for axis in given) or tuple(range(array.ndim))


def _array(found: Any, dtype: Any) -> Array:
    return np.ascontiguousarray(found).reshape(np.shape(found)).astype(dtype, copy=False)


def _sum_array(self: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    target = numpy_dtype(dtype, np.int64 if self.dtype.kind in "biu" else self.dtype)
    return _array(wide(self).sum(axis=axes_of(self, dim), keepdims=keepdim, dtype=wide(np.empty(0, target)).dtype), target)


def _mean_array(self: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    target = numpy_dtype(dtype, self.dtype)
    return _array(mean_of(wide(self.astype(target, copy=False)), axes_of(self, dim), keepdims=keepdim), target)


def _prod_array(self: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    target = numpy_dtype(dtype, np.int64 if self.dtype.kind in "biu" else self.dtype)
    return _array(wide(self.astype(target, copy=False)).prod(axis=axes_of(self, dim), keepdims=keepdim), target)


def _reducer(function: Callable[..., Any], dtype: Any = None) -> Callable[..., Array]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False) -> Array:
        return _array(function(self, axis=axes_of(self, dim), keepdims=keepdim), dtype or self.dtype)

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


def _extreme_array(value: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
    best, where = _reducer(value), _arg_array(place)

    def reference(self: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return best(self) if dim is None else (best(self, dim, keepdim), where(self, dim, keepdim))

    return reference


def _both_arrays(self: Array, dim: Any = None, keepdim: bool = False) -> tuple[Array, Array]:
    return _reducer(np.amin)(self, dim, keepdim), _reducer(np.amax)(self, dim, keepdim)


def _var_array(self: Array, dim: Any = None, keepdim: bool = False, unbiased: bool = True, correction: Any = 1) -> Array:
    correction = 1 if correction is None else correction
    lost = correction if unbiased else 0
    axes = axes_of(self, dim)
    data = wide(self)
    count = int(np.prod([self.shape[axis] for axis in axes]))
    with np.errstate(all="ignore"):
        squares = np.square(np.abs(data - mean_of(data, axes, keepdims=True)))
        summed = squares.sum(axis=axes, keepdims=keepdim)
        mean = np.divide(summed, np.asarray(max(count - lost, 0), summed.dtype))
    return _array(mean, np.abs(np.zeros((), self.dtype)).dtype)


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


def _reduction(*texts: str, rule: Callable[..., Any], reference: Callable[..., Any], expression: Callable[..., Any] | None = None) -> Op:
    return define(*texts, category="reduction", type_rule=rule, reference=reference, expression=expression)


def _extremes(word: str) -> Op:
    value, place = (np.amax, np.argmax) if word == "max" else (np.amin, np.argmin)
    return _reduction(
        f"aten::{word}(Tensor self) -> Tensor",
        f"aten::{word}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        rule=_extreme,
        reference=_extreme_array(value, place),
        expression=kernel.extreme_or_pair(word),
    )


def _truths(word: str, function: Callable[..., Any]) -> Op:
    return _reduction(
        f"aten::{word}(Tensor self) -> Tensor",
        f"aten::{word}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        f"aten::{word}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        rule=_truths_rule,
        reference=_truth_array(function),
        expression=kernel.any_or_all(word),
    )


def _spreads(word: str, reference: Callable[..., Array]) -> Op:
    return _reduction(
        f"aten::{word}(Tensor self, bool unbiased=True) -> Tensor",
        f"aten::{word}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        f"aten::{word}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        rule=_rule(_magnitude),
        reference=reference,
        expression=kernel.spread(root=word == "std"),
    )


def _spreads_and_means(word: str, spread: Callable[..., Array], expression: Any = None) -> Op:
    return _reduction(
        f"aten::{word}_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        f"aten::{word}_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        f"aten::{word}_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
        rule=_spread_and_mean,
        reference=_and_mean(spread),
        expression=expression,
    )


_DTYPE = "*, ScalarType? dtype=None) -> Tensor"

_REDUCTIONS = (
    _reduction(
        f"aten::sum(Tensor self, {_DTYPE}",
        f"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, {_DTYPE}",
        rule=_rule(_summed),
        reference=_sum_array,
        expression=kernel.total,
    ),
    _reduction(
        f"aten::mean(Tensor self, {_DTYPE}",
        f"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, {_DTYPE}",
        rule=_mean,
        reference=_mean_array,
        expression=kernel.mean,
    ),
    _reduction(
        f"aten::prod(Tensor self, {_DTYPE}",
        f"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, {_DTYPE}",
        rule=_rule(_summed),
        reference=_prod_array,
        expression=kernel.product,
    ),
    _reduction(
        "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        rule=_rule(_kept),
        reference=_reducer(np.amax),
        expression=kernel.extreme("max"),
    ),
    _reduction(
        "aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        rule=_rule(_kept),
        reference=_reducer(np.amin),
        expression=kernel.extreme("min"),
    ),
    _reduction(
        "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
        rule=_both_extremes,
        reference=_both_arrays,
        expression=kernel.extremes,
    ),
    _extremes("max"),
    _extremes("min"),
    _reduction(
        "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        rule=_rule(_position),
        reference=_arg_array(np.argmax),
        expression=kernel.position("max"),
    ),
    _reduction(
        "aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        rule=_rule(_position),
        reference=_arg_array(np.argmin),
        expression=kernel.position("min"),
    ),
    _truths("any", np.any),
    _truths("all", np.all),
    _spreads("var", _var_array),
    _spreads("std", _std_array),
    _spreads_and_means("var", _var_array, kernel.spread_and_mean),
    _spreads_and_means("std", _std_array),
    _reduction(
        "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        rule=_rule(_floating),
        reference=_logsumexp_array,
        expression=kernel.log_of_sum,
    ),
    _reduction(
        "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
        "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        rule=_norm_type,
        reference=_norm_array,
        expression=kernel.norm,
    ),
    _reduction(
        f"aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, {_DTYPE}",
        rule=_norm_type,
        reference=_norm_array,
        expression=kernel.norm,
    ),
    _reduction(
        "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
        "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor",
        rule=_rule(_position),
        reference=lambda self, dim=None: _array(np.count_nonzero(self, axis=axes_of(self, dim) or None), np.int64),
        expression=kernel.nonzeros,
    ),
    define(
        "aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        category="other",
        type_rule=_differences,
        reference=_differences_array,
    ),
    _reduction(f"aten::cumsum(Tensor self, int dim, {_DTYPE}", rule=_running, reference=_running_array(np.cumsum)),
    _reduction(f"aten::cumprod(Tensor self, int dim, {_DTYPE}", rule=_running, reference=_running_array(np.cumprod)),
)


# The backward ops of softmax and log-softmax, computed from their results.


def _type(grad_output: TensorType, output: TensorType, dim: Abstract, input_dtype: Abstract) -> TensorType:
    return fresh(dtype_name(input_dtype, grad_output.dtype), grad_output.shape)


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


_SOFTMAX_BACKWARD = (
    define(
        "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        category="normalization",
        type_rule=_type,
        reference=_softmax_reference(lambda grad, made, total: made * (grad - total(grad * made))),
        expression=_expression(lambda grad, made, total: made * (grad - total(grad * made))),
    ),
    define(
        "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        category="normalization",
        type_rule=_type,
        reference=_softmax_reference(lambda grad, made, total: grad - np.exp(made) * total(grad)),
        expression=_expression(lambda grad, made, total: grad - call("exp", made) * total(grad)),
    ),
)

OPS = (*_REDUCTIONS, *_SOFTMAX_BACKWARD)
