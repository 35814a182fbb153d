"""The backward ops of activations, as torch computes them on the CPU.

Where torch's vector kernels and their scalar tails treat NaN differently (`elu`, `hardswish`), NaN stays NaN, as in the vectors.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from irscope.ops.expr import Expr, call, require_known, sigmoid, where
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.schema import Op

__all__ = ["OPS"]

Array = np.ndarray[Any, Any]
Number = Any
"""A Python number, or the expression of one known only when the kernel runs."""
_SIXTH: Final = float(np.float32(1) / np.float32(6))
"""Torch rounds it to float32, whatever the element type."""


def _elu(grad: Expr, y: Expr, alpha: Number, scale: Number, input_scale: Number, is_result: Any) -> Expr:
    """Return the backward op of elu; `y` is the activation's operand, or its result with `is_result`: `elu_` overwrites its operand."""
    if require_known(is_result, "what elu_backward is given"):
        left = grad * input_scale * (y + alpha * scale)
    else:
        left = grad * input_scale * (alpha * scale) * call("exp", y * input_scale)
    return where(y > 0.0, grad * scale, left)


def _np_elu(grad: Array, y: Array, alpha: float, scale: float, input_scale: float, is_result: bool) -> Array:
    left = y + alpha * scale if is_result else alpha * scale * np.exp(y * input_scale)
    return np.where(y > 0, grad * scale, grad * input_scale * left)


def _softplus(grad: Expr, x: Expr, beta: Number, threshold: Number) -> Expr:
    scaled = x * beta
    # beyond the threshold the quotient is not used, and would be inf / inf
    grown = call("exp", where(scaled > threshold, 0.0, scaled))
    return where(scaled > threshold, grad, grad * grown / (grown + 1.0))


def _np_softplus(grad: Array, x: Array, beta: float, threshold: float) -> Array:
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


def _hardsigmoid(grad: Expr, x: Expr) -> Expr:
    return where(call("gt", x, -3.0) & call("lt", x, 3.0), grad * _SIXTH, 0.0)


def _np_hardsigmoid(grad: Array, x: Array) -> Array:
    return np.where((x > -3) & (x < 3), grad * _SIXTH, 0)


def _derivative(text: str, numpy: Any, expr: Any, given: str = "self") -> tuple[Op, ...]:
    operands = f"grad_output {given}"
    return elementwise(f"aten::{text} -> Tensor", numpy=numpy, expr=expr, operands=operands, in_place=False)


OPS: Final[tuple[Op, ...]] = (
    *_derivative(
        "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result)",
        _np_elu, _elu, "self_or_result",
    ),
    *_derivative("softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold)", _np_softplus, _softplus),
    *_derivative("mish_backward(Tensor grad_output, Tensor self)", _np_mish, _mish),
    *_derivative("hardswish_backward(Tensor grad_output, Tensor self)", _np_hardswish, _hardswish),
    *_derivative("hardsigmoid_backward(Tensor grad_output, Tensor self)", _np_hardsigmoid, _hardsigmoid),
)  # fmt: skip
