"""Rules of reductions over sliding windows: pooling, cumulative sums, and the gradient of max pooling.

A window that extends from the beginning to each element is a cumulative op. Any other is a reduction over the window
dimensions of the padded operand's `unfold`, which is a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bodies import expressions, reducer
from irscope.frontends.mlir.meaning.pointwise import splat
from irscope.frontends.mlir.meaning.reductions import combined, is_identity, is_reducible, reduced
from irscope.frontends.mlir.meaning.shaping import iota, padded, reshaped, sliced, spread
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["RULES"]


def _window(op: Operation, rank: int) -> tuple[tuple[int, ...], ...] | None:
    """Returns extents, strides, dilations of base and window, low and high padding, by dimension."""
    sizes = op.ints("window_dimensions")
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    found = [op.ints(name) for name in ("window_strides", "base_dilations", "window_dilations", "padding")]
    steps, base, inner, pads = (given or other for given, other in zip(found, (ones, ones, ones, zeros), strict=True))
    return None if sizes is None else (sizes, steps, base, inner, pads[::2], pads[1::2])


def _reduce_window(op: Operation) -> Sequence[Value] | None:
    if len(op.types) != 1 or not op.is_static:
        return None
    e, (x, initial) = op.e, op.operands
    before = shape_of(x) or ()
    kind, window = reducer(op.regions()[0]), _window(op, len(before))
    known, fill = e.known.get(initial), splat(e, initial)
    if kind is None or window is None or not is_reducible(kind, op.dtype) or prod(op.shape) == 0 or fill is None:
        return None
    sizes, steps, base, inner, low, high = window
    if prod(sizes) == 0 or not dtype_of(x):
        return None
    x, initial = e.cast(x, op.dtype), e.cast(initial, op.dtype)  # computed in the result's element type
    if is_identity(kind, op.dtype, known):
        running = _cumulative(e, kind, x, window)
        if running is not None:
            return [running]
    elif any((*low, *high)) or any(gap != 1 for gap in base):
        return None  # the padding would count the initial value several times, as only the identity may
    x = padded(e, x, low, high, [gap - 1 for gap in base], fill)
    made = reduced(e, kind, windows(e, x, sizes, steps, inner), range(len(sizes), 2 * len(sizes)))
    return [made if is_identity(kind, op.dtype, known) else combined(e, kind, made, initial)]


def windows(e: Emitter, x: Value, sizes: Sequence[int], steps: Sequence[int], inner: Sequence[int]) -> Value:
    """Returns the tensor's windows: twice as many dimensions, of which the last ones are inside a window."""
    rank = len(sizes)
    for axis, (size, step, gap) in enumerate(zip(sizes, steps, inner, strict=True)):
        before = shape_of(x)
        assert before is not None  # static
        reach = (size - 1) * gap + 1
        count = (before[axis] - reach) // step + 1
        shape = [*before[:axis], count, *before[axis + 1 :], reach]
        x = e.tensor("unfold", x, axis, reach, step, dtype=dtype_of(x), shape=shape)
        x = sliced(e, x, rank + axis, 0, reach, gap)
    return x


def _cumulative(e: Emitter, kind: str, x: Value, window: tuple[tuple[int, ...], ...]) -> Value | None:
    """Emits a cumulative op for a window over one whole dimension that ends, or begins, at each element; else None."""
    sizes, steps, base, inner, low, high = window
    before = shape_of(x) or ()
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if kind not in ("add", "mul") or len(axes) != 1 or set(steps) | set(base) | set(inner) != {1} or dtype_of(x) == "bool":
        return None
    (axis,) = axes
    extent = before[axis]
    others = [count for place in range(len(sizes)) if place != axis for count in (low[place], high[place])]
    if sizes[axis] != extent or any(others) or {low[axis], high[axis]} != {0, extent - 1}:
        return None
    backwards = low[axis] == 0
    name, dtype = {"add": "cumsum", "mul": "cumprod"}[kind], dtype_of(x)
    ordered = e.like("flip", x, [axis]) if backwards else x
    made = e.like(name, ordered, axis, CODES[dtype])
    return e.like("flip", made, [axis]) if backwards else made


def _select_and_scatter(op: Operation) -> Value | None:
    """The gradient of max pooling: each window's source is added at the window's first largest element."""
    e, (x, source, initial) = op.e, op.operands
    before = shape_of(x) or ()
    choose, join = op.regions()
    window = _window(op, len(before))
    if window is None or not op.is_static or dtype_of(x) != op.dtype:
        return None
    if reducer(join) != "add" or expressions(choose) != ["compare.GE(a0,a1)"]:
        return None
    sizes, steps, _, _, low, high = window
    if splat(e, initial) != 0 or prod(before) == 0 or prod(shape_of(source) or ()) == 0 or not op.dtype.startswith(("f", "b")):
        return None
    rank, count = len(before), prod(before)
    least = float("-inf")
    ones = (1,) * rank
    views = windows(e, padded(e, x, low, high, (0,) * rank, least), sizes, steps, ones)
    numbers = reshaped(e, iota(e, count), before)
    places = windows(e, padded(e, numbers, low, high, (0,) * rank, count), sizes, steps, ones)
    grid, inside = (shape_of(views) or ())[:rank], prod(sizes)
    flat = reshaped(e, views, [*grid, inside])
    best = e.tensor("argmax", flat, rank, True, dtype="int64", shape=[*grid, 1])
    at = e.tensor("gather", reshaped(e, places, [*grid, inside]), rank, best, False, dtype="int64", shape=[*grid, 1])
    zeros = spread(e, e.scalar(0, op.dtype), [count + 1])
    total = prod(grid)
    summed = e.tensor(
        "scatter_add", zeros, 0, reshaped(e, at, [total]), reshaped(e, source, [total]), dtype=op.dtype, shape=[count + 1]
    )
    return reshaped(e, sliced(e, summed, 0, 0, count), before)


RULES: Final[Mapping[str, Callable[[Operation], Value | Sequence[Value] | None]]] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
"""The rule of each op."""
