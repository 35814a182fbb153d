"""Rules of `gather` and `scatter` as indexing by tensors: for each dimension of the operand, the indices to read or
write.

A gather's start indices are clamped so that every slice is inside; the parts of a scatter that are outside are
dropped. To this end they are written past the end of a flattened operand, to an element that is then cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bodies import keeps_new, reducer
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.shaping import along, iota, reshaped, sliced, spread
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["RULES"]


def _numbers(text: str, key: str) -> list[int]:
    found = re.search(rf"\b{key} = \[([\d, ]*)\]", text)
    return [int(word) for word in found.group(1).split(",") if word.strip()] if found else []


def _number(text: str, key: str) -> int:
    found = re.search(rf"\b{key} = (\d+)", text)
    return int(found.group(1)) if found else 0


class _Indexing:
    """The common part of gather and scatter: how batch and window dimensions of `moved` (the result of a gather, the
    updates of a scatter) map to the operand's."""

    def __init__(
        self, op: Operation, sizes: Sequence[int], moved: Sequence[int], window: Sequence[int], dropped: Sequence[int],
        batching: tuple[Sequence[int], Sequence[int]], start_map: Sequence[int], vector_axis: int,
    ) -> None:  # fmt: skip
        self.e: Emitter = op.e
        self.operand_shape = shape_of(op.operands[0]) or ()
        self.sizes = sizes
        self.moved = moved
        self.batch = [axis for axis in range(len(moved)) if axis not in window]
        inside = [axis for axis in range(len(self.operand_shape)) if axis not in dropped and axis not in batching[0]]
        self.window_of = dict(zip(inside, window, strict=True))
        """For each dimension of the operand, the dimension of `moved` that runs inside the slice."""
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
            return self.e.constant_zeros(len(self.moved)) if found is None else found
        shape = [max(m, n) for m, n in zip(shape_of(a) or (), shape_of(b) or (), strict=True)]
        return self.e.tensor("add", a, b, 1, dtype="int64", shape=shape)


def _gather(op: Operation) -> Value | None:
    text, sizes = op.text("dimension_numbers"), op.ints("slice_sizes")
    if sizes is None or not op.is_static or prod(shape_of(op.operands[0]) or ()) == 0:
        return None
    batching = _numbers(text, "operand_batching_dims"), _numbers(text, "start_indices_batching_dims")
    index = _Indexing(
        op, sizes, op.shape, _numbers(text, "offset_dims"), _numbers(text, "collapsed_slice_dims"), batching,
        _numbers(text, "start_index_map"), _number(text, "index_vector_dim"),
    )  # fmt: skip
    e, starts = op.e, index.starts(op.operands[1])
    places = []
    for axis, extent in enumerate(index.operand_shape):
        start = starts.get(axis)
        if start is not None and axis in index.start_map:
            start = e.like("clamp", start, 0, extent - sizes[axis])
        places.append(index.sum(start, index.offsets(axis)))
    if not places:
        return spread(e, op.operands[0], op.shape)
    places[0] = spread(e, places[0], op.shape)
    return e.op("index", op.operands[0], places, type=op.type)


_REDUCES: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""The names of the reductions in torch's `scatter_reduce`."""
_REDUCED: Final = FLOATS | INTEGERS - {"uint16", "uint32", "uint64"}
"""The element types of torch's `scatter_reduce`; for the others neither torch nor NumPy has it, and the op is kept."""


def _scatter(op: Operation) -> Sequence[Value] | None:
    if len(op.operands) != 3 or not op.is_static:
        return None
    text, (x, _, updates) = op.text("scatter_dimension_numbers"), op.operands
    (region,) = op.regions()
    kind = "set" if keeps_new(region) else reducer(region)
    shape, moved = shape_of(x) or (), shape_of(updates) or ()
    is_known = op.dtype in (FLOATS | INTEGERS if kind in ("set", "add") else _REDUCED) or (op.dtype == "bool" and kind == "set")
    if kind not in ("set", *_REDUCES) or not is_known or prod(shape) == 0 or {dtype_of(x), dtype_of(updates)} != {op.dtype}:
        return None
    if prod(moved) == 0:
        return [x]
    batching = _numbers(text, "input_batching_dims"), _numbers(text, "scatter_indices_batching_dims")
    window, dropped = _numbers(text, "update_window_dims"), _numbers(text, "inserted_window_dims")
    inside = [axis for axis in range(len(shape)) if axis not in dropped and axis not in batching[0]]
    by_axis = dict(zip(inside, window, strict=True))
    sizes = [moved[by_axis[axis]] if axis in by_axis else 1 for axis in range(len(shape))]
    index = _Indexing(
        op, sizes, moved, window, dropped, batching, _numbers(text, "scatter_dims_to_operand_dims"), _number(text, "index_vector_dim")
    )
    return [_written(op, kind, index, updates)]


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
                fits = e.like(test, start, bound, dtype="bool")
                is_inside = fits if is_inside is None else _both(e, is_inside, fits)
        step = prod(shape[axis + 1 :])
        scaled = e.like("mul", place, step) if step != 1 else place
        flat = scaled if flat is None else index.sum(flat, scaled)
    total = prod(index.moved)
    flat = index.sum(flat, None)
    if is_inside is not None:
        around = [max(m, n) for m, n in zip(shape_of(flat) or (), shape_of(is_inside) or (), strict=True)]
        flat = e.tensor("where", is_inside, flat, count, dtype="int64", shape=around)
    places = reshaped(e, spread(e, flat, index.moved), [total])
    longer = e.tensor("constant_pad_nd", reshaped(e, x, [count]), [0, 1], 0, dtype=op.dtype, shape=[count + 1])
    if kind in ("mul", "max", "min"):
        source = reshaped(e, updates, [total])
        given = (longer, 0, places, source, _REDUCES[kind], True)
        made = e.tensor("scatter_reduce", *given, dtype=op.dtype, shape=[count + 1])
        return reshaped(e, sliced(e, made, 0, 0, count), shape)
    made = e.tensor(
        "index_put", longer, [places], reshaped(e, updates, [total]), kind == "add", dtype=op.dtype, shape=[count + 1]
    )
    return reshaped(e, sliced(e, made, 0, 0, count), shape)


def _both(e: Emitter, a: Value, b: Value) -> Value:
    shape = [max(m, n) for m, n in zip(shape_of(a) or (), shape_of(b) or (), strict=True)]
    return e.tensor("bitwise_and", a, b, dtype="bool", shape=shape)


RULES: Final[Mapping[str, Callable[[Operation], Value | Sequence[Value] | None]]] = {
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
"""The rule of each op."""

