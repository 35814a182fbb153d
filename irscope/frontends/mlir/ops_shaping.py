"""Rules of ops that create, move, slice, join, gather and scatter elements."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod
from typing import Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.importer import Emitter, Operation, Rule, dtype_of, extents_of, shape_of
from irscope.frontends.mlir.ops_pointwise import ELEMENTS, FLOATS, INTEGERS, keeps_new, reducer
from irscope.frontends.mlir.types import splat_data
from irscope.ir import INT, TensorData, TensorType, Value

# Rules of ops that create, move, slice and join elements without computing with them.

_SPREAD: Final = 1024
"""The number of elements from which on a splat constant becomes one number that is expanded."""


def tensor_constant(op: Operation) -> Value | None:
    payload = op.payload("value")
    if isinstance(payload, str) and op.is_static:
        one = splat_data(payload)
        return None if one is None else _repeated(op.e, one, op.shape)
    if not isinstance(payload, TensorData) or payload.array is None or not isinstance(op.types[0], TensorType):
        return None
    flat = payload.array.reshape(-1)
    if flat.size < _SPREAD or flat.tobytes() != flat[:1].tobytes() * flat.size:
        return op.e.constant(payload, op.types[0])
    return _repeated(op.e, TensorData(payload.dtype, (), flat[0].reshape(())), payload.shape)


def _repeated(e: Emitter, one: TensorData, shape: Sequence[int]) -> Value:
    return spread(e, e.constant(one, TensorType(one.dtype, (), ())), shape)


def spread(e: Emitter, value: Value, shape: Sequence[int]) -> Value:
    """Expands a value to more extents, of which the last are its own."""
    if shape_of(value) == tuple(shape):
        return value
    kind = TensorType(dtype_of(value), tuple(shape), None if shape else ())  # the rule finds the same; each broadcast comes here
    made = e.op("expand", value, list(shape), False, type=kind)
    known = e.known.get(value)
    if known is not None and known.size == 1:
        e.known[made] = known
    return made


def _broadcast(op: Operation) -> Value | None:
    """A broadcast; extents that are computed must be known."""
    dims = op.ints("broadcast_dimensions")  # the positions of the operand's dimensions in the result
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
                x = e.op("unsqueeze", x, axis - placed[0])
    made = spread(e, x, shape)
    if known is not None and known.size == 1:
        e.known[made] = known.reshape(())
    if op.operands[0] in e.numbers and prod(shape) == 1:
        e.numbers[made] = e.numbers[op.operands[0]]
    return made


def permuted(e: Emitter, value: Value, order: Sequence[int]) -> Value:
    """Permutes the dimensions of a value; returns the value itself if the order is unchanged."""
    return value if list(order) == list(range(len(order))) else e.op("permute", value, list(order))


def reshaped(e: Emitter, value: Value, shape: Sequence[int]) -> Value:
    """Reshapes a value; returns the value itself if the extents are unchanged."""
    if shape_of(value) == tuple(shape):
        return value
    made = e.op("reshape", value, list(shape))
    known = e.known.get(value)
    if known is not None:
        e.known[made] = known.reshape(()) if known.size == 1 else known.reshape(shape)
    return made


def _reshape(op: Operation) -> Value | None:
    return reshaped(op.e, op.operands[0], op.shape) if len(op.operands) == 1 and op.is_static else None


def _transpose(op: Operation) -> Value | None:
    order, given = op.ints("permutation"), op.operands[0].type
    has_rank = isinstance(given, TensorType) and given.shape is not None
    return permuted(op.e, op.operands[0], order) if order is not None and has_rank else None


def sliced(e: Emitter, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """Slices one dimension; returns the value itself if the slice is all of it. With unknown extents, `narrow` raises at run
    time if the slice is out of range."""
    assert isinstance(value.type, TensorType) and value.type.shape is not None  # checked by the caller
    if (start, stop, step) == (0, value.type.shape[axis], 1):
        return value
    if shape_of(value) is not None:
        return e.op("slice", value, axis, start, stop, step)
    part = e.op("narrow", value, axis, start, stop - start)
    return part if step == 1 else e.op("slice", part, axis, 0, stop - start, step)


def _slice(op: Operation) -> Value | None:
    starts, stops, steps = (op.ints(name) for name in ("start_indices", "limit_indices", "strides"))
    if starts is None or stops is None or steps is None:
        return None
    x = op.operands[0]
    if not isinstance(x.type, TensorType) or x.type.shape is None:
        return None
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        x = sliced(op.e, x, axis, start, stop, step)
    return x


_MOST_KNOWN: Final = 64
"""Elements of a joined constant that are looked at: places, not weights."""


def _concatenate(op: Operation) -> Value | None:
    if not op.is_static:
        return None
    if len(op.operands) == 1:
        return op.operands[0]
    axis, known = op.number("dimension"), [op.e.known.get(x) for x in op.operands]
    made = op.e.op("cat", list(op.operands), axis, type=op.type)
    found = [np.broadcast_to(held, shape_of(x) or ()) for x, held in zip(op.operands, known, strict=True) if held is not None]
    if len(found) == len(known) and prod(op.shape) <= _MOST_KNOWN:
        op.e.known[made] = np.concatenate(found, axis)
    return made


def _reverse(op: Operation) -> Value | None:
    dims = op.ints("dimensions")
    return op.e.op("flip", op.operands[0], list(dims), type=op.type) if dims is not None and op.is_static else None


def iota(e: Emitter, count: int, dtype: str = "int64") -> Value:
    """Emits the vector 0, 1, 2, …."""
    made = e.op("arange", count, CODES["int64"], None, e.device, None)
    return e.cast(made, dtype)


def along(e: Emitter, row: Value, axis: int, rank: int) -> Value:
    """Reshapes a vector to a tensor of this rank, along one axis."""
    count = extents_of(row)
    return reshaped(e, row, [count[0] if place == axis else 1 for place in range(rank)])


def _iota(op: Operation) -> Value | None:
    if op.dtype not in FLOATS | INTEGERS or not op.is_static:
        return None
    axis = op.number("iota_dimension")
    row = iota(op.e, op.shape[axis], op.dtype)
    made = spread(op.e, along(op.e, row, axis, len(op.shape)), op.shape)
    op.e.counts[made] = axis
    return made


def _dynamic_slice(op: Operation) -> Value | None:
    sizes = op.ints("slice_sizes")
    if sizes is None or not op.is_static:
        return None
    e, (x, *starts) = op.e, op.operands
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = extents_of(x)
        if size == shape[axis]:
            continue
        at = _start_inside(e, start, shape[axis] - size)
        if isinstance(at, int):
            x = sliced(e, x, axis, at, at + size)
        elif at is not None:
            kind = TensorType(dtype_of(x), (*shape[:axis], size, *shape[axis + 1 :]))
            x = e.op("slice", x, axis, at, e.op("add", at, size, type=INT), 1, type=kind)
        else:
            x = e.op("index_select", x, axis, _places(e, start, shape[axis] - size, size))
    return x


def _start_inside(e: Emitter, start: Value, most: int) -> int | Value | None:
    """Returns a start that is known, clamped so that the slice is inside, or that is a loop's counter; None for any other."""
    known = e.known.get(start)
    return _number_inside(e, start, most) if known is None else min(max(int(known), 0), most)


