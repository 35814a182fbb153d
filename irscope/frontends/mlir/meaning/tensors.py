"""Rules of `tensor`: empty tensors, reshapes, and slices that are extracted or inserted, at known or computed offsets.

Tensors are values: `insert_slice` returns another tensor, and the tensor inserted into is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.shaping import reshaped, sliced
from irscope.frontends.mlir.operation import Operation
from irscope.ir import INT, TensorType, Value

__all__ = ["RULES"]

_COMPUTED: Final = -(1 << 63)
"""Marks an offset, extent or stride that is an operand."""


def _empty(op: Operation) -> Value | None:
    """A tensor with undefined elements."""
    if len(op.operands) or op.dtype not in FLOATS | INTEGERS | {"bool", "complex64", "complex128"} or not op.is_static:
        return None
    return op.e.op("empty", list(op.shape), CODES[op.dtype], None, op.e.device, None, None, type=op.type)


def _reshape(op: Operation) -> Value | None:
    return reshaped(op.e, op.operands[0], op.shape) if len(op.operands) == 1 and op.is_static else None


Part = tuple[int, int | Value, int, int]
"""A dimension, and a slice of it: start, number of elements, and stride."""


def _parts(op: Operation, whole: Value, given: tuple[Value, ...]) -> list[Part] | None:
    """Returns the dimensions that are not taken whole; None if an extent or stride is computed, or an extent is not
    known."""
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


def _cut(op: Operation, x: Value, parts: list[Part]) -> Iterator[Value]:
    """Yields the tensor, and then its slice after each part."""
    yield x
    for axis, start, size, step in parts:
        if isinstance(start, int):
            x = sliced(op.e, x, axis, start, start + (size - 1) * step + 1 if size else start, step)
        else:
            before = shape_of(x) or ()
            span = (size - 1) * step + 1
            shape = [*before[:axis], span, *before[axis + 1 :]]
            x = op.e.tensor("narrow", x, axis, start, span, dtype=dtype_of(x), shape=shape)
            x = sliced(op.e, x, axis, 0, span, step)
        yield x


def _extract_slice(op: Operation) -> Value | None:
    x, *given = op.operands
    parts = _parts(op, x, tuple(given))
    if parts is None or shape_of(x) is None or not op.types or (None in (op.type.shape or (None,)) and op.type.shape != ()):
        return None
    if any(not size for _, _, size, _ in parts) and any(not isinstance(start, int) for _, start, _, _ in parts):
        return None
    *_, last = _cut(op, x, parts)
    return reshaped(op.e, last, op.shape)


def _insert_slice(op: Operation) -> Value | None:
    part, x, *given = op.operands
    parts, sizes = _parts(op, x, tuple(given)), op.ints("static_sizes")
    if parts is None or sizes is None or shape_of(part) is None or not dtype_of(x):
        return None
    e, part = op.e, reshaped(op.e, part, sizes)
    if 0 in sizes:
        return x
    *wholes, _ = _cut(op, x, parts)
    for whole, (axis, start, size, step) in zip(reversed(wholes), reversed(parts), strict=True):
        span = (size - 1) * step + 1
        stop = start + span if isinstance(start, int) else e.op("add", start, span, type=INT)
        part = e.like("slice_scatter", whole, part, axis, start, stop, step)
    return part


def _extract(op: Operation) -> Value | None:
    """One element or, in a loop nest on whole tensors, one for each point."""
    x, *places = op.operands
    shape = shape_of(x)
    if shape is None or not dtype_of(x) or not isinstance(op.types[0], TensorType):
        return None
    if all(place.type == INT for place in places):
        for place in places:
            shape = shape[1:]
            x = op.e.tensor("select", x, 0, place, dtype=op.dtype, shape=shape)
        return x
    if any(dtype_of(place) != "int64" and place.type != INT for place in places):
        return None
    wide = [_inside(op.e, place, extent) for place, extent in zip(places, shape, strict=True)]
    return op.e.op("index", x, wide, type=op.type)


def _inside(e: Emitter, place: Value, extent: int) -> Value:
    """Clamps an index into the tensor: elements outside have no value, and IREE reads some that have no users."""
    if place.type == INT:
        place = e.tensor("prim::NumToTensor", place, dtype="int64", shape=())
    low, high = e.bounds.get(place, (-inf, inf))
    return place if low >= 0 and high < extent else e.like("clamp", place, 0, extent - 1)


RULES: Final[Mapping[str, Callable[[Operation], Value | None]]] = {
    "tensor.empty": _empty,
    "tensor.collapse_shape": _reshape,
    "tensor.expand_shape": _reshape,
    "tensor.extract": _extract,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
}
"""The rule of each op."""
