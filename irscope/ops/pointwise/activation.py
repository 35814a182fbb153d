"""The activations of neural networks and their backward ops, as torch computes them on the CPU."""

import math
from typing import Any, Final

import numpy as np

from irscope.ops.expr import Expr, NoExpression, call, erf, require_known, sigmoid, where
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.op import Op
from irscope.ops.pointwise.comparison import at_least, limited

Array = np.ndarray[Any, Any]
Number = Any
"""A Python number, or the expression of one known only when the kernel runs."""

_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946
_ROOT_HALF: Final = math.sqrt(0.5)
_ROOT_2_PI: Final = math.sqrt(2.0 / math.pi)
_CUBIC: Final = 0.044715
_HALF_MAX: Final = 65504.0
"""The largest float16."""


def _activation(name: str, numpy: Any, expr: Any, *, operands: str = "self", **options: Any) -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", numpy=numpy, expr=expr, operands=operands, **options)


def _gelu(x: Expr, approximate: Any = "none") -> Expr:
    if require_known(approximate, "the approximation of gelu") == "tanh":
        return 0.5 * x * (1.0 + call("tanh", _ROOT_2_PI * (x + _CUBIC * (x * x * x))))
    return x * 0.5 * (1.0 + call("erf", x * _ROOT_HALF))


def _np_gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(_ROOT_2_PI * (x + _CUBIC * x * x * x))))
    return np.asarray(0.5 * x * (1 + erf(x * _ROOT_HALF)))


def _gelu_backward(grad: Expr, x: Expr, approximate: Any = "none") -> Expr:
    if require_known(approximate, "the approximation of gelu") == "tanh":
        inner = call("tanh", _ROOT_2_PI * (x + _CUBIC * (x * x * x)))
        slope = (1.0 - inner * inner) * (_ROOT_2_PI * (1.0 + 3.0 * _CUBIC * (x * x)))
        return grad * (0.5 * (1.0 + inner) + 0.5 * x * slope)
    density = call("exp", x * x * -0.5) * (0.5 * _ROOT_2_PI)
    return grad * (0.5 * (1.0 + call("erf", x * _ROOT_HALF)) + x * density)