def _number_inside(e: Emitter, start: Value, most: int) -> Value | None:
    """Returns a start as an `int` if it is a loop's counter that always lies from 0 to `most`."""
    number, least, largest = e.numbers.get(start, (None, 0, 0))
    return number if least >= 0 and largest <= most else None


def _places(e: Emitter, start: Value, most: int, size: int) -> Value:
    """Emits the indices of a slice with a computed start, which is clamped so that the slice is inside."""
    inside = e.op("clamp", e.cast(start, "int64"), 0, most)
    return reshaped(e, inside, [1]) if size == 1 else e.op("add", iota(e, size), inside, 1)


def _dynamic_update_slice(op: Operation) -> Value | None:
    if not op.is_static or prod(op.shape) == 0:
        return None
    e, (x, update, *starts) = op.e, op.operands
    shape, sizes = op.shape, extents_of(update)
    if sizes == shape:
        return update
    if prod(sizes) == 0:
        return x
    different = [axis for axis in range(len(shape)) if sizes[axis] != shape[axis]]
    if len(different) == 1:
        (axis,) = different
        at = _start_inside(e, starts[axis], shape[axis] - sizes[axis])
        if at is not None:
            end = at + sizes[axis] if isinstance(at, int) else e.op("add", at, sizes[axis], type=INT)
            return e.op("slice_scatter", x, update, axis, at, end, 1, type=op.type)
        return e.op("index_copy", x, axis, _places(e, starts[axis], shape[axis] - sizes[axis], sizes[axis]), update, type=op.type)
    places = [along(e, _places(e, start, shape[axis] - sizes[axis], sizes[axis]), axis, len(shape)) for axis, start in enumerate(starts)]
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


