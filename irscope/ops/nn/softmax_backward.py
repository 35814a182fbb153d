"""The backward ops of softmax and log-softmax, computed from their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import Expr, NoExpression, call, cast
from irscope.ops.expr.expression import reduce
from irscope.ops.expr.reductions import axes_along
from irscope.ops.nn.matmul import wide
from irscope.ops.nn.reduction import axes_of
from irscope.ops.schema.define import define
from irscope.ops.typing import Abstract, Array, dtype_name, fresh, numpy_dtype, opmath

__all__ = ["OPS"]


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


def _array(of: Callable[[Array, Array, Callable[[Array], Array]], Array]) -> Callable[..., Array]:
    def reference(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Array:
        axes = tuple(axes_of(output, dim))
        found = of(wide(grad_output), wide(output), lambda x: x.sum(axis=axes, keepdims=True))
        target = numpy_dtype(input_dtype, grad_output.dtype)
        return np.ascontiguousarray(found).reshape(output.shape).astype(target, copy=False)

    return reference


OPS = (
    define(
        "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        category="normalization",
        type_rule=_type,
        reference=_array(lambda grad, made, total: made * (grad - total(grad * made))),
        expression=_expression(lambda grad, made, total: made * (grad - total(grad * made))),
    ),
    define(
        "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        category="normalization",
        type_rule=_type,
        reference=_array(lambda grad, made, total: grad - np.exp(made) * total(grad)),
        expression=_expression(lambda grad, made, total: grad - call("exp", made) * total(grad)),
    ),
)
