"""Builders of ops that move elements: reshapes, permutations, slices, pads, concatenations, and reads and writes at indices."""

from collections.abc import Iterable
from math import prod
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES, Refused, refuse_if
from irscope.frontends.onnx.call import Call, Held, Item, Result, extents_of, op
from irscope.frontends.onnx.types import COMPUTED, ELEMENT_TYPES, FLOATS
from irscope.ir import BOOL, INT, TENSOR, ListType, OptionalType, TensorType, Value
from irscope.ir.payload import element_name

# Builders of ops that change a tensor's shape: reshapes, permutations, new and dropped axes, repeats.


@op("Reshape")
def _reshape(call: Call) -> Result:
    held = call.held(0)
    target = call.held(1).known()
    if held.items is not None and target is not None and target.size <= 1:  # to a vector of one element, or to a scalar
        return Held(items=held.items, is_scalar=target.size == 0, dtype=held.dtype)
    computed = call.held(1).items is None and target is None
    sizes = call.items(1)
    x = call.any(0)
    if not call.integer("allowzero", 0):
        sizes = [_kept(call, x, axis, size, computed) for axis, size in enumerate(sizes)]
    return call.op("reshape", x, sizes)


def _kept(call: Call, x: Value, axis: int, size: Item, computed: bool) -> Item:
    """Replaces a size of zero, which means the operand's own extent.

    A size that is the extent of some tensor is used unchanged: it is zero only if there are no elements to move.
    """
    if size != 0:
        return _own_if_zero(call, x, axis, size) if computed and not isinstance(size, int) else size
    shape = extents_of(x)
    if shape is not None and axis >= len(shape):
        raise Refused(f"the operand has no axis {axis} to take the extent of")
    return call.size(x, axis)


def _own_if_zero(call: Call, x: Value, axis: int, size: Value) -> Item:
    rank = x.type.rank if isinstance(x.type, TensorType) else None
    if rank is None or axis >= rank:
        return size
    emit = call.emit
    is_zero = emit.op("eq", size, 0, type=BOOL)
    with emit.block() as own:
        own.returns([emit.value(call.size(x, axis))])
    with emit.block() as given:
        given.returns([size])
    return emit.node("prim::If", (is_zero,), (INT,), blocks=(own, given))[0]


@op("Flatten")
def _flatten(call: Call) -> Value:
    axis, rank = call.integer("axis", 1), call.rank()
    axis = axis + rank if axis < 0 else axis
    x = call.any(0)
    if axis == 0:
        has_elements = isinstance(x.type, TensorType) and x.type.numel
        return call.op("reshape", x, [1, -1 if has_elements else call.op("numel", x)])
    if axis == rank:
        return call.op("reshape", x, [-1, 1])
    rows, columns = [_product(call, (call.size(x, place) for place in places)) for places in (range(axis), range(axis, rank))]
    return call.op("reshape", x, [rows, columns])


def _product(call: Call, sizes: Iterable[Item]) -> Item:
    found: Item = 1
    for size in sizes:
        if isinstance(found, int) and isinstance(size, int):
            found *= size
        else:
            found = size if found == 1 else call.op("mul", found, size)
    return found


@op("Transpose")
def _transpose(call: Call) -> Value:
    order = call.attr("perm", None)
    order = list(reversed(range(call.rank()))) if order is None else order
    return call.op("permute", call.any(0), order)


@op("Squeeze")
def _squeeze(call: Call) -> Result:
    axes = call.listed("axes", 1, since=13)
    held = call.held(0)
    if held.items is not None and not held.is_scalar and len(held.items) == 1:
        return Held(items=held.items, is_scalar=True, dtype=held.dtype)
    x = call.any(0)
    if axes is None:
        return call.op("squeeze", x)
    if not axes:
        return x
    shape = extents_of(x)
    for axis in axes:
        extent = shape[axis] if shape is not None and isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1
        if isinstance(extent, int) and extent != 1:
            raise Refused(f"axis {axis} has {extent} elements and cannot be dropped")
    return call.op("squeeze", x, list(axes))