def _dimension_size(op: Operation) -> Value | None:
    (x,), axis = op.operands, op.number("dimension")
    shape = x.type.shape if isinstance(x.type, TensorType) else None
    if shape is None:
        return None
    extent = shape[axis]
    if isinstance(extent, int):
        return op.e.scalar(extent, op.dtype)
    counted = op.e.op("size", x, axis, type=INT)
    return op.e.cast(op.e.op("prim::NumToTensor", counted), op.dtype)


# Rules of `tensor`: empty tensors, reshapes, and slices that are extracted or inserted, at known or computed offsets.
#
# Tensors are values: `insert_slice` returns another tensor, and the tensor inserted into is unchanged.

_COMPUTED: Final = -(1 << 63)
"""Marks an offset, extent or stride that is an operand."""


def _empty(op: Operation) -> Value | None:
    """A tensor with undefined elements."""
    if len(op.operands) or op.dtype not in ELEMENTS or not op.is_static:
        return None
    return op.e.op("empty", list(op.shape), CODES[op.dtype], None, op.e.device, None, None, type=op.type)


Part = tuple[int, int | Value, int, int]
"""A dimension, and a slice of it: start, number of elements, and stride."""


def _parts(op: Operation, whole: Value, given: tuple[Value, ...]) -> list[Part] | None:
    """Returns the dimensions that are not taken whole; None if an extent or stride is computed, or an extent is not known."""
    shape = shape_of(whole)
    numbers_of = [op.ints(name) for name in ("static_offsets", "static_sizes", "static_strides")]
    if shape is None or any(numbers is None for numbers in numbers_of) or any(value.type != INT for value in given):
        return None
    offsets, sizes, steps = (numbers or () for numbers in numbers_of)
    if _COMPUTED in (*sizes, *steps) or offsets.count(_COMPUTED) != len(given):
        return None
    computed = iter(given)
    starts = [next(computed) if offset == _COMPUTED else offset for offset in offsets]
    return [
        (axis, start, size, step)
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True))
        if (start, size, step) != (0, shape[axis], 1)
    ]


def cut(e: Emitter, x: Value, parts: Sequence[Part]) -> Iterator[Value]:
    """Yields the tensor, and then its slice after each part."""
    yield x
    for axis, start, size, step in parts:
        if isinstance(start, int):
            x = sliced(e, x, axis, start, start + (size - 1) * step + 1 if size else start, step)
        else:
            span = (size - 1) * step + 1
            x = sliced(e, e.op("narrow", x, axis, start, span), axis, 0, span, step)
        yield x


def _extract_slice(op: Operation) -> Value | None:
    x, *given = op.operands
    parts = _parts(op, x, tuple(given))
    if parts is None or shape_of(x) is None or not op.types or (None in (op.type.shape or (None,)) and op.type.shape != ()):
        return None
    if any(not size for _, _, size, _ in parts) and any(not isinstance(start, int) for _, start, _, _ in parts):
        return None
    *_, last = cut(op.e, x, parts)
    return reshaped(op.e, last, op.shape)


def _insert_slice(op: Operation) -> Value | None:
    part, x, *given = op.operands
    parts, sizes = _parts(op, x, tuple(given)), op.ints("static_sizes")
    if parts is None or sizes is None or shape_of(part) is None or not dtype_of(x):
        return None
    e, part = op.e, reshaped(op.e, part, sizes)
    if 0 in sizes:
        return x
    return inserted(e, x, part, parts)


def inserted(e: Emitter, x: Value, part: Value, parts: Sequence[Part]) -> Value:
    """Returns the tensor with another one in the place of a slice."""
    *wholes, _ = cut(e, x, parts)
    for whole, (axis, start, size, step) in zip(reversed(wholes), reversed(parts), strict=True):
        span = (size - 1) * step + 1
        stop = start + span if isinstance(start, int) else e.op("add", start, span, type=INT)
        part = e.op("slice_scatter", whole, part, axis, start, stop, step)
    return part


