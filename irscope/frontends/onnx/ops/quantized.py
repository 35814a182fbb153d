"""Quantised ops on plain integers: what they compute is written out, exactly, in `aten::` ops on those integers.

Torch's own quantised tensors carry scale and zero point in their type, so that `aten::quantize_per_tensor` is another thing.
"""

from __future__ import annotations

from typing import Final

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import ELEMENT_TYPES, FLOATS
from irscope.ir import Value

__all__ = ["OPS"]

OPS: Table = {}
_RANGES: Final = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767)}


@op(OPS, "DequantizeLinear")
def _dequantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    dtype = str(call.dtype(1)) if not call.integer("output_dtype", 0) else ELEMENT_TYPES.get(call.integer("output_dtype", 0), "")
    if dtype not in FLOATS or dtype != call.dtype(1):
        raise call.refuse(f"its result has elements of type {dtype}, which aten:: ops do not quantize to")
    scale = _spread(call, scale, 1)
    if call.has(2):
        zero = _spread(call, call.x(2), 2)
        x = call.op("sub", call.cast(x, "int32"), call.cast(zero, "int32"))
    return call.op("mul", call.cast(x, dtype), scale)


@op(OPS, "QuantizeLinear")
def _quantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    told = ELEMENT_TYPES.get(call.integer("output_dtype", 0), "uint8")
    dtype = str(call.dtype(2)) if call.has(2) else told
    if dtype not in _RANGES or call.dtype(0) != call.dtype(1) or call.integer("precision", 0):
        raise call.refuse(f"its result has elements of type {dtype}, which aten:: ops do not quantize to")
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
    axis, block = call.axis("axis", 1), call.integer("block_size", 0)
    if own == 1 and not block:
        return call.op("reshape", parameter, [-1 if i == axis else 1 for i in range(rank)])
    if own != rank or not block:
        raise call.refuse("its scale is neither per tensor, per axis nor per block")
    repeated = call.op("repeat_interleave", parameter, block, axis, None)
    return call.op("slice", repeated, axis, 0, call.size(call.x(0), axis), 1)


def _centred(call: Call, index: int, zero: int, dtype: str, *, along: int | None = None) -> Value:
    """A tensor of integers without its zero point, of which there may be one for each place along an axis."""
    x = call.cast(call.x(index), dtype)
    if not call.has(zero):
        return x
    point = call.cast(call.x(zero), dtype)
    if along is not None and call.rank(zero) == 1 and call.shape(zero) != (1,):
        rank = call.rank(index)
        point = call.op("reshape", point, [-1 if i == along % rank else 1 for i in range(rank)])
    return call.op("sub", x, point)


@op(OPS, "MatMulInteger")
def _matmul_integer(call: Call) -> Value:
    return call.op("matmul", _centred(call, 0, 2, "int32", along=-2), _centred(call, 1, 3, "int32", along=-1))


@op(OPS, "QLinearMatMul")
def _qlinear_matmul(call: Call) -> Value:
    """Inputs: a and its scale and zero point, b and its, and those of the result."""
    a, b = _centred(call, 0, 2, "int32", along=-2), _centred(call, 3, 5, "int32", along=-1)
    product = call.cast(call.op("matmul", a, b), "float32")
    return _requantized(call, product)


def _requantized(call: Call, product: Value, channel: int | None = None) -> Value:
    """An exact product in steps of the result's scale; `channel`: the axis along which the second scale may vary."""
    scales = [call.cast(call.x(index), "float32") for index in (1, 4, 6)]
    rank = call.rank_of(product)
    if channel is not None and call.rank(4) == 1:
        scales[1] = call.op("reshape", scales[1], [-1 if i == channel else 1 for i in range(rank)])
    elif call.shape(4) not in ((), (1,)):
        raise call.refuse("its scales are not per tensor")
    if any(call.shape(index) not in ((), (1,)) for index in (1, 6)):
        raise call.refuse("its scales are not per tensor")
    factor = call.op("div", call.op("mul", scales[0], scales[1]), scales[2])
    steps = call.op("round", call.op("mul", product, factor))
    dtype = str(call.dtype(7))
    if dtype not in _RANGES:
        raise call.refuse(f"its result has elements of type {dtype}, which aten:: ops do not quantize to")
    return _saturated(call, call.op("add", steps, call.cast(call.x(7), "float32")), dtype)


@op(OPS, "ConvInteger")
def _conv_integer(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 1, 3, "float64", along=0)
    return call.cast(_exact_conv(call, x, w, 1, None), "int32")


@op(OPS, "QLinearConv")
def _qlinear_conv(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 3, 5, "float64", along=0)
    bias = call.cast(call.x(8), "float64") if call.has(8) else None
    return _requantized(call, call.cast(_exact_conv(call, x, w, 3, bias), "float32"), channel=1)


def _exact_conv(call: Call, x: Value, w: Value, weight: int, bias: Value | None) -> Value:
    """A convolution of integers in float64, which holds every sum that int32 does."""
    spatial = call.rank(weight) - 2
    pads = call.integers("pads", [0] * 2 * spatial)
    if call.text("auto_pad", "NOTSET") != "NOTSET" or not 1 <= spatial <= 3:
        raise call.refuse("its padding is not given")
    x = call.op("constant_pad_nd", x, [p for i in reversed(range(spatial)) for p in (pads[i], pads[i + spatial])], 0)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    return call.op(f"conv{spatial}d", x, w, bias, strides, [0] * spatial, dilations, call.integer("group", 1))
