"""Rules of ops that create, move, slice and join elements without computing with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS, splat
from irscope.frontends.mlir.operation import Operation
from irscope.frontends.mlir.read.dense import splat_data
from irscope.ir import INT, TensorData, TensorType, Value

__all__ = [
    "PADDED", "RULES", "along", "clamped_start", "dilated", "iota", "padded", "padded_with", "permuted", "reshaped", "sliced", "spread",
    "tensor_constant",
]  # fmt: skip

_SPREAD: Final = 1024
"""The number of elements from which on a splat constant becomes one number that is expanded."""


def tensor_constant(op: Operation) -> Value | None:
    """The tensor in the attribute `value`."""
    payload = op.payload("value")
    if isinstance(payload, str) and op.is_static:
        one = splat_data(payload)
        return None if one is None else _repeated(op.e, one, op.shape)
    if not isinstance(payload, TensorData) or payload.array is None or not isinstance(op.types[0], TensorType):
        return None
    return _dense_constant(op.e, payload, op.types[0])


def _dense_constant(e: Emitter, payload: TensorData, type: TensorType) -> Value:
    """Returns a constant tensor; a large splat is its one number, expanded."""
    array = payload.array
    assert array is not None  # checked by the caller
    flat = array.reshape(-1)
    if flat.size < _SPREAD or flat.tobytes() != flat[:1].tobytes() * flat.size:
        return e.constant(payload, type)
    return _repeated(e, TensorData(payload.dtype, (), flat[0].reshape(())), payload.shape)


def _repeated(e: Emitter, one: TensorData, shape: Sequence[int]) -> Value:
    return spread(e, e.constant(one, TensorType(one.dtype, (), ())), shape)


def spread(e: Emitter, value: Value, shape: Sequence[int]) -> Value:
    """Expands a value to more extents, of which the last are its own."""
    if shape_of(value) == tuple(shape):
        return value
    made = e.tensor("expand", value, list(shape), False, dtype=dtype_of(value), shape=shape)
    known = e.known.get(value)
    if known is not None and known.size == 1:
        e.known[made] = known
    return made


def _broadcast(op: Operation) -> Value | None:
    return _spread_along(op, op.ints("broadcast_dimensions"))


def _spread_along(op: Operation, dims: Sequence[int] | None) -> Value | None:
    """Broadcasts the first operand, with its dimensions at these positions of the result."""
    if dims is None or not op.is_static:
        return None
    e, x, shape = op.e, op.operands[0], op.shape
    order = sorted(range(len(dims)), key=lambda axis: dims[axis])
    known = e.known.get(x)
    if order != list(range(len(dims))):
        x = permuted(e, x, order)
    placed = sorted(dims)
    if placed:
        for axis in range(placed[0], len(shape)):
            if axis not in placed:
                before = shape_of(x)
                assert before is not None  # static
                place = axis - placed[0]
                x = e.tensor("unsqueeze", x, place, dtype=op.dtype, shape=[*before[:place], 1, *before[place:]])
    made = spread(e, x, shape)
    if known is not None and known.size == 1:
        e.known[made] = known.reshape(())
    return made


def permuted(e: Emitter, value: Value, order: Sequence[int]) -> Value:
    """Permutes the dimensions of a value; returns the value itself if the order is unchanged."""
    assert isinstance(value.type, TensorType)
    before = value.type.shape
    assert before is not None  # checked by the caller
    if list(order) == list(range(len(before))):
        return value
    shape = tuple([before[axis] for axis in order])
    return e.op("permute", value, list(order), type=TensorType(dtype_of(value), shape, None if shape else ()))


def reshaped(e: Emitter, value: Value, shape: Sequence[int]) -> Value:
    """Reshapes a value; returns the value itself if the extents are unchanged."""
    if shape_of(value) == tuple(shape):
        return value
    made = e.tensor("reshape", value, list(shape), dtype=dtype_of(value), shape=shape)
    known = e.known.get(value)
    if known is not None:
        e.known[made] = known.reshape(()) if known.size == 1 else known.reshape(shape)
    return made


def _reshape(op: Operation) -> Value | None:
    return reshaped(op.e, op.operands[0], op.shape) if op.is_static else None


def _transpose(op: Operation) -> Value | None:
    order, given = op.ints("permutation"), op.operands[0].type
    has_rank = isinstance(given, TensorType) and given.shape is not None
    return permuted(op.e, op.operands[0], order) if order is not None and has_rank else None


def sliced(e: Emitter, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """Slices one dimension; returns the value itself if the slice is all of it."""
    before = shape_of(value)
    assert before is not None  # checked by the caller
    if (start, stop, step) == (0, before[axis], 1):
        return value
    extent = max(0, -(-(stop - start) // step))
    after = [*before[:axis], extent, *before[axis + 1 :]]
    return e.tensor("slice", value, axis, start, stop, step, dtype=dtype_of(value), shape=after)


def _slice(op: Operation) -> Value | None:
    starts, stops, steps = (op.ints(name) for name in ("start_indices", "limit_indices", "strides"))
    if starts is None or stops is None or steps is None:
        return None
    x = op.operands[0]
    if not isinstance(x.type, TensorType) or x.type.shape is None:
        return None
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        x = sliced(op.e, x, axis, start, stop, step) if shape_of(x) is not None else _sliced_inside(op.e, x, axis, start, stop, step)
    return x


def _sliced_inside(e: Emitter, value: Value, axis: int, start: int, stop: int, step: int) -> Value:
    """Slices one dimension of a value with unknown extents, by `narrow`, which raises at run time if the slice is out
    of range."""
    assert isinstance(value.type, TensorType)
    assert value.type.shape is not None  # checked by the caller
    before = value.type.shape
    if (start, stop, step) == (0, before[axis], 1):
        return value

    def cut(length: int) -> TensorType:
        return TensorType(dtype_of(value), (*before[:axis], length, *before[axis + 1 :]))

    part = e.op("narrow", value, axis, start, stop - start, type=cut(stop - start))
    return part if step == 1 else e.op("slice", part, axis, 0, stop - start, step, type=cut(-(-(stop - start) // step)))


def _concatenate(op: Operation) -> Value | None:
    if not op.is_static:
        return None
    if len(op.operands) == 1:
        return op.operands[0]
    return op.e.op("cat", list(op.operands), op.number("dimension"), type=op.type)


def _reverse(op: Operation) -> Value | None:
    dims = op.ints("dimensions")
    return op.e.op("flip", op.operands[0], list(dims), type=op.type) if dims is not None and op.is_static else None


def iota(e: Emitter, count: int, dtype: str = "int64") -> Value:
    """Emits the vector 0, 1, 2, …."""
    made = e.tensor("arange", count, CODES["int64"], None, e.device, None, dtype="int64", shape=(count,))
    return e.cast(made, dtype)


def along(e: Emitter, row: Value, axis: int, rank: int) -> Value:
    """Reshapes a vector to a tensor of this rank, along one axis."""
    count = shape_of(row)
    assert count is not None  # a vector
    return reshaped(e, row, [count[0] if place == axis else 1 for place in range(rank)])


def _iota(op: Operation) -> Value | None:
    if op.dtype not in FLOATS | INTEGERS or not op.is_static:
        return None
    axis = op.number("iota_dimension")
    row = iota(op.e, op.shape[axis], op.dtype)
    made = spread(op.e, along(op.e, row, axis, len(op.shape)), op.shape)
    op.e.counts[made] = axis
    return made


def dilated(e: Emitter, value: Value, axis: int, gap: int, fill: float) -> Value:
    """Inserts `gap` elements of one number between any two along an axis."""
    before = shape_of(value)
    assert before is not None  # checked by the caller
    if gap == 0 or before[axis] <= 1:
        return value
    wide = e.tensor("unsqueeze", value, axis + 1, dtype=dtype_of(value), shape=[*before[: axis + 1], 1, *before[axis + 1 :]])
    after = len(before) - 1 - axis
    wide = _constant_pad(e, wide, [0, 0] * after + [0, gap], fill)
    extent = before[axis] * (gap + 1)
    joined = reshaped(e, wide, [*before[:axis], extent, *before[axis + 1 :]])
    return sliced(e, joined, axis, 0, extent - gap)


def padded(
    e: Emitter, value: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int], fill: float
) -> Value:
    """Pads with one number around and between the elements; negative counts crop."""
    for axis, gap in enumerate(inner):
        value = dilated(e, value, axis, gap, fill)
    before = shape_of(value)
    assert before is not None  # checked by the caller
    for axis, (left, right) in enumerate(zip(low, high, strict=True)):
        if left < 0 or right < 0:
            extent = shape_of(value)[axis]  # type: ignore[index]
            start = min(max(0, -left), extent)
            value = sliced(e, value, axis, start, max(start, extent - max(0, -right)))
    pads = [count for left, right in reversed(list(zip(low, high, strict=True))) for count in (max(0, left), max(0, right))]
    return _constant_pad(e, value, pads, fill) if any(pads) else value


def _constant_pad(e: Emitter, value: Value, pads: Sequence[int], fill: float) -> Value:
    before = shape_of(value)
    assert before is not None  # checked by the caller
    rank = len(before)
    shape = [extent + sum(pads[2 * (rank - 1 - axis) : 2 * (rank - axis)]) for axis, extent in enumerate(before)]
    return e.tensor("constant_pad_nd", value, list(pads), fill, dtype=dtype_of(value), shape=shape)


def _pad(op: Operation) -> Value | None:
    low, high, inner = (op.ints(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if low is None or high is None or inner is None or not op.is_static:
        return None
    x, fill = op.operands
    if op.dtype not in PADDED or any(
        extent > 0 and left + right + extent + gap * (extent - 1) < 0
        for extent, left, right, gap in zip(shape_of(x) or (), low, high, inner, strict=True)
    ):
        return x if not any((*low, *high, *inner)) else None
    if splat(op.e, fill) is None and op.dtype not in FLOATS | INTEGERS and any((*low, *high, *inner)):
        return None
    return padded_with(op.e, x, fill, low, high, inner)


PADDED: Final = FLOATS | INTEGERS | {"bool", "complex64", "complex128"}
"""Element types that can be padded with a known number; with a computed one, only floats and integers."""


def padded_with(
    e: Emitter, x: Value, fill: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int]
) -> Value:
    """Pads like `padded`, with a number that may be computed."""
    if not any((*low, *high, *inner)):
        return x
    number = splat(e, fill)
    if number is not None:
        return padded(e, x, low, high, inner, number)
    mask = e.tensor("ones", list(shape_of(x) or ()), CODES["bool"], None, e.device, None, dtype="bool", shape=shape_of(x) or ())
    inside = padded(e, mask, low, high, inner, False)
    return e.like("where", inside, padded(e, x, low, high, inner, 0), fill, dtype=dtype_of(x))


def clamped_start(e: Emitter, start: Value, most: int) -> Value:
    """Clamps the start of a slice, as int64, so that the slice is inside."""
    wide = e.cast(start, "int64")
    return e.tensor("clamp", wide, 0, most, dtype="int64", shape=shape_of(wide) or ())


def _dynamic_slice(op: Operation) -> Value | None:
    sizes = op.ints("slice_sizes")
    if sizes is None or not op.is_static:
        return None
    e, (x, *starts) = op.e, op.operands
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = shape_of(x)
        assert shape is not None  # static
        if size == shape[axis]:
            continue
        known = e.known.get(start)
        if known is not None:
            at = min(max(int(known), 0), shape[axis] - size)
            x = sliced(e, x, axis, at, at + size)
            continue
        places = _places(e, start, shape[axis] - size, size)
        x = e.tensor("index_select", x, axis, places, dtype=op.dtype, shape=[*shape[:axis], size, *shape[axis + 1 :]])
    return x


def _places(e: Emitter, start: Value, most: int, size: int) -> Value:
    """Emits the indices of a slice with a computed start."""
    return e.tensor("add", iota(e, size), clamped_start(e, start, most), 1, dtype="int64", shape=(size,))


def _dynamic_update_slice(op: Operation) -> Value | None:
    if not op.is_static or prod(op.shape) == 0:
        return None
    e, (x, update, *starts) = op.e, op.operands
    shape, sizes = op.shape, shape_of(update)
    assert sizes is not None  # static
    if sizes == shape:
        return update
    if prod(sizes) == 0:
        return x
    different = [axis for axis in range(len(shape)) if sizes[axis] != shape[axis]]
    if len(different) == 1:
        known = e.known.get(starts[different[0]])
        if known is not None:
            (axis,) = different
            at = min(max(int(known), 0), shape[axis] - sizes[axis])
            return e.op("slice_scatter", x, update, axis, at, at + sizes[axis], 1, type=op.type)
    places = [
        along(e, _places(e, start, shape[axis] - sizes[axis], sizes[axis]), axis, len(shape))
        for axis, start in enumerate(starts)
    ]
    return e.op("index_put", x, places, update, False, type=op.type)


def _dynamic_reshape(op: Operation) -> Value | None:
    """A reshape to extents that are computed but known, or of which one follows from the operand's."""
    if op.is_static:
        return reshaped(op.e, op.operands[0], op.shape)
    made = op.types[0]
    shape = made.shape if isinstance(made, TensorType) else None
    if shape is None or shape.count(None) != 1 or not all(size is None or (isinstance(size, int) and size > 0) for size in shape):
        return None
    return op.e.op("reshape", op.operands[0], [-1 if size is None else size for size in shape], type=made)


def _dynamic_broadcast(op: Operation) -> Value | None:
    """A broadcast to extents that are computed but known."""
    return _spread_along(op, op.ints("broadcast_dimensions"))


def _dimension_size(op: Operation) -> Value | None:
    (x,), axis = op.operands, op.number("dimension")
    shape = x.type.shape if isinstance(x.type, TensorType) else None
    if shape is None:
        return None
    extent = shape[axis]
    if isinstance(extent, int):
        return op.e.scalar(extent, op.dtype)
    counted = op.e.op("size", x, axis, type=INT)
    return op.e.cast(op.e.tensor("prim::NumToTensor", counted, dtype="int64", shape=()), op.dtype)


def _same(op: Operation) -> Sequence[Value]:
    return op.operands


RULES: Final[Mapping[str, Callable[[Operation], Value | Sequence[Value] | None]]] = {
    "stablehlo.constant": tensor_constant,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.transpose": _transpose,
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.reverse": _reverse,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.optimization_barrier": _same,
    "sdy.sharding_constraint": _same,
}
"""The rule of each op."""