def _extract(op: Operation) -> Value | None:
    """One element or, in a loop nest on whole tensors, one for each point."""
    x, *places = op.operands
    shape = shape_of(x)
    if shape is None or not dtype_of(x) or not isinstance(op.types[0], TensorType):
        return None
    if all(place.type == INT for place in places):
        for place in places:
            x = op.e.op("select", x, 0, place)
        return x
    if any(dtype_of(place) != "int64" and place.type != INT for place in places):
        return None
    wide = [_inside(op.e, place, extent) for place, extent in zip(places, shape, strict=True)]
    return op.e.op("index", x, wide, type=op.type)


def _inside(e: Emitter, place: Value, extent: int) -> Value:
    """Clamps an index into the tensor: elements outside have no value, and IREE reads some that have no users."""
    if place.type == INT:
        place = e.op("prim::NumToTensor", place)
    low, high = e.bounds.get(place, (-inf, inf))
    return place if low >= 0 and high < extent else e.op("clamp", place, 0, extent - 1)


# Rules of `gather` and `scatter` as indexing by tensors: for each dimension of the operand, the indices to read or write.
#
# A gather's start indices are clamped so that every slice is inside; the parts of a scatter that are outside are
# dropped. To this end they are written past the end of a flattened operand, to an element that is then cut off.


def numbers_in(text: str, key: str) -> list[int]:
    """Returns the list after a key in an attribute's text."""
    found = re.search(rf"\b{key} = \[([\d, ]*)\]", text)
    return [int(word) for word in found.group(1).split(",") if word.strip()] if found else []


def _number(text: str, key: str) -> int:
    found = re.search(rf"\b{key} = (\d+)", text)
    return int(found.group(1)) if found else 0


class _Indexing:
    """The common part of gather and scatter: how batch and window dimensions of `moved` (the result of a gather, the
    updates of a scatter) map to the operand's."""

    def __init__(
        self, op: Operation, sizes: Sequence[int] | None, moved: Sequence[int], window: Sequence[int], dropped: Sequence[int],
        batching: tuple[Sequence[int], Sequence[int]], start_map: Sequence[int], vector_axis: int,
    ) -> None:  # fmt: skip
        self.e: Emitter = op.e
        self.operand_shape = shape_of(op.operands[0]) or ()
        self.moved = moved
        self.batch = [axis for axis in range(len(moved)) if axis not in window]
        inside = [axis for axis in range(len(self.operand_shape)) if axis not in dropped and axis not in batching[0]]
        self.window_of = dict(zip(inside, window, strict=True))
        """For each dimension of the operand, the dimension of `moved` that runs inside the slice."""
        rank = len(self.operand_shape)
        self.sizes = sizes or [moved[self.window_of[axis]] if axis in self.window_of else 1 for axis in range(rank)]
        self.batching = dict(zip(*batching, strict=True))
        """For each batching dimension of the operand, the matching dimension of the indices."""
        self.start_map = start_map
        self.vector_axis = vector_axis
        self.indices_shape = shape_of(op.operands[1]) or ()

    def starts(self, indices: Value) -> dict[int, Value]:
        """Returns the starts of slices by dimension of the operand, over the batch dimensions of `moved`."""
        e, shape = self.e, self.indices_shape
        wide = e.cast(indices, "int64")
        found = {}
        for number, axis in enumerate(self.start_map):
            part = wide
            if self.vector_axis < len(shape):
                part = sliced(e, wide, self.vector_axis, number, number + 1)
            found[axis] = reshaped(e, part, self._placed([n for d, n in enumerate(shape) if d != self.vector_axis]))
        for axis, of_indices in self.batching.items():
            place = of_indices - (of_indices > self.vector_axis)
            found[axis] = along(e, iota(e, self.operand_shape[axis]), self.batch[place], len(self.moved))
        return found

    def _placed(self, extents: Sequence[int]) -> list[int]:
        """Returns batch extents at their positions in `moved`, with 1 elsewhere."""
        by_axis = dict(zip(self.batch, extents, strict=True))
        return [by_axis.get(axis, 1) for axis in range(len(self.moved))]

    def offsets(self, axis: int) -> Value | None:
        """Returns the offsets inside a slice along a dimension of the operand; None if there is only one."""
        window = self.window_of.get(axis)
        if window is None or self.sizes[axis] == 1:
            return None
        return along(self.e, iota(self.e, self.sizes[axis]), window, len(self.moved))

    def sum(self, a: Value | None, b: Value | None) -> Value:
        """Adds two index tensors that broadcast to `moved`; returns zero if there are none."""
        if a is None or b is None:
            found = a if b is None else b
            if found is not None:
                return found
            ones = (1,) * len(self.moved)
            return self.e.constant(TensorData.of(np.zeros(ones, np.int64)), TensorType("int64", ones, None if ones else ()))
        return self.e.op("add", a, b, 1)