@op("Unsqueeze")
def _unsqueeze(call: Call) -> Result:
    axes = call.listed("axes", 1, since=13)
    if axes is None:
        raise Refused("its axes are not given")
    held = call.held(0)
    if held.items is not None and held.is_scalar and len(axes) == 1:
        return Held(items=held.items, dtype=held.dtype)
    x = call.any(0)
    if len(axes) == 1:
        return call.op("unsqueeze", x, axes[0])
    if not all(isinstance(axis, int) for axis in axes):
        raise Refused("its axes are known only at run time")
    rank = call.rank() + len(axes)
    for axis in sorted(call.wrap(axis, rank) for axis in axes if isinstance(axis, int)):
        x = call.op("unsqueeze", x, axis)
    return x


@op("Expand")
def _expand(call: Call) -> Value:
    """Expands the operand to the shape that it and the requested one broadcast to."""
    x, sizes = call.any(0), call.items(1)
    shape = extents_of(x)
    if shape is not None:
        sizes = [*[-1] * (len(shape) - len(sizes)), *sizes]
        lead = len(sizes) - len(shape)
        made = [_broadcast(size, None if axis < lead else shape[axis - lead], axis < lead) for axis, size in enumerate(sizes)]
        if all(item is not None for item in made):
            return call.op("expand", x, made, False)
    like = call.op("zeros", sizes, 11, None, None, None)
    both = call.emit.list([x, like], TENSOR)
    joined = call.emit.op("broadcast_tensors", both, type=ListType(TENSOR))
    made_type = TensorType(call.dtype(), (None,) * max(len(sizes), len(shape or ()))) if shape is not None else TENSOR
    return call.emit.ops("prim::ListUnpack", 2, joined, types=(made_type, TENSOR))[0]


def _broadcast(wanted: Item, extent: Any, is_new: bool) -> Item | None:
    """Returns the size for `aten::expand` along an axis; None if it depends on unknown numbers."""
    if is_new:
        return wanted
    if isinstance(wanted, int):
        return -1 if wanted in (1, -1) else wanted if extent == 1 or not isinstance(extent, int) else -1
    if extent == 1:
        return wanted
    return -1 if isinstance(extent, int) else None


op("Tile")(lambda call: call.op("repeat", call.any(0), call.items(1)))
op("NonZero")(lambda call: call.op("t", call.op("nonzero", call.x())))


@op("DepthToSpace")
def _depth_to_space(call: Call) -> Value:
    x, block = call.any(0), call.integer("blocksize")
    n, c, h, w = (call.size(x, axis) for axis in range(4))
    if not isinstance(c, int):
        raise Refused("the number of channels is not known")
    inner = c // (block * block)
    if call.text("mode", "DCR") == "DCR":
        split, order = [n, block, block, inner, h, w], [0, 3, 4, 1, 5, 2]
    else:
        split, order = [n, inner, block, block, h, w], [0, 1, 4, 2, 5, 3]
    tiles = call.op("permute", call.op("reshape", x, split), order)
    return call.op("reshape", tiles, [n, inner, _product(call, (h, block)), _product(call, (w, block))])


