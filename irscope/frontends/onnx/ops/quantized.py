"""Quantised ops on plain integers: what they compute is written out, exactly, in `aten::` ops on those integers.

Torch's own quantised tensors carry scale and zero point in their type, so that `aten::quantize_per_tensor` is another thing.
"""

from __future__ import annotations

from typing import Final

from irscope.frontends.onnx.call import Call
from irscope.frontends.onnx.ops.table import Table, op
from irscope.frontends.onnx.types import ELEMENT_TYPES, FLOATS
from irscope.ir.core import Value
from irscope.ir.types import TensorType

__all__ = ["OPS"]

OPS: Table = {}
_RANGES: Final = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767)}


@op(OPS, "DequantizeLinear")
def _dequantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    dtype = str(call.dtype(1)) if not call.int("output_dtype", 0) else ELEMENT_TYPES.get(call.int("output_dtype", 0), "")
    if dtype not in FLOATS or dtype != call.dtype(1):
        raise call.refuse(f"it gives elements of type {dtype}")
    scale = _spread(call, scale, 1)
    if call.has(2):
        zero = _spread(call, call.x(2), 2)
        x = call.op("sub", call.cast(x, "int32"), call.cast(zero, "int32"))
    return call.op("mul", call.cast(x, dtype), scale)


@op(OPS, "QuantizeLinear")
def _quantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    told = ELEMENT_TYPES.get(call.int("output_dtype", 0), "uint8")
    dtype = str(call.dtype(2)) if call.has(2) else told
    if dtype not in _RANGES or call.dtype(0) != call.dtype(1) or call.int("precision", 0):
        raise call.refuse(f"it gives elements of type {dtype}")
    steps = call.op("round", call.op("div", x, _spread(call, scale, 1)))
    if call.has(2):
        steps = call.op("add", steps, call.cast(_spread(call, call.x(2), 2), str(call.dtype(0))))
    return _saturated(call, steps, dtype)


def _saturated(call: Call, x: Value, dtype: str) -> Value:
    low, high = _RANGES[dtype]
    return call.cast(call.op("clamp", x, low, high), dtype)


def _spread(call: Call, parameter: Value, index: int) -> Value:
    """A scale or zero point such that it broadcasts: of the whole tensor, one along an axis, or one a block of an axis."""
    rank, own = call.rank(0), call.rank(index)
    if own == 0 or (own == 1 and call.shape(index) == (1,)):
        return parameter if own == 0 else call.op("reshape", parameter, [])
    axis, block = call.axis("axis", 1), call.int("block_size", 0)
    if own == 1 and not block:
        return call.op("reshape", parameter, [-1 if i == axis else 1 for i in range(rank)])
    if own != rank or not block:
        raise call.refuse("its scale is neither of the tensor, of an axis nor of blocks")
    repeated = call.op("repeat_interleave", parameter, block, axis, None)
    return call.op("slice", repeated, axis, 0, call.size(call.x(0), axis), 1)


def _centred(call: Call, index: int, zero: int, dtype: str, *, by_row: bool = False) -> Value:
    """A tensor of integers without its zero point."""
    x = call.cast(call.x(index), dtype)
    if not call.has(zero):
        return x
    point = call.cast(call.x(zero), dtype)
    rank = call.rank(zero)
    if by_row and rank == 1 and call.shape(zero) != (1,):
        point = call.op("unsqueeze", point, -1)
    return call.op("sub", x, point)


@op(OPS, "MatMulInteger")
def _matmul_integer(call: Call) -> Value:
    return call.op("matmul", _centred(call, 0, 2, "int32", by_row=True), _centred(call, 1, 3, "int32"))


@op(OPS, "QLinearMatMul")
def _qlinear_matmul(call: Call) -> Value:
    """Inputs: a and its scale and zero point, b and its, and those of the result."""
    a, b = _centred(call, 0, 2, "int32", by_row=True), _centred(call, 3, 5, "int32")
    product = call.cast(call.op("matmul", a, b), "float32")
    return _requantized(call, product, by_row=True)


def _requantized(call: Call, product: Value, *, by_row: bool = False) -> Value:
    scales = [call.cast(call.x(index), "float32") for index in (1, 4, 6)]
    if any(isinstance(s.type, TensorType) and s.type.shape not in ((), (1,)) for s in scales):
        raise call.refuse("its scales are not of whole tensors")
    factor = call.op("div", call.op("mul", scales[0], scales[1]), scales[2])
    steps = call.op("round", call.op("mul", product, factor))
    dtype = str(call.dtype(7))
    if dtype not in _RANGES:
        raise call.refuse(f"it gives elements of type {dtype}")
    return _saturated(call, call.op("add", steps, call.cast(call.x(7), "float32")), dtype)


@op(OPS, "ConvInteger")
def _conv_integer(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 1, 3, "float64")
    return call.cast(_exact_conv(call, x, w, 1, None), "int32")


@op(OPS, "QLinearConv")
def _qlinear_conv(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 3, 5, "float64")
    bias = call.cast(call.x(8), "float64") if call.has(8) else None
    return _requantized(call, call.cast(_exact_conv(call, x, w, 3, bias), "float32"))


def _exact_conv(call: Call, x: Value, w: Value, weight: int, bias: Value | None) -> Value:
    """A convolution of integers in float64, which holds every sum that int32 does."""
    spatial = call.rank(weight) - 2
    pads = call.ints("pads", [0] * 2 * spatial)
    if call.text("auto_pad", "NOTSET") != "NOTSET" or not 1 <= spatial <= 3:
        raise call.refuse("its padding is not given")
    x = call.op("constant_pad_nd", x, [p for i in reversed(range(spatial)) for p in (pads[i], pads[i + spatial])], 0)
    strides, dilations = call.ints("strides", [1] * spatial), call.ints("dilations", [1] * spatial)
    return call.op(f"conv{spatial}d", x, w, bias, strides, [0] * spatial, dilations, call.int("group", 1))
