"""Pooling over windows, and over everything."""

from __future__ import annotations

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.ops.linear import same_pads
from irscope.frontends.onnx.reading.types import FLOATS
from irscope.ir import Value

__all__ = ["OPS"]

OPS: Table = {}


class _Window:
    """Extents, steps and pads of a pooling op."""

    def __init__(self, call: Call) -> None:
        self.kernel = call.integers("kernel_shape")
        self.spatial = len(self.kernel)
        if not 1 <= self.spatial <= 3 or call.rank() != self.spatial + 2:
            raise call.refuse(f"it has {self.spatial} spatial axes, and aten:: ops have one to three")
        ones = [1] * self.spatial
        self.strides, self.dilations = call.integers("strides", ones), call.integers("dilations", ones)
        self.ceil = bool(call.integer("ceil_mode", 0))
        pads = same_pads(call, call.any(0), self.kernel, self.strides, self.dilations)
        self.starts, self.ends = pads[: self.spatial], pads[self.spatial :]
        small = all(2 * pad <= k for pad, k in zip(self.starts, self.kernel, strict=True))
        self.is_plain = self.starts == self.ends and small

    @property
    def flat(self) -> list[int]:
        return [pad for axis in reversed(range(self.spatial)) for pad in (self.starts[axis], self.ends[axis])]


@op(OPS, "MaxPool")
def _max_pool(call: Call) -> Value | tuple[Value, ...]:
    window, x = _Window(call), call.x()
    if call.outputs > 1 and call.node.output[1]:
        if not window.is_plain or window.spatial != 2 or call.integer("storage_order", 0) or call.shape()[:2] != (1, 1):
            raise call.refuse("its indices count over the whole batch, those of aten:: ops over one channel")
        return call.ops(
            "max_pool2d_with_indices", 2, x, window.kernel, window.strides, window.starts, window.dilations, window.ceil
        )
    pads = window.starts
    dtype = str(call.dtype())
    if dtype not in FLOATS:
        if dtype not in ("int8", "uint8"):
            raise call.refuse(f"it pools elements of type {dtype}")
        x = call.cast(x, "float32")  # which holds them exactly
    if not window.is_plain:
        if window.ceil:
            raise call.refuse("it rounds up, and pads its ends differently")
        x, pads = call.op("constant_pad_nd", x, window.flat, float("-inf")), [0] * window.spatial
    made = call.op(f"max_pool{window.spatial}d", x, window.kernel, window.strides, pads, window.dilations, window.ceil)
    return call.cast(made, dtype)


@op(OPS, "AveragePool")
def _average_pool(call: Call) -> Value:
    window, x = _Window(call), call.x()
    counts = bool(call.integer("count_include_pad", 0))
    if any(step != 1 for step in window.dilations) or (not window.is_plain and window.ceil):
        raise call.refuse("its windows are dilated, or it rounds up and pads its ends differently")
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


@op(OPS, "LpPool")
def _lp_pool(call: Call) -> Value:
    """The p-th root of the sum of p-th powers, which is the mean times the size of the window."""
    window, x, p = _Window(call), call.x(), call.integer("p", 2)
    if any(step != 1 for step in window.dilations) or window.ceil:
        raise call.refuse("its windows are dilated, or it rounds up")
    powers = call.op("pow", call.op("abs", x), p)
    padded = call.op("constant_pad_nd", powers, window.flat, 0) if any(window.flat) else powers
    mean = call.op(f"avg_pool{window.spatial}d", padded, window.kernel, window.strides, [0] * window.spatial, False, True)
    size = 1
    for extent in window.kernel:
        size *= extent
    return call.op("pow", call.op("mul", mean, size), 1.0 / p)


@op(OPS, "GlobalAveragePool")
def _global_average_pool(call: Call) -> Value:
    return call.op("mean", call.x(), list(range(2, call.rank())), True)


@op(OPS, "GlobalMaxPool")
def _global_max_pool(call: Call) -> Value:
    return call.op("amax", call.x(), list(range(2, call.rank())), True)


@op(OPS, "GlobalLpPool")
def _global_lp_pool(call: Call) -> Value:
    p = call.integer("p", 2)
    powers = call.op("pow", call.op("abs", call.x()), p)
    return call.op("pow", call.op("sum", powers, list(range(2, call.rank())), True), 1.0 / p)
