"""The ops that rescale by statistics of their own input: softmax, and layer, group and batch norm, also in evaluation mode.

Statistics are computed in float32 at least.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.expr import Expr, NoExpression, call, cast, lift, result_type
from irscope.ops.expr import reductions as kernel
from irscope.ops.nn.matmul import wide
from irscope.ops.nn.reduction import axes_of
from irscope.ops.numpy_layout import Array, in_format, laid_out_like, mean_of, numpy_dtype, type_suggests_channels_last
from irscope.ops.op import Op, define
from irscope.ops.type_rules import (
    Abstract,
    as_dims,
    channels_last_strides,
    contiguous_strides,
    dtype_name,
    fresh,
    is_contiguous,
    mismatch,
    opmath,
    refined,
    same_dim,
    static_shape,
    suggests_channels_last,
    wrap_dim,
)

_normalization: Final = partial(define, category="normalization")

_SCALES: Final = {"weight": 1, "bias": 1}
_NOT_KNOWN: Final = object()


def _softmax(self: TensorType, dim: Abstract, dtype: Abstract = None, half_to_float: Abstract = False) -> TensorType:
    if self.shape is not None and isinstance(dim, int):
        wrap_dim(dim, len(self.shape), op="softmax")
    return fresh("float32" if half_to_float is True else dtype_name(dtype, self.dtype), self.shape)


def _check_normalized(input: TensorType, normalized_shape: Abstract) -> None:
    dims = as_dims(normalized_shape)
    if input.shape is None or dims is None:
        return
    what = f"the last dimensions of {input} are not the normalized shape {dims}"
    if len(dims) > len(input.shape):
        raise mismatch(what, rule="normalized-shape")
    for there, here in zip(dims, input.shape[len(input.shape) - len(dims) :], strict=True):
        same_dim(there, here, what=what, rule="normalized-shape")


def _native_layer_norm(input: TensorType, normalized_shape: Abstract, **rest: Abstract) -> tuple[TensorType, TensorType, TensorType]:
    _check_normalized(input, normalized_shape)
    dims = as_dims(normalized_shape)
    if input.shape is None or dims is None:
        statistics = TensorType()
    else:
        kept = len(input.shape) - len(dims)
        statistics = fresh(_statistics_dtype(input.dtype), (*input.shape[:kept], *[1] * len(dims)))
    return fresh(input.dtype, input.shape), statistics, statistics


def _statistics_dtype(dtype: str | None) -> str | None:
    return dtype if dtype in ("float32", "float64") else None


def _rms_norm(input: TensorType, normalized_shape: Abstract, **rest: Abstract) -> TensorType:
    _check_normalized(input, normalized_shape)
    return in_format(input.dtype, input.shape, type_suggests_channels_last(input) and None)


def _group_norm(input: TensorType, num_groups: Abstract, **rest: Abstract) -> TensorType:
    if input.shape is not None and isinstance(num_groups, int) and len(input.shape) > 1:
        channels = input.shape[1]
        if num_groups < 1:
            raise mismatch(f"group_norm takes at least 1 group, not {num_groups}", rule="group-norm")
        if isinstance(channels, int) and channels % num_groups:
            raise mismatch(f"{channels} channels of {input} cannot be divided into {num_groups} groups", rule="group-norm")
    last = type_suggests_channels_last(input)
    return in_format(input.dtype, input.shape, last if last is False or input.device == "cpu" else None)  # on a GPU it is row-major


def _native_group_norm(
    input: TensorType, N: Abstract, C: Abstract, HxW: Abstract, group: Abstract, **rest: Abstract
) -> tuple[TensorType, TensorType, TensorType]:
    shape: list[Dim] = [*(as_dims(N) or [None]), *(as_dims(group) or [None])]
    statistics = fresh(_statistics_dtype(input.dtype), shape)
    return _group_norm(input, group), statistics, statistics


def _native_batch_norm(input: TensorType, training: Abstract = False, **rest: Abstract) -> tuple[TensorType, TensorType, TensorType]:
    channels = input.shape[1] if input.shape is not None and len(input.shape) > 1 else None
    saved = fresh(_statistics_dtype(input.dtype), (channels,) if training is True else (0,))
    saved = saved if isinstance(training, bool) else TensorType(saved.dtype)
    return laid_out_like(input, input.dtype), saved, saved


def _first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule or reference that gives only the first of several results."""
    return lambda *given, **named: function(*given, **named)[0]


def _softmax_array(self: Array, dim: int, dtype: Any = None, half_to_float: bool = False, *, log: bool = False) -> Array:
    """Compute a softmax or its logarithm from each element less the largest."""
    target = np.dtype(np.float32) if half_to_float else numpy_dtype(dtype, self.dtype)
    data = wide(self.astype(target, copy=False))
    axes = axes_of(data, dim)
    with np.errstate(all="ignore"):
        shifted = data - data.max(axis=axes, keepdims=True, initial=-np.inf)
        powers = np.exp(shifted)
        total = powers.sum(axis=axes, keepdims=True)
        found = shifted - np.log(total) if log else powers / total
    return np.ascontiguousarray(found).reshape(self.shape).astype(target, copy=False)


