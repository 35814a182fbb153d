"""Builders of matrix products and convolutions."""

from __future__ import annotations

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import FLOATS
from irscope.ir import Value

__all__ = ["OPS", "same_pads"]

OPS: Table = {}


@op(OPS, "MatMul")
def _matmul(call: Call) -> Value:
    return call.op("matmul", call.x(0), call.x(1))


@op(OPS, "Gemm")
def _gemm(call: Call) -> Value:
    a, b = call.x(0), call.x(1)
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    a = call.op("t", a) if call.integer("transA", 0) else a
    if call.integer("transB", 0) and alpha == 1 and beta == 1 and call.has(2) and call.rank(2) == 1:
        return call.op("linear", a, b, call.x(2))
    b = call.op("t", b) if call.integer("transB", 0) else b
    if call.has(2) and call.dtype() in FLOATS:
        return call.op("addmm", call.x(2), a, b, beta, alpha)
    made = call.op("mm", a, b)
    if call.dtype() not in FLOATS and (alpha != 1 or beta != 1):
        raise call.refuse("it scales integers")
    made = made if alpha == 1 else call.op("mul", made, alpha)
    return call.op("add", made, call.x(2)) if call.has(2) else made


@op(OPS, "Einsum")
def _einsum(call: Call) -> Value:
    equation = call.text("equation", "").replace(" ", "")
    return call.op("einsum", equation, call.xs(), None)


@op(OPS, "Det")
def _det(call: Call) -> Value:
    if call.dtype() not in ("float32", "float64"):
        raise call.refuse(f"it factorises a matrix of type {call.dtype()}")
    return call.op("linalg_det", call.x())


def same_pads(call: Call, x: Value, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Returns an op's pads, all starts and then all ends: as given, or so that the result has ⌈extent / stride⌉
    elements."""
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
            raise call.refuse("its padding depends on an extent that is not known")
        totals.append(max(0, (-(-size // strides[axis]) - 1) * strides[axis] + reach - size))
    smaller = [total // 2 for total in totals]
    larger = [total - half for total, half in zip(totals, smaller, strict=True)]
    return smaller + larger if mode == "SAME_UPPER" else larger + smaller


@op(OPS, "Conv")
def _conv(call: Call) -> Value:
    x, w = call.x(0), call.x(1)
    bias = call.x(2) if call.has(2) else None
    spatial = call.rank(1) - 2
    kernel = _kernel(call)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    pads = same_pads(call, x, kernel, strides, dilations)
    starts, ends = pads[:spatial], pads[spatial:]
    if not 1 <= spatial <= 3 or call.dtype() not in FLOATS:
        raise call.refuse(f"it has {spatial} spatial axes, and aten:: ops have one to three")
    if starts != ends:
        x = call.op("constant_pad_nd", x, [p for axis in reversed(range(spatial)) for p in (starts[axis], ends[axis])], 0)
        starts = [0] * spatial
    return call.op(f"conv{spatial}d", x, w, bias, strides, starts, dilations, call.integer("group", 1))


def _kernel(call: Call) -> list[int]:
    """Returns the extents of the window, which must be the weight's."""
    shape = call.shape(1)[2:]
    known = call.integers("kernel_shape", [e if isinstance(e, int) else 0 for e in shape])
    if len(known) != len(shape) or any(isinstance(e, int) and e != k for e, k in zip(shape, known, strict=True)):
        raise call.refuse(f"its kernel_shape {known} differs from the shape of its weight")
    if not all(known):
        raise call.refuse("the shape of its weight is not known")
    return known


@op(OPS, "ConvTranspose")
def _conv_transpose(call: Call) -> Value:
    x, w = call.x(0), call.x(1)
    spatial, group = call.rank(1) - 2, call.integer("group", 1)
    if not 1 <= spatial <= 3:
        raise call.refuse(f"it has {spatial} spatial axes, and aten:: ops have one to three")
    kernel = _kernel(call)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    extra = call.integers("output_padding", [0] * spatial)
    pads = _transposed_pads(call, x, kernel, strides, dilations, extra)
    starts, ends = pads[:spatial], pads[spatial:]
    bias = call.x(2) if call.has(2) else None
    if any(a >= max(s, d) for a, s, d in zip(extra, strides, dilations, strict=True)):
        raise call.refuse("its output padding is not smaller than the stride or the dilation")
    if starts == ends and min(starts, default=0) >= 0:
        return call.op(f"conv_transpose{spatial}d", x, w, bias, strides, starts, extra, group, dilations)
    made = call.op(f"conv_transpose{spatial}d", x, w, bias, strides, [0] * spatial, extra, group, dilations)
    return call.op(
        "constant_pad_nd", made, [-p for axis in reversed(range(spatial)) for p in (starts[axis], ends[axis])], 0
    )


def _transposed_pads(
    call: Call, x: Value, kernel: list[int], strides: list[int], dilations: list[int], extra: list[int]
) -> list[int]:
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
                raise call.refuse("its padding depends on an extent that is not known")
            total += size * strides[axis] - wanted[axis - spatial]
        smaller.append(total // 2)
        larger.append(total - total // 2)
    return smaller + larger if mode == "SAME_UPPER" else larger + smaller


@op(OPS, "Col2Im")
def _col2im(call: Call) -> Value:
    sizes, kernel = call.items(1), call.items(2)
    spatial = len(sizes)
    pads = call.integers("pads", [0] * 2 * spatial)
    if spatial != 2 or pads[:2] != pads[2:]:
        raise call.refuse("it does not have two spatial axes, or pads the two ends of an axis differently")
    strides, dilations = call.integers("strides", [1, 1]), call.integers("dilations", [1, 1])
    return call.op("col2im", call.x(), sizes, kernel, dilations, pads[:2], strides)


