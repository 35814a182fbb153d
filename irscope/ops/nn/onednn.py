"""The layers of oneDNN that torch has as ops: a convolution or linear with a sum or an activation in its epilogue; and those of ours.

`irscope.transforms.cleanup.onednn` puts them in the place of the ops that they do at once. The weight is that of the layer that they
stand for; a program lays it out in oneDNN's own order when it is bound to torch (`irscope.runtime.arrays`).

`irscope::convolution` is the same with a kernel of ours (`irscope.runtime.cpu.layers`) or else torch's ops one by one: its result is
channels last whatever it reads, and of its activations, relu and clamp, NaN stays NaN. Its padding may be two numbers for each axis, the
margins before and after, which stand for a padding with zeros before the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import erf
from irscope.ops.nn.convolution import convolution_type, convolve
from irscope.ops.nn.matmul import linear_array, linear_type
from irscope.ops.numpy_layout import Array, channels_last_copy, in_format
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract, known_ints

EPILOGUES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "aten::relu": ("relu", ()), "aten::sigmoid": ("sigmoid", ()), "aten::tanh": ("tanh", ()), "aten::silu": ("swish", ()),
    "aten::hardswish": ("hardswish", ()), "aten::leaky_relu": ("leaky_relu", ("negative_slope",)), "aten::gelu": ("gelu", ()),
    "aten::hardtanh": ("hardtanh", ("min_val", "max_val")),
}  # fmt: skip
"""Activations that oneDNN computes in a layer's epilogue: torch's name of it there, and of the numbers that it takes."""


def _gelu(x: Array, approximate: str | None) -> Array:
    cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.asarray(0.5 * x * (1 + (np.tanh(cubic) if approximate == "tanh" else erf(x * math.sqrt(0.5)))))


_NUMPY: Final[Mapping[str, Callable[..., Any]]] = {
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "swish": lambda x: x / (1 + np.exp(-x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "leaky_relu": lambda x, slope: np.where(x > 0, x, x * slope), "hardtanh": np.clip,
}  # fmt: skip


def _activated(made: Array, attr: str | None, scalars: Sequence[Any], algorithm: str | None) -> Array:
    """Apply the activation that torch calls `attr`; NaN stays NaN here."""
    if attr in (None, "none"):
        return made
    with np.errstate(all="ignore"):
        found = _gelu(made, algorithm) if attr == "gelu" else _NUMPY[str(attr)](made, *scalars)
    return np.asarray(found, made.dtype)


def _convolution_type(X: TensorType, W: TensorType, B: TensorType | None = None, **given: Abstract) -> TensorType:
    return convolution_type(X, W, B, **{name: given[name] for name in ("stride", "padding", "dilation", "groups")})


def _convolve(X: Array, W: Array, B: Array | None, attr: str, scalars: Sequence[Any], algorithm: str | None, **window: Any) -> Array:
    return _activated(convolve(X, W, B, **window), attr, scalars, algorithm)


def _convolve_and_add(
    X: Array, other: Array, W: Array, B: Array | None, binary_attr: str, alpha: Any, unary_attr: str | None,
    unary_scalars: Sequence[Any], unary_algorithm: str | None, **window: Any,
) -> Array:  # fmt: skip
    total = convolve(X, W, B, **window) + other
    return _activated(total, unary_attr, unary_scalars, unary_algorithm)


_WINDOW = "SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups"


def _last_type(X: TensorType, W: TensorType, B: TensorType | None = None, **given: Abstract) -> TensorType:
    margins = known_ints(given["padding"])
    if X.shape is not None and margins is not None and len(margins) == 2 * (len(X.shape) - 2):
        sizes = [None if not isinstance(size, int) else size + sum(margins[2 * at : 2 * at + 2]) for at, size in enumerate(X.shape[2:])]
        X, given = TensorType(X.dtype, (*X.shape[:2], *sizes)), {**given, "padding": 0}
    made = _convolution_type(X, W, B, **given)
    return in_format(made.dtype, made.shape, True)


def _convolutions(name: str, type_rule: Callable[..., TensorType], layout: Callable[[Array], Array]) -> tuple[Op, Op]:
    return (
        define(
            f"{name}(Tensor X, Tensor W, Tensor? B, {_WINDOW}, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y",
            category="convolution", type_rule=type_rule, reference=lambda *given, **named: layout(_convolve(*given, **named)),
        ),
        define(
            f"{name}.binary(Tensor X, Tensor other, Tensor W, Tensor? B, {_WINDOW}, str binary_attr, Scalar? alpha, "
            "str? unary_attr, Scalar?[] unary_scalars, str? unary_algorithm) -> Tensor Y",
            category="convolution", type_rule=type_rule, reference=lambda *given, **named: layout(_convolve_and_add(*given, **named)),
        ),
    )  # fmt: skip


OPS: Final[tuple[Op, ...]] = (
    *_convolutions("mkldnn::_convolution_pointwise", _convolution_type, np.asarray),
    *_convolutions("irscope::convolution", _last_type, channels_last_copy),
    define(
        "mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y",
        category="matmul", type_rule=lambda X, W, B=None, **epilogue: linear_type(X, W, B),
        reference=lambda X, W, B, attr, scalars, algorithm: _activated(linear_array(X, W, B), attr, scalars, algorithm),
    ),
)  # fmt: skip
