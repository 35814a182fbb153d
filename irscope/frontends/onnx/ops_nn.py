"""Builders of the ops of neural networks: matrix products, convolutions, pooling, normalisation, recurrent cells, resampling."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Final

import numpy as np

from irscope.frontends.emit import CODES, Refused, refuse_if
from irscope.frontends.onnx.call import Call, Held, Item, last_axis_first, op, shape_of
from irscope.frontends.onnx.types import FLOATS
from irscope.ir import INT, TENSOR, Dim, TensorType, Value
from irscope.ops.type_rules import contiguous_strides

# Builders of matrix products and convolutions.


@op("Gemm")
def _gemm(call: Call) -> Value:
    a, b = call.x(0), call.x(1)
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    a = call.op("t", a) if call.integer("transA", 0) else a
    if call.integer("transB", 0) and alpha == 1 and call.dtype() in FLOATS and (not call.has(2) or (beta == 1 and call.rank(2) == 1)):
        return call.op("linear", a, b, call.x(2) if call.has(2) else None)
    b = call.op("t", b) if call.integer("transB", 0) else b
    if call.has(2) and call.dtype() in FLOATS:
        return call.op("addmm", call.x(2), a, b, beta, alpha)
    made = call.op("mm", a, b)
    refuse_if(call.dtype() not in FLOATS and (alpha != 1 or beta != 1), "it scales integers")
    made = made if alpha == 1 else call.op("mul", made, alpha)
    return call.op("add", made, call.x(2)) if call.has(2) else made


op("Einsum")(lambda call: call.op("einsum", call.text("equation", "").replace(" ", ""), call.xs(), None))


@op("Det")
def _det(call: Call) -> Value:
    refuse_if(call.dtype() not in ("float32", "float64"), f"it factorises a matrix of type {call.dtype()}")
    return call.op("linalg_det", call.x())


def same_pads(call: Call, x: Value, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Returns an op's pads, all starts and then all ends: as given, or so that the result has ⌈extent / stride⌉ elements."""
    mode, spatial = call.text("auto_pad", "NOTSET"), len(kernel)
    if mode in ("NOTSET", ""):
        return call.integers("pads", [0] * 2 * spatial)
    if mode == "VALID":
        return [0] * 2 * spatial
    totals = []
    for axis in range(spatial):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        if strides[axis] == 1:
            totals.append(reach - 1)
            continue
        size = call.size(x, 2 + axis)
        if not isinstance(size, int):
            raise Refused("its padding depends on an extent that is not known")
        totals.append(max(0, (-(-size // strides[axis]) - 1) * strides[axis] + reach - size))
    smaller = [total // 2 for total in totals]
    larger = [total - half for total, half in zip(totals, smaller, strict=True)]
    return smaller + larger if mode == "SAME_UPPER" else larger + smaller


@op("Conv")
def _conv(call: Call) -> Value:
    x, w = call.x(0), call.x(1)
    bias = call.x(2) if call.has(2) else None
    spatial = call.rank(1) - 2
    kernel = _kernel(call)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    pads = same_pads(call, x, kernel, strides, dilations)
    starts, ends = pads[:spatial], pads[spatial:]
    refuse_if(not 1 <= spatial <= 3 or call.dtype() not in FLOATS, f"it has {spatial} spatial axes, and aten:: ops have one to three")
    if starts != ends:
        x, starts = call.op("constant_pad_nd", x, last_axis_first(pads), 0), [0] * spatial
    return call.op(f"conv{spatial}d", x, w, bias, strides, starts, dilations, call.integer("group", 1))


def _kernel(call: Call) -> list[int]:
    """Returns the extents of the window, which must be the weight's."""
    shape = call.shape(1)[2:]
    known = call.integers("kernel_shape", [e if isinstance(e, int) else 0 for e in shape])
    if len(known) != len(shape) or any(isinstance(e, int) and e != k for e, k in zip(shape, known, strict=True)):
        raise Refused(f"its kernel_shape {known} differs from the shape of its weight")
    refuse_if(not all(known), "the shape of its weight is not known")
    return known


@op("ConvTranspose")
def _conv_transpose(call: Call) -> Value:
    x, w = call.x(0), call.x(1)
    spatial, group = call.rank(1) - 2, call.integer("group", 1)
    refuse_if(not 1 <= spatial <= 3, f"it has {spatial} spatial axes, and aten:: ops have one to three")
    kernel = _kernel(call)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    extra = call.integers("output_padding", [0] * spatial)
    pads = _transposed_pads(call, x, kernel, strides, dilations, extra)
    starts, ends = pads[:spatial], pads[spatial:]
    bias = call.x(2) if call.has(2) else None
    if any(a >= max(s, d) for a, s, d in zip(extra, strides, dilations, strict=True)):
        raise Refused("its output padding is not smaller than the stride or the dilation")
    if starts == ends and min(starts, default=0) >= 0:
        return call.op(f"conv_transpose{spatial}d", x, w, bias, strides, starts, extra, group, dilations)
    rest = None if min(pads) >= 0 or bias is None else call.op("reshape", bias, [-1, *[1] * spatial])  # what is added gets the bias, too
    made = call.op(f"conv_transpose{spatial}d", x, w, bias if rest is None else None, strides, [0] * spatial, extra, group, dilations)
    made = call.op("constant_pad_nd", made, [-pad for pad in last_axis_first(pads)], 0)
    return made if rest is None else call.op("add", made, rest)


def _transposed_pads(call: Call, x: Value, kernel: list[int], strides: list[int], dilations: list[int], extra: list[int]) -> list[int]:
    """Returns the pads: as given, or so that the result has the requested extents."""
    spatial, mode = len(kernel), call.text("auto_pad", "NOTSET")
    wanted = call.attr("output_shape", None)
    if wanted is None and mode in ("NOTSET", ""):
        return call.integers("pads", [0] * 2 * spatial)
    if wanted is None and mode == "VALID":
        return [0] * 2 * spatial
    smaller, larger = [], []
    for axis in range(spatial):
        total = extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - strides[axis]
        if wanted is not None:
            size = call.size(x, 2 + axis)
            if not isinstance(size, int):
                raise Refused("its padding depends on an extent that is not known")
            total += size * strides[axis] - wanted[axis - spatial]
        smaller.append(total // 2)
        larger.append(total - total // 2)
    return smaller + larger if mode == "SAME_UPPER" else larger + smaller


@op("Col2Im")
def _col2im(call: Call) -> Value:
    sizes, kernel = call.items(1), call.items(2)
    spatial = len(sizes)
    pads = call.integers("pads", [0] * 2 * spatial)
    refuse_if(spatial != 2 or pads[:2] != pads[2:], "it does not have two spatial axes, or pads the two ends of an axis differently")
    strides, dilations = call.integers("strides", [1, 1]), call.integers("dilations", [1, 1])
    return call.op("col2im", call.x(), sizes, kernel, dilations, pads[:2], strides)


# Builders of pooling over windows, and over all spatial axes.


class _Window:
    """Extents, strides, dilations and pads of a pooling op."""

    def __init__(self, call: Call) -> None:
        self.kernel = call.integers("kernel_shape")
        self.spatial = len(self.kernel)
        if not 1 <= self.spatial <= 3 or call.rank() != self.spatial + 2:
            raise Refused(f"it has {self.spatial} spatial axes, and aten:: ops have one to three")
        ones = [1] * self.spatial
        self.strides, self.dilations = call.integers("strides", ones), call.integers("dilations", ones)
        self.ceil = bool(call.integer("ceil_mode", 0))
        pads = same_pads(call, call.any(0), self.kernel, self.strides, self.dilations)
        self.starts, self.flat = pads[: self.spatial], last_axis_first(pads)
        small = all(2 * pad <= k for pad, k in zip(self.starts, self.kernel, strict=True))
        self.is_plain = self.starts == pads[self.spatial :] and small


@op("MaxPool")
def _max_pool(call: Call) -> Value | tuple[Value, ...]:
    window, x = _Window(call), call.x()
    if call.outputs > 1 and call.node.output[1]:
        if not window.is_plain or window.spatial != 2 or call.integer("storage_order", 0) or call.shape()[:2] != (1, 1):
            raise Refused("its indices count over the whole batch, those of aten:: ops over one channel")
        return call.ops("max_pool2d_with_indices", 2, x, window.kernel, window.strides, window.starts, window.dilations, window.ceil)
    pads = window.starts
    dtype = str(call.dtype())
    if dtype not in FLOATS:
        refuse_if(dtype not in ("int8", "uint8"), f"it pools elements of type {dtype}")
        x = call.cast(x, "float32")  # which holds them exactly
    if not window.is_plain:
        refuse_if(window.ceil, "it rounds up, and pads its ends differently")
        x, pads = call.op("constant_pad_nd", x, window.flat, float("-inf")), [0] * window.spatial
    made = call.op(f"max_pool{window.spatial}d", x, window.kernel, window.strides, pads, window.dilations, window.ceil)
    return call.cast(made, dtype)


@op("AveragePool")
def _average_pool(call: Call) -> Value:
    window, x = _Window(call), call.x()
    counts = bool(call.integer("count_include_pad", 0))
    if any(step != 1 for step in window.dilations) or (not window.is_plain and window.ceil):
        raise Refused("its windows are dilated, or it rounds up and pads its ends differently")
    if window.is_plain:
        return call.op(f"avg_pool{window.spatial}d", x, window.kernel, window.strides, window.starts, window.ceil, counts)
    none = [0] * window.spatial
    padded = call.op("constant_pad_nd", x, window.flat, 0)
    made = call.op(f"avg_pool{window.spatial}d", padded, window.kernel, window.strides, none, False, True)
    if counts:
        return made
    ones = call.op("ones_like", x, None, None, None, None, None)
    inside = call.op("constant_pad_nd", ones, window.flat, 0)
    share = call.op(f"avg_pool{window.spatial}d", inside, window.kernel, window.strides, none, False, True)
    return call.op("div", made, share)


@op("LpPool")
def _lp_pool(call: Call) -> Value:
    """Returns the p-th root of the sum of p-th powers; the sum is the mean times the size of the window."""
    window, x, p = _Window(call), call.x(), call.integer("p", 2)
    refuse_if(any(step != 1 for step in window.dilations) or window.ceil, "its windows are dilated, or it rounds up")
    powers = call.op("pow", call.op("abs", x), p)
    padded = call.op("constant_pad_nd", powers, window.flat, 0) if any(window.flat) else powers
    mean = call.op(f"avg_pool{window.spatial}d", padded, window.kernel, window.strides, [0] * window.spatial, False, True)
    return call.op("pow", call.op("mul", mean, prod(window.kernel)), 1.0 / p)


op("GlobalAveragePool")(lambda call: call.op("mean", call.x(), list(range(2, call.rank())), True))
op("GlobalMaxPool")(lambda call: call.op("amax", call.x(), list(range(2, call.rank())), True))


@op("GlobalLpPool")
def _global_lp_pool(call: Call) -> Value:
    p = call.integer("p", 2)
    powers = call.op("pow", call.op("abs", call.x()), p)
    return call.op("pow", call.op("sum", powers, list(range(2, call.rank())), True), 1.0 / p)


# Builders of normalisations and softmax.


Apply = Callable[[Call, Value, int], Value]


def _hard(call: Call, x: Value, axis: int) -> Value:
    place = call.op("argmax", x, axis, True)
    zeros = call.op("zeros_like", x, None, None, None, None, None)
    return call.op("scatter", zeros, axis, place, 1)


def _soft(name: str, call: Call, x: Value, axis: int) -> Value:
    return call.op(name, x, axis)


def _along_axis(apply: Apply, call: Call) -> Value:
    """Applies a softmax or hardmax along an axis; in opset 12 and older, over all axes from `axis` on as one."""
    x, axis, rank = call.x(), call.axis("axis", 1 if call.opset < 13 else -1), call.rank()
    if call.opset >= 13 or axis == rank - 1:
        return apply(call, x, axis)
    shape = [call.size(x, i) for i in range(rank)]
    return call.op("reshape", apply(call, call.op("flatten", x, axis, -1), -1), shape)


_ROWWISE: Final[dict[str, Apply]] = {"Softmax": partial(_soft, "softmax"), "LogSoftmax": partial(_soft, "log_softmax"), "Hardmax": _hard}
for _name, _apply in _ROWWISE.items():
    op(_name)(partial(_along_axis, _apply))


@op("BatchNormalization")
def _batch_norm(call: Call) -> Value:
    if call.integer("training_mode", 0) or sum(map(bool, call.node.output)) > 1:
        raise Refused("it is in training mode (training_mode=1, or outputs for running statistics)")
    refuse_if(len({call.dtype(index) for index in range(5)}) > 1, "its operands differ in element type")
    x, scale, bias, mean, variance = (call.x(index) for index in range(5))
    return call.op("batch_norm", x, scale, bias, mean, variance, False, 0.1, call.attr("epsilon", 1e-5), False)


@op("InstanceNormalization")
def _instance_norm(call: Call) -> Value:
    x, scale, bias = (call.x(index) for index in range(3))
    return call.op("instance_norm", x, scale, bias, None, None, True, 0.1, call.attr("epsilon", 1e-5), False)


@op("GroupNormalization", since=21)
def _group_norm(call: Call) -> Value:
    refuse_if(call.integer("stash_type", 1) != 1, "its stash_type is not 1 (float32)")
    x, scale, bias = (call.x(index) for index in range(3))
    return call.op("group_norm", x, call.integer("num_groups"), scale, bias, call.attr("epsilon", 1e-5), False)


@op("LayerNormalization")
def _layer_norm(call: Call) -> Value | tuple[Value, ...]:
    """Builds `aten::layer_norm`, and the scale apart where it is broadcast; with mean and deviation as results, ONNX's definition
    of the op is used, unless its scale is broadcast."""
    axis, shape = call.axis("axis", -1), call.shape()
    fits = _fits(call.shape(1), shape[axis:]) and (not call.has(2) or _fits(call.shape(2), shape[axis:]))
    if sum(map(bool, call.node.output)) > 1:
        refuse_if(fits or call.dtype() == "float64", "it returns more than the normalised tensor")
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
    refuse_if(call.integer("stash_type", 1) != 1, "its stash_type is not 1 (float32)")
    dtype = str(call.dtype())
    x = call.cast(call.x(), "float32")
    mean = call.op("mean", x, axes, True)
    apart = call.op("sub", x, mean)
    variance = call.op("mean", call.op("mul", apart, apart), axes, True)
    inverse = call.op("reciprocal", call.op("sqrt", call.op("add", variance, call.attr("epsilon", 1e-5))))
    made = call.op("mul", call.cast(call.op("mul", apart, inverse), dtype), call.x(1))
    return call.op("add", made, call.x(2)) if call.has(2) else made, mean, inverse


@op("LpNormalization")
def _lp_norm(call: Call) -> Value:
    """Divides by the norm; where it is zero, the result is zero."""
    x, axis, p = call.x(), call.axis("axis", -1), call.integer("p", 2)
    refuse_if(p not in (1, 2), f"its norm is the {p}-norm")
    size = call.op("abs", x) if p == 1 else call.op("mul", x, x)
    total = call.op("sum", size, [axis], True)
    norm = total if p == 1 else call.op("sqrt", total)
    zero = call.scalar(0, str(call.dtype()))
    return call.op("where", call.op("eq", norm, 0), zero, call.op("div", x, norm))


@op("LRN")
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


@op("Dropout")
def _dropout(call: Call) -> list[Value]:
    """Returns the operand: outside training nothing is dropped."""
    if call.has(2):
        training = call.held(2).known()
        if training is None or bool(training.reshape(-1)[0]):
            raise Refused("it may be in training mode, and draw random numbers")
    x = call.x()
    if call.outputs < 2 or not call.node.output[1]:
        return [x]
    return [x, call.op("ones_like", x, CODES["bool"], None, None, None, None)]


# Builders of LSTM, GRU and RNN as `aten::lstm` and related ops, with the gates in torch's order.
#
# ONNX keeps both directions and all gates in one tensor: `W[direction, gates·hidden, input]`. It orders the gates of an
# LSTM as i, o, f, c and those of a GRU as z, r, h; torch has i, f, c, o and r, z, h. Torch's GRU applies the reset gate
# after the product (`linear_before_reset`); the other variant has no `aten::` op, and is a loop.

_ORDER: Final = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The positions of torch's gates in ONNX's order."""
_DEFAULTS: Final = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@op("LSTM")
def _lstm(call: Call) -> list[Value]:
    refuse_if(call.has(7) or call.integer("input_forget", 0), "it has peepholes, or couples its gates")
    return _recurrent(call, "lstm")


@op("GRU")
def _gru(call: Call) -> list[Value]:
    return _recurrent(call, "gru" if call.integer("linear_before_reset", 0) else "")


@op("RNN")
def _rnn(call: Call) -> list[Value]:
    kinds = {name.lower() for name in call.attr("activations", ["Tanh"])}
    refuse_if(len(kinds) != 1 or not kinds <= {"tanh", "relu"}, f"its activations are {', '.join(sorted(kinds))}")
    return _recurrent(call, f"rnn_{kinds.pop()}")


def _recurrent(call: Call, name: str) -> list[Value]:
    kind, direction = call.node.op_type, call.text("direction", "forward")
    both = direction == "bidirectional"
    _check(call, kind, both)
    x, layout, extent = call.x(0), call.integer("layout", 0), call.shape(2)[-1]
    if not isinstance(extent, int):
        raise Refused("the size of its state is not known")
    x = call.op("transpose", x, 0, 1) if layout else x
    x = call.op("flip", x, [0]) if direction == "reverse" else x
    hidden = call.integer("hidden_size", extent)
    count = 2 if both else 1
    batch = call.size(x, 1)
    states = [_state(call, index, layout, (count, batch, hidden)) for index in ((5, 6) if kind == "LSTM" else (5,))]
    weights = [part for side in range(count) for part in _weights(call, kind, side, hidden)]
    start = call.emit.list(states, TENSOR) if kind == "LSTM" else states[0]
    if name:
        made = call.ops(name, len(states) + 1, x, start, call.emit.list(weights, TENSOR), call.has(3), 1, 0.0, False, both, False)
    else:
        each = len(weights) // count
        sides = [_reset_first(call, x, start, weights[side * each : (side + 1) * each], side) for side in range(count)]
        ends, found = ([side[place] for side in sides] for place in range(2))
        made = call.op("cat", call.emit.list(found, TENSOR), 2), call.op("stack", call.emit.list(ends, TENSOR), 0)
    rows = call.op("flip", made[0], [0]) if direction == "reverse" else made[0]
    if both:
        rows = call.op("reshape", rows, [call.size(x, 0), batch, count, hidden])
        y = call.op("permute", rows, [1, 0, 2, 3] if layout else [0, 2, 1, 3])
    else:
        y = call.op("unsqueeze", call.op("transpose", rows, 0, 1) if layout else rows, 2 if layout else 1)
    return [y, *(call.op("transpose", state, 0, 1) if layout else state for state in made[1:])]


def _reset_first(call: Call, x: Value, start: Value, weights: Sequence[Value], side: int) -> Sequence[Value]:
    """Returns the last state and all states of a GRU in one direction whose reset gate is applied before the product, by a loop."""
    emit, shapes = call.emit, [shape_of(value.type, "its sequence, or its state,") for value in (x, start)]
    (steps, batch, _), (_, own_batch, hidden) = shapes
    if not (isinstance(steps, int) and isinstance(batch, int) and isinstance(hidden, int)) or own_batch != batch:
        raise Refused("its reset gate is applied before the matrix product (linear_before_reset=0), and its extents are not known")
    outer, inner, outer_bias, inner_bias = [*weights, None, None][:4]
    state, table = [TensorType(call.dtype(), shape, contiguous_strides(shape)) for shape in ((batch, hidden), (steps, batch, hidden))]

    def gate(x: Value | None, axis: int, first: int, last: int) -> Value | None:
        return None if x is None else call.op("slice", x, axis, first * hidden, last * hidden, 1)

    def add(a: Value | None, b: Value | None) -> Value:
        return call.op("add", a, b, 1)

    (gates, gates_bias), (new, new_bias) = [[gate(x, 0, *cut) for x in (inner, inner_bias)] for cut in ((0, 2), (2, 3))]
    given = call.op("linear", x, outer, outer_bias)
    first = call.op("clone", call.op("select", start, 0, side), 0, type=state)
    empty = call.op("zeros", [steps, batch, hidden], CODES[str(call.dtype())], None, None, None, type=table)
    with emit.block([("i", INT), ("h", state), ("rows", table)]) as block:
        turn, h, rows = block.params
        turn = call.op("sub", steps - 1, turn, type=INT) if side else turn
        now, own = call.op("select", given, 0, turn), call.op("linear", h, gates, gates_bias)
        r, z = [call.op("sigmoid", add(gate(now, 1, one, one + 1), gate(own, 1, one, one + 1))) for one in range(2)]
        n = call.op("tanh", add(gate(now, 1, 2, 3), call.op("linear", call.op("mul", r, h), new, new_bias)))
        after = call.op("add", n, call.op("mul", z, call.op("sub", h, n, 1)), 1, type=state)
        block.returns([emit.value(True), after, call.op("select_scatter", rows, after, 0, turn, type=table)])
    return emit.node("prim::Loop", (emit.value(steps), emit.value(True), first, empty), (state, table), blocks=(block,))


def _check(call: Call, kind: str, both: bool) -> None:
    wanted = _DEFAULTS[kind] * (2 if both else 1)
    given = [name.lower() for name in call.attr("activations", wanted)]
    refuse_if(kind != "RNN" and given != [name.lower() for name in wanted], "its activations are not the defaults")
    refuse_if("clip" in call.attributes, "it clips the inputs of its activations")
    if call.has(4):
        known, length = call.held(4).known(), call.shape(0)[1 if call.integer("layout", 0) else 0]
        if known is None or not (known == length).all():
            raise Refused("its rows differ in length")


def _state(call: Call, index: int, layout: int, shape: tuple[object, ...]) -> Value:
    if not call.has(index):
        return call.op("zeros", list(shape), CODES[str(call.dtype())], None, None, None)
    return call.op("transpose", call.x(index), 0, 1) if layout else call.x(index)


def _weights(call: Call, kind: str, side: int, hidden: int) -> list[Value]:
    """Returns input weight, recurrent weight, and their biases, of one direction."""
    found = [_gates(call, kind, call.op("select", call.x(index), 0, side), 0, hidden) for index in (1, 2)]
    if call.has(3):
        bias = call.op("select", call.x(3), 0, side)
        gates = len(_ORDER[kind])
        found += [_gates(call, kind, bias, start, hidden) for start in (0, gates * hidden)]
    return found


def _gates(call: Call, kind: str, x: Value, start: int, hidden: int) -> Value:
    """Returns the gates of a weight or bias in torch's order."""
    parts = [call.op("slice", x, 0, start + g * hidden, start + (g + 1) * hidden, 1) for g in _ORDER[kind]]
    return parts[0] if len(parts) == 1 else call.op("cat", call.emit.list(parts, TENSOR), 0)


# Builders of image resampling: Resize, Upsample, GridSample, AffineGrid.
#
# `aten::upsample_*` has three of ONNX's mappings from output to input coordinates: half_pixel, align_corners and, for
# nearest neighbours, asymmetric. Nearest neighbours of any other mapping are an index along each axis, computed here.

_WORDS: Final = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}


@op("Upsample", since=9)
def _upsample(call: Call) -> Value:
    scales = [float(scale) for scale in call.known(1)]
    sizes = [_grown(call, axis, scale) for axis, scale in enumerate(scales)]
    return _resized(call, sizes, scales, call.text("mode", "nearest"), "asymmetric", "floor")


@op("Resize", since=11)
def _resize(call: Call) -> Value:
    """Resizes to known sizes or scales; crops to a region of interest stay `onnx::`."""
    sizes, scales = _target(call)
    way = call.text("coordinate_transformation_mode", "half_pixel")
    if call.integer("antialias", 0) or call.integer("exclude_outside", 0) or way == "tf_crop_and_resize":
        raise Refused("it uses antialias, exclude_outside or tf_crop_and_resize")
    return _resized(call, sizes, scales, call.text("mode", "nearest"), way, call.text("nearest_mode", "round_prefer_floor"))


def _grown(call: Call, axis: int, scale: float) -> Item:
    """Returns the extent of an axis that is scaled by a factor."""
    extent = call.size(call.any(0), axis)
    if isinstance(extent, int):
        return math.floor(extent * scale)
    if scale == 1:
        return extent
    refuse_if(not scale.is_integer(), "the extent of an axis that it resizes is not known")
    return call.op("mul", extent, int(scale))


def _target(call: Call) -> tuple[list[Item], list[float]]:
    """Returns the extents of the result, and the scale of each axis."""
    shape = call.shape()
    axes = [call.wrap(axis, len(shape)) for axis in call.attr("axes", range(len(shape)))]
    if call.has(3) and call.known(3).size:
        refuse_if(call.text("keep_aspect_ratio_policy", "stretch") != "stretch", "it keeps the aspect ratio")
        wanted = dict(zip(axes, call.known_ints(3), strict=True))
        if not all(isinstance(extent, int) for axis, extent in enumerate(shape) if axis in wanted):
            raise Refused("the extent of an axis that it resizes is not known")
        scales = [wanted[a] / e if isinstance(e, int) and e and a in wanted else 1.0 for a, e in enumerate(shape)]
        return [wanted.get(axis, call.size(call.any(0), axis)) for axis in range(len(shape))], scales
    by = dict(zip(axes, (float(scale) for scale in call.known(2)), strict=True))
    scales = [by.get(axis, 1.0) for axis in range(len(shape))]
    return [_grown(call, axis, scale) for axis, scale in enumerate(scales)], scales


def _resized(call: Call, sizes: list[Item], scales: list[float], mode: str, way: str, rounding: str) -> Value:
    shape = call.shape()
    spatial = len(shape) - 2
    if mode == "nearest":
        return _nearest(call, sizes, scales, way, rounding)
    if scales[:2] != [1, 1] or call.dtype() not in FLOATS or 0 in (*sizes, *shape):
        raise Refused("it resizes batch or channels, integers, or an empty tensor")
    corners = way == "align_corners"
    single = way == "pytorch_half_pixel" and any(not isinstance(size, int) or size == 1 for size in sizes[2:])
    refuse_if(way not in ("half_pixel", "pytorch_half_pixel", "align_corners") or single, f"its coordinate_transformation_mode is {way}")
    if corners and not all(_is_exact(*axis) for axis in zip(scales, shape, sizes, strict=True)):
        raise Refused("it aligns corners, and its scales do not lead to whole extents")
    factors = [None if _is_exact(*axis) else axis[0] for axis in zip(scales, shape, sizes, strict=True)]
    if mode == "cubic" and spatial == 2 and call.attr("cubic_coeff_a", -0.75) == -0.75:
        return call.op("upsample_bicubic2d", call.x(), sizes[2:], corners, *factors[2:])
    refuse_if(mode != "linear" or spatial not in _WORDS, f"its mode is {mode} over {spatial} axes")
    return call.op(f"upsample_{_WORDS[spatial]}", call.x(), sizes[2:], corners, *factors[2:])


def _is_exact(scale: float, extent: Dim, size: Item) -> bool:
    """Checks whether the scale is the ratio of the extents; for an unknown extent the scale is an integer anyway."""
    return size == extent * scale if isinstance(extent, int) and isinstance(size, int) else True


def _nearest(call: Call, sizes: list[Item], scales: list[float], way: str, rounding: str) -> Value:
    shape = call.shape()
    spatial = len(shape) - 2
    has_op = call.dtype() in FLOATS | {"uint8"} and 1 <= spatial <= 3
    plain = has_op and way == "asymmetric" and rounding == "floor" and scales[:2] == [1, 1]
    if plain and all(_is_exact(*axis) and _is_torchs(*axis) for axis in zip(scales, shape, sizes, strict=True)):
        return call.op(f"upsample_nearest{spatial}d", call.any(0), sizes[2:], *[None] * spatial)
    x = call.any(0)
    for axis, (extent, size, scale) in enumerate(zip(shape, sizes, scales, strict=True)):
        if scale == 1 and (size == extent or not isinstance(extent, int)):
            continue
        if not isinstance(extent, int) or not isinstance(size, int) or size > 1 << 16 or not extent:
            raise Refused("an extent that it resizes is unknown, zero, or too large for one index per element")
        place, pick = _WAYS.get(way), _ROUNDINGS.get(rounding)
        if place is None or pick is None:
            raise Refused(f"its coordinate_transformation_mode is {way}")
        index = [min(max(pick(place(at, extent, size, scale)), 0), extent - 1) for at in range(size)]
        x = call.op("index_select", x, axis, call.emit.value_of(Held(array=np.array(index, np.int64))))
    return x


def _is_torchs(scale: float, extent: Dim, size: Item) -> bool:
    """Checks whether torch, which multiplies by the ratio of the extents in float32, takes the elements that a division leads to."""
    if not (isinstance(extent, int) and isinstance(size, int)):
        extent, size = 64, int(64 * scale)
    at, ratio = np.arange(size), np.float32(extent) / np.float32(max(size, 1))
    return size in (extent, 2 * extent) or bool((at * extent // max(size, 1) == (at.astype(np.float32) * ratio).astype(np.int64)).all())


_WAYS: Final[dict[str, Callable[[int, int, int, float], float]]] = {
    "asymmetric": lambda at, extent, size, scale: at / scale,
    "half_pixel": lambda at, extent, size, scale: (at + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda at, extent, size, scale: (at + 0.5) / scale - 0.5 if size > 1 else 0.0,
    "align_corners": lambda at, extent, size, scale: at * (extent - 1) / (size - 1) if size > 1 else 0.0,
    "half_pixel_symmetric": lambda at, extent, size, scale: extent / 2 * (1 - size / (scale * extent)) + (at + 0.5) / scale - 0.5,
}
"""Maps an index in the result to a coordinate in the operand."""
_ROUNDINGS: Final[dict[str, Callable[[float], int]]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda at: math.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: math.floor(at + 0.5),
}


@op("GridSample")
def _grid_sample(call: Call) -> Value:
    modes = {"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2, "cubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    mode, padding = call.text("mode", "linear"), call.text("padding_mode", "zeros")
    rank = call.rank()
    if rank not in (4, 5) or mode not in modes or padding not in paddings or (rank == 5 and modes[mode] == 2):
        raise Refused(f"it samples {rank - 2} axes by {mode}")
    refuse_if(mode == "nearest" and padding == "reflection", "it rounds to an element before it reflects")
    refuse_if(call.dtype(0) != call.dtype(1), f"its grid has elements of type {call.dtype(1)}, the image of type {call.dtype(0)}")
    corners = bool(call.integer("align_corners", 0))
    return call.op(f"grid_sampler_{rank - 2}d", call.x(0), call.x(1), modes[mode], paddings[padding], corners)


op("AffineGrid")(lambda call: call.op("affine_grid_generator", call.x(0), call.items(1), bool(call.integer("align_corners", 0))))