def _gather(op: Operation) -> Value | None:
    text, sizes = op.text("dimension_numbers"), op.ints("slice_sizes")
    if sizes is None or not op.is_static or prod(shape_of(op.operands[0]) or ()) == 0:
        return None
    batching = numbers_in(text, "operand_batching_dims"), numbers_in(text, "start_indices_batching_dims")
    index = _Indexing(
        op, sizes, op.shape, numbers_in(text, "offset_dims"), numbers_in(text, "collapsed_slice_dims"), batching,
        numbers_in(text, "start_index_map"), _number(text, "index_vector_dim"),
    )  # fmt: skip
    e, starts = op.e, index.starts(op.operands[1])
    places = []
    for axis, extent in enumerate(index.operand_shape):
        start = starts.get(axis)
        if start is not None and axis in index.start_map:
            start = e.op("clamp", start, 0, extent - sizes[axis])
        places.append(index.sum(start, index.offsets(axis)))
    if not places:
        return spread(e, op.operands[0], op.shape)
    places[0] = spread(e, places[0], op.shape)
    return e.op("index", op.operands[0], places, type=op.type)


_REDUCES: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""The names of the reductions in torch's `scatter_reduce`."""
_TOGETHER: Final = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "bitwise_and", "or": "bitwise_or"}
"""For each reduction, its op of two operands."""
_REDUCED: Final = FLOATS | INTEGERS - {"uint16", "uint32", "uint64"}
"""The element types of torch's `scatter_reduce`; for the others neither torch nor NumPy has it, and the op is kept."""


def combined(e: Emitter, kind: str, a: Value, b: Value) -> Value:
    """Emits the reduction's op of two operands."""
    return e.op(_TOGETHER[kind], a, b, *((1,) if kind == "add" else ()))


def _scatter(op: Operation) -> Sequence[Value] | None:
    if len(op.operands) != 3:
        return None
    text, (region,) = op.text("scatter_dimension_numbers"), op.regions
    batching = numbers_in(text, "input_batching_dims"), numbers_in(text, "scatter_indices_batching_dims")
    window, dropped = numbers_in(text, "update_window_dims"), numbers_in(text, "inserted_window_dims")
    starts, vector = numbers_in(text, "scatter_dims_to_operand_dims"), _number(text, "index_vector_dim")
    return scattered(op, "set" if keeps_new(region) else reducer(region), window, dropped, starts, vector, batching)


