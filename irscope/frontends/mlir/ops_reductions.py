"""Rules of padding, reductions, windows, matrix products, convolutions and sorting."""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.importer import Emitter, Operation, Rule, dtype_of, extents_of, operations_in, shape_of
from irscope.frontends.mlir.ops_pointwise import ELEMENTS, FLOATS, INTEGERS, expressions, is_lexicographic, reducer, selects_largest, splat
from irscope.frontends.mlir.ops_shaping import combined, iota, numbers_in, permuted, reshaped, sliced, spread
from irscope.ir import TensorType, Type, Value


def dilated(e: Emitter, value: Value, axis: int, gap: int, fill: float) -> Value:
    """Inserts `gap` elements of one number between any two along an axis."""
    before = extents_of(value)
    if gap == 0 or before[axis] <= 1:
        return value
    wide = e.op("unsqueeze", value, axis + 1)
    after = len(before) - 1 - axis
    wide = e.op("constant_pad_nd", wide, [0, 0] * after + [0, gap], fill)
    extent = before[axis] * (gap + 1)
    joined = reshaped(e, wide, [*before[:axis], extent, *before[axis + 1 :]])
    return sliced(e, joined, axis, 0, extent - gap)


def padded(e: Emitter, value: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int], fill: float) -> Value:
    """Pads with one number around and between the elements; negative counts crop."""
    for axis, gap in enumerate(inner):
        value = dilated(e, value, axis, gap, fill)
    for axis, (left, right) in enumerate(zip(low, high, strict=True)):
        if left < 0 or right < 0:
            extent = extents_of(value)[axis]
            start = min(max(0, -left), extent)
            value = sliced(e, value, axis, start, max(start, extent - max(0, -right)))
    pads = [count for left, right in reversed(list(zip(low, high, strict=True))) for count in (max(0, left), max(0, right))]
    return e.op("constant_pad_nd", value, pads, fill) if any(pads) else value


