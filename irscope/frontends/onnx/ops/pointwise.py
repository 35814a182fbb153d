"""Builders of elementwise ops: a table of those with an `aten::` op of the same meaning, and functions for the rest.

ONNX's operands have the same element type, so no promotion takes place.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import FLOATS
from irscope.ir import Value

__all__ = ["OPS"]

OPS: Table = {}

_ONE_OPERAND: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "HardSwish": "hardswish", "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Neg": "neg", "Not": "logical_not",
    "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_TWO_OPERANDS: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "Equal": "eq", "Greater": "gt",
    "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
}  # fmt: skip


def _one(name: str, call: Call) -> Value:
    return call.op(name, call.x())


def _two(name: str, call: Call) -> Value:
    return call.op(name, call.x(0), call.x(1))


for _name, _aten in _ONE_OPERAND.items():
    OPS[_name] = [(1, partial(_one, _aten))]
for _name, _aten in _TWO_OPERANDS.items():
    OPS[_name] = [(1, partial(_two, _aten))]


@op(OPS, "Sign")
def _sign(call: Call) -> Value:
    """Returns the sign; that of NaN is NaN, whereas `aten::sign` returns 0."""
    x = call.x()
    return call.op("where", call.op("isnan", x), x, call.op("sign", x)) if call.dtype() in FLOATS else call.op("sign", x)


@op(OPS, "Div")
def _div(call: Call) -> Value:
    """Divides; a quotient of integers is truncated towards zero."""
    if call.dtype() in FLOATS:
        return call.op("div", call.x(0), call.x(1))
    return call.op("div", call.x(0), call.x(1), "trunc")


@op(OPS, "Mod")
def _mod(call: Call) -> Value:
    return call.op("fmod" if call.integer("fmod", 0) else "remainder", call.x(0), call.x(1))


@op(OPS, "Pow")
def _pow(call: Call) -> Value:
    """Raises to a power; the exponent may have another type, and the result has the base's."""
    base, dtype = call.x(0), call.dtype(0)
    exponent = call.held(1).known()
    if exponent is not None and exponent.ndim == 0 and dtype in FLOATS:
        made = call.op("pow", base, float(exponent))
    else:
        made = call.op("pow", base, call.x(1))
    return call.cast(made, str(dtype))


@op(OPS, "BitShift")
def _bit_shift(call: Call) -> Value:
    return call.op("__lshift__" if call.text("direction", "") == "LEFT" else "__rshift__", call.x(0), call.x(1))


@op(OPS, "IsInf")
def _is_inf(call: Call) -> Value:
    x = call.x()
    positive, negative = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    if positive and negative:
        return call.op("isinf", x)
    if positive or negative:
        return call.op("eq", x, float("inf") if positive else float("-inf"))
    return call.op("logical_and", call.op("isinf", x), call.op("isnan", x))


@op(OPS, "Elu")
def _elu(call: Call) -> Value:
    return call.op("elu", call.x(), call.attr("alpha", 1.0))


@op(OPS, "Celu")
def _celu(call: Call) -> Value:
    return call.op("celu", call.x(), call.attr("alpha", 1.0))


@op(OPS, "Selu")
def _selu(call: Call) -> Value:
    """Builds an `aten::elu` with ONNX's constants; their defaults are those of `aten::selu`, rounded to float32."""
    alpha, gamma = call.attr("alpha", 1.67326319217681884765625), call.attr("gamma", 1.05070102214813232421875)
    return call.op("elu", call.x(), alpha, gamma)


@op(OPS, "LeakyRelu")
def _leaky_relu(call: Call) -> Value:
    return call.op("leaky_relu", call.x(), call.attr("alpha", 0.01))


@op(OPS, "PRelu")
def _prelu(call: Call) -> Value:
    """Builds a `where`: the slope broadcasts to the operand, while `aten::prelu` needs one per channel."""
    x, slope = call.x(0), call.x(1)
    return call.op("where", call.op("lt", x, 0), call.op("mul", x, slope), x)


@op(OPS, "ThresholdedRelu")
def _thresholded_relu(call: Call) -> Value:
    x = call.x()
    return call.op("where", call.op("gt", x, call.attr("alpha", 1.0)), x, call.scalar(0, str(call.dtype())))