def scattered(
    op: Operation, kind: str | None, window: Sequence[int], dropped: Sequence[int], starts: Sequence[int], vector_axis: int,
    batching: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Sequence[Value] | None:  # fmt: skip
    """Emits a scatter of its operands, tensor, indices and updates, with the dimensions as StableHLO numbers them; None for one that is
    not known."""
    if not op.is_static:
        return None
    e, (x, _, updates) = op.e, op.operands
    shape, moved = shape_of(x) or (), shape_of(updates) or ()
    is_known = op.dtype in (FLOATS | INTEGERS if kind in ("set", "add") else _REDUCED) or (op.dtype == "bool" and kind == "set")
    if kind is None or kind not in ("set", *_REDUCES) or not is_known or prod(shape) == 0 or {dtype_of(x), dtype_of(updates)} != {op.dtype}:
        return None
    if prod(moved) == 0:
        return [x]
    index = _Indexing(op, None, moved, window, dropped, batching, starts, vector_axis)
    parts = _part_inside(op, index)
    is_row = len(dropped) == 1 and tuple(index.start_map) == tuple(dropped) and not index.batch and not index.batching
    if parts is None and is_row and moved == (*shape[: dropped[0]], *shape[dropped[0] + 1 :]):
        return [_row_written(op, kind, dropped[0], updates)]
    if parts is not None:
        part = reshaped(e, updates, index.sizes)
        if kind != "set":
            part = combined(e, kind, list(cut(e, x, parts))[-1], part)
        return [inserted(e, x, part, parts)]
    return [_written(op, kind, index, updates)]


def _row_written(op: Operation, kind: str, axis: int, row: Value) -> Value:
    """Returns the operand with a row at one index along an axis, if this is inside."""
    e, (x, at, _), extent = op.e, op.operands, op.shape[axis]
    number = _number_inside(e, at, extent - 1)
    if number is not None:
        row = row if kind == "set" else combined(e, kind, e.op("select", x, axis, number), row)
        return e.op("select_scatter", x, row, axis, number, type=op.type)
    index = reshaped(e, e.cast(at, "int64"), [1])
    is_inside = e.op("bitwise_and", e.op("ge", index, 0), e.op("le", index, extent - 1))
    place = e.op("clamp", index, 0, extent - 1)
    old = e.op("index_select", x, axis, place)
    new = reshaped(e, row, [*op.shape[:axis], 1, *op.shape[axis + 1 :]])
    new = new if kind == "set" else combined(e, kind, old, new)
    return e.op("index_copy", x, axis, place, e.op("where", is_inside, new, old), type=op.type)


def _part_inside(op: Operation, index: _Indexing) -> Sequence[Part] | None:
    """Returns what a scatter of one slice writes, if its start is known and the slice is inside; else None."""
    starts, shape = op.e.known.get(op.operands[1]), index.operand_shape
    if starts is None or index.batch or index.batching:
        return None
    at = dict(zip(index.start_map, np.broadcast_to(starts, index.indices_shape).ravel().tolist(), strict=True))
    parts = [(axis, int(at.get(axis, 0)), size, 1) for axis, size in enumerate(index.sizes)]
    is_inside = all(0 <= start <= shape[axis] - size for axis, start, size, _ in parts)
    return [part for part in parts if part[2] != shape[part[0]]] if is_inside else None


def _written(op: Operation, kind: str, index: _Indexing, updates: Value) -> Value:
    """Returns the operand with those updates whose slices are inside it."""
    e, x, shape = op.e, op.operands[0], index.operand_shape
    starts, count = index.starts(op.operands[1]), prod(shape)
    flat: Value | None = None
    is_inside: Value | None = None
    for axis, extent in enumerate(shape):
        start = starts.get(axis)
        place = index.sum(start, index.offsets(axis))
        if start is not None and axis in index.start_map:
            for test, bound in (("ge", 0), ("le", extent - index.sizes[axis])):
                fits = e.op(test, start, bound)
                is_inside = fits if is_inside is None else e.op("bitwise_and", is_inside, fits)
        step = prod(shape[axis + 1 :])
        scaled = e.op("mul", place, step) if step != 1 else place
        flat = scaled if flat is None else index.sum(flat, scaled)
    total = prod(index.moved)
    flat = index.sum(flat, None)
    if is_inside is not None:
        flat = e.op("where", is_inside, flat, count)
    places = reshaped(e, spread(e, flat, index.moved), [total])
    longer = e.op("constant_pad_nd", reshaped(e, x, [count]), [0, 1], 0)
    source = reshaped(e, updates, [total])
    if kind in ("mul", "max", "min"):
        made = e.op("scatter_reduce", longer, 0, places, source, _REDUCES[kind], True)
    else:
        made = e.op("index_put", longer, [places], source, kind == "add")
    return reshaped(e, sliced(e, made, 0, 0, count), shape)


RULES: Final[Mapping[str, Rule]] = {
    "stablehlo.constant": tensor_constant,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.transpose": _transpose,
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.reverse": _reverse,
    "stablehlo.iota": _iota,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.optimization_barrier": lambda op: op.operands,
    "sdy.sharding_constraint": lambda op: op.operands,
    "tensor.empty": _empty,
    "tensor.collapse_shape": _reshape,
    "tensor.expand_shape": _reshape,
    "tensor.extract": _extract,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
"""The rule of each op."""
