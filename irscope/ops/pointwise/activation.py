"""The activations of neural networks and their backward ops, as torch computes them on the CPU."""

import math
from typing import Any, Final

import numpy as np

from irscope.ops.expr import Expr, NoExpression, call, require_known, where
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


def _activation(name: str, expr: Any, numpy: Any = None, *, operands: str = "self", **options: Any) -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", numpy=numpy, expr=expr, operands=operands, **options)


def _gelu(x: Expr, approximate: Any = "none") -> Expr:
    if require_known(approximate, "the approximation of gelu") == "tanh":
        return 0.5 * x * (1.0 + call("tanh", _ROOT_2_PI * (x + _CUBIC * (x * x * x))))
    return x * 0.5 * (1.0 + call("erf", x * _ROOT_HALF))


def _gelu_backward(grad: Expr, x: Expr, approximate: Any = "none") -> Expr:
    if require_known(approximate, "the approximation of gelu") == "tanh":
        inner = call("tanh", _ROOT_2_PI * (x + _CUBIC * (x * x * x)))
        slope = (1.0 - inner * inner) * (_ROOT_2_PI * (1.0 + 3.0 * _CUBIC * (x * x)))
        return grad * (0.5 * (1.0 + inner) + 0.5 * x * slope)
    density = call("exp", x * x * -0.5) * (0.5 * _ROOT_2_PI)
    return grad * (0.5 * (1.0 + call("erf", x * _ROOT_HALF)) + x * density)


def _softplus(x: Expr, beta: Number = 1, threshold: Number = 20) -> Expr:
    scaled = x * beta
    return where(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


def _elu(x: Expr, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Expr:
    return where(x < 0.0, call("expm1", x * input_scale) * (alpha * scale), x * scale)


def _np_hard_sigmoid(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


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
    *_activation("relu", lambda x: at_least(x, 0), lambda x: np.maximum(x, 0)),
    *_activation("relu6", lambda x: limited(x, 0, 6), lambda x: np.clip(x, 0, 6), layout="like-first"),
    *_activation("leaky_relu", lambda x, negative_slope=0.01: where(x > 0.0, x, x * negative_slope)),
    *_activation("elu", _elu),
    *_activation("celu", lambda x, alpha=1.0: _elu(x, alpha, 1.0, 1.0 / alpha)),
    *_activation("selu", lambda x: _elu(x, _SELU_ALPHA, _SELU_SCALE)),
    *_activation("silu", lambda x: x * call("sigmoid", x), lambda x: x / (1 + np.exp(-x))),
    *_activation("gelu", _gelu),
    *_activation("mish", lambda x: x * call("tanh", call("log1p", call("exp", x)))),
    *_activation("softplus", _softplus),
    *_activation(
        "hardtanh",
        lambda x, min_val=-1, max_val=1: limited(x, min_val, max_val),
        lambda x, min_val=-1, max_val=1: np.clip(x, min_val, max_val),
        layout="like-first",
    ),
    *_activation("hardswish", lambda x: x * limited(x + 3.0, 0.0, 6.0) / 6.0, lambda x: x * _np_hard_sigmoid(x)),
    *_activation("hardsigmoid", lambda x: limited(x + 3.0, 0.0, 6.0) / 6.0, _np_hard_sigmoid),
    *_activation("threshold", lambda x, threshold, value: where(call("le", x, threshold), value, x)),
    *_activation("log_sigmoid", lambda x: call("minimum", x, 0.0) - call("log1p", call("exp", -call("abs", x))), layout="rows"),
    *_activation("softshrink", _softshrink, _np_softshrink),
    *_activation("hardshrink", lambda x, lambd=0.5: where(call("ge", x, -lambd) & call("le", x, lambd), 0, x), rounds=True),
    *_activation(
        "prelu", lambda x, w: where(x > 0.0, x, w * x), operands="self weight", in_place=False, axes={"weight": 1}, layout="like-first"
    ),
)


def _backward(name: str, expr: Any, given: str = "self", **options: Any) -> tuple[Op, ...]:
    return _activation(name, expr, operands=f"grad_output {given}", **options)


_BACKWARD: Final = (
    *_backward("sigmoid_backward", lambda g, y: g * (1.0 - y) * y, "output"),
    *_backward("tanh_backward", lambda g, y: g * (1.0 - y * y), "output"),
    *_backward("threshold_backward", lambda g, x, threshold: where(call("le", x, threshold), 0, g), layout="reversed"),
    *_backward(
        "leaky_relu_backward", lambda g, x, negative_slope, self_is_result: where(x > 0.0, g, g * negative_slope), layout="reversed"
    ),
    *_backward("hardtanh_backward", lambda g, x, min_val, max_val: where(_between(x, min_val, max_val), g, 0.0)),
    *_backward("silu_backward", lambda g, x: g * call("sigmoid", x) * (1.0 + x * (1.0 - call("sigmoid", x)))),
    *_backward("gelu_backward", _gelu_backward),
)


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


def _softplus_gradient(grad: Expr, x: Expr, beta: Number, threshold: Number) -> Expr:
    scaled = x * beta
    # beyond the threshold the quotient is not used, and would be inf / inf
    grown = call("exp", where(scaled > threshold, 0.0, scaled))
    return where(scaled > threshold, grad, grad * grown / (grown + 1.0))


def _mish(grad: Expr, x: Expr) -> Expr:
    inner = call("tanh", call("log1p", call("exp", x)))
    return grad * (inner + x * call("sigmoid", x) * (1.0 - inner * inner))


_GRADIENTS: Final = (
    *_backward("elu_backward", _elu_gradient, "self_or_result"),
    *_backward("softplus_backward", _softplus_gradient),
    *_backward("mish_backward", _mish),
    *_backward(
        "hardswish_backward", lambda grad, x: where(call("le", x, -3.0), 0.0, where(call("ge", x, 3.0), grad, grad * (x / 3.0 + 0.5)))
    ),
    *_backward("hardsigmoid_backward", lambda g, x: where(_between(x, -3.0, 3.0), g * _SIXTH, 0.0)),
)

OPS: Final = (*_FORWARD, *_BACKWARD, *_GRADIENTS)
