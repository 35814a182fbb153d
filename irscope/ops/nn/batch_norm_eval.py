"""Ops that are pointwise in evaluation mode: batch normalisation by running statistics, and dropout that drops
nothing.

In training, batch normalisation reads whole channels and dropout draws random numbers; their expressions raise NoExpression
unless the flag is known to be off.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import Expr, NoExpression, call, cast, lift, result_type
from irscope.ops.nn.normalization import normalize_batch
from irscope.ops.schema import Op
from irscope.ops.schema.define import define
from irscope.ops.typing import (
    channels_last_strides,
    contiguous_strides,
    is_contiguous,
    opmath,
    refined,
    static_shape,
    suggests_channels_last,
)

__all__ = ["CHANNELS", "OPS", "kept_statistics"]

Array = np.ndarray[Any, Any]

CHANNELS: Final = {"weight": 1, "bias": 1, "running_mean": 1, "running_var": 1}
"""The operands of a batch normalisation with one element per channel."""

_AFFINE: Final = "Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var"
_DROPOUTS: Final = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


def kept_statistics(
    input: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    eps: Any,
    training: Any = False,
    **rest: Any,
) -> Expr:
    """Return one element of a batch normalisation in evaluation mode."""
    if training is not False:
        raise NoExpression("the batch normalisation may be training, and then reads whole channels")
    if running_mean is None or running_var is None:
        raise NoExpression("a batch normalisation without kept statistics reads whole channels")
    compute = opmath(input.dtype)
    shifted = cast(input, compute) - cast(running_mean, compute)
    scale = call("rsqrt", cast(running_var, compute) + lift(eps, compute))
    result = shifted * (scale if weight is None else scale * cast(weight, compute))
    return cast(result if bias is None else result + cast(bias, compute), input.dtype)


def _batch_norm(input: TensorType, **rest: Any) -> TensorType:
    """Return a row-major type, or a channels-last one if the input is; no other layout is preserved."""
    shape = static_shape(input)
    if shape is None or input.strides is None:
        return refined(input.dtype, input.shape)
    order = (0, *range(2, len(shape)), 1)
    packed = len(shape) > 3 and is_contiguous([shape[i] for i in order], [input.strides[i] for i in order])
    last = not is_contiguous(shape, input.strides) and (packed or suggests_channels_last(shape, input.strides))
    return refined(input.dtype, shape, channels_last_strides(shape) if last else contiguous_strides(shape))


def _batch_norm_array(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Array:
    return normalize_batch(
        input, weight, bias, running_mean, running_var, training=training, momentum=momentum, eps=eps
    )[0]


def _kept(input: Expr, p: Any, train: Any) -> Expr:
    if train is not False:
        raise NoExpression("the dropout may be training, and then draws random numbers")
    return input


def _drop_nothing(input: Array, p: float, train: bool) -> Array:
    """Return the input, which in training is the mean over torch's random draws, so that a comparison in expectation holds."""
    return input


def _dropout_type(input: TensorType, p: Any, train: Any) -> TensorType:
    return input if train is False else result_type(input.dtype, [input])


def _dropout(name: str) -> tuple[Op, Op]:
    return (
        define(
            f"aten::{name}(Tensor input, float p, bool train) -> Tensor",
            category="random",
            type_rule=_dropout_type,
            reference=_drop_nothing,
            expression=_kept,
        ),
        define(
            f"aten::{name}_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
            category="random",
            type_rule=lambda self, p, train: self,
            reference=lambda self, p, train: _drop_nothing(self, p, train),
            expression=lambda self, p, train: _kept(self, p, train),
        ),
    )


OPS: Final[tuple[Op, ...]] = (
    define(
        f"aten::batch_norm(Tensor input, {_AFFINE}, bool training, float momentum, float eps, "
        "bool cudnn_enabled) -> Tensor",
        category="normalization",
        type_rule=_batch_norm,
        reference=_batch_norm_array,
        expression=kept_statistics,
        operand_axes=CHANNELS,
    ),
    *(op for name in _DROPOUTS for op in _dropout(name)),
)