def _moments(data: Array, axes: Sequence[int], eps: float) -> tuple[Array, Array]:
    """Return the mean and the reciprocal of the standard deviation; the reduced axes keep extent 1."""
    mean = mean_of(data, tuple(axes), keepdims=True)
    variance = mean_of(np.square(data - mean), tuple(axes), keepdims=True)
    return mean, 1 / np.sqrt(variance + np.asarray(eps, data.dtype))


def _layer_norm_arrays(
    input: Array, normalized_shape: Sequence[int], weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5, **rest: Any
) -> tuple[Array, Array, Array]:
    data = np.ascontiguousarray(wide(input)).reshape(input.shape)
    mean, scale = _moments(data, range(input.ndim - len(normalized_shape), input.ndim), eps)
    result = (data - mean) * scale
    result = result if weight is None else result * weight
    result = result if bias is None else result + bias
    return result.astype(input.dtype, copy=False), np.where(np.isnan(scale) & np.isinf(mean), scale, mean), scale


def _rms_norm_array(input: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None) -> Array:
    data = wide(input)
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    tiny = np.finfo(wide(input).dtype).eps if eps is None else eps
    result = data / np.sqrt(np.square(data).mean(axis=axes, keepdims=True) + np.asarray(tiny, data.dtype))
    return np.asarray(result if weight is None else result * weight).astype(input.dtype, copy=False)


def _group_norm_arrays(
    input: Array, num_groups: int, weight: Array | None, bias: Array | None, eps: float, **rest: Any
) -> tuple[Array, Array, Array]:
    along_group = prod(input.shape[1:]) // num_groups
    data = np.ascontiguousarray(wide(input)).reshape(input.shape[0], num_groups, along_group)
    mean, scale = _moments(data, (2,), eps)
    result = ((data - mean) * scale).reshape(input.shape)
    along = (-1, *[1] * (input.ndim - 2))
    result = result if weight is None else result * weight.reshape(along)
    result = result if bias is None else result + bias.reshape(along)
    return result.astype(input.dtype, copy=False), mean[..., 0], scale[..., 0]


def _rows(input: Expr, weight: Expr | None = None, bias: Expr | None = None, eps: Any = None, **rest: Any) -> Expr:
    """Return an element of the input viewed as (batch, part, rest), normalised along the rest, and scaled where a number is given."""
    if not isinstance(eps, int | float):
        raise NoExpression("eps is not known before the program runs")
    return kernel.layer_norm(input, (0,), weight, bias, eps)


def _groups(channels: int, num_groups: Any = None, **rest: Any) -> int:
    if not isinstance(num_groups, int):
        raise NoExpression("the number of groups is not known before the program runs")
    if num_groups < 1 or channels % num_groups:
        raise NoExpression(f"{channels} channels cannot be divided into {num_groups} groups")
    return num_groups


def _every_channel(
    channels: int, use_input_stats: Any = None, running_mean: Any = _NOT_KNOWN, running_var: Any = _NOT_KNOWN, **rest: Any
) -> int:
    if use_input_stats is not True or running_mean is not None or running_var is not None:
        raise NoExpression("it has running statistics, which stay with the library")
    if not channels:
        raise NoExpression("there is no channel to gather")
    return channels