def _np_gelu_backward(grad: Array, x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        inner = np.tanh(_ROOT_2_PI * (x + _CUBIC * x * x * x))
        slope = (1 - inner * inner) * _ROOT_2_PI * (1 + 3 * _CUBIC * x * x)
        return np.asarray(grad * (0.5 * (1 + inner) + 0.5 * x * slope))
    return np.asarray(grad * (0.5 * (1 + erf(x * _ROOT_HALF)) + x * np.exp(-0.5 * x * x) * 0.5 * _ROOT_2_PI))


def _softplus(x: Expr, beta: Number = 1, threshold: Number = 20) -> Expr:
    scaled = x * beta
    return where(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


def _np_softplus(x: Array, beta: float = 1, threshold: float = 20) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def _elu(x: Expr, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Expr:
    return where(x < 0.0, call("expm1", x * input_scale) * (alpha * scale), x * scale)


def _np_elu(x: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Array:
    return np.where(x < 0, np.expm1(x * input_scale) * (alpha * scale), x * scale)


def _hard_sigmoid(x: Expr) -> Expr:
    return limited(x + 3.0, 0.0, 6.0) / 6.0


def _np_hard_sigmoid(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def _log_sigmoid(x: Expr) -> Expr:
    return call("minimum", x, 0.0) - call("log1p", call("exp", -call("abs", x)))


def _softshrink(x: Expr, lambd: Number = 0.5) -> Expr:
    if not 0 <= require_known(lambd, "the width of softshrink") <= _HALF_MAX:
        raise NoExpression("torch takes a width from 0 to the largest number of the type only")
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0.0))


def _np_softshrink(x: Array, lambd: float = 0.5) -> Array:
    if not 0 <= lambd <= np.finfo(x.dtype).max:
        raise ValueError(f"softshrink takes a lambd from 0 to the largest number of {x.dtype}, not {lambd}")
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


def _between(x: Expr, low: Expr | float, high: Expr | float) -> Expr:
    return call("gt", x, low) & call("lt", x, high)


_FORWARD: Final = (
    *_activation("relu", lambda x: np.maximum(x, 0), lambda x: at_least(x, 0)),
    *_activation("relu6", lambda x: np.clip(x, 0, 6), lambda x: limited(x, 0, 6), layout="like-first"),
    *_activation(
        "leaky_relu",
        lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
        lambda x, negative_slope=0.01: where(x > 0.0, x, x * negative_slope),
    ),
    *_activation("elu", _np_elu, _elu),
    *_activation("celu", lambda x, alpha=1.0: _np_elu(x, alpha, 1.0, 1.0 / alpha), lambda x, alpha=1.0: _elu(x, alpha, 1.0, 1.0 / alpha)),
    *_activation("selu", lambda x: _np_elu(x, _SELU_ALPHA, _SELU_SCALE), lambda x: _elu(x, _SELU_ALPHA, _SELU_SCALE)),
    *_activation("silu", lambda x: x / (1 + np.exp(-x)), lambda x: x * call("sigmoid", x)),
    *_activation("gelu", _np_gelu, _gelu),
    *_activation("mish", lambda x: x * np.tanh(np.log1p(np.exp(x))), lambda x: x * call("tanh", call("log1p", call("exp", x)))),
    *_activation("softplus", _np_softplus, _softplus, in_place=False),
    *_activation(
        "hardtanh",
        lambda x, min_val=-1, max_val=1: np.clip(x, min_val, max_val),
        lambda x, min_val=-1, max_val=1: limited(x, min_val, max_val),
        layout="like-first",
    ),
    *_activation("hardswish", lambda x: x * _np_hard_sigmoid(x), lambda x: x * limited(x + 3.0, 0.0, 6.0) / 6.0),
    *_activation("hardsigmoid", _np_hard_sigmoid, _hard_sigmoid),
    *_activation(
        "threshold",
        lambda x, threshold, value: np.where(x <= threshold, value, x),
        lambda x, threshold, value: where(call("le", x, threshold), value, x),
    ),
    *_activation("log_sigmoid", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), _log_sigmoid, in_place=False, layout="rows"),
    *_activation("softshrink", _np_softshrink, _softshrink, in_place=False),
    *_activation(
        "hardshrink",
        lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0, x),
        lambda x, lambd=0.5: where(call("ge", x, -lambd) & call("le", x, lambd), 0, x),
        in_place=False,
        rounds=True,
    ),
    *_activation(
        "prelu",
        lambda x, w: np.where(x > 0, x, w * x),
        lambda x, w: where(x > 0.0, x, w * x),
        operands="self weight",
        in_place=False,
        axes={"weight": 1},
        layout="like-first",
    ),
)

_BACKWARD: Final = (
    *_activation(
        "sigmoid_backward",
        lambda g, y: g * (1 - y) * y, lambda g, y: g * (1.0 - y) * y, operands="grad_output output",
    ),
    *_activation(
        "tanh_backward",
        lambda g, y: g * (1 - y * y), lambda g, y: g * (1.0 - y * y), operands="grad_output output",
    ),
    *_activation(
        "threshold_backward",
        lambda g, x, threshold: np.where(x <= threshold, 0, g),
        lambda g, x, threshold: where(call("le", x, threshold), 0, g),
        operands="grad_output self",
        layout="reversed",
    ),
    *_activation(
        "leaky_relu_backward",
        lambda g, x, negative_slope, self_is_result: np.where(x > 0, g, g * negative_slope),
        lambda g, x, negative_slope, self_is_result: where(x > 0.0, g, g * negative_slope),
        operands="grad_output self",
        layout="reversed",
    ),
    *_activation(
        "hardtanh_backward",
        lambda g, x, min_val, max_val: np.where((x > min_val) & (x < max_val), g, 0),
        lambda g, x, min_val, max_val: where(_between(x, min_val, max_val), g, 0.0),
        operands="grad_output self",
    ),
    *_activation(
        "silu_backward",
        lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
        lambda g, x: g * call("sigmoid", x) * (1.0 + x * (1.0 - call("sigmoid", x))),
        operands="grad_output self",
    ),
    *_activation(
        "gelu_backward",
        _np_gelu_backward,
        _gelu_backward,
        operands="grad_output self",
    ),
)  # fmt: skip


# The backward ops that have no variant in place.
#
# Where torch's vector kernels and their scalar tails treat NaN differently (`elu`, `hardswish`), NaN stays NaN, as in the vectors.

_SIXTH: Final = float(np.float32(1) / np.float32(6))
"""Torch rounds it to float32, whatever the element type."""


def _elu_gradient(grad: Expr, y: Expr, alpha: Number, scale: Number, input_scale: Number, is_result: Any) -> Expr:
    """Return the backward op of elu; `y` is the activation's operand, or its result with `is_result`: `elu_` overwrites its operand."""
    if require_known(is_result, "what elu_backward is given"):
        left = grad * input_scale * (y + alpha * scale)
    else:
        left = grad * input_scale * (alpha * scale) * call("exp", y * input_scale)
    return where(y > 0.0, grad * scale, left)


def _np_elu_gradient(grad: Array, y: Array, alpha: float, scale: float, input_scale: float, is_result: bool) -> Array:
    left = y + alpha * scale if is_result else alpha * scale * np.exp(y * input_scale)
    return np.where(y > 0, grad * scale, grad * input_scale * left)


def _softplus_gradient(grad: Expr, x: Expr, beta: Number, threshold: Number) -> Expr:
    scaled = x * beta
    # beyond the threshold the quotient is not used, and would be inf / inf
    grown = call("exp", where(scaled > threshold, 0.0, scaled))
    return where(scaled > threshold, grad, grad * grown / (grown + 1.0))


def _np_softplus_gradient(grad: Array, x: Array, beta: float, threshold: float) -> Array:
    grown = np.exp(x * beta)
    return np.where(x * beta > threshold, grad, grad * grown / (grown + 1))


def _mish(grad: Expr, x: Expr) -> Expr:
    inner = call("tanh", call("log1p", call("exp", x)))
    return grad * (inner + x * call("sigmoid", x) * (1.0 - inner * inner))


def _np_mish(grad: Array, x: Array) -> Array:
    inner = np.tanh(np.log1p(np.exp(x)))
    return np.asarray(grad * (inner + x * sigmoid(x) * (1 - inner * inner)))


def _hardswish(grad: Expr, x: Expr) -> Expr:
    return where(call("le", x, -3.0), 0.0, where(call("ge", x, 3.0), grad, grad * (x / 3.0 + 0.5)))


def _np_hardswish(grad: Array, x: Array) -> Array:
    return np.where(x <= -3, 0, np.where(x >= 3, grad, grad * (x / 3 + 0.5)))


_GRADIENTS: Final[tuple[Op, ...]] = tuple(
    op
    for text, given, numpy, expr in (
        (
            "elu_backward",
            "self_or_result", _np_elu_gradient, _elu_gradient,
        ),
        (
            "softplus_backward",
            "self", _np_softplus_gradient, _softplus_gradient,
        ),
        ("mish_backward", "self", _np_mish, _mish),
        ("hardswish_backward", "self", _np_hardswish, _hardswish),
        (
            "hardsigmoid_backward", "self",
            lambda g, x: np.where((x > -3) & (x < 3), g * _SIXTH, 0), lambda g, x: where(_between(x, -3.0, 3.0), g * _SIXTH, 0.0),
        ),
    )
    for op in _activation(text, numpy, expr, operands=f"grad_output {given}", in_place=False)
)  # fmt: skip

OPS: Final = (*_FORWARD, *_BACKWARD, *_GRADIENTS)
