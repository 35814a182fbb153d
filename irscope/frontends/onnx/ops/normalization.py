"""Builders of normalisations and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from irscope.frontends.emit import CODES
from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import Dim, Value

__all__ = ["OPS"]

OPS: Table = {}


def _rowwise(call: Call, apply: Callable[[Call, Value, int], Value]) -> Value:
    """Applies a softmax or hardmax of opset 12 or older, which flattens the axes from `axis` on into one."""
    x, axis, rank = call.x(), call.axis("axis", 1), call.rank()
    if axis == rank - 1:
        return apply(call, x, axis)
    shape = [call.size(x, i) for i in range(rank)]
    return call.op("reshape", apply(call, call.op("flatten", x, axis, -1), -1), shape)


def _soft(name: str, call: Call, x: Value, axis: int) -> Value:
    return call.op(name, x, axis)


def _hard(call: Call, x: Value, axis: int) -> Value:
    place = call.op("argmax", x, axis, True)
    zeros = call.op("zeros_like", x, None, None, None, None, None)
    return call.op("scatter", zeros, axis, place, 1)


@op(OPS, "Softmax")
def _softmax(call: Call) -> Value:
    return _rowwise(call, partial(_soft, "softmax"))


@op(OPS, "LogSoftmax")
def _log_softmax(call: Call) -> Value:
    return _rowwise(call, partial(_soft, "log_softmax"))


@op(OPS, "Softmax", since=13)
def _softmax_13(call: Call) -> Value:
    return call.op("softmax", call.x(), call.axis("axis", -1))


@op(OPS, "LogSoftmax", since=13)
def _log_softmax_13(call: Call) -> Value:
    return call.op("log_softmax", call.x(), call.axis("axis", -1))


@op(OPS, "Hardmax")
def _hardmax(call: Call) -> Value:
    return _rowwise(call, _hard)


@op(OPS, "Hardmax", since=13)
def _hardmax_13(call: Call) -> Value:
    return _hard(call, call.x(), call.axis("axis", -1))


@op(OPS, "BatchNormalization")
def _batch_norm(call: Call) -> Value:
    if call.integer("training_mode", 0) or sum(map(bool, call.node.output)) > 1:
        raise call.refuse("it is in training mode (training_mode=1, or outputs for running statistics)")
    if len({call.dtype(index) for index in range(5)}) > 1:
        raise call.refuse("its operands differ in element type")
    x, scale, bias, mean, variance = (call.x(index) for index in range(5))
    return call.op("batch_norm", x, scale, bias, mean, variance, False, 0.1, call.attr("epsilon", 1e-5), False)


@op(OPS, "InstanceNormalization")
def _instance_norm(call: Call) -> Value:
    x, scale, bias = (call.x(index) for index in range(3))
    return call.op("instance_norm", x, scale, bias, None, None, True, 0.1, call.attr("epsilon", 1e-5), False)


@op(OPS, "GroupNormalization", since=21)
def _group_norm(call: Call) -> Value:
    if call.integer("stash_type", 1) != 1:
        raise call.refuse("its stash_type is not 1 (float32)")
    x, scale, bias = (call.x(index) for index in range(3))
    return call.op("group_norm", x, call.integer("num_groups"), scale, bias, call.attr("epsilon", 1e-5), False)


@op(OPS, "LayerNormalization")
def _layer_norm(call: Call) -> Value | tuple[Value, ...]:
    """Builds `aten::layer_norm`, and the scale apart where it is broadcast; with mean and deviation as results, ONNX's definition
    of the op is used, unless its scale is broadcast."""
    axis, shape = call.axis("axis", -1), call.shape()
    fits = _fits(call.shape(1), shape[axis:]) and (not call.has(2) or _fits(call.shape(2), shape[axis:]))
    if sum(map(bool, call.node.output)) > 1:
        if fits or call.dtype() == "float64":
            raise call.refuse("it returns more than the normalised tensor")
        return _layer_norm_in_parts(call, list(range(axis, len(shape))))
    x, epsilon = call.x(), call.attr("epsilon", 1e-5)
    sizes = [call.size(x, place) for place in range(axis, len(shape))]
    bias = call.x(2) if call.has(2) else None
    if fits:
        own = [e if isinstance(e, int) else size for e, size in zip(call.shape(1), sizes, strict=True)]
        return call.op("layer_norm", x, own, call.x(1), bias, epsilon, False)
    scaled = call.op("mul", call.op("layer_norm", x, sizes, None, None, epsilon, False), call.x(1))
    return scaled if bias is None else call.op("add", scaled, bias)


def _fits(own: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    """Checks whether a scale has the shape that is normalised: an extent of more than 1 cannot be broadcast."""
    pairs = zip(own, wanted, strict=False)
    return len(own) == len(wanted) and all(a == b is not None or (isinstance(a, int) and a != 1) for a, b in pairs)


def _layer_norm_in_parts(call: Call, axes: list[int]) -> tuple[Value, ...]:
    """Returns the normalised tensor, the mean, and the inverse of the deviation, in float32 as the op's default says."""
    if call.integer("stash_type", 1) != 1:
        raise call.refuse("its stash_type is not 1 (float32)")
    dtype = str(call.dtype())
    x = call.cast(call.x(), "float32")
    mean = call.op("mean", x, axes, True)
    apart = call.op("sub", x, mean)
    variance = call.op("mean", call.op("mul", apart, apart), axes, True)
    inverse = call.op("reciprocal", call.op("sqrt", call.op("add", variance, call.attr("epsilon", 1e-5))))
    made = call.op("mul", call.cast(call.op("mul", apart, inverse), dtype), call.x(1))
    return call.op("add", made, call.x(2)) if call.has(2) else made, mean, inverse


@op(OPS, "LpNormalization")
def _lp_norm(call: Call) -> Value:
    """Divides by the norm; where it is zero, the result is zero."""
    x, axis, p = call.x(), call.axis("axis", -1), call.integer("p", 2)
    if p not in (1, 2):
        raise call.refuse(f"its norm is the {p}-norm")
    size = call.op("abs", x) if p == 1 else call.op("mul", x, x)
    total = call.op("sum", size, [axis], True)
    norm = total if p == 1 else call.op("sqrt", total)
    zero = call.scalar(0, str(call.dtype()))
    return call.op("where", call.op("eq", norm, 0), zero, call.op("div", x, norm))


@op(OPS, "LRN")
def _lrn(call: Call) -> Value:
    """Divides by a power of the sum of squares over a window of channels."""
    x, size = call.x(), call.integer("size")
    rank = call.rank()
    squares = call.op("unsqueeze", call.op("mul", x, x), 1)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    padded = call.op("constant_pad_nd", squares, [0, 0] * (rank - 2) + [before, after], 0)
    windows = call.op("unfold", padded, 2, size, 1)
    total = call.op("squeeze", call.op("sum", windows, [-1], False), 1)
    scaled = call.op("mul", total, call.attr("alpha", 1e-4) / size)
    base = call.op("add", scaled, call.attr("bias", 1.0))
    return call.op("div", x, call.op("pow", base, call.attr("beta", 0.75)))


@op(OPS, "Dropout")
def _dropout(call: Call) -> list[Value]:
    """Returns the operand: outside training nothing is dropped."""
    if call.has(2):
        training = call.held(2).known()
        if training is None or bool(training.reshape(-1)[0]):
            raise call.refuse("it may be in training mode, and draw random numbers")
    x = call.x()
    if call.outputs < 2 or not call.node.output[1]:
        return [x]
    return [x, call.op("ones_like", x, CODES["bool"], None, None, None, None)]