@op(OPS, "HardSigmoid")
def _hard_sigmoid(call: Call) -> Value:
    line = call.op("add", call.op("mul", call.x(), call.attr("alpha", 0.2)), call.attr("beta", 0.5))
    return call.op("clamp", line, 0, 1)


@op(OPS, "Softplus")
def _softplus(call: Call) -> Value:
    """Sets the threshold from which on `aten::softplus` returns its operand high enough that this is exact."""
    return call.op("softplus", call.x(), 1, 700 if call.dtype() == "float64" else 80)


@op(OPS, "Softsign")
def _softsign(call: Call) -> Value:
    x = call.x()
    return call.op("div", x, call.op("add", call.op("abs", x), 1))


@op(OPS, "Gelu")
def _gelu(call: Call) -> Value:
    return call.op("gelu", call.x(), call.text("approximate", "none"))


@op(OPS, "Swish")
def _swish(call: Call) -> Value:
    x, alpha = call.x(), call.attr("alpha", 1.0)
    return call.op("silu", x) if alpha == 1 else call.op("mul", x, call.op("sigmoid", call.op("mul", x, alpha)))


@op(OPS, "Shrink")
def _shrink(call: Call) -> Value:
    x, bias, bound = call.x(), call.attr("bias", 0.0), call.attr("lambd", 0.5)
    dtype = str(call.dtype())
    if dtype not in FLOATS:
        raise call.refuse("its result on integers is rounded, that of aten::sub is not")
    inside = call.op("where", call.op("gt", x, bound), call.op("sub", x, bias), call.scalar(0, dtype))
    return call.op("where", call.op("lt", x, -bound), call.op("add", x, bias), inside)


@op(OPS, "Where")
def _where(call: Call) -> Value:
    return call.op("where", call.x(0), call.x(1), call.x(2))


@op(OPS, "Clip")
def _clip(call: Call) -> Value:
    """Builds a clamp of opset 10 or older, whose bounds are attributes."""
    return _clamped(call, call.x(), call.attr("min", None), call.attr("max", None))


@op(OPS, "Clip", since=11)
def _clip_11(call: Call) -> Value:
    """Builds a clamp whose bounds are operands, used as numbers if they are known."""
    bounds = [call.held(index).known() if call.has(index) else None for index in (1, 2)]
    if all(bound is not None or not call.has(index) for index, bound in enumerate(bounds, 1)):
        low, high = (None if bound is None else bound.reshape(()).item() for bound in bounds)
        return _clamped(call, call.x(), low, high)
    low, high = (call.x(index) if call.has(index) else None for index in (1, 2))
    return _clamped(call, call.x(), low, high)


def _clamped(call: Call, x: Value, low: Any, high: Any) -> Value:
    """Builds a clamp; an omitted bound is the type's own, so that infinities become the largest numbers."""
    dtype = str(call.dtype())
    if dtype in FLOATS:
        low, high = (_LARGEST[dtype] * sign if bound is None else bound for bound, sign in ((low, -1), (high, 1)))
        if isinstance(low, Value) != isinstance(high, Value):
            low, high = (bound if isinstance(bound, Value) else call.scalar(bound, dtype) for bound in (low, high))
    return x if low is None and high is None else call.op("clamp", x, low, high)


_LARGEST: Final = {
    **{name: float(np.finfo(name).max) for name in ("float16", "float32", "float64")}, "bfloat16": float.fromhex("0x1.fep127"),
}  # fmt: skip
"""The largest finite number of each type."""


def _folded(call: Call, name: str) -> Value:
    first, *rest = call.xs()
    for other in rest:
        first = call.op(name, first, other)
    return first


@op(OPS, "Max")
def _max(call: Call) -> Result:
    return _folded(call, "maximum")


@op(OPS, "Min")
def _min(call: Call) -> Result:
    return _folded(call, "minimum")


@op(OPS, "Sum")
def _sum(call: Call) -> Result:
    return _folded(call, "add")


@op(OPS, "Mean")
def _mean(call: Call) -> Result:
    total = _folded(call, "add")
    return call.op("div", total, len(call.inputs)) if len(call.inputs) > 1 else total