@op("SpaceToDepth")
def _space_to_depth(call: Call) -> Value:
    x, block = call.any(0), call.integer("blocksize")
    n, c, h, w = (call.size(x, axis) for axis in range(4))
    if not (isinstance(h, int) and isinstance(w, int)):
        raise Refused("height and width are not known")
    tiles = call.op("reshape", x, [n, c, h // block, block, w // block, block])
    by_block = call.text("mode", "DCR") == "DCR"
    order = call.op("permute", tiles, [0, 3, 5, 1, 2, 4] if by_block else [0, 1, 3, 5, 2, 4])
    return call.op("reshape", order, [n, _product(call, (c, block * block)), h // block, w // block])


# Builders of ops on shapes as numbers (Shape, Size), of Concat, mostly of such numbers, and of tensors of a given shape.

_LARGEST_IDENTITY: Final = 1 << 20
"""The most elements of an identity matrix that becomes a weight."""


@op("Shape")
def _shape(call: Call) -> Result:
    rank = call.rank()
    start, end, _ = slice(call.integer("start", 0), call.attr("end", None)).indices(rank)
    x = call.any(0)
    return Held(items=tuple(call.size(x, axis) for axis in range(start, max(start, end))))


@op("Size")
def _size(call: Call) -> Result:
    x = call.any(0)
    known = x.type.numel if isinstance(x.type, TensorType) else None
    return Held(items=(call.op("numel", x, type=INT) if known is None else known,), is_scalar=True)


@op("Concat")
def _concat(call: Call) -> Result:
    rows = [_row(held) for held in call.inputs]
    if all(row is not None for row in rows) and any(held is not None and held.items is not None for held in call.inputs):
        return Held(items=tuple(item for row in rows if row is not None for item in row), dtype=call.dtype() or "int64")
    tensors = [call.any(index) for index in range(len(call.inputs))]
    return call.op("cat", call.emit.list(tensors, TENSOR), call.axis("axis"))


def _row(held: Held | None) -> tuple[Item, ...] | None:
    """Returns the integers of a vector that needs no tensor; None for any other operand."""
    if held is None or held.is_scalar:
        return None
    if held.items is not None:
        return held.items
    known = held.array
    few = known is not None and known.ndim == 1 and known.size <= 16 and known.dtype.kind == "i"
    return tuple(int(item) for item in np.asarray(known)) if few else None


@op("EyeLike")
def _eye_like(call: Call) -> Value:
    dtype = ELEMENT_TYPES.get(call.integer("dtype"), "") if "dtype" in call.attributes else str(call.dtype())
    refuse_if(dtype not in CODES, f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    rows, columns = (call.size(call.any(0), axis) for axis in (0, 1))
    if not (isinstance(rows, int) and isinstance(columns, int) and rows * columns <= _LARGEST_IDENTITY):
        raise Refused("the shape is not known, or too large to be stored")
    return call.emit.value_of(Held(array=np.eye(rows, columns, call.integer("k", 0), dtype), name=call.node.output[0]))


@op("Trilu")
def _trilu(call: Call) -> Value:
    """Keeps a triangle; the diagonal's number may be computed."""
    diagonal = call.number(1) if call.has(1) else 0
    return call.op("triu" if call.integer("upper", 1) else "tril", call.x(), diagonal)


@op("ConstantOfShape")
def _constant_of_shape(call: Call) -> Result:
    value = np.asarray(call.attr("value", np.zeros(1, np.float32))).reshape(-1)[:1]
    dtype = element_name(value)
    refuse_if(dtype not in COMPUTED or not value.size, f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    sizes = call.items(0)
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes) and len(sizes) <= 1 and 0 < prod(known) <= 16 and value.dtype.kind == "i":
        return Held(array=np.full(tuple(known), value[0]))
    return call.op("full", sizes, value[0].item(), CODES[dtype], None, None, None)


@op("Range")
def _range(call: Call) -> Value:
    dtype = str(call.dtype())
    start, end, step = (call.number(index) for index in range(3))
    if dtype not in FLOATS and dtype not in ("int16", "int32", "int64"):
        raise Refused(f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    return call.op("arange", start, end, step, CODES[dtype], None, None, None)


# Builders of Slice, Split and Pad.

_FAR: Final = 2**62
_LONGEST: Final = 1 << 20
"""The longest axis that is padded by an index of each element."""


@op("Slice")
def _slice(call: Call) -> Result:
    starts, ends, given = [call.listed(name, index, since=10) for index, name in enumerate(("starts", "ends", "axes"), 1)]
    if starts is None or ends is None:
        raise Refused("its starts or ends are not given")
    axes = [*range(len(starts))] if given is None else given
    steps: list[Item] = call.items(4) if call.opset >= 10 and call.has(4) else [1 for _ in starts]
    held = call.held(0)
    plain = [item for item in (*starts, *ends, *steps) if isinstance(item, int)]
    if held.items is not None and not held.is_scalar and len(starts) == 1 and len(plain) == 3 and plain[2]:
        return Held(items=tuple([held.items[place] for place in _taken(len(held.items), *plain)]), dtype=held.dtype)
    x = call.any(0)
    if not all(isinstance(step, int) for step in steps):
        raise Refused("its steps are known only at run time")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _one(call, x, start, end, axis, int(step))  # type: ignore[arg-type]
    return x


def _one(call: Call, x: Value, start: Item, end: Item, axis: Item, step: int) -> Value:
    if step > 0:
        return call.op("slice", x, axis, _near(start), _near(end), step)
    refuse_if(step == 0, "its step is zero")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(axis, int)):
        raise Refused("its step is negative, and its start, end or axis is known only at run time")
    size = call.size(x, axis)
    if not isinstance(size, int):
        if start == -1 and end <= -_FAR and step == -1:
            return call.op("flip", x, [axis])
        raise Refused("its step is negative, along an axis of unknown extent")
    places = _taken(size, start, end, step)
    forwards = range(places[-1], places[0] + 1, -step) if places else range(0)
    taken = call.op("slice", x, axis, forwards.start, forwards.stop, -step)
    return call.op("flip", taken, [axis])


def _taken(size: int, start: int, end: int, step: int) -> range:
    """Returns the places that a slice takes. Backwards, ONNX begins at the first element where the start lies before it, and Python
    does not."""
    return range(size)[slice(max(start, -size) if step < 0 else start, end, step)]


def _near(place: Item) -> Item:
    """Clamps a bound to the range of int64, since models use any large number for the end."""
    return min(max(place, -_FAR), 2**63 - 1) if isinstance(place, int) else place


@op("Split")
def _split(call: Call) -> list[Value]:
    sizes = call.listed("split", 1, since=13)
    x, axis = call.any(0), call.axis("axis", 0)
    extent = call.size(x, axis)
    if sizes is None:
        count = call.outputs
        if isinstance(extent, int):
            each = -(-extent // count)
            sizes = [min(each, max(0, extent - each * index)) for index in range(count)]
        elif call.opset >= 18:
            raise Refused("the extent of the axis that is split is not known")
        else:
            sizes = [call.op("floordiv", extent, count)] * count
    listed = call.emit.op("split_with_sizes", x, sizes, axis, type=ListType(TENSOR))
    shape = extents_of(x)
    extents = [size if isinstance(size, int) else None for size in sizes]
    types = [TensorType(call.dtype(), None if shape is None else (*shape[:axis], part, *shape[axis + 1 :])) for part in extents]
    return list(call.emit.ops("prim::ListUnpack", len(sizes), listed, types=types))


op("Pad")(lambda call: _padded(call, list(call.integers("pads")), list(range(call.rank())), call.attr("value", 0.0)))


@op("Pad", since=11)
def _pad_11(call: Call) -> Value:
    axes = [call.wrap(axis, call.rank()) for axis in call.known_ints(3)] if call.has(3) else list(range(call.rank()))
    value = call.number(2) if call.has(2) else 0
    return _padded(call, call.items(1), axes, value)


def _padded(call: Call, pads: list[Item], axes: list[int], value: float | Value) -> Value:
    """Pads: ONNX lists all starts, then all ends; `aten::` the last axis first, with a start and an end each."""
    x, mode = call.x(), call.text("mode", "constant")
    refuse_if(len(pads) != 2 * len(axes), f"it has {len(pads)} pads for {len(axes)} axes")
    both = dict(zip(axes, zip(pads, pads[len(axes) :], strict=False), strict=True))
    if mode == "constant":
        flat = [item for axis in reversed(range(call.rank())) for item in both.get(axis, (0, 0))]
        return call.op("constant_pad_nd", x, flat, value)
    if not all(isinstance(item, int) for item in pads):
        raise Refused("its pads are known only at run time")
    refuse_if(mode == "wrap" and min(map(int, pads), default=0) < 0, "it wraps what it has cut off")  # type: ignore[arg-type]
    for axis, (before, after) in both.items():
        x = _mirrored(call, x, axis, int(before), int(after), mode)  # type: ignore[arg-type]
    return x


def _mirrored(call: Call, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Pads one axis by indexing the elements that the padding repeats."""
    size = call.size(x, axis)
    if not before and not after:
        return x
    if not isinstance(size, int) or size == 0 or -before > size or -after > size or size + before + after > _LONGEST:
        raise Refused("the extent of an axis that it pads is not known, or too large")
    places = [_source(place, size, mode) for place in range(-before, size + after)]
    refuse_if(None in places, f"its mode is {mode}")
    index = call.emit.value_of(Held(array=np.array(places, np.int64), name=""))
    return call.op("index_select", x, axis, index)


def _source(place: int, size: int, mode: str) -> int | None:
    """Returns the index of the element at a position, which may be beyond the ends."""
    if mode == "edge":
        return min(max(place, 0), size - 1)
    if mode == "wrap":
        return place % size
    if mode != "reflect":
        return None
    period = max(2 * (size - 1), 1)
    place %= period
    return place if place < size else period - place


# Builders of gathers, scatters and other ops that read or write at indices in a tensor.


def _places(call: Call, index: Value, x: Value, axis: int) -> Value:
    """Returns indices counted from the front; negative ones count from the end."""
    size = call.size(x, axis)
    held = call.inputs[1]
    known = held.known() if held is not None else None
    if known is not None and (known >= 0).all():
        return index
    return call.op("where", call.op("lt", index, 0), call.op("add", index, size), index)


@op("Gather")
def _gather(call: Call) -> Result:
    axis, data = call.axis("axis", 0), call.held(0)
    known = call.held(1).known()
    if data.items is not None and known is not None and known.ndim <= 1 and known.size <= 16:
        picked = [data.items[int(place)] for place in known.reshape(-1)]
        return Held(items=tuple(picked), is_scalar=known.ndim == 0, dtype=data.dtype)
    x = call.any(0)
    if known is not None and known.ndim == 0:
        return call.op("select", x, axis, int(known))
    index = call.x(1)
    rank = call.rank(1)
    if rank == 1:
        return call.op("index_select", x, axis, _places(call, index, x, axis))
    if axis == 0 and call.rank(0) == 2:
        return call.op("embedding", x, _places(call, index, x, 0), -1, False, False)
    flat = call.op("reshape", _places(call, index, x, axis), [-1])
    taken = call.op("index_select", x, axis, flat)
    if rank == 0:
        return call.op("squeeze", taken, axis)
    sizes = [call.size(x, i) for i in range(call.rank(0))]
    around = [call.size(index, i) for i in range(rank)]
    return call.op("reshape", taken, [*sizes[:axis], *around, *sizes[axis + 1 :]])


@op("GatherElements")
def _gather_elements(call: Call) -> Value:
    x, index, axis = call.x(0), call.x(1), call.axis("axis", 0)
    return call.op("gather", x, axis, call.cast(_places(call, index, x, axis), "int64"), False)


@op("ScatterElements", "Scatter")
def _scatter_elements(call: Call) -> Value:
    x, index, updates, axis = call.x(0), call.x(1), call.x(2), call.axis("axis", 0)
    places = call.cast(_places(call, index, x, axis), "int64")
    reduction = call.text("reduction", "none")
    if reduction in ("none", "add"):
        return call.op("scatter_add" if reduction == "add" else "scatter", x, axis, places, updates)
    names = {"mul": "prod", "max": "amax", "min": "amin"}
    refuse_if(reduction not in names, f"it reduces by {reduction}")
    return call.op("scatter_reduce", x, axis, places, updates, names[reduction], True)


def _columns(call: Call, index: Value) -> list[Value]:
    """Splits indices along their last axis into one tensor per axis of the data."""
    shape = index.type.shape if isinstance(index.type, TensorType) else None
    last = shape[-1] if shape else None
    if not isinstance(last, int):
        raise Refused("the last extent of its indices is not known")
    return [call.op("select", index, -1, place) for place in range(last)]


def _indices(call: Call, columns: list[Value]) -> Value:
    return call.emit.ops("prim::ListConstruct", 1, *columns, types=(ListType(OptionalType(TENSOR)),))[0]


@op("GatherND")
def _gather_nd(call: Call) -> Value:
    refuse_if(call.integer("batch_dims", 0), "it has batch axes")
    x, index = call.any(0), call.x(1)
    columns = _columns(call, index)
    type = TensorType(call.dtype(0), (*call.shape(1)[:-1], *call.shape(0)[len(columns) :]))
    return call.op("index", x, _indices(call, columns), type=type)


@op("ScatterND")
def _scatter_nd(call: Call) -> Value:
    """At repeated indices the last write wins, or the updates are added; other reductions have no `aten::` op."""
    reduction = call.text("reduction", "none")
    refuse_if(reduction not in ("none", "add"), f"it reduces by {reduction}")
    x, index, updates = call.x(0), call.x(1), call.x(2)
    listed = _indices(call, _columns(call, index))
    return call.op("index_put", x, listed, updates, reduction == "add", type=x.type)


@op("OneHot")
def _one_hot(call: Call) -> Value:
    depth, values = call.items(1)[0], call.x(2)
    index = call.cast(call.x(0), "int64")
    rank = call.rank()
    axis = call.axis("axis", -1, 0, extra=1)
    folded = call.op("where", call.op("lt", index, 0), call.op("add", index, depth), index)
    classes = call.op("arange", 0, depth, 1, 4, None, None, None)
    hit = call.op("eq", call.op("unsqueeze", folded, axis), call.op("reshape", classes, _along(rank + 1, axis)))
    off, on = (call.op("select", values, 0, place) for place in (0, 1))
    return call.op("where", hit, on, off)


@op("Compress")
def _compress(call: Call) -> Value:
    x, mask = call.any(0), call.x(1)
    if "axis" not in call.attributes:
        x, axis = call.op("reshape", x, [-1]), 0
    else:
        axis = call.axis("axis")
    places = call.op("reshape", call.op("nonzero", mask), [-1])
    return call.op("index_select", x, axis, places)


@op("TopK", since=10)
def _top_k(call: Call) -> tuple[Value, ...]:
    """Uses a stable sort, which returns the first of equal elements; `aten::topk` may return any."""
    x, k, axis = call.x(0), call.items(1)[0], call.axis("axis", -1)
    found = call.ops("sort", 2, x, True, axis, bool(call.integer("largest", 1)))
    return tuple(call.op("slice", part, axis, 0, k, 1) for part in found)


@op("ReverseSequence")
def _reverse_sequence(call: Call) -> Value:
    """Gathers by indices: within its length, each row is read from its end."""
    x, lengths = call.x(0), call.x(1)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    refuse_if({time, batch} != {0, 1}, "its axes are not 0 and 1")
    size, rank = call.size(x, time), call.rank()
    steps = call.op("reshape", call.op("arange", 0, size, 1, 4, None, None, None), _along(rank, time))
    ends = call.op("reshape", lengths, _along(rank, batch))
    backwards = call.op("sub", call.op("sub", ends, 1), steps)
    places = call.op("where", call.op("lt", steps, ends), backwards, steps)
    shape = [call.size(x, axis) for axis in range(rank)]
    return call.op("gather", x, time, call.op("expand", places, shape, False), False)


def _along(rank: int, axis: int) -> list[int]:
    return [-1 if i == axis else 1 for i in range(rank)]
