"""Rules of `dot_general` as (batched) matrix products, and of `convolution`, with permutations around torch's ops."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

from irscope.frontends.mlir.emit import shape_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.shaping import padded, permuted, reshaped
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["RULES", "contracted"]

_COMPLEX: Final = ("complex64", "complex128")


def _numbers(text: str, key: str) -> list[int]:
    """Returns the list after a key in an attribute's text."""
    found = re.search(rf"{key} = \[([\d, ]*)\]", text)
    return [int(word) for word in found.group(1).split(",") if word.strip()] if found else []


def _dot_general(op: Operation) -> Value | None:
    if not op.is_static or op.dtype not in (*FLOATS, *INTEGERS, *_COMPLEX):
        return None
    text = op.text("dot_dimension_numbers")
    batch = _numbers(text, "lhs_batching_dimensions"), _numbers(text, "rhs_batching_dimensions")
    inner = _numbers(text, "lhs_contracting_dimensions"), _numbers(text, "rhs_contracting_dimensions")
    return contracted(op, batch, inner)


def _dot(op: Operation) -> Value | None:
    if not op.is_static or op.dtype not in (*FLOATS, *INTEGERS, *_COMPLEX):
        return None
    last = len(shape_of(op.operands[0]) or ()) - 1
    return contracted(op, ([], []), ([last], [0]))


def contracted(op: Operation, batch: tuple[list[int], list[int]], inner: tuple[list[int], list[int]]) -> Value:
    """Emits sums of products over the inner dimensions, computed in the result's element type."""
    e = op.e
    a, b = (e.cast(value, op.dtype) for value in op.operands)
    shapes = shape_of(a) or (), shape_of(b) or ()
    free = [
        [axis for axis in range(len(shape)) if axis not in batch[side] and axis not in inner[side]]
        for side, shape in enumerate(shapes)
    ]
    count = prod(shapes[0][axis] for axis in batch[0])
    rows, columns = (prod(shapes[side][axis] for axis in free[side]) for side in (0, 1))
    depth = prod(shapes[0][axis] for axis in inner[0])
    a = permuted(e, a, [*batch[0], *free[0], *inner[0]])
    b = permuted(e, b, [*batch[1], *inner[1], *free[1]])
    if batch[0]:
        a, b = reshaped(e, a, [count, rows, depth]), reshaped(e, b, [count, depth, columns])
        made = e.tensor("bmm", a, b, dtype=op.dtype, shape=[count, rows, columns])
    else:
        a, b = reshaped(e, a, [rows, depth]), reshaped(e, b, [depth, columns])
        made = e.tensor("mm", a, b, dtype=op.dtype, shape=[rows, columns])
    return reshaped(e, made, op.shape)


_FFTS: Final = {"FFT": "fft_fftn", "IFFT": "fft_ifftn", "RFFT": "fft_rfftn", "IRFFT": "fft_irfftn"}


def _fft(op: Operation) -> Value | None:
    """Fourier transforms over the last dimensions."""
    lengths, kind = op.ints("fft_length"), op.text("fft_type").rpartition(" ")[2].rstrip(">")
    if lengths is None or not op.is_static or kind not in _FFTS or 0 in (*op.shape, *lengths):
        return None
    axes = list(range(len(op.shape) - len(lengths), len(op.shape)))
    return op.e.op(_FFTS[kind], op.operands[0], list(lengths), axes, None, type=op.type)


def _layout(text: str) -> dict[str, Any] | None:
    """Parses the dimension numbers, `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`."""
    found = re.search(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]", text)
    if found is None:
        return None
    words = [[word.strip() for word in part.split(",")] for part in found.groups()]
    if any(not (word.isdigit() or word in "bfio") for part in words for word in part):
        return None
    return dict(zip(("lhs", "rhs", "out"), words, strict=True))


def _convolution(op: Operation) -> Value | None:
    layout = _layout(op.text("dimension_numbers"))
    if layout is None or not op.is_static or op.dtype not in FLOATS or prod(op.shape) == 0:
        return None
    e, (x, w) = op.e, op.operands
    rank = len(op.shape) - 2
    ones = (1,) * rank
    steps, gaps, inner = (op.ints(name) or ones for name in ("window_strides", "lhs_dilation", "rhs_dilation"))
    pads, reversal = op.ints("padding") or (0,) * (2 * rank), op.ints("window_reversal") or (0,) * rank
    groups, batches = op.number("feature_group_count", 1), op.number("batch_group_count", 1)
    spatial = [str(axis) for axis in range(rank)]
    if not 1 <= rank <= 3 or prod(shape_of(x) or ()) == 0 or prod(shape_of(w) or ()) == 0:
        return None
    x = permuted(e, e.cast(x, op.dtype), [layout["lhs"].index(word) for word in ("b", "f", *spatial)])
    w = permuted(e, e.cast(w, op.dtype), [layout["rhs"].index(word) for word in ("o", "i", *spatial)])
    if any(reversal):
        w = e.like("flip", w, [2 + axis for axis, yes in enumerate(reversal) if yes])
    low, high = list(pads[::2]), list(pads[1::2])
    symmetric = low == high and min(low, default=0) >= 0 and set(gaps) <= {1}
    if not symmetric:
        x = padded(e, x, [0, 0, *low], [0, 0, *high], [0, 0, *(gap - 1 for gap in gaps)], 0)
    if batches > 1:
        if groups > 1:
            return None
        x, groups = _groups_of_batches(op, x, batches), batches
    shape = shape_of(x) or ()
    reach = [(extent - 1) * gap + 1 for extent, gap in zip((shape_of(w) or ())[2:], inner, strict=True)]
    around = low if symmetric else [0] * rank
    sizes = [
        (extent + 2 * pad - span) // step + 1
        for extent, pad, span, step in zip(shape[2:], around, reach, steps, strict=True)
    ]
    made = e.tensor(
        "convolution", x, w, None, list(steps), around, list(inner), False, [0] * rank, groups,
        dtype=op.dtype, shape=[shape[0], (shape_of(w) or ())[0], *sizes],
    )  # fmt: skip
    letters = ["b", "f", *spatial]
    return permuted(e, made, [letters.index(word) for word in layout["out"]])


def _groups_of_batches(op: Operation, x: Value, batches: int) -> Value:
    """Turns groups of the batch into groups of features: `[g·n, c, …]` into `[n, g·c, …]`."""
    e, shape = op.e, list(shape_of(x) or ())
    count, features, rest = shape[0] // batches, shape[1], shape[2:]
    apart = reshaped(e, x, [batches, count, features, *rest])
    transposed = permuted(e, apart, [1, 0, 2, *range(3, 3 + len(rest))])
    return reshaped(e, transposed, [count, batches * features, *rest])


RULES: Final[Mapping[str, Callable[[Operation], Value | None]]] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.fft": _fft,
    "stablehlo.convolution": _convolution,
}
"""The rule of each op."""