def _pad(op: Operation) -> Value | None:
    low, high, inner = (op.ints(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if low is None or high is None or inner is None or not op.is_static:
        return None
    x, fill = op.operands
    if op.dtype not in ELEMENTS or any(
        extent > 0 and left + right + extent + gap * (extent - 1) < 0
        for extent, left, right, gap in zip(shape_of(x) or (), low, high, inner, strict=True)
    ):
        return x if not any((*low, *high, *inner)) else None
    if splat(op.e, fill) is None and op.dtype not in FLOATS | INTEGERS and any((*low, *high, *inner)):
        return None
    return padded_with(op.e, x, fill, low, high, inner)


def padded_with(e: Emitter, x: Value, fill: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int]) -> Value:
    """Pads like `padded`, with a number that may be computed."""
    if not any((*low, *high, *inner)):
        return x
    number = splat(e, fill)
    if number is not None:
        return padded(e, x, low, high, inner, number)
    mask = e.op("ones", list(shape_of(x) or ()), CODES["bool"], None, e.device, None)
    inside = padded(e, mask, low, high, inner, False)
    return e.op("where", inside, padded(e, x, low, high, inner, 0), fill)


# Rules of `stablehlo.reduce`: sums, products, extrema, `all`, `any`, and JAX's argmax.


def is_reducible(kind: str, dtype: str) -> bool:
    """Checks whether torch has this reduction for an element type."""
    if dtype == "bool":
        return True
    return kind in ("add", "mul", "max", "min") and (dtype in FLOATS | INTEGERS or (dtype == "complex64" and kind == "add"))


def is_identity(kind: str, dtype: str, known: np.ndarray[Any, Any] | None) -> bool:
    """Checks whether an initial value is the identity of a reduction."""
    if known is None or known.size != 1:
        return False
    value = known.reshape(-1)[0]
    if kind in ("max", "min"):
        if dtype == "bool":
            return bool(value) == (kind == "min")
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            return bool(value == (limits.min if kind == "max" else limits.max))
        return bool(value == (-np.inf if kind == "max" else np.inf))
    return bool(value == {"add": 0, "mul": 1, "and": True, "or": False}[kind])


def reduced(e: Emitter, kind: str, value: Value, axes: Sequence[int]) -> Value:
    """Emits a reduction over some dimensions, none of them empty."""
    if not axes:
        return value
    dtype = dtype_of(value)
    if dtype == "bool":
        kind = {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(kind, kind)
    if kind in ("and", "or"):
        return _one_by_one(e, "all" if kind == "and" else "any", value, axes)
    if kind == "mul":
        return _one_by_one(e, "prod", value, axes, CODES[dtype])
    if kind == "add":
        return e.op("sum", value, list(axes), False, CODES[dtype])
    return e.op("amax" if kind == "max" else "amin", value, list(axes), False)


def _one_by_one(e: Emitter, aten: str, value: Value, axes: Sequence[int], *rest: object) -> Value:
    for axis in sorted(axes, reverse=True):
        value = e.op(aten, value, axis, False, *rest)
    return value


def _reduce(op: Operation) -> Sequence[Value] | None:
    axes = op.ints("dimensions")
    if axes is None or not op.is_static:
        return None
    (region,) = op.regions
    count = len(op.types)
    kind = reducer(region) if count == 1 else None
    if kind is None:
        return _arg_extreme(op, axes) if count == 2 else None
    e, (x, initial) = op.e, op.operands
    if not is_reducible(kind, op.dtype) or not dtype_of(x):
        return None
    x, initial = e.cast(x, op.dtype), e.cast(initial, op.dtype)  # computed in the result's element type
    if 0 in [(shape_of(x) or ())[axis] for axis in axes]:
        return [spread(e, initial, op.shape)]
    made = reduced(e, kind, x, axes)
    if not is_identity(kind, op.dtype, e.known.get(initial)):
        made = combined(e, kind, made, initial)
    return [made]


def _arg_extreme(op: Operation, axes: Sequence[int]) -> Sequence[Value] | None:
    """Emits an extreme and its index, if the second operand numbers the first along one dimension."""
    (region,) = op.regions
    name, e = selects_largest(region), op.e
    x, index, initial, first = op.operands
    kind = {"argmax": "max", "argmin": "min"}.get(name or "")
    if kind is None or len(axes) != 1 or e.counts.get(index) != axes[0] or dtype_of(x) not in FLOATS | INTEGERS:
        return None
    start = e.known.get(first)
    if not is_identity(kind, dtype_of(x), e.known.get(initial)) or start is None or np.any(start != 0):
        return None
    if 0 in (shape_of(x) or ()):
        return None
    (axis,) = axes
    place = e.op(str(name), x, axis, False)
    return [reduced(e, kind, x, axes), e.cast(place, dtype_of(index))]


# Rules of reductions over sliding windows: pooling, cumulative sums, and the gradient of max pooling.
#
# A window that extends from the beginning to each element is a cumulative op. Any other is a reduction over the window
# dimensions of the padded operand's `unfold`, which is a view.


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
    kind, window = reducer(op.regions[0]), _window(op, len(before))
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
        reach = (size - 1) * gap + 1
        x = sliced(e, e.op("unfold", x, axis, reach, step), rank + axis, 0, reach, gap)
    return x


def _cumulative(e: Emitter, kind: str, x: Value, window: tuple[tuple[int, ...], ...]) -> Value | None:
    """Emits a cumulative op for a window over one whole dimension that ends, or begins, at each element; else None."""
    sizes, steps, base, inner, low, high = window
    before = shape_of(x) or ()
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if kind not in ("add", "mul", "max", "min") or len(axes) != 1 or set(steps) | set(base) | set(inner) != {1} or dtype_of(x) == "bool":
        return None
    (axis,) = axes
    extent = before[axis]
    others = [count for place in range(len(sizes)) if place != axis for count in (low[place], high[place])]
    if sizes[axis] != extent or any(others) or {low[axis], high[axis]} != {0, extent - 1}:
        return None
    backwards = low[axis] == 0
    made = running(e, kind, e.op("flip", x, [axis]) if backwards else x, axis)
    return e.op("flip", made, [axis]) if backwards else made


def running(e: Emitter, kind: str, x: Value, axis: int) -> Value:
    """Emits the sum, product, or extreme of the elements up to each one along an axis, which are numbers."""
    if kind in ("max", "min"):
        types = [TensorType(dtype, tuple(extents_of(x))) for dtype in (dtype_of(x), "int64")]
        return e.ops(f"cum{kind}", 2, x, axis, types=types)[0]
    return e.op("cumsum" if kind == "add" else "cumprod", x, axis, CODES[dtype_of(x)])


def _select_and_scatter(op: Operation) -> Value | None:
    """The gradient of max pooling: each window's source is added at the window's first largest element."""
    e, (x, source, initial) = op.e, op.operands
    before = shape_of(x) or ()
    choose, join = op.regions
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
    best = e.op("argmax", flat, rank, True)
    at = e.op("gather", reshaped(e, places, [*grid, inside]), rank, best, False)
    zeros = spread(e, e.scalar(0, op.dtype), [count + 1])
    total = prod(grid)
    summed = e.op("scatter_add", zeros, 0, reshaped(e, at, [total]), reshaped(e, source, [total]))
    return reshaped(e, sliced(e, summed, 0, 0, count), before)


# Rules of `dot_general` as (batched) matrix products, and of `convolution`, with permutations around torch's ops.


def _dot(op: Operation) -> Value | None:
    if not op.is_static or op.dtype not in ELEMENTS - {"bool"}:
        return None
    if op.name == "stablehlo.dot":  # over the last dimension and the first
        return contracted(op, ([], []), ([len(extents_of(op.operands[0])) - 1], [0]))
    text = op.text("dot_dimension_numbers")
    batch, inner = [[numbers_in(text, f"{side}_{kind}_dimensions") for side in ("lhs", "rhs")] for kind in ("batching", "contracting")]
    return contracted(op, batch, inner)


def contracted(op: Operation, batch: Sequence[list[int]], inner: Sequence[list[int]]) -> Value:
    """Emits sums of products over the inner dimensions, computed in the result's element type."""
    e = op.e
    a, b = (e.cast(value, op.dtype) for value in op.operands)
    shapes = shape_of(a) or (), shape_of(b) or ()
    free = [
        [axis for axis in range(len(shape)) if axis not in batch[side] and axis not in inner[side]] for side, shape in enumerate(shapes)
    ]
    lead = [prod(shapes[0][axis] for axis in batch[0])] if batch[0] else []
    rows, columns = (prod(shapes[side][axis] for axis in free[side]) for side in (0, 1))
    depth = prod(shapes[0][axis] for axis in inner[0])
    a = permuted(e, a, [*batch[0], *free[0], *inner[0]])
    b = permuted(e, b, [*batch[1], *inner[1], *free[1]])
    a, b = reshaped(e, a, [*lead, rows, depth]), reshaped(e, b, [*lead, depth, columns])
    return reshaped(e, e.op("bmm" if lead else "mm", a, b), op.shape)


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
    if not rank and groups == batches == 1 and layout["out"] == ["b", "f"]:
        return contracted(op, ([], []), ([layout["lhs"].index("f")], [layout["rhs"].index("i")]))
    if not 1 <= rank <= 3 or prod(shape_of(x) or ()) == 0 or prod(shape_of(w) or ()) == 0:
        return None
    x = permuted(e, e.cast(x, op.dtype), [layout["lhs"].index(word) for word in ("b", "f", *spatial)])
    w = permuted(e, e.cast(w, op.dtype), [layout["rhs"].index(word) for word in ("o", "i", *spatial)])
    if any(reversal):
        w = e.op("flip", w, [2 + axis for axis, yes in enumerate(reversal) if yes])
    low, high = list(pads[::2]), list(pads[1::2])
    symmetric = low == high and min(low, default=0) >= 0 and set(gaps) <= {1}
    if not symmetric:
        x = padded(e, x, [0, 0, *low], [0, 0, *high], [0, 0, *(gap - 1 for gap in gaps)], 0)
    if batches > 1:
        if groups > 1:
            return None
        count, features, *sizes = shape_of(x) or ()  # groups of the batch become groups of features: `[n, g·c, …]` of `[g·n, c, …]`
        apart = reshaped(e, x, [batches, count // batches, features, *sizes])
        transposed = permuted(e, apart, [1, 0, *range(2, 3 + len(sizes))])
        x, groups = reshaped(e, transposed, [count // batches, batches * features, *sizes]), batches
    around = low if symmetric else [0] * rank
    made = e.op("convolution", x, w, None, list(steps), around, list(inner), False, [0] * rank, groups)
    letters = ["b", "f", *spatial]
    return permuted(e, made, [letters.index(word) for word in layout["out"]])


# Rules of sorting: `stablehlo.sort` with a comparator that is a lexicographic order, `chlo.top_k`, and the custom calls of JAX that
# have a meaning on one device.


def _sort(op: Operation) -> Sequence[Value] | None:
    if not op.is_static or not op.shape:
        return None
    order = is_lexicographic(op.regions[0])
    if order is None:
        return None
    keys, descending = order
    if any(dtype_of(key) not in FLOATS | INTEGERS for key in op.operands[:keys]):
        return None
    return ordered(op.e, op.operands, keys, op.number("dimension") % len(op.shape), descending=descending)


def ordered(e: Emitter, values: Sequence[Value], keys: int, axis: int, *, descending: bool) -> Sequence[Value]:
    """Emits a stable sort of several tensors by the first of them; where elements of one are equal, by the next."""
    current = list(values)
    for number in reversed(range(keys)):
        made, index = e.ops("sort", 2, current[number], True, axis, descending)
        current = [made if place == number else e.op("gather", value, axis, index, False) for place, value in enumerate(current)]
    return current


def _top_k(op: Operation) -> Sequence[Value] | None:
    """The largest elements, NaN first, and of equal ones the first, with their indices."""
    (x,) = op.operands
    if not op.is_static or dtype_of(x) not in FLOATS | INTEGERS or not op.shape:
        return None
    return largest(op.e, x, op.number("k"), op.types[1])


def largest(e: Emitter, x: Value, count: int, kind: Type) -> Sequence[Value]:
    """Emits the largest elements along the last dimension, equal ones in their order, and their places, whose type is `kind`."""
    axis = len(extents_of(x)) - 1
    values, index = e.ops("sort", 2, x, True, axis, True)
    assert isinstance(kind, TensorType) and kind.dtype is not None  # static
    return sliced(e, values, axis, 0, count), e.cast(sliced(e, index, axis, 0, count), kind.dtype)


def _approximate_top_k(op: Operation) -> Sequence[Value] | None:
    """JAX's `approx_max_k` and `approx_min_k`, computed exactly, as XLA does on a processor."""
    config = op.attr("mhlo.backend_config")
    if config is None or len(op.operands) != 4 or len(op.types) != 2 or not op.is_static:
        return None
    e, (x, index, *_), axis = op.e, op.operands, int(config["reduction_dim"].value)
    descending = {"compare.GT(a0,a1)": True, "compare.LT(a0,a1)": False}.get(_called_text(op))
    before, count = shape_of(x) or (), op.shape[axis]
    if descending is None or count not in (int(config["top_k"].value), before[axis]) or dtype_of(x) not in FLOATS | INTEGERS:
        return None
    values, places = e.ops("sort", 2, x, True, axis, descending)
    return sliced(e, values, axis, 0, count), sliced(e, e.op("gather", index, axis, places, False), axis, 0, count)


def _called_text(op: Operation) -> str:
    """Returns the only computation that a custom call names as a text over its parameters; empty if there is none."""
    names = [symbol.value for symbol in op.attr("called_computations") or ()]
    top = op.handle
    while top.name != "builtin.module":
        top = top.parent.operation
    found = [each for each in operations_in(top) if "sym_name" in each.attributes and [each.attributes["sym_name"].value] == names]
    texts = expressions(found[0].regions[0]) if found else None
    return texts[0] if texts is not None and len(texts) == 1 else ""


def _custom_call(op: Operation) -> Value | Sequence[Value] | None:
    """The operands, for markers of sharding and layout; JAX's approximate `top_k`, computed exactly; nothing for a check that holds."""
    target = op.text("call_target_name").strip('"')
    if target == "ApproxTopK":
        return _approximate_top_k(op)
    if target == "shape_assertion" and not op.types and splat(op.e, op.operands[0]) is True:
        return ()
    is_marker = target in _MARKERS and [value.type for value in op.operands] == list(op.types)
    return op.operands if is_marker else None


_MARKERS: Final = ("LayoutConstraint", "Sharding", "annotate_device_placement")
"""Custom calls that say where or how a tensor lies; their results are their operands."""


RULES: Final[Mapping[str, Rule]] = {
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.dot_general": _dot,
    "stablehlo.dot": _dot,
    "stablehlo.fft": _fft,
    "stablehlo.convolution": _convolution,
    "stablehlo.sort": _sort,
    "chlo.top_k": _top_k,
    "stablehlo.custom_call": _custom_call,
}
"""The rule of each op."""