def normalize_batch(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None = None, running_var: Array | None = None,
    *, training: bool = False, momentum: float = 0.1, eps: float = 1e-5, **rest: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the normalised batch, and the mean and reciprocal deviation used; training also updates the running statistics.

    >>> x = np.array([[1.0], [3.0]])
    >>> normalize_batch(x, None, None, None, None, training=True, momentum=0.1, eps=0.0)[0].ravel().tolist()
    [-1.0, 1.0]
    """
    data = wide(input)
    axes = (0, *range(2, input.ndim))
    along = (1, -1, *[1] * (input.ndim - 2))
    if training or running_mean is None or running_var is None:
        mean, scale = _moments(data, axes, eps)
        if running_mean is not None and running_var is not None:
            count = input.size // input.shape[1]
            running_mean[...] = (1 - momentum) * running_mean + momentum * mean.ravel()
            running_var[...] = (1 - momentum) * running_var + momentum * mean_of(np.square(data - mean), axes) * (count / max(count - 1, 1))
    else:
        mean = running_mean.reshape(along)
        scale = 1 / np.sqrt(running_var.reshape(along) + np.asarray(eps, running_var.dtype))
    result = (data - mean) * scale
    result = result if weight is None else result * weight.reshape(along)
    result = result if bias is None else result + bias.reshape(along)
    return result.astype(input.dtype, copy=False), mean.ravel(), scale.ravel()


def _native_batch_norm_arrays(**arguments: Any) -> tuple[Array, Array, Array]:
    result, mean, scale = normalize_batch(**arguments)
    return (result, mean, scale) if arguments.get("training") else (result, np.zeros(0, mean.dtype), np.zeros(0, mean.dtype))


def _instance_norm_array(input: Array, use_input_stats: bool, cudnn_enabled: bool = True, **arguments: Any) -> Array:
    if not use_input_stats:
        return normalize_batch(input, **arguments)[0]
    running_mean, running_var, momentum = (arguments[name] for name in ("running_mean", "running_var", "momentum"))
    if running_mean is not None and running_var is not None:
        axes = tuple(range(2, input.ndim))
        count = int(np.prod(input.shape[2:]))
        running_mean[...] = (1 - momentum) * running_mean + momentum * input.mean(axis=axes).mean(axis=0)
        spread = input.var(axis=axes).mean(axis=0) * (count / max(count - 1, 1))
        running_var[...] = (1 - momentum) * running_var + momentum * spread
    return _group_norm_arrays(input, input.shape[1], arguments["weight"], arguments["bias"], arguments["eps"])[0]


_BY_OWN_STATISTICS = (
    *(
        _normalization(overload, type_rule=_softmax, reference=reference, expression=expression)
        for name, reference, expression in (
            ("softmax", _softmax_array, kernel.softmax),
            ("log_softmax", partial(_softmax_array, log=True), kernel.log_softmax),
        )
        for overload in (f"aten::{name}.int", f"aten::_{name}")
    ),
    _normalization(
        "aten::layer_norm", type_rule=_first(_native_layer_norm), reference=_first(_layer_norm_arrays), expression=kernel.layer_norm
    ),
    _normalization(
        "aten::native_layer_norm", type_rule=_native_layer_norm, reference=_layer_norm_arrays, expression=kernel.native_layer_norm
    ),
    _normalization("aten::rms_norm", type_rule=_rms_norm, reference=_rms_norm_array, expression=kernel.rms_norm),
    _normalization(
        "aten::group_norm",
        type_rule=_group_norm,
        reference=_first(_group_norm_arrays),
        expression=_rows,
        operand_axes=_SCALES,
        channel_parts=_groups,
    ),
    _normalization(
        "aten::native_group_norm",
        type_rule=_native_group_norm,
        reference=lambda group, **arguments: _group_norm_arrays(num_groups=group, **arguments),
    ),
    _normalization(
        "aten::instance_norm",
        type_rule=lambda input, **rest: in_format(input.dtype, input.shape, False if static_shape(input) is not None else None),
        reference=_instance_norm_array,
        expression=_rows,
        operand_axes=_SCALES,
        channel_parts=_every_channel,
    ),
    *(
        _normalization(*overloads, type_rule=_native_batch_norm, reference=_native_batch_norm_arrays)
        for overloads in (
            ("aten::native_batch_norm",),
            ("aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit.no_stats"),
            ("aten::_native_batch_norm_legit_no_training",),
        )
    ),
)


# Ops that are pointwise in evaluation mode: batch normalisation by running statistics, and dropout that drops
# nothing.
#
# In training, batch normalisation reads whole channels and dropout draws random numbers; their expressions raise NoExpression
# unless the flag is known to be off.

CHANNELS: Final = {"weight": 1, "bias": 1, "running_mean": 1, "running_var": 1}
"""The operands of a batch normalisation with one element per channel."""

_DROPOUTS: Final = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


def kept_statistics(
    input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr | None, running_var: Expr | None, eps: Any,
    training: Any = False, **rest: Any,
) -> Expr:  # fmt: skip
    """Return one element of a batch normalisation in evaluation mode."""
    if training is not False:
        raise NoExpression("it may be training, and then reads whole channels; with training=False it would not")
    if running_mean is None or running_var is None:
        raise NoExpression("without kept statistics it reads whole channels")
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


def _kept(input: Expr, p: Any, train: Any) -> Expr:
    if train is not False:
        raise NoExpression("it may be training, and then draws random numbers; with train=False it would not")
    return input


def _dropout_type(input: TensorType, p: Any, train: Any) -> TensorType:
    return input if train is False else result_type(input.dtype, [input])


def _dropout(name: str) -> tuple[Op, Op]:
    """Define a dropout and its variant in place. The reference gives the input, which in training is the mean over torch's random draws,
    so that a comparison in expectation holds."""
    random = partial(define, category="random")
    return (
        random(f"aten::{name}", type_rule=_dropout_type, reference=lambda input, p, train: input, expression=_kept),
        random(
            f"aten::{name}_",
            type_rule=lambda self, p, train: self,
            reference=lambda self, p, train: self,
            expression=lambda self, p, train: _kept(self, p, train),
        ),
    )


OPS: Final[tuple[Op, ...]] = (
    _normalization(
        "aten::batch_norm", type_rule=_batch_norm, reference=_first(normalize_batch), expression=kept_statistics, operand_axes=CHANNELS
    ),
    *(op for name in _DROPOUTS for op in _dropout(name)),
    *_BY_OWN_STATISTICS,
)
